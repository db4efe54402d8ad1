/* SPDX-License-Identifier: Apache-2.0 */

#include "cli/commands.h"

#include <stddef.h>

#include "base/flags.h"
#include "cli/options.h"
#include "cli/output.h"
#include "pool/pool.h"

static bool yes;

static const struct cairn_flag pool_destroy_flags[] = {
	CAIRN_FLAG_SWITCH("yes", yes, "really do it: every volume and snapshot is lost"),
	CAIRN_FLAG_END,
};

static int pool_destroy_run(int argc, char **argv, struct cairn_err *err)
{
	int rc;

	if (argc > 0)
		cmd_options.pool = argv[0];
	if (!yes)
		return cmd_usage(err,
				 "this removes every volume of pool '%s'; use --yes to confirm",
				 cmd_pool_dir());
	rc = pool_destroy(cmd_pool_dir(), err);
	if (!rc && !cmd_options.quiet)
		cmd_outf("pool %s removed\n", cmd_pool_dir());
	return rc;
}

const struct command cmd_pool_destroy = {
	.name = "destroy",
	.summary = "remove a pool with all its volumes",
	.about =
		"Detaches, unmounts and removes what 'cairn pool create' and later commands made,\n"
		"and nothing else.\n",
	.args = (const struct cmd_arg[]){{.name = "DIR", .kind = CMD_ARG_DIR, .optional = true},
					 CMD_ARG_END},
	.flags = pool_destroy_flags,
	.run = pool_destroy_run,
};
