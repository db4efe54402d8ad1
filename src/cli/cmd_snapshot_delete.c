/* SPDX-License-Identifier: Apache-2.0 */

#include "cli/commands.h"

#include <string.h>

#include "base/err.h"
#include "cli/options.h"
#include "cli/pool_open.h"
#include "pool/pool.h"

static int find_snapshot_id(struct pool *pool, const char *name, char *ret_id)
{
	struct pool_snapshot snapshot;
	int rc = pool_snapshot_get(pool, name, &snapshot, NULL);

	if (!rc && snapshot.deleted)
		return CAIRN_NOT_FOUND;
	if (!rc)
		memcpy(ret_id, snapshot.id, sizeof(snapshot.id));
	return rc;
}

static const struct cmd_deletable snapshots = {
	.find = find_snapshot_id,
	.remove = pool_snapshot_delete,
};

static int snapshot_delete_run(int argc, char **argv, struct cairn_err *err)
{
	cairn_cleanup(pool_closep) struct pool *pool = NULL;
	int rc;

	rc = cmd_pool_open(CMD_WRITE, &pool, err);
	for (int i = 0; i < argc && !rc; i++)
		rc = cmd_pool_delete(&pool, &snapshots, argv[i], err);
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
