/* SPDX-License-Identifier: Apache-2.0 */

/* attach and detach, of volumes and snapshots */
#include "cli/commands.h"

#include <string.h>

#include "base/err.h"
#include "base/flags.h"
#include "cli/link.h"
#include "cli/options.h"
#include "cli/output.h"
#include "cli/output_record.h"
#include "cli/pool_open.h"
#include "pool/device/volume_device.h"
#include "pool/pool.h"

static bool read_only;
static const char *link_path;

#define LINK_FLAG(text)                                                          \
	{                                                                        \
		.name = "link", .kind = CAIRN_FLAG_STRING, .target = &link_path, \
		.value_name = "FILE", .help = text                               \
	}

static const struct cairn_flag attach_flags[] = {
	LINK_FLAG("also make this symbolic link to the device"),
	{.name = "read-only",
	 .letter = 'r',
	 .kind = CAIRN_FLAG_BOOL,
	 .target = &read_only,
	 .help = "make a device that refuses writes"},
	CAIRN_FLAG_END,
};

static const struct cairn_flag detach_flags[] = {
	LINK_FLAG("also remove this symbolic link, which 'attach' made"),
	CAIRN_FLAG_END,
};

static const struct cmd_arg volume_args[] = {{.name = "VOLUME", .kind = CMD_ARG_VOLUME},
					     CMD_ARG_END};
static const struct cmd_arg snapshot_args[] = {{.name = "SNAPSHOT", .kind = CMD_ARG_SNAPSHOT},
					       CMD_ARG_END};

/* Standard output has the device alone, for scripts; a kind that was chosen is a remark. */
static int attach_print(struct pool *pool, const char *device, struct cairn_err *err)
{
	const char *kind = pool_device_kind(pool, device);
	struct cairn_json json;

	if (cmd_options.output == CMD_OUTPUT_TABLE) {
		cmd_outf("%s\n", device);
		if (strcmp(kind, "loop") != 0)
			cmd_note("%s is attached by %s", device, kind);
		return 0;
	}
	cmd_json_begin(&json);
	cairn_json_object_begin(&json);
	cmd_json_field_string(&json, "device", device);
	cmd_json_field_string(&json, "device_kind", kind);
	cairn_json_object_end(&json);
	return cmd_json_end(&json, err);
}

/* Only volumes have --read-only and --link; a snapshot's flags are never set. */
static int attach_run(const char *name, bool snapshot, struct cairn_err *err)
{
	cairn_cleanup(pool_closep) struct pool *pool = NULL;
	char device[DEVICE_PATH_MAX];
	int rc = cmd_pool_open(CMD_WRITE, &pool, err);

	if (!rc && snapshot)
		rc = pool_snapshot_attach(pool, name, device, sizeof(device), err);
	else if (!rc)
		rc = pool_volume_attach(pool, name, read_only, device, sizeof(device), err);
	if (rc == CAIRN_DENIED)
		return cairn_err_wrap(err, "attaching needs root; 'cairn %s path' does not",
				      snapshot ? "snapshot" : "volume");
	if (!rc && link_path) {
		rc = cmd_link_make(link_path, device, err);
		if (rc)
			cairn_err_wrap(err, "attached as %s", device);
	}
	return rc ? rc : attach_print(pool, device, err);
}

static int detach_run(const char *name,
		      int (*detach)(struct pool *pool, const char *name, struct cairn_err *err),
		      struct cairn_err *err)
{
	cairn_cleanup(pool_closep) struct pool *pool = NULL;
	int rc = cmd_pool_open(CMD_WRITE, &pool, err);

	if (!rc)
		rc = detach(pool, name, err);
	/* Remove the link last: it must exist as long as the volume is attached. */
	if (!rc && link_path)
		rc = cmd_link_remove(link_path, err);
	return rc;
}

static int volume_attach_run(int argc, char **argv, struct cairn_err *err)
{
	(void)argc;
	return attach_run(argv[0], false, err);
}

static int volume_detach_run(int argc, char **argv, struct cairn_err *err)
{
	(void)argc;
	return detach_run(argv[0], pool_volume_detach, err);
}

static int snapshot_attach_run(int argc, char **argv, struct cairn_err *err)
{
	(void)argc;
	return attach_run(argv[0], true, err);
}

static int snapshot_detach_run(int argc, char **argv, struct cairn_err *err)
{
	(void)argc;
	return detach_run(argv[0], pool_snapshot_detach, err);
}

const struct command cmd_volume_attach = {
	.name = "attach",
	.summary = "make a volume a block device and print its path",
	.about = "A volume that is attached already keeps its device.\n",
	.args = volume_args,
	.flags = attach_flags,
	.has_output = true,
	.run = volume_attach_run,
};

const struct command cmd_volume_detach = {
	.name = "detach",
	.summary = "detach a volume's block device",
	.about = "A volume that is not attached stays as it is.\n",
	.args = volume_args,
	.flags = detach_flags,
	.run = volume_detach_run,
};

const struct command cmd_snapshot_attach = {
	.name = "attach",
	.summary = "make a snapshot a read-only block device and print its path",
	.about = "A snapshot that is attached already keeps its device.\n",
	.args = snapshot_args,
	.has_output = true,
	.run = snapshot_attach_run,
};

const struct command cmd_snapshot_detach = {
	.name = "detach",
	.summary = "detach a snapshot's block device",
	.about = "A snapshot that is not attached stays as it is.\n",
	.args = snapshot_args,
	.run = snapshot_detach_run,
};
