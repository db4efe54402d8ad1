/* SPDX-License-Identifier: Apache-2.0 */

#include "cli/commands.h"

#include "cli/keep_flags.h"
#include "roles/backup/backup_options.h"

struct cmd_backup_forget cmd_backup_forget = {.repository = &cmd_repository};

static const struct cairn_flag backup_forget_flags[] = {
	CMD_REPOSITORY_FLAGS,
	CAIRN_FLAG_VALUE(STRING, "volume", cmd_backup_forget.volume, "NAME",
			 "only backups of this volume, by name or id"),
	CMD_POOL_ID_FLAG(cmd_backup_forget),
	CMD_KEEP_FLAGS(cmd_backup_forget),
	{.name = "keep-tag",
	 .kind = CAIRN_FLAG_STRINGS,
	 .target = &cmd_backup_forget.keep_tags,
	 .value_name = "TAG",
	 .help = "keep all that have this tag"},
	CMD_TAG_FLAG(cmd_backup_forget, "only backups that have all of these; again: or these"),
	{.name = "tagged",
	 .kind = CAIRN_FLAG_STRINGS,
	 .target = &cmd_backup_forget.tagged,
	 .value_name = "TAG",
	 .help = "forget every backup that has this tag"},
	CMD_METRICS_FLAG(cmd_backup_forget),
	CAIRN_FLAG_SWITCH("prune", cmd_backup_forget.prune,
			  "then delete the data that no backup needs any more"),
	CAIRN_FLAG_SWITCH("ignore-missing", cmd_backup_forget.ignore_missing,
			  "a BACKUP that is not there is forgotten already"),
	{.name = "dry-run",
	 .letter = 'n',
	 .kind = CAIRN_FLAG_BOOL,
	 .target = &cmd_backup_forget.dry_run,
	 .help = "only show what would be done"},
	CAIRN_FLAG_END,
};

static int backup_forget_options_check(int argc, char **argv, struct cairn_err *err)
{
	bool rule = cmd_backup_forget.last || cmd_backup_forget.hourly || cmd_backup_forget.daily ||
		    cmd_backup_forget.weekly || cmd_backup_forget.monthly ||
		    cmd_backup_forget.yearly || cmd_backup_forget.within_ms ||
		    cmd_backup_forget.keep_tags.n > 0;

	bool named = argc > 0 || cmd_backup_forget.tagged.n > 0;

	if (!named && !rule && !cmd_backup_forget.prune)
		return cmd_usage(err, "name backups, or say which to keep with --keep-...");
	if (named && rule)
		return cmd_usage(err, "either name backups or say which to keep");
	if (!rule && cmd_backup_forget.tags.n > 0)
		return cmd_usage(err, "--tag chooses among the backups that --keep-... is about");
	cmd_backup_forget.ids = argv;
	cmd_backup_forget.n_ids = argc;
	return 0;
}

const struct command cmd_backup_forget_command = {
	.name = "forget",
	.summary = "delete backups by name or by age",
	.about = "Rules are counted for each host, pool and volume on its own.\n"
		 "Without --prune the data stays until a prune, here or by restic.\n",
	.args = (const struct cmd_arg[]){{.name = "BACKUP",
					  .kind = CMD_ARG_TEXT,
					  .optional = true,
					  .repeated = true},
					 CMD_ARG_END},
	.flags = backup_forget_flags,
	.has_output = true,
	.check = backup_forget_options_check,
};
