/* SPDX-License-Identifier: Apache-2.0 */

/* A window of a volume as two bitmaps, one bit a granule: "changed" and "zero".
 *
 * Runs of sets are drawn into it, a later one over an earlier one, and what
 * results is listed as extents. A zero bit is set only where its changed bit is.
 * Listing leaves the words empty, so the bitmaps are never cleared as a whole,
 * and words that nothing was drawn into are not looked at.
 */
#ifndef CAIRN_BLOCK_BITMAP_H
#define CAIRN_BLOCK_BITMAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "block/extent.h"
#include "block/set_format.h"

/* Bits of one bitmap: 32 KiB each, so that both stay in a core's own cache. */
#define BITMAP_BITS  (1U << 18)
#define BITMAP_WORDS (BITMAP_BITS / 64)

/* What bitmap_list() wants room for at least: all runs that one word can hold
 * and one that came from before. */
#define BITMAP_LIST_MIN 66U

struct bitmap {
	uint64_t start; /* byte offset of bit 0, a multiple of the granularity */
	uint64_t end;   /* behind the window: BITMAP_BITS granules on, or the last one's end */
	uint64_t volume_size;
	unsigned shift; /* log2 of the granularity */

	size_t first_word; /* words outside [first_word, end_word) are 0 */
	size_t end_word;
	bool any_zero; /* a zero bit may be set */
	bool listing;  /* the first words are listed already */
	uint64_t changed[BITMAP_WORDS];
	uint64_t zero[BITMAP_WORDS];
};

/* A run of one kind that reaches up to where listing stands. */
struct bitmap_open_run {
	bool open;
	bool zero;
	uint64_t offset;
};

/* Moves an empty bitmap to the window that begins at byte `start`. The last
 * granule of the volume counts as whole when it is covered up to its end. */
void bitmap_move(struct bitmap *bitmap, uint64_t start);

/* The set that runs come from. */
struct bitmap_source {
	unsigned shift;       /* log2 of its granularity, which is not above the bitmap's */
	uint64_t volume_size; /* runs are clipped to this */
	bool zero_unknown;    /* draws "changed" and leaves "zero" as it is */
};

/* Draws those of the `n` runs, ascending, that begin before the window's end;
 * none may end before its start. Returns how many of them end within it. */
size_t bitmap_draw(struct bitmap *bitmap, const struct bitmap_source *source,
		   const struct set_run *runs, size_t n);

/* Where runs of the source may be drawn while they are decoded: they need not
 * be rounded, and no zero bit has to be cleared. Every word of a window may
 * then be drawn into. */
struct set_drawing bitmap_drawing(struct bitmap *bitmap, const struct bitmap_source *source);

/* Lists runs from where the last call stopped, into `out` with room for `max`
 * (at least BITMAP_LIST_MIN). `run` carries an unfinished one from window to
 * window and call to call. True when the window is listed, and empty again. */
bool bitmap_list(struct bitmap *bitmap, struct bitmap_open_run *run, struct block_extent *out,
		 size_t max, size_t *ret_n);

#endif
