/* SPDX-License-Identifier: Apache-2.0 */

#include "cli/cmd_verify.h"

#include "cli/commands.h"

struct cmd_verify cmd_verify = {.service = CLIENT_FLAGS_INIT};

/* clang-format off */
static const struct cairn_flag verify_flags[] = {
	CLIENT_FLAG_TEXT("source-device-path", 0, cmd_verify.source_device, "DEV",
			 "the snapshot's data; copied from"),
	CLIENT_FLAG_TEXT("target-device-path", 0, cmd_verify.target_device, "DEV",
			 "copied to; must be empty, or hold the base"),
	/* Aliases: the names that external-snapshot-metadata's verifier uses. */
	{.name = "src", .kind = CAIRN_FLAG_STRING, .target = &cmd_verify.source_device, .value_name = "DEV",
	 .help = "the same as --source-device-path", .hidden = true},
	{.name = "tgt", .kind = CAIRN_FLAG_STRING, .target = &cmd_verify.target_device, .value_name = "DEV",
	 .help = "the same as --target-device-path", .hidden = true},
	CLIENT_QUERY_FLAGS(cmd_verify.service),
	CLIENT_SERVICE_FLAGS(cmd_verify.service),
	CAIRN_FLAG_END,
};
/* clang-format on */

static int verify_options_check(int argc, char **argv, struct cairn_err *err)
{
	if ((cmd_verify.source_device || cmd_verify.target_device) && argc > 0)
		return cmd_usage(err, "'%s': devices are verified without BASE and TARGET",
				 argv[0]);
	if (!cmd_verify.source_device != !cmd_verify.target_device)
		return cmd_usage(err, "--source-device-path and --target-device-path go together");
	if (cmd_verify.source_device)
		return cmd_client_flags_finish(&cmd_verify.service, err);
	if (argc < 2)
		return cmd_usage(err, "%s is missing; see 'cairn verify --help'",
				 argc ? "TARGET" : "BASE");
	cmd_verify.base = argv[0];
	cmd_verify.target = argv[1];
	return 0;
}

const struct command cmd_verify_command = {
	.name = "verify",
	.summary = "prove that nothing outside a delta differs",
	.about =
		"Reads the data of both snapshots wherever 'cairn delta BASE TARGET' reports\n"
		"nothing, and what it reports as zero. Ends with status 15 if the\n"
		"data and the delta disagree.\n"
		"\n"
		"With --source-device-path instead of snapshots: copies the blocks that 'cairn list'\n"
		"lists from one device to the other, then compares the two from end to end, as the Go\n"
		"program snapshot-metadata-verifier does, whose options it accepts, also with one dash.\n",
	.args =
		(const struct cmd_arg[]){
			{.name = "BASE", .kind = CMD_ARG_SNAPSHOT, .optional = true},
			{.name = "TARGET", .kind = CMD_ARG_SNAPSHOT, .optional = true},
			CMD_ARG_END},
	.flags = verify_flags,
	.go_flags = true,
	.has_output = true,
	.check = verify_options_check,
	.program = "client",
};
