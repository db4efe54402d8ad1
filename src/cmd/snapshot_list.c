/* SPDX-License-Identifier: Apache-2.0 */

#include "cmd/tree.h"

#include "base/err.h"
#include "base/flags.h"
#include "cmd/options.h"
#include "cmd/record.h"
#include "pool/pool.h"

static bool all;

static const struct cairn_flag flags[] = {
	{.name = "all",
	 .letter = 'a',
	 .kind = CAIRN_FLAG_BOOL,
	 .target = &all,
	 .help = "also deleted ones that still answer as base"},
	CAIRN_FLAG_END,
};

static int on_snapshot(void *arg, const struct pool_snapshot *snapshot, struct cairn_err *err)
{
	return cmd_listing_snapshot(arg, snapshot, err);
}

static int run(int argc, char **argv, struct cairn_err *err)
{
	cairn_cleanup(pool_closep) struct pool *pool = NULL;
	struct pool_snapshot_list_spec spec = {.volume = argc > 0 ? argv[0] : NULL,
					       .with_deleted = all};
	struct cmd_listing listing;
	int rc;
	int rc_end;

	rc = cmd_pool_open(CMD_READ, &pool, err);
	if (rc)
		return rc;
	cmd_listing_begin(&listing, "snapshots", cmd_snapshot_columns, cmd_snapshot_columns_n);
	rc = pool_snapshot_list(pool, &spec, on_snapshot, &listing, err);
	rc_end = rc ? 0 : cmd_listing_end(&listing, err);
	return rc ? rc : rc_end;
}

const struct command cmd_snapshot_list = {
	.name = "list",
	.summary = "list snapshots of a volume or of all, oldest first",
	.args =
		(const struct cmd_arg[]){
			{.name = "VOLUME", .kind = CMD_ARG_VOLUME, .optional = true}, CMD_ARG_END},
	.flags = flags,
	.has_output = true,
	.run = run,
};
