/* SPDX-License-Identifier: Apache-2.0 */

#include "cli/commands.h"

#include "base/err.h"
#include "cli/options.h"
#include "cli/output.h"
#include "cli/pool_open.h"
#include "pool/pool.h"

static int volume_path_run(int argc, char **argv, struct cairn_err *err)
{
	cairn_cleanup(pool_closep) struct pool *pool = NULL;
	cairn_auto_free char *path = NULL;
	int rc;

	(void)argc;
	rc = cmd_pool_open(CMD_READ, &pool, err);
	if (!rc)
		rc = pool_volume_path(pool, argv[0], &path, err);
	if (rc)
		return rc;
	cmd_out_text(path);
	cmd_out_text("\n");
	return 0;
}

const struct command cmd_volume_path = {
	.name = "path",
	.summary = "print the path of a volume's backing file",
	.args = (const struct cmd_arg[]){{.name = "VOLUME", .kind = CMD_ARG_VOLUME}, CMD_ARG_END},
	.run = volume_path_run,
};
