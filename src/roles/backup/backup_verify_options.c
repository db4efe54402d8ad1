/* SPDX-License-Identifier: Apache-2.0 */

#include "cli/commands.h"

#include "roles/backup/backup_options.h"

struct cmd_backup_verify cmd_backup_verify = {.repository = &cmd_repository};

static const struct cairn_flag backup_verify_flags[] = {
	CMD_REPOSITORY_FLAGS,
	CMD_LIMIT_FLAGS,
	{.name = "quick",
	 .kind = CAIRN_FLAG_BOOL,
	 .target = &cmd_backup_verify.quick,
	 .help = "check only that all files exist, without reading them"},
	{.name = "repair",
	 .kind = CAIRN_FLAG_BOOL,
	 .target = &cmd_backup_verify.repair,
	 .help = "make index files again; drop what is lost from them"},
	{.name = "subset",
	 .kind = CAIRN_FLAG_STRING,
	 .target = &cmd_backup_verify.subset,
	 .value_name = "N/M|P%|SIZE",
	 .help = "read part N of M, or P % or SIZE by chance"},
	{.name = "protection",
	 .kind = CAIRN_FLAG_BOOL,
	 .target = &cmd_backup_verify.protection,
	 .help = "ask the store (S3) until when nothing can be deleted"},
	CMD_METRICS_FLAG(cmd_backup_verify),
	CAIRN_FLAG_END,
};

static int backup_verify_options_check(int argc, char **argv, struct cairn_err *err)
{
	if (cmd_backup_verify.quick && cmd_backup_verify.subset)
		return cmd_usage(err, "--quick reads no data, so there is no --subset of it");
	cmd_backup_verify.id = argc > 0 ? argv[0] : NULL;
	return 0;
}

const struct command cmd_backup_verify_command = {
	.name = "verify",
	.summary = "prove that backups can be restored",
	.about =
		"Reads every pack and checks every byte in it against hashes and authentication\n"
		"codes; with BACKUP only those that this backup needs. Lists the backups that cannot be\n"
		"restored whole, and which bytes of them are lost. Faults are exit status 15.\n"
		"An index can be made again from the packs. What is lost with a pack is stored\n"
		"again by the next backup of a volume that still has it.\n",
	.args = (const struct cmd_arg[]){{.name = "BACKUP", .kind = CMD_ARG_TEXT, .optional = true},
					 CMD_ARG_END},
	.flags = backup_verify_flags,
	.has_output = true,
	.check = backup_verify_options_check,
};
