/* SPDX-License-Identifier: Apache-2.0 */

#include "cmd/tree.h"

#include "cmd/backup.h"

static struct cmd_backup_verify options;

static const struct cairn_flag flags[] = {
	CMD_REPOSITORY_FLAGS,
	{.name = "quick",
	 .kind = CAIRN_FLAG_BOOL,
	 .target = &options.quick,
	 .help = "only that everything is there, without reading the data"},
	{.name = "repair",
	 .kind = CAIRN_FLAG_BOOL,
	 .target = &options.repair,
	 .help = "first make index files that are damaged or missing again"},
	CAIRN_FLAG_END,
};

static int run(int argc, char **argv, struct cairn_err *err)
{
	options.repository = &cmd_repository;
	options.id = argc > 0 ? argv[0] : NULL;
	return cmd_backup_call("cairn_backup_verify", &options, err);
}

const struct command cmd_backup_verify_command = {
	.name = "verify",
	.summary = "prove that backups can be restored",
	.about = "Reads every pack and checks every byte in it against hashes and authentication\n"
		 "codes; with ID only those that this backup needs. Faults are exit status 15.\n"
		 "An index can be made again from the packs; what is damaged in a pack cannot.\n",
	.args = (const struct cmd_arg[]){{.name = "ID", .kind = CMD_ARG_TEXT, .optional = true},
					 CMD_ARG_END},
	.flags = flags,
	.has_output = true,
	.run = run,
};
