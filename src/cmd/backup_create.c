/* SPDX-License-Identifier: Apache-2.0 */

#include "cmd/tree.h"

#include "cmd/backup.h"

static const char *const modes[] = {"changed", "allocated", "full", NULL};

static struct cmd_backup_create options;

static const struct cairn_flag flags[] = {
	CMD_REPOSITORY_FLAGS,
	CMD_THREADS_FLAG,
	{.name = "mode",
	 .kind = CAIRN_FLAG_CHOICE,
	 .target = &options.mode,
	 .choices = modes,
	 .value_name = "changed|allocated|full",
	 .help = "what is read at best (default: changed)"},
	{.name = "parent",
	 .kind = CAIRN_FLAG_STRING,
	 .target = &options.parent,
	 .value_name = "ID",
	 .help = "backup to build on (default: the nearest ancestor's)"},
	{.name = "host",
	 .kind = CAIRN_FLAG_STRING,
	 .target = &options.host,
	 .value_name = "NAME",
	 .help = "host that the backup is recorded for (default: this one)"},
	{.name = "compression",
	 .kind = CAIRN_FLAG_I64,
	 .target = &options.compression,
	 .value_name = "LEVEL",
	 .help = "of zstd; -1 for none (default: 3)"},
	{.name = "fixed-chunks",
	 .kind = CAIRN_FLAG_SIZE,
	 .target = &options.fixed,
	 .value_name = "SIZE",
	 .help = "cut everything to this, for comparing",
	 .hidden = true},
	{.name = "push-gateway",
	 .kind = CAIRN_FLAG_STRING,
	 .target = &options.push_gateway,
	 .value_name = "URL",
	 .help = "send metrics there when it is done"},
	CAIRN_FLAG_END,
};

static int run(int argc, char **argv, struct cairn_err *err)
{
	(void)argc;
	options.repository = &cmd_repository;
	options.snapshot = argv[0];
	return cmd_backup_call("cairn_backup_create", &options, err);
}

const struct command cmd_backup_create_command = {
	.name = "create",
	.summary = "back up a snapshot",
	.about =
		"The first backup of a volume reads what is allocated; later ones read what changed\n"
		"since the nearest snapshot that has a backup, and take the rest from there. Every\n"
		"backup is whole to whoever restores it. Interrupted, it goes on where it was.\n",
	.args = (const struct cmd_arg[]){{.name = "SNAPSHOT", .kind = CMD_ARG_SNAPSHOT},
					 CMD_ARG_END},
	.flags = flags,
	.has_output = true,
	.run = run,
};
