/* SPDX-License-Identifier: Apache-2.0 */

#include "cli/commands.h"

#include "cli/keep_flags.h"
#include "roles/backup/backup_options.h"

static struct cmd_backup_forget options;

static const struct cairn_flag flags[] = {
	CMD_REPOSITORY_FLAGS,
	{.name = "volume",
	 .kind = CAIRN_FLAG_STRING,
	 .target = &options.volume,
	 .value_name = "NAME",
	 .help = "only backups of this volume, by name or id"},
	CMD_KEEP_FLAGS(options),
	{.name = "keep-tag",
	 .kind = CAIRN_FLAG_STRINGS,
	 .target = &options.keep_tags,
	 .value_name = "TAG",
	 .help = "keep all that have this tag"},
	CMD_TAG_FLAG(options, "only backups that have all of these; again: or these"),
	CMD_METRICS_FLAG(options),
	{.name = "prune",
	 .kind = CAIRN_FLAG_BOOL,
	 .target = &options.prune,
	 .help = "then delete the data that no backup needs any more"},
	{.name = "dry-run",
	 .letter = 'n',
	 .kind = CAIRN_FLAG_BOOL,
	 .target = &options.dry_run,
	 .help = "only say what would be done"},
	CAIRN_FLAG_END,
};

static int run(int argc, char **argv, struct cairn_err *err)
{
	bool rule = options.last || options.hourly || options.daily || options.weekly ||
		    options.monthly || options.yearly || options.within_ms ||
		    options.keep_tags.n > 0;

	if (argc == 0 && !rule && !options.prune)
		return cmd_usage(err, "name backups, or say which to keep with --keep-...");
	if (argc > 0 && rule)
		return cmd_usage(err, "either name backups or say which to keep");
	if (!rule && options.tags.n > 0)
		return cmd_usage(err, "--tag chooses among the backups that --keep-... is about");
	options.repository = &cmd_repository;
	options.ids = argv;
	options.n_ids = argc;
	return cmd_backup_call("cairn_backup_forget", &options, err);
}

const struct command cmd_backup_forget_command = {
	.name = "forget",
	.summary = "delete backups by name or by age",
	.about = "Rules are counted for each host and volume on its own, as restic counts them.\n"
		 "Without --prune the data stays until a prune, here or by restic.\n",
	.args = (const struct cmd_arg[]){{.name = "BACKUP",
					  .kind = CMD_ARG_TEXT,
					  .optional = true,
					  .repeated = true},
					 CMD_ARG_END},
	.flags = flags,
	.has_output = true,
	.run = run,
};
