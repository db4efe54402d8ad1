/* SPDX-License-Identifier: Apache-2.0 */

#include "cli/commands.h"

#include "roles/backup/backup_options.h"

static struct cmd_mount options;

static const struct cairn_flag flags[] = {
	CMD_REPOSITORY_FLAGS,
	{.name = "allow-other",
	 .kind = CAIRN_FLAG_BOOL,
	 .target = &options.allow_other,
	 .help = "let other users look into it"},
	CAIRN_FLAG_END,
};

static int run(int argc, char **argv, struct cairn_err *err)
{
	(void)argc;
	options.repository = &cmd_repository;
	options.dir = argv[0];
	return cmd_backup_call("cairn_mount", &options, err);
}

const struct command cmd_mount_command = {
	.name = "mount",
	.summary = "show all backups as files",
	.about =
		"Each backup is a directory of DIR named by its id, with the volume as one file that\n"
		"can be loop-mounted at once. Stays until DIR is unmounted or a signal comes.\n",
	.args = (const struct cmd_arg[]){{.name = "DIR", .kind = CMD_ARG_DIR}, CMD_ARG_END},
	.flags = flags,
	.run = run,
};
