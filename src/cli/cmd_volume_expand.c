/* SPDX-License-Identifier: Apache-2.0 */

#include "cli/commands.h"

#include "base/err.h"
#include "base/flags.h"
#include "base/num.h"
#include "cli/options.h"
#include "cli/output.h"
#include "cli/output_record.h"
#include "cli/pool_open.h"
#include "pool/pool.h"

static uint64_t size;
static bool size_given;

static const struct cairn_flag volume_expand_flags[] = {
	{.name = "size",
	 .kind = CAIRN_FLAG_SIZE,
	 .target = &size,
	 .value_name = "SIZE",
	 .given = &size_given,
	 .help = "the new size, such as 16G"},
	CAIRN_FLAG_END,
};

static int volume_expand_run(int argc, char **argv, struct cairn_err *err)
{
	cairn_cleanup(pool_closep) struct pool *pool = NULL;
	struct pool_volume volume;
	char text[CAIRN_SIZE_TEXT_MAX];
	int rc;

	(void)argc;
	if (!size_given)
		return cmd_usage(err, "--size is missing, such as --size 16G");
	rc = cmd_pool_open(CMD_WRITE, &pool, err);
	if (!rc)
		rc = pool_volume_expand(pool, argv[0], size, &volume, err);
	if (rc)
		return rc;
	if (cmd_options.output == CMD_OUTPUT_TABLE) {
		if (!cmd_options.quiet)
			cmd_outf("volume %s: %s\n", volume.name,
				 cairn_format_size(volume.size, text));
		return 0;
	}
	return cmd_json_volume(&volume, err);
}

const struct command cmd_volume_expand = {
	.name = "expand",
	.summary = "make a volume larger",
	.about = "An attached device grows with it. A volume never shrinks.\n",
	.args = (const struct cmd_arg[]){{.name = "VOLUME", .kind = CMD_ARG_VOLUME}, CMD_ARG_END},
	.flags = volume_expand_flags,
	.has_output = true,
	.run = volume_expand_run,
};
