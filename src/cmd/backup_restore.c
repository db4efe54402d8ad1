/* SPDX-License-Identifier: Apache-2.0 */

#include "cmd/tree.h"

#include "cmd/backup.h"

static struct cmd_backup_restore options;

static const struct cairn_flag flags[] = {
	CMD_REPOSITORY_FLAGS,
	CMD_THREADS_FLAG,
	{.name = "to",
	 .kind = CAIRN_FLAG_STRING,
	 .target = &options.to,
	 .value_name = "FILE|DEVICE|VOLUME",
	 .help = "where to (required); with a '/' it is a path"},
	{.name = "overwrite",
	 .kind = CAIRN_FLAG_BOOL,
	 .target = &options.overwrite,
	 .help = "write over what exists there"},
	{.name = "base",
	 .kind = CAIRN_FLAG_STRING,
	 .target = &options.base,
	 .value_name = "ID",
	 .help = "the target holds this backup: write what differs"},
	{.name = "path",
	 .kind = CAIRN_FLAG_STRING,
	 .target = &options.path,
	 .value_name = "PATH",
	 .help = "restore this file of the backup, whoever made it"},
	{.name = "verify",
	 .kind = CAIRN_FLAG_BOOL,
	 .target = &options.verify,
	 .help = "read all of it back and compare"},
	CAIRN_FLAG_END,
};

static int run(int argc, char **argv, struct cairn_err *err)
{
	(void)argc;
	if (!options.to)
		return cmd_usage(err, "--to is required");
	options.repository = &cmd_repository;
	options.id = argv[0];
	return cmd_backup_call("cairn_backup_restore", &options, err);
}

const struct command cmd_backup_restore_command = {
	.name = "restore",
	.summary = "write a backup to a file, a device or a volume",
	.about = "ID is the beginning of a backup's id, or latest. A new file appears when it is\n"
		 "whole. On a volume that has a snapshot with a backup, only what differs is\n"
		 "written.\n",
	.args = (const struct cmd_arg[]){{.name = "ID", .kind = CMD_ARG_TEXT}, CMD_ARG_END},
	.flags = flags,
	.has_output = true,
	.run = run,
};
