/* SPDX-License-Identifier: Apache-2.0 */

#include "cli/commands.h"

#include "base/err.h"
#include "base/flags.h"
#include "cli/options.h"
#include "cli/output.h"
#include "cli/output_record.h"
#include "cli/pool_open.h"
#include "cli/progress.h"
#include "pool/pool.h"

#define ROUND 256 /* merges between two checks for an interrupt */

static uint64_t max;

static const struct cairn_flag pool_gc_flags[] = {
	CAIRN_FLAG_VALUE(U64, "max", max, "N", "merge at most so many (default: 0, all)"),
	CAIRN_FLAG_END,
};

static int pool_gc_expire(struct pool *pool, uint64_t *ret_merged, struct cairn_err *err)
{
	for (;;) {
		uint64_t left = max ? max - *ret_merged : ROUND;
		size_t round = left < ROUND ? (size_t)left : ROUND;
		size_t merged = 0;
		int rc = round ? pool_expire(pool, round, &merged, err) : 0;

		*ret_merged += merged;
		if (rc || merged == 0)
			return rc;
		if (cmd_interrupted())
			return cairn_err_set(err, CAIRN_CANCELLED, "interrupted");
	}
}

static int pool_gc_run(int argc, char **argv, struct cairn_err *err)
{
	cairn_cleanup(pool_closep) struct pool *pool = NULL;
	struct cairn_json json;
	char text[CMD_COUNT_TEXT_MAX];
	uint64_t merged = 0;
	int rc;

	if (argc > 0)
		cmd_options.pool = argv[0];
	cmd_catch_interrupts();
	rc = cmd_pool_open(CMD_WRITE, &pool, err);
	if (!rc)
		rc = pool_gc_expire(pool, &merged, err);
	if (rc)
		return rc;
	if (cmd_options.output == CMD_OUTPUT_TABLE) {
		if (!cmd_options.quiet)
			cmd_outf("%s merged and gone\n",
				 cmd_count_text(merged, "deleted snapshot", text));
		return 0;
	}
	cmd_json_begin(&json);
	cairn_json_object_begin(&json);
	cmd_json_field_u64(&json, "merged", merged);
	cairn_json_object_end(&json);
	return cmd_json_end(&json, err);
}

const struct command cmd_pool_gc = {
	.name = "gc",
	.summary = "drop deleted snapshots past their retention time",
	.about = "The change set of each is merged into its successor's, so that every remaining\n"
		 "pair still answers. Snapshot create and delete do this in small doses.\n",
	.args = (const struct cmd_arg[]){{.name = "DIR", .kind = CMD_ARG_DIR, .optional = true},
					 CMD_ARG_END},
	.flags = pool_gc_flags,
	.has_output = true,
	.run = pool_gc_run,
};
