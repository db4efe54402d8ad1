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

static const char *adopt_name;

static const struct cairn_flag adopt_flags[] = {
	CAIRN_FLAG_VALUE(STRING, "name", adopt_name, "NAME",
			 "of the volume (default: the name of the image)"),
	CAIRN_FLAG_END,
};

static int volume_adopt_run(int argc, char **argv, struct cairn_err *err)
{
	cairn_cleanup(pool_closep) struct pool *pool = NULL;
	struct pool_volume volume;
	char text[CAIRN_SIZE_TEXT_MAX];
	int rc = cmd_pool_open(CMD_WRITE, &pool, err);

	(void)argc;
	if (!rc)
		rc = pool_volume_adopt(pool, argv[0], adopt_name ? adopt_name : argv[0], &volume,
				       err);
	if (rc)
		return rc;
	if (cmd_options.output != CMD_OUTPUT_TABLE)
		return cmd_json_volume(&volume, err);
	if (!cmd_options.quiet)
		cmd_outf("volume %s: %s, %s\n", volume.name, cairn_format_size(volume.size, text),
			 volume.id);
	return 0;
}

const struct command cmd_volume_adopt = {
	.name = "adopt",
	.summary = "make a volume of an image that a Ceph pool already holds",
	.about =
		"IMAGE is an image in the namespace of a pool on Ceph, as ceph-csi or 'rbd create' made\n"
		"it. It is renamed to the id of the new volume, so nothing else may use it by its old\n"
		"name. It must not be open for writing, nor have snapshots.\n",
	.args = (const struct cmd_arg[]){{.name = "IMAGE", .kind = CMD_ARG_TEXT}, CMD_ARG_END},
	.flags = adopt_flags,
	.has_output = true,
	.run = volume_adopt_run,
};
