/* SPDX-License-Identifier: Apache-2.0 */

/* Copying snapshots, whoever made them, from one repository to another.
 *
 * Chunks that the other has are not read; trees are, to find out what it lacks, and
 * keep their ids, so a copy is the same backup. A snapshot that is there already (its
 * own, or a copy of it by "original") is left alone.
 */
#ifndef CAIRN_BACKUP_COPY_H
#define CAIRN_BACKUP_COPY_H

#include <stdbool.h>
#include <stdint.h>

struct backup_progress;
struct cairn_err;
struct repo;
struct repo_snapshot;
struct repo_snapshot_list;

#define COPY_DEPTH_MAX 256U /* directories in directories */

struct copy_result {
	bool there; /* no snapshot had to be saved; chunks may have been lost */
	uint64_t chunks;
	uint64_t bytes;
};

/* Both indexes must be loaded; `there` lists what `to` has. Of a backup that is there,
 * chunks are copied when packs of `to` were lost (repo/presence.h): a copy makes the
 * other whole again. */
int copy_snapshot(struct repo *from, struct repo *to, const struct repo_snapshot *snapshot,
		  const struct repo_snapshot_list *there, unsigned threads,
		  const struct backup_progress *progress, struct copy_result *ret,
		  struct cairn_err *err);

#endif
