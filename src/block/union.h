/* SPDX-License-Identifier: Apache-2.0 */

/* The union of any number of change sets, streamed in order from any offset.
 *
 * The changes over several snapshots are the union of their sets. Sets are passed oldest
 * first, because the newest one that touches a range decides whether it is zero now. The
 * volume is processed window by window: each set's extents inside the window are drawn
 * into two small bitmaps (changed, zero) that stay in the processor's cache, then listed.
 * Memory is bounded by the window and the readers' buffers, whatever the sets contain; a
 * single set is passed through without a bitmap.
 *
 * Belongs to one thread at a time.
 */
#ifndef CAIRN_BLOCK_UNION_H
#define CAIRN_BLOCK_UNION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"
#include "block/extent.h"

struct cairn_err;
struct block_set_reader;
struct block_union;

/* Limit of the sets in one union. Each costs its reader's buffer and a few KiB. */
#define BLOCK_UNION_INPUTS_MAX 65536U

struct block_union_input {
	struct block_set_reader *reader; /* the union takes ownership */

	/* The set is on the base's side of a fork: its ranges may differ in the target, but do not
	 * tell what the target contains there. */
	bool zero_unknown;
};

struct block_union_spec {
	const struct block_union_input *inputs; /* oldest first */
	size_t n_inputs;                        /* 0 gives the empty set */
	uint64_t target_size;                   /* extents are clipped to this */
	uint64_t starting_offset;               /* first extent delivered ends after this; its
				   * front is clipped to it */
};

/* Takes ownership of the readers, also on failure. The granularity of the result is the
 * largest of the inputs'. */
int block_union_new(const struct block_union_spec *spec, struct block_union **ret,
		    struct cairn_err *err);
void block_union_free(struct block_union *u);
CAIRN_DEFINE_CLEANUP(struct block_union, block_union_free);

/* Returns up to `max` extents, ascending, not overlapping, adjacent ones of the same kind
 * merged; *ret_n == 0 is the end. After an error the union must not be used further. */
int block_union_next(struct block_union *u, struct block_extent *out, size_t max, size_t *ret_n,
		     struct cairn_err *err);

#endif
