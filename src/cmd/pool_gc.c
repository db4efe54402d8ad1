/* SPDX-License-Identifier: Apache-2.0 */

#include "cmd/tree.h"

#include "base/err.h"
#include "base/flags.h"
#include "cmd/options.h"
#include "cmd/output.h"
#include "cmd/record.h"
#include "pool/pool.h"

static uint64_t max;

static const struct cairn_flag flags[] = {
	{.name = "max",
	 .kind = CAIRN_FLAG_U64,
	 .target = &max,
	 .value_name = "N",
	 .help = "merge at most so many (default: 0, all)"},
	CAIRN_FLAG_END,
};

static int run(int argc, char **argv, struct cairn_err *err)
{
	cairn_cleanup(pool_closep) struct pool *pool = NULL;
	struct cairn_json json;
	size_t merged = 0;
	int rc;

	if (argc > 0)
		cmd_options.pool = argv[0];
	rc = cmd_pool_open(CMD_WRITE, &pool, err);
	if (!rc)
		rc = pool_expire(pool, max ? max : SIZE_MAX, &merged, err);
	if (rc)
		return rc;
	if (cmd_options.output == CMD_OUTPUT_TABLE) {
		if (!cmd_options.quiet)
			cmd_outf("%zu deleted snapshots merged and gone\n", merged);
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
	.flags = flags,
	.has_output = true,
	.run = run,
};
