/* SPDX-License-Identifier: Apache-2.0 */

/* An aligned table on standard output. Rows are collected, because a column is
 * as wide as its widest cell. On a terminal that is too narrow, columns that can be
 * spared are left out: --output json has everything. */
#ifndef CAIRN_CLI_TABLE_H
#define CAIRN_CLI_TABLE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"

struct cairn_err;

#define CMD_TABLE_COLUMNS_MAX 10
#define CMD_TABLE_BYTES_MAX   (1UL << 30) /* beyond this a table is read by nobody */

struct cmd_column {
	const char *title;
	bool right;     /* numbers */
	unsigned spare; /* 0: always shown; else those with the smallest number go first */
};

struct cmd_table {
	const struct cmd_column *columns;
	size_t n_columns;
	size_t width[CMD_TABLE_COLUMNS_MAX];
	struct cairn_buf cells; /* NUL-terminated, row by row */
};

void cmd_table_init(struct cmd_table *table, const struct cmd_column *columns, size_t n);
void cmd_table_done(struct cmd_table *table);

/* One row; `cells` has a text for each column. */
int cmd_table_add(struct cmd_table *table, const char *const cells[], struct cairn_err *err);

/* Writes the titles and all rows. Without rows nothing is written. */
void cmd_table_print(const struct cmd_table *table);

#endif
