/* SPDX-License-Identifier: Apache-2.0 */

#include "cli/commands.h"

#include <inttypes.h>

#include "base/err.h"
#include "base/num.h"
#include "cli/options.h"
#include "cli/output.h"
#include "cli/output_record.h"
#include "cli/pool_open.h"
#include "pool/pool.h"

static void pool_info_print_facts(const struct pool_info *info)
{
	char total[CAIRN_SIZE_TEXT_MAX];
	char available[CAIRN_SIZE_TEXT_MAX];
	char retention[CMD_DURATION_TEXT_MAX];

	cmd_out_fact("directory", "%s", info->dir);
	cmd_out_fact("back end", "%s%s%s", info->backend,
		     info->image ? ", in a loop-mounted image" : "",
		     info->read_only ? ", read-only" : "");
	cmd_out_fact("space", "%s free of %s", cairn_format_size(info->free_bytes, available),
		     cairn_format_size(info->total_bytes, total));
	cmd_out_fact("volumes", "%" PRIu64, info->volumes);
	cmd_out_fact("snapshots", "%" PRIu64 ", and %" PRIu64 " deleted that still answer",
		     info->snapshots, info->tombstones);
	cmd_out_fact("retention", "%s", cmd_duration_text(info->retention_ms, retention));
	cmd_out_fact("granularity", "%" PRIu32 " bytes", info->granularity);
}

static int pool_info_print_json(const struct pool_info *info, struct cairn_err *err)
{
	struct cairn_json json;

	cmd_json_begin(&json);
	cairn_json_object_begin(&json);
	cmd_json_field_string(&json, "directory", info->dir);
	cmd_json_field_string(&json, "backend", info->backend);
	cmd_json_field_bool(&json, "image", info->image);
	cmd_json_field_bool(&json, "read_only", info->read_only);
	cmd_json_field_u64(&json, "total_bytes", info->total_bytes);
	cmd_json_field_u64(&json, "free_bytes", info->free_bytes);
	cmd_json_field_u64(&json, "volumes", info->volumes);
	cmd_json_field_u64(&json, "snapshots", info->snapshots);
	cmd_json_field_u64(&json, "tombstones", info->tombstones);
	cmd_json_field_u64(&json, "retention_ms", info->retention_ms);
	cmd_json_field_u64(&json, "granularity_bytes", info->granularity);
	cairn_json_object_end(&json);
	return cmd_json_end(&json, err);
}

static int pool_info_run(int argc, char **argv, struct cairn_err *err)
{
	cairn_cleanup(pool_closep) struct pool *pool = NULL;
	struct pool_info info;
	int rc;

	if (argc > 0)
		cmd_options.pool = argv[0];
	rc = cmd_pool_open(CMD_QUERY, &pool, err);
	if (!rc)
		rc = pool_info_get(pool, &info, err);
	if (rc)
		return rc;
	if (cmd_options.output != CMD_OUTPUT_TABLE)
		return pool_info_print_json(&info, err);
	pool_info_print_facts(&info);
	return 0;
}

const struct command cmd_pool_info = {
	.name = "info",
	.summary = "show a pool's back end, space and contents",
	.args = (const struct cmd_arg[]){{.name = "DIR", .kind = CMD_ARG_DIR, .optional = true},
					 CMD_ARG_END},
	.has_output = true,
	.run = pool_info_run,
};
