/* SPDX-License-Identifier: Apache-2.0 */

#include "roles/client/list.h"

#include <stddef.h>

#include "cli/commands.h"
#include "cli/options.h"

struct client_flags cmd_list = CLIENT_FLAGS_INIT;

static const char *const formats[] = {"table", "json", "ndjson", NULL};

static const struct cairn_flag list_flags[] = {
	CLIENT_QUERY_FLAGS(cmd_list),
	CAIRN_FLAG_SWITCH("fall-back", cmd_list.query.fall_back,
			  "list allocated blocks when changed ones are not known"),
	CLIENT_SERVICE_FLAGS(cmd_list),
	/* The name that external-snapshot-metadata's lister has for --output. */
	{.name = "output-format",
	 .kind = CAIRN_FLAG_CHOICE,
	 .target = &cmd_options.output,
	 .choices = formats,
	 .help = "the same as --output",
	 .hidden = true},
	CAIRN_FLAG_END,
};

static int list_options_check(int argc, char **argv, struct cairn_err *err)
{
	(void)argc;
	(void)argv;
	return cmd_client_flags_finish(&cmd_list, err);
}

const struct command cmd_list_command = {
	.name = "list",
	.summary = "list allocated or changed blocks of a VolumeSnapshot",
	.about =
		"Asks the SnapshotMetadata service of the snapshot's CSI driver. A stream that\n"
		"breaks is resumed where it broke. Ends with 0 only when the list is\n"
		"complete. Accepts the options of the Go program snapshot-metadata-lister, also with\n"
		"one dash.\n",
	.flags = list_flags,
	.go_flags = true,
	.has_output = true,
	.check = list_options_check,
	.program = "client",
};
