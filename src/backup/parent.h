/* SPDX-License-Identifier: Apache-2.0 */

/* The parent backup of a new one.
 *
 * Found by lineage: the nearest ancestor of the snapshot that has a backup here. It
 * is verified first: its tree and its metadata are read, sizes must agree, and the
 * length of every chunk must be known. A candidate that fails is skipped, and the
 * reason is reported. Its lost chunks (CHUNK_LOST) are read again with the same
 * boundaries, which repairs it.
 */
#ifndef CAIRN_BACKUP_PARENT_H
#define CAIRN_BACKUP_PARENT_H

#include <stdbool.h>
#include <stdint.h>

#include "backup/chunk.h"
#include "backup/segment.h"
#include "repo/id.h"

struct backup_source;
struct cairn_err;
struct layout;
struct repo;
struct repo_snapshot;
struct zeros;

struct parent {
	bool found;
	bool ancestor; /* of the snapshot: a delta against it may be requested */
	struct repo_id backup;
	struct repo_id tree; /* of the backup */
	char *snapshot_id;
	char *snapshot_name;
	uint64_t snapshot_time_ns; /* when that was cut */
	struct chunk_map map;      /* empty if there are segments */
	uint64_t hand;             /* position of merging */

	bool segmented;
	struct segments segments;
	uint64_t *segments_lost;     /* one bit for each segment that has lost chunks; or NULL */
	uint64_t chunks, data_bytes; /* of data, in all segments */
	struct layout *layout;       /* cached layout of its segments; or NULL */
};

/* Bytes of the image. */
uint64_t backup_parent_size(const struct parent *parent);

void backup_parent_done(struct parent *parent);

/* Callbacks by which backups report their decisions. */
struct backup_talk {
	void (*say)(void *arg, const char *text);
	void *arg;
};

__attribute__((format(printf, 2, 3))) void backup_say(const struct backup_talk *talk,
						      const char *fmt, ...);

/* ret->found is false when there is none. `wanted` (or NULL) is the only
 * acceptable backup. */
int backup_parent_find(struct repo *repo, struct backup_source *source,
		       const struct repo_snapshot *wanted, struct zeros *zeros,
		       const struct backup_talk *talk, struct parent *ret, struct cairn_err *err);

#endif
