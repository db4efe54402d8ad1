/* SPDX-License-Identifier: Apache-2.0 */

#include "cli/commands.h"

#include "roles/backup/backup_options.h"

static struct cmd_backup_describe options;

static const struct cairn_flag flags[] = {
	CMD_REPOSITORY_FLAGS,
	CMD_CHOICE_FLAGS(options),
	CAIRN_FLAG_END,
};

static int run(int argc, char **argv, struct cairn_err *err)
{
	(void)argc;
	options.repository = &cmd_repository;
	options.id = argv[0];
	return cmd_backup_call("cairn_backup_describe", &options, err);
}

const struct command cmd_backup_describe_command = {
	.name = "describe",
	.summary = "say everything about a backup",
	.about = CMD_BACKUP_NAMES,
	.args = (const struct cmd_arg[]){{.name = "BACKUP", .kind = CMD_ARG_TEXT}, CMD_ARG_END},
	.flags = flags,
	.has_output = true,
	.run = run,
};
