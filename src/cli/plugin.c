/* SPDX-License-Identifier: Apache-2.0 */

#include "cli/plugin.h"

#include <stddef.h>
#include <string.h>

#include "cli/commands.h"

#define PROGRAM_NAME "kubectl-cairn"

bool cmd_is_plugin(const char *argv0)
{
	const char *slash = argv0 ? strrchr(argv0, '/') : NULL;

	return argv0 && strcmp(slash ? slash + 1 : argv0, PROGRAM_NAME) == 0;
}

const struct command cmd_plugin = {
	.name = CMD_PLUGIN_NAME,
	.summary = "volumes, snapshots and changed blocks of a cluster",
	.about = "Finds the cluster as kubectl does. Commands that list need rights to do so: the\n"
		 "ClusterRoles cairn-viewer and cairn-viewer-cluster have them.\n",
	.manual = PROGRAM_NAME,
	.subcommands =
		/* clang-format off: one a line, so that changes meet less often */
	(const struct command *const[]){
		&cmd_plugin_nodes,
		&cmd_plugin_volumes,
		&cmd_plugin_snapshots,
		&cmd_plugin_delta,
		&cmd_plugin_map,
		&cmd_plugin_backups,
		&cmd_list_command,
		&cmd_verify_command,
		&cmd_backup_command,
		&cmd_velero,
		&cmd_help,
		&cmd_complete,
		&cmd_plugin_complete,
		NULL,
	},
	/* clang-format on */
};
