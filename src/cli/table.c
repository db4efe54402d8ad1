/* SPDX-License-Identifier: Apache-2.0 */

#include "cli/table.h"

#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "base/text.h"
#include "cli/options.h"
#include "cli/output.h"

#define GAP 2 /* columns between two cells */

void cmd_table_init(struct cmd_table *table, const struct cmd_column *columns, size_t n)
{
	table->columns = columns;
	table->n_columns = n;
	cairn_buf_init(&table->cells, CMD_TABLE_BYTES_MAX);
	for (size_t i = 0; i < n; i++)
		table->width[i] = cairn_text_columns(columns[i].title);
}

void cmd_table_done(struct cmd_table *table)
{
	cairn_buf_done(&table->cells);
}

int cmd_table_add(struct cmd_table *table, const char *const cells[], struct cairn_err *err)
{
	for (size_t i = 0; i < table->n_columns; i++) {
		size_t columns = cairn_text_columns(cells[i]);

		if (columns > table->width[i])
			table->width[i] = columns;
		cairn_buf_add(&table->cells, cells[i], strlen(cells[i]) + 1);
	}
	if (cairn_buf_failed(&table->cells))
		return cairn_err_set(err, CAIRN_NO_SPACE,
				     "the table is too long; use --output ndjson");
	return 0;
}

/* A bit for each column that is shown. */
static unsigned shown_columns(const struct cmd_table *table)
{
	size_t room = isatty(STDOUT_FILENO) ? cmd_terminal_columns() : SIZE_MAX;
	unsigned shown = (1U << table->n_columns) - 1;
	size_t width = 0;

	for (size_t i = 0; i < table->n_columns; i++)
		width += table->width[i] + GAP;
	while (width > GAP && width - GAP > room) {
		size_t least = table->n_columns;

		for (size_t i = 0; i < table->n_columns; i++)
			if ((shown >> i & 1) && table->columns[i].spare &&
			    (least == table->n_columns ||
			     table->columns[i].spare < table->columns[least].spare))
				least = i;
		if (least == table->n_columns)
			break;
		shown &= ~(1U << least);
		width -= table->width[least] + GAP;
	}
	return shown;
}

static void print_cell(const struct cmd_table *table, unsigned shown, size_t i, const char *text)
{
	size_t columns = cairn_text_columns(text);
	size_t pad = table->width[i] > columns ? table->width[i] - columns : 0;
	bool last = shown >> i == 1;

	if (!(shown >> i & 1))
		return;
	if (table->columns[i].right)
		cmd_out_repeat(' ', pad);
	cmd_out_text(text);
	if (last) {
		cmd_out_text("\n");
		return;
	}
	cmd_out_repeat(' ', (table->columns[i].right ? 0 : pad) + GAP);
}

void cmd_table_print(const struct cmd_table *table)
{
	const char *cell = (const char *)table->cells.data;
	unsigned shown = shown_columns(table);
	const char *end;

	if (table->cells.len == 0)
		return;
	end = cell + table->cells.len;
	for (size_t i = 0; i < table->n_columns; i++)
		print_cell(table, shown, i, table->columns[i].title);
	while (cell < end) {
		for (size_t i = 0; i < table->n_columns; i++) {
			print_cell(table, shown, i, cell);
			cell += strlen(cell) + 1;
		}
	}
}
