/* SPDX-License-Identifier: Apache-2.0 */

#include "cli/commands.h"

#include <string.h>

#include "base/err.h"
#include "base/flags.h"
#include "cli/options.h"
#include "cli/pool_open.h"
#include "pool/pool.h"

static bool keep_snapshots;
static bool with_snapshots;

static const struct cairn_flag volume_delete_flags[] = {
	CAIRN_FLAG_SWITCH("keep-snapshots", keep_snapshots, "its snapshots stay, reachable by id"),
	CAIRN_FLAG_SWITCH("with-snapshots", with_snapshots, "its snapshots are deleted too"),
	CAIRN_FLAG_END,
};

static int delete_one_volume(struct pool *pool, const char *name, struct cairn_err *err)
{
	enum pool_volume_delete_mode mode = keep_snapshots   ? POOL_DELETE_KEEP_SNAPSHOTS
					    : with_snapshots ? POOL_DELETE_SNAPSHOTS
							     : POOL_DELETE_REFUSE;

	return pool_volume_delete(pool, name, mode, err);
}

static int find_volume_id(struct pool *pool, const char *name, char *ret_id)
{
	struct pool_volume volume;
	int rc = pool_volume_get(pool, name, &volume, NULL);

	if (!rc && volume.deleted)
		return CAIRN_NOT_FOUND;
	if (!rc)
		memcpy(ret_id, volume.id, sizeof(volume.id));
	return rc;
}

static const struct cmd_deletable volumes = {
	.find = find_volume_id,
	.remove = delete_one_volume,
};

static int volume_delete_run(int argc, char **argv, struct cairn_err *err)
{
	cairn_cleanup(pool_closep) struct pool *pool = NULL;
	int rc;

	if (keep_snapshots && with_snapshots)
		return cmd_usage(err, "--keep-snapshots and --with-snapshots exclude each other");
	rc = cmd_pool_open(CMD_WRITE, &pool, err);
	for (int i = 0; i < argc && !rc; i++)
		rc = cmd_pool_delete(&pool, &volumes, argv[i], err);
	return rc;
}

const struct command cmd_volume_delete = {
	.name = "delete",
	.alias = "rm",
	.summary = "delete volumes",
	.about = "A volume that has snapshots is refused unless one of the options says what\n"
		 "becomes of them. Ends at the first volume that cannot be deleted.\n",
	.args =
		(const struct cmd_arg[]){
			{.name = "VOLUME", .kind = CMD_ARG_VOLUME, .repeated = true}, CMD_ARG_END},
	.flags = volume_delete_flags,
	.run = volume_delete_run,
};
