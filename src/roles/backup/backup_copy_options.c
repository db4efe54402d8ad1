/* SPDX-License-Identifier: Apache-2.0 */

#include "cli/commands.h"

#include "roles/backup/backup_options.h"

struct cmd_backup_copy cmd_backup_copy = {.repository = &cmd_repository};

static const struct cairn_flag backup_copy_flags[] = {
	CMD_REPOSITORY_FLAGS,
	CMD_LIMIT_FLAGS,
	CMD_THREADS_FLAG,
	CAIRN_FLAG_VALUE(STRING, "from", cmd_backup_copy.from.location, "LOCATION",
			 "repository to copy from (required)"),
	CAIRN_FLAG_VALUE(STRING, "from-password-file", cmd_backup_copy.from.password_file, "FILE",
			 "holds its password (or RESTIC_FROM_PASSWORD_FILE)"),
	CAIRN_FLAG_VALUE(STRING, "from-password-command", cmd_backup_copy.from.password_command,
			 "COMMAND", "prints its password (or RESTIC_FROM_PASSWORD_COMMAND)"),
	CAIRN_FLAG_END,
};

static int backup_copy_options_check(int argc, char **argv, struct cairn_err *err)
{
	if (!cmd_backup_copy.from.location)
		return cmd_usage(err, "--from is required");
	cmd_backup_copy.from.ca_file = cmd_repository.ca_file;
	cmd_backup_copy.from.limit_upload = cmd_repository.limit_upload;
	cmd_backup_copy.from.limit_download = cmd_repository.limit_download;
	cmd_backup_copy.ids = argv;
	cmd_backup_copy.n_ids = argc;
	return 0;
}

const struct command cmd_backup_copy_command = {
	.name = "copy",
	.summary = "copy backups from another repository",
	.about =
		"Copies those named, or all. What is there already is not sent again; backups that\n"
		"were copied before are left alone.\n",
	.args = (const struct cmd_arg[]){{.name = "BACKUP",
					  .kind = CMD_ARG_TEXT,
					  .optional = true,
					  .repeated = true},
					 CMD_ARG_END},
	.flags = backup_copy_flags,
	.has_output = true,
	.check = backup_copy_options_check,
};
