/* SPDX-License-Identifier: Apache-2.0 */

#include "cli/commands.h"

#include "roles/backup/backup_options.h"

static const struct cairn_flag flags[] = {
	CMD_REPOSITORY_FLAGS,
	CMD_OBJECT_LOCK_FLAG,
	CAIRN_FLAG_END,
};

static int run(int argc, char **argv, struct cairn_err *err)
{
	struct cmd_backup_init options = {.repository = &cmd_repository};

	(void)argc;
	(void)argv;
	return cmd_backup_call("cairn_backup_init", &options, err);
}

const struct command cmd_backup_init_command = {
	.name = "init",
	.summary = "make an empty repository",
	.about =
		"The repository has restic's format, version 2. Without the password nothing in it\n"
		"can be read: keep it where the repository is not.\n",
	.flags = flags,
	.has_output = true,
	.run = run,
};
