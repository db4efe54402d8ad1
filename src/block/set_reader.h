/* SPDX-License-Identifier: Apache-2.0 */

/* Access to the stored runs of a change set, for the union: avoids copying runs and
 * converting them to bytes. */
#ifndef CAIRN_BLOCK_SET_READER_H
#define CAIRN_BLOCK_SET_READER_H

#include <stddef.h>

#include "block/extent.h"
#include "block/set_format.h"

struct block_set_reader;
struct cairn_err;

/* Returns the next runs, at least one unless the set ends, valid until the reader is used
 * again. If a new block is decoded for that, some of its runs may be drawn instead;
 * `drawing` may be NULL. */
int block_set_reader_peek(struct block_set_reader *reader, const struct set_drawing *drawing,
			  const struct set_run **ret_runs, size_t *ret_n, struct cairn_err *err);

/* Drops the first `n` of those runs. */
void block_set_reader_skip(struct block_set_reader *reader, size_t n);

/* Converts a run to bytes, clipped to the volume. */
static inline struct block_extent set_run_extent(const struct set_run *run, unsigned shift,
						 uint64_t volume_size)
{
	struct block_extent extent = {
		.offset = run->start << shift,
		.length = ((run->tail >> 1) + 1) << shift,
		.zero = run->tail & 1,
	};

	if (block_extent_end(&extent) > volume_size)
		extent.length = volume_size - extent.offset;
	return extent;
}

#endif
