/* SPDX-License-Identifier: Apache-2.0 */

/* Backs up a volume into segments (segment.h).
 *
 * Only changed segments are planned, read and stored; the others keep the parent's trees,
 * unread. So work and memory depend on the amount of changes. Segments are processed in
 * batches, so a list of all chunks of a large volume is never in memory.
 */
#ifndef CAIRN_BACKUP_SEGMENTED_H
#define CAIRN_BACKUP_SEGMENTED_H

#include <stdint.h>

#include "backup/plan.h"
#include "backup/read_chunks.h"
#include "repo/id.h"

struct backup_progress;
struct backup_source;
struct cairn_err;
struct layout;
struct changed_bitmap;
struct parent;
struct repo;
struct zeros;

struct segmented_spec {
	struct backup_source *source;
	struct zeros *zeros;
	struct parent *parent; /* in segments of the same length, one file, or not found */
	const struct changed_bitmap *marks;
	enum plan_mode mode;
	uint64_t segment; /* a power of two */
	uint64_t base;
	unsigned threads;
	const struct backup_progress *progress;
};

struct segmented_result {
	struct repo_id top;      /* the directory of groups */
	struct plan_tally tally; /* of segments that were planned */
	struct reading_result got;
	uint64_t chunks, data_bytes; /* of data, in all segments */
	uint64_t hand;
	struct layout *layout; /* of all segments, owned by the caller; NULL when nothing changed */
};

int backup_segmented_run(struct repo *repo, const struct segmented_spec *spec,
			 struct segmented_result *ret, struct cairn_err *err);

#endif
