/* SPDX-License-Identifier: Apache-2.0 */

#include "cli/commands.h"

#include "roles/backup/backup_options.h"

struct cmd_backup_init cmd_backup_init = {.repository = &cmd_repository};

static const struct cairn_flag backup_init_flags[] = {
	CMD_REPOSITORY_FLAGS,
	CMD_OBJECT_LOCK_FLAG,
	CAIRN_FLAG_END,
};

const struct command cmd_backup_init_command = {
	.name = "init",
	.summary = "make an empty repository",
	.about =
		"The repository has restic's format, version 2. Without the password nothing in it\n"
		"can be read: keep it where the repository is not.\n",
	.flags = backup_init_flags,
	.has_output = true,
};
