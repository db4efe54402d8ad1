/* SPDX-License-Identifier: Apache-2.0 */

/* Copies snapshots of any program from one repository to another.
 *
 * Chunks that the destination has are not read; trees are, to find missing chunks.
 * They keep their ids, so a copy is the same backup. A snapshot that exists in the
 * destination (itself, or a copy of it according to "original") is not copied again.
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

#define COPY_DEPTH_MAX 256U /* nesting depth of directories */

struct copy_result {
	bool there; /* the snapshot existed; missing chunks may have been copied */
	uint64_t chunks;
	uint64_t bytes;
};

/* Both indexes must be loaded; `there` lists the snapshots of `to`. For a backup that
 * exists in `to`, chunks are copied if packs of `to` were lost (repo/presence.h): so a
 * copy repairs the destination. */
int backup_copy_snapshot(struct repo *from, struct repo *to, const struct repo_snapshot *snapshot,
			 const struct repo_snapshot_list *there, unsigned threads,
			 const struct backup_progress *progress, struct copy_result *ret,
			 struct cairn_err *err);

#endif
