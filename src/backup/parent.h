/* SPDX-License-Identifier: Apache-2.0 */

/* The backup that a new one builds on.
 *
 * Found by lineage: the nearest ancestor of the snapshot that has a backup here.
 * It is believed only after a look: its tree and its metadata are read, sizes
 * must agree, the length of every chunk must be known. One that fails is passed over,
 * and somebody is told why. Chunks of it that are lost (CHUNK_LOST) are read again,
 * with the same cuts, which makes it whole again.
 */
#ifndef CAIRN_BACKUP_PARENT_H
#define CAIRN_BACKUP_PARENT_H

#include <stdbool.h>
#include <stdint.h>

#include "backup/chunk.h"
#include "repo/id.h"

struct backup_source;
struct cairn_err;
struct repo;
struct repo_snapshot;
struct zeros;

struct parent {
	bool found;
	bool ancestor; /* of the snapshot: what changed against it may be asked */
	struct repo_id backup;
	char *snapshot_id;
	char *snapshot_name;
	uint64_t snapshot_time_ns; /* when that was cut */
	struct chunk_map map;
	uint64_t hand; /* where merging stood */
};

void parent_done(struct parent *parent);

/* How backups tell what they decide. */
struct backup_talk {
	void (*say)(void *arg, const char *text);
	void *arg;
};

__attribute__((format(printf, 2, 3))) void backup_say(const struct backup_talk *talk,
						      const char *fmt, ...);

/* ret->found is false when there is none. `wanted` (or NULL) is the only backup
 * that will do. */
int parent_find(struct repo *repo, struct backup_source *source, const struct repo_snapshot *wanted,
		struct zeros *zeros, const struct backup_talk *talk, struct parent *ret,
		struct cairn_err *err);

#endif
