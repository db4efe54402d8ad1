/* SPDX-License-Identifier: Apache-2.0 */

/* The output of the commands that draw a volume: as a picture, or its cells as JSON. */
#ifndef CAIRN_CLI_MAP_PRINT_H
#define CAIRN_CLI_MAP_PRINT_H

#include <stdint.h>

#include "base/flags.h"

struct block_cells;
struct cairn_err;

struct cmd_map_options {
	uint64_t width; /* 0: the terminal's */
	uint64_t rows;
};

#define CMD_MAP_OPTIONS_INIT \
	{                    \
		.rows = 16   \
	}

/* clang-format off */
#define CMD_MAP_FLAGS(o) \
	CAIRN_FLAG_VALUE(U64, "width", (o).width, "COLUMNS", \
			 "width of the picture (default: the terminal's)"), \
	CAIRN_FLAG_VALUE(U64, "rows", (o).rows, "N", \
			 "at most so many lines of cells (default: 16)")
/* clang-format on */

struct cmd_map_subject {
	const char *volume;
	const char *base; /* NULL: the picture shows what `target` has allocated */
	const char *target;
};

/* CAIRN_INVALID  an option is out of its range */
int cmd_map_check(const struct cmd_map_options *options, struct cairn_err *err);

/* Makes the cells of a volume of `capacity` bytes, as many as the picture has room for.
 * Codes of block_cells_init(). */
int cmd_map_cells(const struct cmd_map_options *options, uint64_t capacity, struct block_cells *ret,
		  struct cairn_err *err);

/* Without a base, data counts as BLOCK_CELL_UNCHANGED. */
int cmd_map_print(const struct cmd_map_options *options, const struct cmd_map_subject *subject,
		  const struct block_cells *cells, struct cairn_err *err);

#endif
