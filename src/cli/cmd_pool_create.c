/* SPDX-License-Identifier: Apache-2.0 */

#include "cli/commands.h"

#include "base/err.h"
#include "base/flags.h"
#include "cli/options.h"
#include "cli/output.h"
#include "cli/output_record.h"
#include "cli/pool_open.h"
#include "pool/pool.h"

/* In the order of enum pool_backend. */
static const char *const backends[] = {"auto", "btrfs", "reflink", "copy", NULL};

static int backend;
static uint64_t size;
static uint64_t retention_ms;
static uint64_t granularity;
static bool size_given;
static bool retention_given;
static bool granularity_given;
static bool if_missing;
static bool thin;
static const char *ceph_conf;
static const char *ceph_user;

static const struct cairn_flag pool_create_flags[] = {
	{.name = "backend",
	 .kind = CAIRN_FLAG_CHOICE,
	 .target = &backend,
	 .choices = backends,
	 .help = "how data is kept (default: auto, the best there is)"},
	{.name = "size",
	 .kind = CAIRN_FLAG_SIZE,
	 .target = &size,
	 .value_name = "SIZE",
	 .given = &size_given,
	 .help = "of the image file, if one is made (default: by space)"},
	CAIRN_FLAG_SWITCH("thin", thin, "allow an image larger than the space that is free"),
	{.name = "retention",
	 .kind = CAIRN_FLAG_DURATION,
	 .target = &retention_ms,
	 .value_name = "TIME",
	 .given = &retention_given,
	 .help = "how long a deleted snapshot answers as base (default: 90d)"},
	{.name = "granularity",
	 .kind = CAIRN_FLAG_SIZE,
	 .target = &granularity,
	 .value_name = "SIZE",
	 .given = &granularity_given,
	 .help = "smallest change that is tracked (default: 4K)"},
	CAIRN_FLAG_VALUE(STRING, "ceph-conf", ceph_conf, "FILE",
			 "configuration of the Ceph cluster, for a pool rbd:POOL"),
	CAIRN_FLAG_VALUE(STRING, "ceph-user", ceph_user, "NAME",
			 "user of the Ceph cluster (default: admin)"),
	CAIRN_FLAG_SWITCH("if-missing", if_missing, "do nothing if there is a pool already"),
	CAIRN_FLAG_END,
};

/* Rejects 0 from the command line, because in pool_create_spec it means "the default". */
static int pool_create_check(struct cairn_err *err)
{
	if (size_given && size == 0)
		return cairn_err_set(err, CAIRN_INVALID, "--size must be above 0");
	if (retention_given && retention_ms == 0)
		return cairn_err_set(err, CAIRN_INVALID, "--retention must be above 0");
	if (granularity_given && (granularity == 0 || granularity > UINT32_MAX))
		return cairn_err_set(err, CAIRN_INVALID,
				     "--granularity must be above 0 and below 4G");
	return 0;
}

static int pool_create_print(const struct pool_create_result *result, struct cairn_err *err)
{
	struct cairn_json json;

	if (cmd_options.output == CMD_OUTPUT_TABLE) {
		if (!cmd_options.quiet)
			cmd_outf("pool %s: %s%s (%s)\n", cmd_pool_dir(), result->backend,
				 result->image ? " in a loop-mounted image" : "", result->reason);
		return 0;
	}
	cmd_json_begin(&json);
	cairn_json_object_begin(&json);
	cmd_json_field_string(&json, "directory", cmd_pool_dir());
	cmd_json_field_string(&json, "backend", result->backend);
	cmd_json_field_bool(&json, "image", result->image);
	cmd_json_field_string(&json, "reason", result->reason);
	cairn_json_object_end(&json);
	return cmd_json_end(&json, err);
}

/* True if the existing files are a usable pool. */
static bool is_usable(void)
{
	cairn_cleanup(pool_closep) struct pool *pool = NULL;

	return cmd_pool_open(CMD_READ, &pool, NULL) == 0;
}

static int pool_create_run(int argc, char **argv, struct cairn_err *err)
{
	struct pool_create_spec spec = {
		.backend = (enum pool_backend)backend,
		.image_size = size,
		.thin = thin,
		.retention_ms = retention_ms,
		.granularity = (uint32_t)granularity,
		.ceph_conf = ceph_conf,
		.ceph_user = ceph_user,
	};
	struct pool_create_result result = {0};
	int rc = pool_create_check(err);

	if (rc)
		return rc;
	if (argc > 0)
		cmd_options.pool = argv[0];
	spec.dir = cmd_pool_dir();
	rc = pool_create(&spec, &result, err);
	if (rc == CAIRN_EXISTS && if_missing && is_usable())
		return 0;
	return rc ? rc : pool_create_print(&result, err);
}

const struct command cmd_pool_create = {
	.name = "create",
	.summary = "make a pool",
	.about = "A directory on btrfs or on XFS with reflinks is used as it is. Elsewhere a\n"
		 "btrfs image is made in it and loop-mounted; without the right to mount, plain\n"
		 "copies are kept. rbd:POOL[/NAMESPACE] is a pool on a Ceph cluster.\n",
	.args = (const struct cmd_arg[]){{.name = "DIR", .kind = CMD_ARG_DIR, .optional = true},
					 CMD_ARG_END},
	.flags = pool_create_flags,
	.has_output = true,
	.run = pool_create_run,
};
