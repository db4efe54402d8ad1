/* SPDX-License-Identifier: Apache-2.0 */

#include "cli/map_print.h"

#include <stdbool.h>
#include <stddef.h>
#include <unistd.h>

#include "base/err.h"
#include "base/num.h"
#include "block/cells.h"
#include "cli/map_draw.h"
#include "cli/options.h"
#include "cli/output.h"
#include "cli/output_record.h"

#define CELL_SIZE_MIN 4096U
#define WIDTH_MAX     1000U
#define ROWS_MAX      1000U

static const struct {
	enum block_cell_state state;
	const char *name; /* in JSON and in text */
} states[] = {
	{BLOCK_CELL_CHANGED, "changed"},
	{BLOCK_CELL_ZEROED, "zeroed"},
	{BLOCK_CELL_UNCHANGED, "unchanged"},
	{BLOCK_CELL_HOLE, "hole"},
};
#define STATES (sizeof(states) / sizeof(states[0]))

static const char *state_name(enum block_cell_state state, bool allocation)
{
	for (size_t i = 0; i < STATES; i++)
		if (states[i].state == state)
			return allocation && state == BLOCK_CELL_UNCHANGED ? "allocated"
									   : states[i].name;
	return "hole";
}

/* False for states that cannot occur without a base. */
static bool state_applies(enum block_cell_state state, bool allocation)
{
	return !allocation || state == BLOCK_CELL_UNCHANGED || state == BLOCK_CELL_HOLE;
}

int cmd_map_check(const struct cmd_map_options *options, struct cairn_err *err)
{
	if (options->width > WIDTH_MAX || options->rows == 0 || options->rows > ROWS_MAX)
		return cairn_err_set(err, CAIRN_INVALID, "--width is at most %u, --rows is 1 to %u",
				     WIDTH_MAX, ROWS_MAX);
	return 0;
}

static size_t picture_columns(const struct cmd_map_options *options)
{
	return cmd_picture_columns(options->width ? options->width : cmd_terminal_columns());
}

int cmd_map_cells(const struct cmd_map_options *options, uint64_t capacity, struct block_cells *ret,
		  struct cairn_err *err)
{
	size_t n = picture_columns(options) * options->rows;

	return block_cells_init(ret, capacity, block_cells_choose_size(capacity, CELL_SIZE_MIN, n),
				err);
}

static void print_picture(const struct cmd_picture *picture, const struct cmd_map_subject *subject)
{
	char size[CAIRN_SIZE_TEXT_MAX];
	char cell[CAIRN_SIZE_TEXT_MAX];

	if (subject->base)
		cmd_outf("%s %s ", subject->base, picture->utf8 ? "→" : "->");
	cmd_outf("%s: %s, a cell is %s\n", subject->target,
		 cairn_format_size(picture->cells->size, size),
		 cairn_format_size(picture->cells->cell_size, cell));
	cmd_picture_print(picture);
}

static void json_cell(struct cairn_json *json, const struct block_cells *cells, size_t i,
		      bool allocation)
{
	static const char *const keys[] = {"changed_bytes", "zeroed_bytes", "unchanged_bytes",
					   "hole_bytes"};

	cairn_json_object_begin(json);
	cmd_json_field_u64(json, "byte_offset", i * cells->cell_size);
	cmd_json_field_u64(json, "size_bytes", block_cells_span(cells, i));
	cmd_json_field_string(json, "state", state_name(block_cells_state(cells, i), allocation));
	for (size_t k = 0; k < STATES; k++)
		if (state_applies(states[k].state, allocation))
			cmd_json_field_u64(json,
					   allocation && states[k].state == BLOCK_CELL_UNCHANGED
						   ? "allocated_bytes"
						   : keys[k],
					   block_cells_bytes(cells, i, states[k].state));
	cairn_json_object_end(json);
}

static int map_print_json(const struct cmd_map_subject *subject, const struct block_cells *cells,
			  struct cairn_err *err)
{
	bool document = cmd_options.output == CMD_OUTPUT_JSON;
	struct cairn_json json;

	cmd_json_begin(&json);
	if (document) {
		cairn_json_object_begin(&json);
		cmd_json_field_string(&json, "volume", subject->volume);
		cmd_json_field_string(&json, "base", subject->base);
		cmd_json_field_string(&json, "target", subject->target);
		cmd_json_field_u64(&json, "volume_capacity_bytes", cells->size);
		cmd_json_field_u64(&json, "cell_size_bytes", cells->cell_size);
		cairn_json_key(&json, "cells");
		cairn_json_array_begin(&json);
	}
	for (size_t i = 0; i < cells->n; i++) {
		json_cell(&json, cells, i, !subject->base);
		if (!document)
			cairn_json_newline(&json);
	}
	if (document) {
		cairn_json_array_end(&json);
		cairn_json_object_end(&json);
		cairn_json_newline(&json);
	}
	return cairn_json_finish(&json, err);
}

int cmd_map_print(const struct cmd_map_options *options, const struct cmd_map_subject *subject,
		  const struct block_cells *cells, struct cairn_err *err)
{
	const struct cmd_picture picture = {
		.cells = cells,
		.columns = picture_columns(options),
		.utf8 = cmd_use_utf8(),
		.color = cmd_use_color(STDOUT_FILENO),
		.allocation = !subject->base,
	};

	if (cmd_options.output != CMD_OUTPUT_TABLE)
		return map_print_json(subject, cells, err);
	print_picture(&picture, subject);
	return 0;
}
