/* SPDX-License-Identifier: Apache-2.0 */

#include "cli/commands.h"

#include "roles/backup/backup_options.h"

struct cmd_mount cmd_mount = {.repository = &cmd_repository};

static const struct cairn_flag mount_flags[] = {
	CMD_REPOSITORY_FLAGS,
	CAIRN_FLAG_SWITCH("allow-other", cmd_mount.allow_other, "let other users read it"),
	CAIRN_FLAG_END,
};

static int mount_options_check(int argc, char **argv, struct cairn_err *err)
{
	(void)argc;
	(void)err;
	cmd_mount.dir = argv[0];
	return 0;
}

const struct command cmd_mount_command = {
	.name = "mount",
	.summary = "show all backups as files",
	.about =
		"Each backup is a directory of DIR named by its id, with the volume as one file that\n"
		"can be loop-mounted at once. Stays until DIR is unmounted or a signal arrives.\n",
	.args = (const struct cmd_arg[]){{.name = "DIR", .kind = CMD_ARG_DIR}, CMD_ARG_END},
	.flags = mount_flags,
	.check = mount_options_check,
	.program = "backup",
};
