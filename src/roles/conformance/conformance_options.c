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
	CAIRN_FLAG_VALUE(STRING, "endpoint", conformance_options.endpoint, "unix:///PATH",
			 "socket of the driver to test (required)"),
	CAIRN_FLAG_VALUE(STRING, "only", conformance_options.only, "PATTERN",
			 "run only tests whose names match, such as 'stream.*'"),
	CAIRN_FLAG_SWITCH("list", conformance_options.list,
			  "list the tests and their rules without running them"),
	CAIRN_FLAG_SWITCH("thorough", conformance_options.thorough,
			  "start from every offset that may matter, not from some"),
	CAIRN_FLAG_VALUE(STRING, "junit-file", conformance_options.junit_file, "FILE",
			 "also write the results as JUnit XML"),
	CAIRN_FLAG_VALUE(SIZE, "size", conformance_options.size, "SIZE",
			 "of the volume to make (default: 64M)"),
	CAIRN_FLAG_VALUE(DURATION, "timeout", conformance_options.timeout_ms, "TIME",
			 "limit of one call (default: 60s)"),
	CAIRN_FLAG_VALUE(STRING, "staging-dir", conformance_options.staging_dir, "DIR",
			 "where volumes are staged and published (default: /tmp)"),
	CAIRN_FLAG_VALUE(STRING, "parameters", conformance_options.parameters, "KEY=VALUE,...",
			 "parameters of CreateVolume, as in a StorageClass"),
	CAIRN_FLAG_VALUE(STRING, "snapshot-parameters", conformance_options.snapshot_parameters,
			 "KEY=VALUE,...",
			 "parameters of CreateSnapshot, as in a VolumeSnapshotClass"),
	CAIRN_FLAG_VALUE(STRING, "secrets-file", conformance_options.secrets_file, "FILE",
			 "lines KEY=VALUE, given to every call that takes secrets"),
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
	.about = "Makes volumes in the driver, writes to them, cuts snapshots, and checks the\n"
		 "driver's answers about them against the rules of CSI. Removes what it made.\n"
		 "Results go to standard output as TAP.\n",
	.flags = conformance_flags,
	.check = conformance_options_check,
	.program = "conformance",
};
