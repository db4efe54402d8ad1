/* SPDX-License-Identifier: Apache-2.0 */

/* Which backups of a repository are of the same volume.
 *
 * Backups of one subject are alternatives for each other: the newest one is restored for the
 * volume's name, and retention rules count them together. Two backups have the same subject if
 * they have the same host and name, are both of a file or both of a volume, and
 *
 * - have the same volume id or the same pool id, directly or through other backups. A volume
 *   that was created again in its pool has a new id and stays the same subject; a volume of the
 *   same name in another pool is a different one. A pool that was created in the directory of
 *   another continues it, if all its backups are later: the other one was lost, not moved. Pools
 *   whose backups alternate in one directory are continued by none.
 * - A pool that was copied with its files has the id of its original, and so have its volumes.
 *   Backups of one pool id from several directories are different subjects if they alternate. As
 *   long as they follow each other, the pool may have been moved: a name then means the newest
 *   backup, but rules of retention count each directory for itself, because the original may
 *   still exist.
 * - Backups without a pool id (of a CSI volume, or made before the id was recorded) belong to the
 *   only pool that has such a volume. If there are several pools, those that no volume id
 *   connects to one of them are a subject of their own.
 *
 * The subject of a snapshot by another program is its host and path.
 */
#ifndef CAIRN_BACKUP_SUBJECT_H
#define CAIRN_BACKUP_SUBJECT_H

#include <stddef.h>

struct cairn_err;
struct repo_snapshot;

/* The name that is shown: the volume's, or the path for backups by other programs. */
const char *backup_subject_name(const struct repo_snapshot *snapshot);

enum backup_subject_use {
	BACKUP_SUBJECT_TO_FIND, /* a pool in a second directory was moved, unless they alternate */
	BACKUP_SUBJECT_TO_FORGET, /* a pool in a second directory is another one */
};

/* Allocates ret[i], the number of the subject of items[i]: equal for the same subject. */
int backup_subject_number(struct repo_snapshot *const *items, size_t n, enum backup_subject_use use,
			  size_t **ret, struct cairn_err *err);

#endif
