/* SPDX-License-Identifier: Apache-2.0 */

#include "cli/commands.h"

#include "base/err.h"
#include "base/flags.h"
#include "block/cells.h"
#include "cli/map_print.h"
#include "cli/output_record.h"
#include "cli/pool_open.h"
#include "cli/progress.h"
#include "pool/pool.h"
#include "pool/segment_walk.h"

static struct cmd_map_options map = CMD_MAP_OPTIONS_INIT;

static const struct cairn_flag map_flags[] = {
	CMD_MAP_FLAGS(map),
	CAIRN_FLAG_END,
};

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

static int map_show(struct pool_segment_walk *survey, struct cairn_err *err)
{
	const struct pool_delta_info *info = pool_segment_walk_info(survey);
	cairn_cleanup(block_cells_done) struct block_cells cells = {0};
	char base[CMD_SNAPSHOT_TEXT_MAX];
	char target[CMD_SNAPSHOT_TEXT_MAX];
	const struct cmd_map_subject subject = {
		.volume = info->target.volume_name,
		.base = *info->base.id ? cmd_snapshot_text(&info->base, base) : NULL,
		.target = cmd_snapshot_text(&info->target, target),
	};
	int rc = cmd_map_cells(&map, info->capacity, &cells, err);

	if (!rc)
		rc = map_fill(survey, &cells, err);
	return rc ? rc : cmd_map_print(&map, &subject, &cells, err);
}

static int map_run(int argc, char **argv, struct cairn_err *err)
{
	cairn_cleanup(pool_closep) struct pool *pool = NULL;
	cairn_cleanup(pool_segment_walk_freep) struct pool_segment_walk *survey = NULL;
	struct cmd_progress progress;
	struct pool_segment_walk_spec spec = {.base = argc > 1 ? argv[0] : NULL,
					      .target = argv[argc - 1],
					      .progress = &progress.hooks};
	int rc = cmd_map_check(&map, err);

	if (!rc)
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
