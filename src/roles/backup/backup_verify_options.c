/* SPDX-License-Identifier: Apache-2.0 */

#include "cli/commands.h"

#include "roles/backup/backup_options.h"

static struct cmd_backup_verify options;

static const struct cairn_flag flags[] = {
	CMD_REPOSITORY_FLAGS,
	CMD_LIMIT_FLAGS,
	{.name = "quick",
	 .kind = CAIRN_FLAG_BOOL,
	 .target = &options.quick,
	 .help = "only that everything is there, without reading the data"},
	{.name = "repair",
	 .kind = CAIRN_FLAG_BOOL,
	 .target = &options.repair,
	 .help = "make index files again; drop what is lost from them"},
	{.name = "subset",
	 .kind = CAIRN_FLAG_STRING,
	 .target = &options.subset,
	 .value_name = "N/M|P%|SIZE",
	 .help = "read part N of M, or P % or SIZE by chance"},
	{.name = "protection",
	 .kind = CAIRN_FLAG_BOOL,
	 .target = &options.protection,
	 .help = "ask the store (S3) until when nothing can be deleted"},
	CMD_METRICS_FLAG(options),
	CAIRN_FLAG_END,
};

static int run(int argc, char **argv, struct cairn_err *err)
{
	if (options.quick && options.subset)
		return cmd_usage(err, "--quick reads no data, so there is no --subset of it");
	options.repository = &cmd_repository;
	options.id = argc > 0 ? argv[0] : NULL;
	return cmd_backup_call("cairn_backup_verify", &options, err);
}

const struct command cmd_backup_verify_command = {
	.name = "verify",
	.summary = "prove that backups can be restored",
	.about =
		"Reads every pack and checks every byte in it against hashes and authentication\n"
		"codes; with BACKUP only those that this backup needs. Says which backups cannot be\n"
		"restored whole, and which bytes of them are lost. Faults are exit status 15.\n"
		"An index can be made again from the packs. What is lost with a pack is stored\n"
		"again by the next backup of a volume that still has it.\n",
	.args = (const struct cmd_arg[]){{.name = "BACKUP", .kind = CMD_ARG_TEXT, .optional = true},
					 CMD_ARG_END},
	.flags = flags,
	.has_output = true,
	.run = run,
};
