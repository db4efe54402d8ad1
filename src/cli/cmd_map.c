/* SPDX-License-Identifier: Apache-2.0 */

#include "cli/commands.h"

#include <unistd.h>

#include "base/err.h"
#include "base/flags.h"
#include "base/num.h"
#include "block/cells.h"
#include "cli/map_draw.h"
#include "cli/options.h"
#include "cli/output.h"
#include "cli/output_record.h"
#include "cli/pool_open.h"
#include "cli/progress.h"
#include "pool/pool.h"
#include "pool/segment_walk.h"

#define CELL_SIZE_MIN 4096U
#define WIDTH_MAX     1000U
#define ROWS_MAX      1000U

static uint64_t width;
static uint64_t rows = 16;

static const struct cairn_flag map_flags[] = {
	CAIRN_FLAG_VALUE(U64, "width", width, "COLUMNS",
			 "width of the picture (default: the terminal's)"),
	CAIRN_FLAG_VALUE(U64, "rows", rows, "N", "at most so many lines of cells (default: 16)"),
	CAIRN_FLAG_END,
};

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

static int map_fill(struct pool_segment_walk *survey, struct block_cells *cells,
		    struct cairn_err *err)
{
	for (;;) {
		struct pool_segment segment;
		int rc = pool_segment_walk_next(survey, &segment, err);

		if (rc || segment.length == 0)
			return rc;
		if (cmd_interrupted())
			return cairn_err_set(err, CAIRN_CANCELLED, "interrupted");
		if (segment.reported)
			block_cells_add(cells,
					segment.zero ? BLOCK_CELL_ZEROED : BLOCK_CELL_CHANGED,
					segment.offset, segment.length);
		else if (segment.target_allocated)
			block_cells_add(cells, BLOCK_CELL_UNCHANGED, segment.offset,
					segment.length);
	}
}

static void print_picture(const struct cmd_picture *picture, const struct pool_delta_info *info)
{
	char base[CMD_SNAPSHOT_TEXT_MAX];
	char target[CMD_SNAPSHOT_TEXT_MAX];
	char size[CAIRN_SIZE_TEXT_MAX];
	char cell[CAIRN_SIZE_TEXT_MAX];

	if (!picture->allocation)
		cmd_outf("%s %s ", cmd_snapshot_text(&info->base, base),
			 picture->utf8 ? "→" : "->");
	cmd_outf("%s: %s, a cell is %s\n", cmd_snapshot_text(&info->target, target),
		 cairn_format_size(info->capacity, size),
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

static int map_print_json(const struct cmd_picture *picture, const struct pool_delta_info *info,
			  struct cairn_err *err)
{
	bool document = cmd_options.output == CMD_OUTPUT_JSON;
	char name[CMD_SNAPSHOT_TEXT_MAX];
	struct cairn_json json;

	cmd_json_begin(&json);
	if (document) {
		cairn_json_object_begin(&json);
		cmd_json_field_string(&json, "volume", info->target.volume_name);
		cmd_json_field_string(&json, "base",
				      picture->allocation ? NULL
							  : cmd_snapshot_text(&info->base, name));
		cmd_json_field_string(&json, "target", cmd_snapshot_text(&info->target, name));
		cmd_json_field_u64(&json, "volume_capacity_bytes", info->capacity);
		cmd_json_field_u64(&json, "cell_size_bytes", picture->cells->cell_size);
		cairn_json_key(&json, "cells");
		cairn_json_array_begin(&json);
	}
	for (size_t i = 0; i < picture->cells->n; i++) {
		json_cell(&json, picture->cells, i, picture->allocation);
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

static int map_show(struct pool_segment_walk *survey, struct cairn_err *err)
{
	const struct pool_delta_info *info = pool_segment_walk_info(survey);
	cairn_cleanup(block_cells_done) struct block_cells cells = {0};
	struct cmd_picture picture = {
		.cells = &cells,
		.columns = cmd_picture_columns(width ? width : cmd_terminal_columns()),
		.utf8 = cmd_use_utf8(),
		.color = cmd_use_color(STDOUT_FILENO),
		.allocation = !*info->base.id,
	};
	int rc = block_cells_init(
		&cells, info->capacity,
		block_cells_choose_size(info->capacity, CELL_SIZE_MIN, picture.columns * rows),
		err);

	if (!rc)
		rc = map_fill(survey, &cells, err);
	if (rc)
		return rc;
	if (cmd_options.output != CMD_OUTPUT_TABLE)
		return map_print_json(&picture, info, err);
	print_picture(&picture, info);
	return 0;
}

static int map_run(int argc, char **argv, struct cairn_err *err)
{
	cairn_cleanup(pool_closep) struct pool *pool = NULL;
	cairn_cleanup(pool_segment_walk_freep) struct pool_segment_walk *survey = NULL;
	struct cmd_progress progress;
	struct pool_segment_walk_spec spec = {.base = argc > 1 ? argv[0] : NULL,
					      .target = argv[argc - 1],
					      .progress = &progress.hooks};
	int rc;

	if (width > WIDTH_MAX || rows == 0 || rows > ROWS_MAX)
		return cairn_err_set(err, CAIRN_INVALID, "--width is at most %u, --rows is 1 to %u",
				     WIDTH_MAX, ROWS_MAX);
	rc = cmd_pool_open(CMD_QUERY, &pool, err);
	if (rc)
		return rc;
	cmd_progress_begin(&progress, "comparing");
	rc = pool_segment_walk_open(pool, &spec, &survey, err);
	cmd_progress_end(&progress);
	return rc ? rc : map_show(survey, err);
}

const struct command cmd_map = {
	.name = "map",
	.summary = "draw what changed between two snapshots",
	.about = "Each sign stands for an equal part of the volume: unchanged, changed, zeroed or\n"
		 "hole. Without BASE, draws what TARGET has allocated.\n",
	.args =
		(const struct cmd_arg[]){
			{.name = "BASE", .kind = CMD_ARG_SNAPSHOT, .optional = true},
			{.name = "TARGET", .kind = CMD_ARG_SNAPSHOT},
			CMD_ARG_END},
	.flags = map_flags,
	.has_output = true,
	.run = map_run,
};
