/* SPDX-License-Identifier: Apache-2.0 */

#include "cli/commands.h"

#include "base/err.h"
#include "cli/options.h"
#include "cli/pool_open.h"
#include "pool/pool.h"

static int snapshot_delete_run(int argc, char **argv, struct cairn_err *err)
{
	cairn_cleanup(pool_closep) struct pool *pool = NULL;
	int rc;

	rc = cmd_pool_open(CMD_WRITE, &pool, err);
	for (int i = 0; i < argc && !rc; i++)
		rc = pool_snapshot_delete(pool, argv[i], err);
	return rc;
}

const struct command cmd_snapshot_delete = {
	.name = "delete",
	.alias = "rm",
	.summary = "delete snapshots",
	.about = "A deleted snapshot can still be the base of 'cairn delta' for the pool's\n"
		 "retention time. Ends at the first snapshot that cannot be deleted.\n",
	.args =
		(const struct cmd_arg[]){
			{.name = "SNAPSHOT", .kind = CMD_ARG_SNAPSHOT, .repeated = true},
			CMD_ARG_END},
	.run = snapshot_delete_run,
};
