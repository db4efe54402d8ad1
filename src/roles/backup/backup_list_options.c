/* SPDX-License-Identifier: Apache-2.0 */

#include "cli/commands.h"

#include "roles/backup/backup_options.h"

struct cmd_backup_list cmd_backup_list = {.repository = &cmd_repository};

static const struct cairn_flag backup_list_flags[] = {
	CMD_REPOSITORY_FLAGS,
	CAIRN_FLAG_VALUE(STRING, "volume", cmd_backup_list.volume, "NAME",
			 "only backups of this volume, by name or id"),
	CMD_POOL_ID_FLAG(cmd_backup_list),
	CMD_TAG_FLAG(cmd_backup_list, "only backups that have all of these; again: or these"),
	CAIRN_FLAG_END,
};

const struct command cmd_backup_list_command = {
	.name = "list",
	.alias = "ls",
	.summary = "list backups, oldest first",
	.about = "Snapshots that restic made in the same repository are listed too.\n",
	.flags = backup_list_flags,
	.has_output = true,
};
