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
static const char *from;

static const struct cairn_flag volume_create_flags[] = {
	{.name = "size",
	 .kind = CAIRN_FLAG_SIZE,
	 .target = &size,
	 .value_name = "SIZE",
	 .given = &size_given,
	 .help = "such as 8G; not needed with --from"},
	CAIRN_FLAG_VALUE(STRING, "from", from, "SOURCE",
			 "begin with the data of a volume or of a snapshot"),
	CAIRN_FLAG_END,
};

static int volume_create_run(int argc, char **argv, struct cairn_err *err)
{
	cairn_cleanup(pool_closep) struct pool *pool = NULL;
	struct pool_volume_spec spec = {.name = argv[0], .size = size, .from = from};
	struct pool_volume volume;
	char text[CAIRN_SIZE_TEXT_MAX];
	int rc;

	(void)argc;
	if (!size_given && !from)
		return cmd_usage(err, "--size is missing, such as --size 8G");
	if (size_given && size == 0)
		return cairn_err_set(err, CAIRN_INVALID, "--size must be above 0");
	rc = cmd_pool_open(CMD_WRITE, &pool, err);
	if (!rc)
		rc = pool_volume_create(pool, &spec, &volume, err);
	if (rc)
		return rc;
	if (cmd_options.output == CMD_OUTPUT_TABLE) {
		if (!cmd_options.quiet)
			cmd_outf("volume %s: %s, %s\n", volume.name,
				 cairn_format_size(volume.size, text), volume.id);
		return 0;
	}
	return cmd_json_volume(&volume, err);
}

const struct command cmd_volume_create = {
	.name = "create",
	.summary = "make a volume",
	.about =
		"NAME is any text of up to 128 bytes of UTF-8 without control characters. Without\n"
		"--from the volume reads as zeros.\n",
	.args = (const struct cmd_arg[]){{.name = "NAME", .kind = CMD_ARG_TEXT}, CMD_ARG_END},
	.flags = volume_create_flags,
	.has_output = true,
	.run = volume_create_run,
};
