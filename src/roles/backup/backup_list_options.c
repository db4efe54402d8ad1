/* SPDX-License-Identifier: Apache-2.0 */

#include "cli/commands.h"

#include "roles/backup/backup_options.h"

static struct cmd_backup_list options;

static const struct cairn_flag flags[] = {
	CMD_REPOSITORY_FLAGS,
	{.name = "volume",
	 .kind = CAIRN_FLAG_STRING,
	 .target = &options.volume,
	 .value_name = "NAME",
	 .help = "only backups of this volume, by name or id"},
	CMD_TAG_FLAG(options, "only backups that have all of these; again: or these"),
	CAIRN_FLAG_END,
};

static int run(int argc, char **argv, struct cairn_err *err)
{
	(void)argc;
	(void)argv;
	options.repository = &cmd_repository;
	return cmd_backup_call("cairn_backup_list", &options, err);
}

const struct command cmd_backup_list_command = {
	.name = "list",
	.alias = "ls",
	.summary = "list backups, oldest first",
	.about = "Snapshots that restic made in the same repository are listed too.\n",
	.flags = flags,
	.has_output = true,
	.run = run,
};
