/* SPDX-License-Identifier: Apache-2.0 */

#include "cli/commands.h"

#include "base/err.h"
#include "cli/options.h"
#include "cli/output.h"
#include "cli/output_record.h"
#include "cli/pool_open.h"
#include "pool/pool.h"

static int volume_rename_run(int argc, char **argv, struct cairn_err *err)
{
	cairn_cleanup(pool_closep) struct pool *pool = NULL;
	struct pool_volume volume;
	int rc = cmd_pool_open(CMD_WRITE, &pool, err);

	(void)argc;
	if (!rc)
		rc = pool_volume_rename(pool, argv[0], argv[1], &volume, err);
	if (rc)
		return rc;
	if (cmd_options.output != CMD_OUTPUT_TABLE)
		return cmd_json_volume(&volume, err);
	if (!cmd_options.quiet)
		cmd_outf("volume %s: %s\n", volume.name, volume.id);
	return 0;
}

const struct command cmd_volume_rename = {
	.name = "rename",
	.summary = "give a volume another name",
	.about = "Its id stays, and so do its snapshots, its device and the backups that later\n"
		 "ones build upon. Existing backups keep the name that the volume had.\n",
	.args = (const struct cmd_arg[]){{.name = "VOLUME", .kind = CMD_ARG_VOLUME},
					 {.name = "NAME", .kind = CMD_ARG_TEXT},
					 CMD_ARG_END},
	.has_output = true,
	.run = volume_rename_run,
};
