/* SPDX-License-Identifier: Apache-2.0 */

#include "cli/commands.h"

#include "base/err.h"
#include "cli/options.h"
#include "cli/output.h"
#include "cli/pool_open.h"
#include "pool/device/volume_device.h"
#include "pool/pool.h"

static const struct cmd_arg args[] = {{.name = "SNAPSHOT", .kind = CMD_ARG_SNAPSHOT}, CMD_ARG_END};

static int snapshot_attach_run(int argc, char **argv, struct cairn_err *err)
{
	cairn_cleanup(pool_closep) struct pool *pool = NULL;
	char device[DEVICE_PATH_MAX];
	int rc;

	(void)argc;
	rc = cmd_pool_open(CMD_WRITE, &pool, err);
	if (!rc)
		rc = pool_snapshot_attach(pool, argv[0], device, sizeof(device), err);
	if (rc == CAIRN_DENIED)
		return cairn_err_wrap(err, "attaching needs root; 'cairn snapshot path' does not");
	if (!rc)
		cmd_outf("%s\n", device);
	return rc;
}

const struct command cmd_snapshot_attach = {
	.name = "attach",
	.summary = "make a snapshot a read-only block device and print its path",
	.about = "A snapshot that is attached already keeps its device.\n",
	.args = args,
	.run = snapshot_attach_run,
};

static int snapshot_detach_run(int argc, char **argv, struct cairn_err *err)
{
	cairn_cleanup(pool_closep) struct pool *pool = NULL;
	int rc;

	(void)argc;
	rc = cmd_pool_open(CMD_WRITE, &pool, err);
	return rc ? rc : pool_snapshot_detach(pool, argv[0], err);
}

const struct command cmd_snapshot_detach = {
	.name = "detach",
	.summary = "take a snapshot's block device away",
	.about = "A snapshot that is not attached stays as it is.\n",
	.args = args,
	.run = snapshot_detach_run,
};
