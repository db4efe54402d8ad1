/* SPDX-License-Identifier: Apache-2.0 */

/* What changed between two snapshots of a pool, or what one has allocated. */
#ifndef CAIRN_POOL_POOL_DELTA_H
#define CAIRN_POOL_POOL_DELTA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"
#include "block/extent.h"
#include "pool/pool_snapshots.h"

struct cairn_err;
struct pool;
struct pool_delta;
struct store_progress;

struct pool_delta_spec {
	const char *base;   /* NULL: report the allocated ranges of the target */
	const char *target; /* must be live */
	uint64_t starting_offset;
	const struct store_progress *progress; /* used while a pending set is computed */

	/* If no change sets connect the two, both are read and compared, if both are live and
	 * neither is larger than this; 0: never. Then pool_delta_next() reads data. */
	uint64_t compare_max;
};

struct pool_delta_info {
	struct pool_snapshot base; /* its id is "" if there is no base */
	struct pool_snapshot target;
	uint64_t capacity; /* the target's own size */
	bool compared;     /* by reading both, not from change sets */
};

/* CAIRN_NOT_FOUND     no such snapshot
 * CAIRN_PRECONDITION  the base's retention time has passed, or a set on the way
 *                     was lost: do a full backup
 * CAIRN_INVALID       the base is newer than the target, or they are unrelated, and they are
 *                     not compared
 * CAIRN_RANGE         starting_offset is past the end (== capacity is fine)
 */
int pool_delta_open(struct pool *pool, const struct pool_delta_spec *spec, struct pool_delta **ret,
		    struct cairn_err *err);
void pool_delta_free(struct pool_delta *delta);
CAIRN_DEFINE_CLEANUP(struct pool_delta, pool_delta_free);

const struct pool_delta_info *pool_delta_info(const struct pool_delta *delta);

/* Up to `max` extents, ascending, not overlapping, from starting_offset on (the
 * first is clipped to it); *ret_n == 0 marks the end of a complete list. An
 * error is final, and the extents returned before it are incomplete. */
int pool_delta_next(struct pool_delta *delta, struct block_extent *out, size_t max, size_t *ret_n,
		    struct cairn_err *err);

#endif
