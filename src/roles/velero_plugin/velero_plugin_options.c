/* SPDX-License-Identifier: Apache-2.0 */

#include "cli/commands.h"

const struct command cmd_velero_plugin = {
	.name = "velero-plugin",
	.summary = "take CSI snapshots in the backups of a Velero server",
	.about =
		"Item actions of Velero for claims, VolumeSnapshots and their contents. Not for a\n"
		"command line: the file cairn-velero-plugin goes into the plugin directory of a\n"
		"Velero server, which starts it with its own flags.\n",
	.program = "velero-plugin",
};
