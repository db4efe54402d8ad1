/* SPDX-License-Identifier: Apache-2.0 */

/* A window of a volume as two bitmaps, one bit per granule: "changed" and "zero".
 *
 * Runs of sets are drawn into it, later ones over earlier ones, and the result is listed
 * as extents. A zero bit is set only if its changed bit is. Listing clears the words it
 * reads, so the bitmaps are never cleared as a whole, and words without a bit drawn are
 * not read.
 */
#ifndef CAIRN_BLOCK_BITMAP_H
#define CAIRN_BLOCK_BITMAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "block/extent.h"
#include "block/set_format.h"

/* Bits of one bitmap: 32 KiB each, so that both stay in a core's private cache. */
#define BITMAP_BITS  (1U << 18)
#define BITMAP_WORDS (BITMAP_BITS / 64)

/* Minimum room for block_bitmap_list(): all runs that one word can contain and one that was open
 * before. */
#define BITMAP_LIST_MIN 66U

struct bitmap {
	uint64_t start; /* byte offset of bit 0, a multiple of the granularity */
	uint64_t end;   /* end of the window: BITMAP_BITS granules, or the last one's end */
	uint64_t volume_size;
	unsigned shift; /* log2 of the granularity */

	size_t first_word; /* words outside [first_word, end_word) are 0 */
	size_t end_word;
	bool any_zero; /* a zero bit may be set */
	bool listing;  /* the first words are already listed */
	uint64_t changed[BITMAP_WORDS];
	uint64_t zero[BITMAP_WORDS];
};

/* A run of one kind that extends to the current position of the listing. */
struct bitmap_open_run {
	bool open;
	bool zero;
	uint64_t offset;
};

/* Moves an empty bitmap to the window that begins at byte `start`. The last granule of the
 * volume counts as complete if it is covered up to the end of the volume. */
void block_bitmap_move(struct bitmap *bitmap, uint64_t start);

/* The set that the runs belong to. */
struct bitmap_source {
	unsigned shift;       /* log2 of its granularity, which is not above the bitmap's */
	uint64_t volume_size; /* runs are clipped to this */
	bool zero_unknown;    /* sets "changed" bits and leaves "zero" bits unchanged */
};

/* Draws those of the `n` runs, ascending, that begin before the window's end; none may end
 * before its start. Returns the number of runs that end within it. */
size_t block_bitmap_draw(struct bitmap *bitmap, const struct bitmap_source *source,
			 const struct set_run *runs, size_t n);

/* Returns where runs of the source may be drawn while they are decoded, if they need no
 * rounding and no zero bit must be cleared. After that, every word of the window may have
 * bits set. */
struct set_drawing block_bitmap_drawing(struct bitmap *bitmap, const struct bitmap_source *source);

/* Lists runs, continuing from the last call, into `out` with room for `max` (at least
 * BITMAP_LIST_MIN). `run` carries an open run from window to window and call to call.
 * Returns true when the whole window is listed, and empty again. */
bool block_bitmap_list(struct bitmap *bitmap, struct bitmap_open_run *run, struct block_extent *out,
		       size_t max, size_t *ret_n);

#endif
