/* SPDX-License-Identifier: Apache-2.0 */

/* Finds the backup that a user names.
 *
 * A backup is named by the beginning of its id, by the snapshot it was made of
 * ("data@tuesday", or the snapshot's id), by its volume ("data": the newest backup
 * of it), or as "latest". A name must match backups of only one subject (subject.h):
 * a repository holds many volumes, and the newest of all of them is hardly
 * ever the one meant.
 */
#ifndef CAIRN_BACKUP_SELECT_H
#define CAIRN_BACKUP_SELECT_H

#include <stdbool.h>

struct cairn_err;
struct repo;
struct repo_snapshot;

struct backup_choice {
	const char *name;   /* one of the forms above */
	const char *volume; /* only backups of this volume, by name or id; or NULL */
	const char *host;   /* only backups of this host; or NULL */
	const char *pool;   /* only backups of the pool whose id begins like this; or NULL */
	bool only;          /* fail if the name, unless it is "latest", matches other backups too */
};

/* CAIRN_NOT_FOUND  no backup matches
 * CAIRN_INVALID    backups of several subjects match, or with `only` several backups;
 *                  several ids begin with it; or an id and a volume have that name
 * CAIRN_DATA_LOSS  a snapshot cannot be read and might be the newest
 */
int backup_select(struct repo *repo, const struct backup_choice *choice, struct repo_snapshot **ret,
		  struct cairn_err *err);

#endif
