/* SPDX-License-Identifier: Apache-2.0 */

#include "cli/commands.h"

#include "base/err.h"
#include "base/flags.h"
#include "cli/options.h"
#include "cli/output.h"
#include "cli/output_record.h"
#include "cli/pool_open.h"
#include "pool/pool.h"

static uint64_t retention_ms;
static uint64_t granularity;
static bool retention_given;
static bool granularity_given;

static const struct cairn_flag volume_modify_flags[] = {
	{.name = "retention",
	 .kind = CAIRN_FLAG_DURATION,
	 .target = &retention_ms,
	 .value_name = "TIME",
	 .given = &retention_given,
	 .help = "of snapshots deleted from now on; 0: the pool's"},
	{.name = "granularity",
	 .kind = CAIRN_FLAG_SIZE,
	 .target = &granularity,
	 .value_name = "SIZE",
	 .given = &granularity_given,
	 .help = "of change sets made from now on; 0: the pool's"},
	CAIRN_FLAG_END,
};

static int volume_modify_print(const struct pool_volume *volume, struct cairn_err *err)
{
	char text[CMD_DURATION_TEXT_MAX];

	if (cmd_options.output == CMD_OUTPUT_TABLE) {
		if (!cmd_options.quiet)
			cmd_outf("volume %s: retention %s, granularity %u bytes\n", volume->name,
				 cmd_duration_text(volume->retention_ms, text),
				 volume->granularity);
		return 0;
	}
	return cmd_json_volume(volume, err);
}

static int volume_modify_run(int argc, char **argv, struct cairn_err *err)
{
	cairn_cleanup(pool_closep) struct pool *pool = NULL;
	struct pool_volume_settings settings = {
		.set_retention = retention_given,
		.retention_ms = retention_ms,
		.set_granularity = granularity_given,
		.granularity = (uint32_t)granularity,
	};
	struct pool_volume volume;
	int rc;

	(void)argc;
	if (!retention_given && !granularity_given)
		return cmd_usage(err, "nothing to modify: use --retention, --granularity or both");
	if (granularity > UINT32_MAX)
		return cairn_err_set(err, CAIRN_INVALID, "--granularity must be below 4G");
	rc = cmd_pool_open(CMD_WRITE, &pool, err);
	if (!rc)
		rc = pool_volume_modify(pool, argv[0], &settings, &volume, err);
	return rc ? rc : volume_modify_print(&volume, err);
}

const struct command cmd_volume_modify = {
	.name = "modify",
	.summary = "change how long and how finely a volume's changes are kept",
	.args = (const struct cmd_arg[]){{.name = "VOLUME", .kind = CMD_ARG_VOLUME}, CMD_ARG_END},
	.flags = volume_modify_flags,
	.has_output = true,
	.run = volume_modify_run,
};
