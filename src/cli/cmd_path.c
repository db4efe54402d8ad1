/* SPDX-License-Identifier: Apache-2.0 */

/* volume path, snapshot path */
#include "cli/commands.h"

#include "base/err.h"
#include "cli/options.h"
#include "cli/output.h"
#include "cli/pool_open.h"
#include "pool/pool.h"

static int path_print(const char *name,
		      int (*get)(struct pool *pool, const char *name, char **ret,
				 struct cairn_err *err),
		      struct cairn_err *err)
{
	cairn_cleanup(pool_closep) struct pool *pool = NULL;
	cairn_auto_free char *path = NULL;
	int rc = cmd_pool_open(CMD_READ, &pool, err);

	if (!rc)
		rc = get(pool, name, &path, err);
	if (rc)
		return rc;
	cmd_out_text(path);
	cmd_out_text("\n");
	return 0;
}

static int volume_path_run(int argc, char **argv, struct cairn_err *err)
{
	(void)argc;
	return path_print(argv[0], pool_volume_path, err);
}

static int snapshot_path_run(int argc, char **argv, struct cairn_err *err)
{
	(void)argc;
	return path_print(argv[0], pool_snapshot_path, err);
}

const struct command cmd_volume_path = {
	.name = "path",
	.summary = "print the path of a volume's backing file",
	.args = (const struct cmd_arg[]){{.name = "VOLUME", .kind = CMD_ARG_VOLUME}, CMD_ARG_END},
	.run = volume_path_run,
};

const struct command cmd_snapshot_path = {
	.name = "path",
	.summary = "print the path of a snapshot's file, which must not be written to",
	.args = (const struct cmd_arg[]){{.name = "SNAPSHOT", .kind = CMD_ARG_SNAPSHOT},
					 CMD_ARG_END},
	.run = snapshot_path_run,
};
