/* SPDX-License-Identifier: Apache-2.0 */

/* A volume's cells as lines of text.
 *
 * Holes are blank, unchanged data is a dot, zeroed cells have a sign of their
 * own, and changed ones a shade that grows with the share of the cell that
 * changed: it can be read without colour, and colour only adds to it.
 */
#ifndef CAIRN_CLI_MAP_DRAW_H
#define CAIRN_CLI_MAP_DRAW_H

#include <stdbool.h>
#include <stddef.h>

struct block_cells;

struct cmd_picture {
	const struct block_cells *cells;
	size_t columns; /* cells on a line */
	bool utf8;
	bool color;
	bool allocation; /* no base: "unchanged" data is simply allocated */
};

/* How many cells a line of a terminal of that width holds: a multiple of 16. */
size_t cmd_picture_columns(size_t terminal_columns);

/* The frame with its offsets, what the signs mean, and the totals. */
void cmd_picture_print(const struct cmd_picture *picture);

#endif
