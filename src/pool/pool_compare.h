/* SPDX-License-Identifier: Apache-2.0 */

/* Reads and compares two snapshots of a pool that no change sets connect: snapshots of
 * unrelated volumes, or a base that is newer than its target.
 *
 * Belongs to one thread at a time.
 */
#ifndef CAIRN_POOL_COMPARE_H
#define CAIRN_POOL_COMPARE_H

#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"
#include "block/extent.h"

struct cairn_err;
struct pool_compare;
struct store;
struct store_progress;

struct pool_compare_spec {
	struct store *store;
	const char *base_id; /* of snapshots */
	const char *target_id;
	uint64_t base_size;
	uint64_t target_size;
	uint64_t start;
	const struct store_progress *progress; /* may be NULL; only `cancelled` is used */
};

int pool_compare_new(const struct pool_compare_spec *spec, struct pool_compare **ret,
		     struct cairn_err *err);
void pool_compare_free(struct pool_compare *compare);
CAIRN_DEFINE_CLEANUP(struct pool_compare, pool_compare_free);

/* Up to `max` extents of 4 KiB blocks that differ, ascending, clipped to the start and to the
 * target's size; *ret_n == 0 is the end. Blocks beyond the base's size differ. */
int pool_compare_next(struct pool_compare *compare, struct block_extent *out, size_t max,
		      size_t *ret_n, struct cairn_err *err);

#endif
