/* SPDX-License-Identifier: Apache-2.0 */

#include "cli/commands.h"

#include <inttypes.h>
#include <string.h>

#include "base/err.h"
#include "base/flags.h"
#include "base/num.h"
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

struct totals {
	uint64_t extents;
	uint64_t bytes;
	uint64_t zero_bytes;
	uint64_t end; /* end of the last extent */
	bool more;    /* --max-results ended the list */
};

static char *put_json(char *to, const struct block_extent *extent)
{
	to = CMD_PUT(to, "{\"byte_offset\":");
	to += cairn_format_u64(extent->offset, to);
	to = CMD_PUT(to, ",\"size_bytes\":");
	to += cairn_format_u64(extent->length, to);
	return extent->zero ? CMD_PUT(to, ",\"zero\":true}") : CMD_PUT(to, ",\"zero\":false}");
}

static void print_batch(const struct block_extent *extents, size_t n, size_t columns, bool first)
{
	for (size_t i = 0; i < n; i++) {
		char *start = cmd_out_reserve(128);
		char *to = start;

		if (cmd_options.output == CMD_OUTPUT_TABLE) {
			to = cmd_put_right(to, extents[i].offset, columns);
			to = cmd_put_right(to, extents[i].length, columns + 2);
			to = extents[i].zero ? CMD_PUT(to, "  zero") : CMD_PUT(to, "  data");
		} else {
			if (cmd_options.output == CMD_OUTPUT_JSON && !(first && i == 0))
				to = CMD_PUT(to, ",\n");
			to = put_json(to, &extents[i]);
		}
		if (cmd_options.output != CMD_OUTPUT_JSON)
			to = CMD_PUT(to, "\n");
		cmd_out_advance((size_t)(to - start));
	}
}

static void add_totals(struct totals *totals, const struct block_extent *extents, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		totals->bytes += extents[i].length;
		totals->zero_bytes += extents[i].zero ? extents[i].length : 0;
		totals->end = block_extent_end(&extents[i]);
	}
	totals->extents += n;
}

static int delta_list(struct pool_delta *delta, size_t columns, struct totals *totals,
		      struct cairn_err *err)
{
	static struct block_extent batch[BATCH];

	for (;;) {
		uint64_t left = max_results ? max_results - totals->extents : BATCH;
		size_t n = 0;
		/* Fetch one more than wanted, to find out whether the list continues. */
		int rc = pool_delta_next(delta, batch, left < BATCH ? left + 1 : BATCH, &n, err);

		if (rc)
			return rc;
		if (cmd_interrupted())
			return cairn_err_set(err, CAIRN_CANCELLED, "interrupted");
		if (max_results && n > left) {
			totals->more = true;
			n = left;
		}
		print_batch(batch, n, columns, totals->extents == 0);
		add_totals(totals, batch, n);
		if (n == 0 || totals->more)
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

/* Ends the document. A list that --max-results cut short says so, so that it is not
 * mistaken for a complete one. */
static void json_tail(const struct totals *totals)
{
	cmd_out_text(totals->extents ? "\n]" : "]");
	if (totals->more)
		cmd_outf(",\"next_offset\":%" PRIu64, totals->end);
	cmd_out_text("}\n");
}

static void delta_print_totals(const struct pool_delta_info *info, const struct totals *totals)
{
	char bytes[CAIRN_SIZE_TEXT_MAX];
	char zero[CAIRN_SIZE_TEXT_MAX];
	char count[CMD_COUNT_TEXT_MAX];
	char capacity[CAIRN_SIZE_TEXT_MAX];
	const char *what = *info->base.id ? "changed" : "allocated";

	if (cmd_options.quiet)
		return;
	cmd_outf("%s: %s of %s %s", cmd_count_text(totals->extents, "extent", count),
		 cairn_format_size(totals->bytes, bytes),
		 cairn_format_size(info->capacity, capacity), what);
	if (totals->zero_bytes)
		cmd_outf(", %s of it now zero", cairn_format_size(totals->zero_bytes, zero));
	if (totals->more)
		cmd_outf("; more from --starting-offset %" PRIu64, totals->end);
	cmd_out_text("\n");
}

static int delta_print(struct pool_delta *delta, struct cairn_err *err)
{
	const struct pool_delta_info *info = pool_delta_info(delta);
	struct totals totals = {0};
	char digits[20];
	size_t columns = cairn_format_u64(info->capacity, digits);
	int rc = 0;

	columns = columns < strlen("OFFSET") ? strlen("OFFSET") : columns;
	if (cmd_options.output == CMD_OUTPUT_TABLE)
		cmd_outf("%*s%*s  WHAT\n", (int)columns, "OFFSET", (int)columns + 2, "SIZE");
	else if (cmd_options.output == CMD_OUTPUT_JSON)
		rc = json_head(info, err);
	if (!rc)
		rc = delta_list(delta, columns, &totals, err);
	if (rc)
		return rc;
	if (cmd_options.output == CMD_OUTPUT_TABLE)
		delta_print_totals(info, &totals);
	else if (cmd_options.output == CMD_OUTPUT_JSON)
		json_tail(&totals);
	return 0;
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
