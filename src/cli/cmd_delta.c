/* SPDX-License-Identifier: Apache-2.0 */

#include "cli/commands.h"

#include "base/err.h"
#include "base/flags.h"
#include "cli/extent_list.h"
#include "cli/options.h"
#include "cli/output.h"
#include "cli/output_record.h"
#include "cli/pool_open.h"
#include "cli/progress.h"
#include "pool/pool.h"

#define BATCH \
	2048 /* extents fetched at once; the output's memory does not depend on their number */

static uint64_t starting_offset;
static uint64_t max_results;
static bool compare;

static const struct cairn_flag delta_flags[] = {
	CAIRN_FLAG_VALUE(SIZE, "starting-offset", starting_offset, "OFFSET",
			 "list from this byte on (default: 0)"),
	CAIRN_FLAG_VALUE(U64, "max-results", max_results, "N",
			 "list at most so many extents (default: 0, all)"),
	CAIRN_FLAG_SWITCH("compare", compare,
			  "read and compare snapshots that no change sets connect"),
	CAIRN_FLAG_END,
};

static int delta_list(struct pool_delta *delta, struct cmd_extent_list *list, struct cairn_err *err)
{
	static struct block_extent batch[BATCH];

	for (;;) {
		uint64_t left = max_results ? max_results - list->extents : BATCH;
		size_t n = 0;
		/* Fetch one more than wanted, to find out whether the list continues. */
		int rc = pool_delta_next(delta, batch, left < BATCH ? left + 1 : BATCH, &n, err);

		if (rc)
			return rc;
		if (cmd_interrupted())
			return cairn_err_set(err, CAIRN_CANCELLED, "interrupted");
		if (max_results && n > left) {
			list->more = true;
			n = left;
		}
		for (size_t i = 0; i < n; i++)
			cmd_extent_list_add(list, &batch[i]);
		if (n == 0 || list->more)
			return 0;
		if (cmd_out_failed())
			return cmd_out_finish(err);
	}
}

/* Prints the object up to its array of extents, which is printed without the JSON writer
 * for speed. */
static int json_head(const struct pool_delta_info *info, struct cairn_err *err)
{
	struct cairn_json json;
	char name[CMD_SNAPSHOT_TEXT_MAX];
	bool has_base = *info->base.id;

	cairn_json_init(&json, 1, false);
	cairn_json_object_begin(&json);
	cmd_json_field_string(&json, "volume", info->target.volume_name);
	cmd_json_field_string(&json, "base",
			      has_base ? cmd_snapshot_text(&info->base, name) : NULL);
	cmd_json_field_string(&json, "base_id", has_base ? info->base.id : NULL);
	cmd_json_field_string(&json, "target", cmd_snapshot_text(&info->target, name));
	cmd_json_field_string(&json, "target_id", info->target.id);
	cmd_json_field_u64(&json, "volume_capacity_bytes", info->capacity);
	if (info->compared)
		cmd_json_field_bool(&json, "compared", true);
	if (starting_offset)
		cmd_json_field_u64(&json, "starting_offset", starting_offset);
	cairn_json_key(&json, "block_metadata");
	cairn_json_raw(&json, "[\n", 2);
	return cairn_json_finish(&json, err);
}

static int delta_print(struct pool_delta *delta, struct cairn_err *err)
{
	const struct pool_delta_info *info = pool_delta_info(delta);
	struct cmd_extent_list list;
	int rc = cmd_options.output == CMD_OUTPUT_JSON ? json_head(info, err) : 0;

	cmd_extent_list_begin(&list, info->capacity, true);
	if (!rc)
		rc = delta_list(delta, &list, err);
	if (!rc)
		cmd_extent_list_end(&list, *info->base.id ? "changed" : "allocated");
	return rc;
}

static int delta_run(int argc, char **argv, struct cairn_err *err)
{
	cairn_cleanup(pool_closep) struct pool *pool = NULL;
	cairn_cleanup(pool_delta_freep) struct pool_delta *delta = NULL;
	struct cmd_progress progress;
	struct pool_delta_spec spec = {
		.base = argc > 1 ? argv[0] : NULL,
		.target = argv[argc - 1],
		.starting_offset = starting_offset,
		.progress = &progress.hooks,
		.compare_max = compare ? UINT64_MAX : 0,
	};
	int rc = cmd_pool_open(CMD_QUERY, &pool, err);

	if (rc)
		return rc;
	cmd_progress_begin(&progress, "comparing");
	rc = pool_delta_open(pool, &spec, &delta, err);
	cmd_progress_end(&progress);
	if (rc == CAIRN_INVALID && !compare) {
		const struct cairn_err why = *err;

		return cairn_err_set(err, rc, "%s; --compare reads and compares both", why.msg);
	}
	return rc ? rc : delta_print(delta, err);
}

const struct command cmd_delta = {
	.name = "delta",
	.summary = "list the extents that changed between two snapshots",
	.about =
		"Without BASE, lists the allocated extents of TARGET. BASE may be a snapshot that\n"
		"was deleted within the pool's retention time. What is listed may have changed;\n"
		"what is not listed has not. A BASE that is newer than TARGET, or unrelated to it,\n"
		"is refused without --compare, which reads both.\n",
	.args =
		(const struct cmd_arg[]){
			{.name = "BASE", .kind = CMD_ARG_SNAPSHOT, .optional = true},
			{.name = "TARGET", .kind = CMD_ARG_SNAPSHOT},
			CMD_ARG_END},
	.flags = delta_flags,
	.has_output = true,
	.run = delta_run,
};
