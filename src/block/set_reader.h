/* SPDX-License-Identifier: Apache-2.0 */

/* A change set's runs as they are stored, for the union: nothing is copied or
 * turned into bytes that need not be. */
#ifndef CAIRN_BLOCK_SET_READER_H
#define CAIRN_BLOCK_SET_READER_H

#include <stddef.h>

#include "block/extent.h"
#include "block/set_format.h"

struct block_set_reader;
struct cairn_err;

/* The runs that come next, at least one unless the set ends, valid until the
 * reader is used again. Where a new block must be decoded for that, a part of
 * its runs may be drawn instead; `drawing` may be NULL. */
int set_reader_peek(struct block_set_reader *reader, const struct set_drawing *drawing,
		    const struct set_run **ret_runs, size_t *ret_n, struct cairn_err *err);

/* Drops the first `n` of those runs. */
void set_reader_skip(struct block_set_reader *reader, size_t n);

/* A run in bytes, clipped to the volume. */
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
