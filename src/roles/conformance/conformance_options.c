/* SPDX-License-Identifier: Apache-2.0 */

#include "roles/conformance/conformance_options.h"

#include "base/flags.h"
#include "cli/commands.h"
#include "conformance/options.h"

#define SIZE_DEFAULT       (64ULL << 20)
#define TIMEOUT_DEFAULT_MS 60000

struct suite_options conformance_options = {
	.staging_dir = "/tmp",
	.size = SIZE_DEFAULT,
	.timeout_ms = TIMEOUT_DEFAULT_MS,
};

static const struct cairn_flag conformance_flags[] = {
	{.name = "endpoint",
	 .kind = CAIRN_FLAG_STRING,
	 .target = &conformance_options.endpoint,
	 .value_name = "unix:///PATH",
	 .help = "socket of the driver to test (required)"},
	{.name = "only",
	 .kind = CAIRN_FLAG_STRING,
	 .target = &conformance_options.only,
	 .value_name = "PATTERN",
	 .help = "run only tests whose names match, such as 'stream.*'"},
	{.name = "list",
	 .kind = CAIRN_FLAG_BOOL,
	 .target = &conformance_options.list,
	 .help = "name the tests and their rules, and run none"},
	{.name = "thorough",
	 .kind = CAIRN_FLAG_BOOL,
	 .target = &conformance_options.thorough,
	 .help = "start from every offset that may matter, not from some"},
	{.name = "junit-file",
	 .kind = CAIRN_FLAG_STRING,
	 .target = &conformance_options.junit_file,
	 .value_name = "FILE",
	 .help = "also write the results as JUnit XML"},
	{.name = "size",
	 .kind = CAIRN_FLAG_SIZE,
	 .target = &conformance_options.size,
	 .value_name = "SIZE",
	 .help = "of the volume to make (default: 64M)"},
	{.name = "timeout",
	 .kind = CAIRN_FLAG_DURATION,
	 .target = &conformance_options.timeout_ms,
	 .value_name = "TIME",
	 .help = "limit of one call (default: 60s)"},
	{.name = "staging-dir",
	 .kind = CAIRN_FLAG_STRING,
	 .target = &conformance_options.staging_dir,
	 .value_name = "DIR",
	 .help = "where volumes are staged and published (default: /tmp)"},
	{.name = "parameters",
	 .kind = CAIRN_FLAG_STRING,
	 .target = &conformance_options.parameters,
	 .value_name = "KEY=VALUE,...",
	 .help = "parameters of CreateVolume, as in a StorageClass"},
	{.name = "snapshot-parameters",
	 .kind = CAIRN_FLAG_STRING,
	 .target = &conformance_options.snapshot_parameters,
	 .value_name = "KEY=VALUE,...",
	 .help = "parameters of CreateSnapshot, as in a VolumeSnapshotClass"},
	{.name = "secrets-file",
	 .kind = CAIRN_FLAG_STRING,
	 .target = &conformance_options.secrets_file,
	 .value_name = "FILE",
	 .help = "lines KEY=VALUE, given to every call that takes secrets"},
	CAIRN_FLAG_END,
};

static int conformance_options_check(int argc, char **argv, struct cairn_err *err)
{
	(void)argc;
	(void)argv;
	if (!conformance_options.endpoint && !conformance_options.list)
		return cmd_usage(err, "--endpoint is required");
	return 0;
}

const struct command cmd_conformance = {
	.name = "conformance",
	.summary = "test a CSI driver's SnapshotMetadata service",
	.about = "Makes volumes in the driver, writes to them, cuts snapshots, and holds what the\n"
		 "driver says about them against the rules of CSI. Takes away what it made.\n"
		 "Results go to standard output as TAP.\n",
	.flags = conformance_flags,
	.check = conformance_options_check,
	.program = "conformance",
};
