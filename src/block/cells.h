/* SPDX-License-Identifier: Apache-2.0 */

/* A volume as a row of equal cells, for drawing a map of it.
 *
 * Each cell counts its bytes in each state; bytes that were not added are holes. The last
 * cell may be shorter. A cell with several states is shown as the most important one:
 * changed, zeroed, unchanged, hole, in this order.
 */
#ifndef CAIRN_BLOCK_CELLS_H
#define CAIRN_BLOCK_CELLS_H

#include <stddef.h>
#include <stdint.h>

struct cairn_err;

#define BLOCK_CELLS_MAX (1U << 20) /* more than any screen shows */

enum block_cell_state {
	BLOCK_CELL_HOLE,
	BLOCK_CELL_UNCHANGED,
	BLOCK_CELL_ZEROED,
	BLOCK_CELL_CHANGED,
	BLOCK_CELL_STATES,
};

struct block_cell {
	uint64_t bytes[BLOCK_CELL_STATES];
};

struct block_cells {
	uint64_t size;
	uint64_t cell_size;
	size_t n;
	struct block_cell *cell;
};

/* Returns the smallest power of two, at least `least`, that divides `size` bytes into at
 * most `max_cells` cells. `least` is a power of two, `max_cells` above 0. */
uint64_t block_cells_choose_size(uint64_t size, uint64_t least, size_t max_cells);

/* Starts with holes only.
 *
 * CAIRN_INVALID   a size is 0, or there would be too many cells
 * CAIRN_NO_SPACE  out of memory
 */
int block_cells_init(struct block_cells *cells, uint64_t size, uint64_t cell_size,
		     struct cairn_err *err);
void block_cells_done(struct block_cells *cells);

/* Counts the range, clipped to the volume, in a state other than hole. No byte may be
 * added twice. */
void block_cells_add(struct block_cells *cells, enum block_cell_state state, uint64_t offset,
		     uint64_t length);

/* The bytes that cell `i` spans, and those of them in a state. */
uint64_t block_cells_span(const struct block_cells *cells, size_t i);
uint64_t block_cells_bytes(const struct block_cells *cells, size_t i, enum block_cell_state state);

/* The most important state that occurs in cell `i`. */
enum block_cell_state block_cells_state(const struct block_cells *cells, size_t i);

/* Bytes of the whole volume in a state. */
uint64_t block_cells_total(const struct block_cells *cells, enum block_cell_state state);

#endif
