/* SPDX-License-Identifier: Apache-2.0 */

/* Joins ranges that touch and are of the same kind on their way to a sink.
 *
 * Comparing two maps gives one range per pair of mappings. Many of them are
 * adjacent, and every range costs time and space later. Belongs to one thread.
 */
#ifndef CAIRN_POOL_JOINER_H
#define CAIRN_POOL_JOINER_H

#include <stdbool.h>
#include <stdint.h>

#include "block/extent.h"

struct cairn_err;

struct extent_merge {
	struct block_sink sink;
	struct block_extent held; /* length 0: no range is pending */
};

/* Ranges must be ascending and must not overlap; length 0 is ignored. */
int pool_extent_merge_add(struct extent_merge *joiner, uint64_t offset, uint64_t length, bool zero,
			  struct cairn_err *err);

/* Passes on the pending range. */
int pool_extent_merge_flush(struct extent_merge *joiner, struct cairn_err *err);

#endif
