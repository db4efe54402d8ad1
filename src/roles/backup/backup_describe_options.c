/* SPDX-License-Identifier: Apache-2.0 */

#include "cli/commands.h"

#include "roles/backup/backup_options.h"

struct cmd_backup_describe cmd_backup_describe = {.repository = &cmd_repository};

static const struct cairn_flag backup_describe_flags[] = {
	CMD_REPOSITORY_FLAGS,
	CMD_CHOICE_FLAGS(cmd_backup_describe),
	CAIRN_FLAG_END,
};

static int backup_describe_options_check(int argc, char **argv, struct cairn_err *err)
{
	(void)argc;
	(void)err;
	cmd_backup_describe.id = argv[0];
	return 0;
}

const struct command cmd_backup_describe_command = {
	.name = "describe",
	.summary = "show everything about a backup",
	.about = CMD_BACKUP_NAMES,
	.args = (const struct cmd_arg[]){{.name = "BACKUP", .kind = CMD_ARG_TEXT}, CMD_ARG_END},
	.flags = backup_describe_flags,
	.has_output = true,
	.check = backup_describe_options_check,
};
