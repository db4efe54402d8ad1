/* SPDX-License-Identifier: Apache-2.0 */

#include "cmd/tree.h"

#include "cmd/backup.h"

static const struct cairn_flag flags[] = {
	CMD_REPOSITORY_FLAGS,
	CAIRN_FLAG_END,
};

static int run(int argc, char **argv, struct cairn_err *err)
{
	struct cmd_backup_describe options = {.repository = &cmd_repository, .id = argv[0]};

	(void)argc;
	return cmd_backup_call("cairn_backup_describe", &options, err);
}

const struct command cmd_backup_describe_command = {
	.name = "describe",
	.summary = "say everything about a backup",
	.about = "ID is the beginning of a backup's id, or latest.\n",
	.args = (const struct cmd_arg[]){{.name = "ID", .kind = CMD_ARG_TEXT}, CMD_ARG_END},
	.flags = flags,
	.has_output = true,
	.run = run,
};
