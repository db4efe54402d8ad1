/* SPDX-License-Identifier: Apache-2.0 */

/* Walks over a target snapshot in uniform segments. Within each, all bytes are
 * alike in whether the delta reports them, whether as zero, and whether base
 * and target have them allocated. The segments cover the target from 0 to its
 * end.
 *
 * Both the terminal map and the verification are based on these segments. For
 * use by one thread.
 */
#ifndef CAIRN_POOL_SURVEY_H
#define CAIRN_POOL_SURVEY_H

#include <stdbool.h>
#include <stdint.h>

#include "base/cleanup.h"

struct cairn_err;
struct pool;
struct pool_delta_info;
struct pool_segment_walk;
struct store_progress;

struct pool_segment {
	uint64_t offset;
	uint64_t length;
	bool reported; /* in the delta */
	bool zero;     /* reported as zero */
	bool base_allocated;
	bool target_allocated;
};

struct pool_segment_walk_spec {
	const char *base; /* NULL: no delta and no base */
	const char *target;
	bool with_base_allocation; /* needs the base's data */
	const struct store_progress *progress;
};

/* Errors: those of pool_delta_open(). */
int pool_segment_walk_open(struct pool *pool, const struct pool_segment_walk_spec *spec,
			   struct pool_segment_walk **ret, struct cairn_err *err);
void pool_segment_walk_free(struct pool_segment_walk *survey);
CAIRN_DEFINE_CLEANUP(struct pool_segment_walk, pool_segment_walk_free);

/* Of the delta; of the target alone where there is no base. */
const struct pool_delta_info *pool_segment_walk_info(const struct pool_segment_walk *survey);

/* The next segment; length 0 is the end. An error is final. */
int pool_segment_walk_next(struct pool_segment_walk *survey, struct pool_segment *ret,
			   struct cairn_err *err);

#endif
