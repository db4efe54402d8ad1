/* SPDX-License-Identifier: Apache-2.0 */

#include "block/cells.h"

#include <stdlib.h>

#include "base/err.h"
#include "base/mem.h"

uint64_t block_cells_choose_size(uint64_t size, uint64_t least, size_t max_cells)
{
	uint64_t cell_size = least;

	while (cell_size < (1ULL << 62) && (size - 1) / cell_size >= max_cells && size > 0)
		cell_size *= 2;
	return cell_size;
}

int block_cells_init(struct block_cells *cells, uint64_t size, uint64_t cell_size,
		     struct cairn_err *err)
{
	uint64_t n = size > 0 && cell_size > 0 ? (size - 1) / cell_size + 1 : 0;

	if (n == 0 || n > BLOCK_CELLS_MAX)
		return cairn_err_set(err, CAIRN_INVALID, "a picture needs 1 to %u cells",
				     BLOCK_CELLS_MAX);
	cells->cell = cairn_calloc(n, sizeof(*cells->cell));
	if (!cells->cell)
		return cairn_err_nomem(err, "cells");
	cells->size = size;
	cells->cell_size = cell_size;
	cells->n = n;
	return 0;
}

void block_cells_done(struct block_cells *cells)
{
	free(cells->cell);
	cells->cell = NULL;
	cells->n = 0;
}

void block_cells_add(struct block_cells *cells, enum block_cell_state state, uint64_t offset,
		     uint64_t length)
{
	if (offset >= cells->size)
		return;
	if (length > cells->size - offset)
		length = cells->size - offset;
	for (size_t i = offset / cells->cell_size; length > 0; i++) {
		uint64_t in_cell = cells->cell_size - offset % cells->cell_size;
		uint64_t part = length < in_cell ? length : in_cell;

		cells->cell[i].bytes[state] += part;
		offset += part;
		length -= part;
	}
}

uint64_t block_cells_span(const struct block_cells *cells, size_t i)
{
	uint64_t left = cells->size - i * cells->cell_size;

	return left < cells->cell_size ? left : cells->cell_size;
}

uint64_t block_cells_bytes(const struct block_cells *cells, size_t i, enum block_cell_state state)
{
	const uint64_t *bytes = cells->cell[i].bytes;

	if (state != BLOCK_CELL_HOLE)
		return bytes[state];
	return block_cells_span(cells, i) - bytes[BLOCK_CELL_UNCHANGED] - bytes[BLOCK_CELL_ZEROED] -
	       bytes[BLOCK_CELL_CHANGED];
}

enum block_cell_state block_cells_state(const struct block_cells *cells, size_t i)
{
	int state = BLOCK_CELL_CHANGED;

	while (state > BLOCK_CELL_HOLE && cells->cell[i].bytes[state] == 0)
		state--;
	return (enum block_cell_state)state;
}

uint64_t block_cells_total(const struct block_cells *cells, enum block_cell_state state)
{
	uint64_t total = 0;

	for (size_t i = 0; i < cells->n; i++)
		total += block_cells_bytes(cells, i, state);
	return total;
}
