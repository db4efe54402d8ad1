/* SPDX-License-Identifier: Apache-2.0 */

/* The union of any number of change sets, streamed in order from any offset.
 *
 * What changed over several snapshots is the union of their sets. Sets are
 * given oldest first, because the newest one that touches a range decides
 * whether it is zero now. The work goes window by window over the volume: each
 * set's extents inside the window are drawn into two small bitmaps (changed,
 * zero) that stay in the processor's cache, then listed. Memory is bounded by
 * the window and the readers' buffers, whatever the sets hold; a single set is
 * passed through without a bitmap.
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

/* Sets in one union. Each costs its reader's buffer and a few KiB. */
#define BLOCK_UNION_INPUTS_MAX 65536U

struct block_union_input {
	struct block_set_reader *reader; /* owned by the union from then on */

	/* The set lies on the base's side of a fork: its ranges may differ
	 * in the target, but say nothing about what the target holds there. */
	bool zero_unknown;
};

struct block_union_spec {
	const struct block_union_input *inputs; /* oldest first */
	size_t n_inputs;                        /* 0 gives the empty set */
	uint64_t target_size;                   /* extents are clipped to this */
	uint64_t starting_offset;               /* first extent delivered ends after this; its
				   * front is clipped to it */
};

/* Takes the readers over, also when it fails. The granularity of the result is
 * the largest of the inputs'. */
int block_union_new(const struct block_union_spec *spec, struct block_union **ret,
		    struct cairn_err *err);
void block_union_free(struct block_union *u);
CAIRN_DEFINE_CLEANUP(struct block_union, block_union_free);

/* Delivers up to `max` extents, ascending, not overlapping, touching ones of
 * the same kind merged; *ret_n == 0 is the end. An error is final. */
int block_union_next(struct block_union *u, struct block_extent *out, size_t max, size_t *ret_n,
		     struct cairn_err *err);

#endif
