/* SPDX-License-Identifier: Apache-2.0 */

/* The backup that a new one builds on.
 *
 * Found by lineage: the nearest ancestor of the snapshot that has a backup here.
 * It is believed only after a look: its tree and its metadata are read, sizes
 * must agree, the length of every chunk must be known. One that fails is passed over,
 * and the reason is reported. Chunks of it that are lost (CHUNK_LOST) are read again,
 * with the same cuts, which makes it whole again.
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
	bool ancestor; /* of the snapshot: what changed against it may be asked */
	struct repo_id backup;
	struct repo_id tree; /* of the backup */
	char *snapshot_id;
	char *snapshot_name;
	uint64_t snapshot_time_ns; /* when that was cut */
	struct chunk_map map;      /* empty where there are segments */
	uint64_t hand;             /* where merging stood */

	bool segmented;
	struct segments segments;
	uint64_t *segments_lost; /* a bit for each segment of which something is lost; or NULL */
	uint64_t chunks, data_bytes; /* of data, in all segments */
	struct layout *layout;       /* what is known of its segments; or NULL */
};

/* Bytes of the image. */
uint64_t parent_size(const struct parent *parent);

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
