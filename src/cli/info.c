/* SPDX-License-Identifier: Apache-2.0 */

#include "cli/info.h"

#include "base/num.h"
#include "cli/options.h"
#include "cli/output.h"
#include "cli/output_record.h"
#include "cli/pool_open.h"

static bool info_used;

const struct cairn_flag cmd_info_flags[] = {
	CAIRN_FLAG_SWITCH("used", info_used, "also what it alone holds; may take long"),
	CAIRN_FLAG_END,
};

int cmd_space_collect(struct pool *pool, const char *id, struct cmd_space *ret,
		      struct cairn_err *err)
{
	int rc = pool_allocated_bytes(pool, id, &ret->allocated, err);

	if (!rc)
		rc = pool_usage_get(pool, id, NULL, &ret->usage, err);
	if (!rc && info_used)
		rc = pool_exclusive_bytes(pool, id, &ret->exclusive, err);
	return rc;
}

void cmd_space_print_allocated(const struct cmd_space *space)
{
	char text[CAIRN_SIZE_TEXT_MAX];

	cmd_out_fact("allocated", "%s", cairn_format_size(space->allocated, text));
}

void cmd_space_print(const struct cmd_space *space)
{
	const struct pool_usage *usage = &space->usage;
	char text[CAIRN_SIZE_TEXT_MAX];

	cmd_out_fact("used", "%s", cairn_format_size(usage->used_bytes, text));
	if (info_used)
		cmd_out_fact("alone", "%s", cairn_format_size(space->exclusive, text));
	if (usage->device_kind)
		cmd_out_fact("device", "%s (%s)", usage->device, usage->device_kind);
	else
		cmd_out_fact("device", "-");
	cmd_out_fact("mounted", "%s", *usage->mounted ? usage->mounted : "-");
}

void cmd_space_json(struct cairn_json *json, const struct cmd_space *space, bool deleted)
{
	cmd_json_usage_fields(json, deleted ? NULL : &space->usage);
	if (info_used)
		cmd_json_field_u64(json, "exclusive_bytes", space->exclusive);
}

int cmd_info_run(const struct cmd_info *info, const char *name, void *facts, struct cairn_err *err)
{
	cairn_cleanup(pool_closep) struct pool *pool = NULL;
	struct cairn_json json;
	int rc = cmd_pool_open(CMD_READ, &pool, err);

	if (!rc)
		rc = info->collect(pool, name, facts, err);
	if (rc)
		return rc;
	if (cmd_options.output == CMD_OUTPUT_TABLE) {
		info->print(facts);
		return 0;
	}
	cmd_json_begin(&json);
	cairn_json_object_begin(&json);
	info->json(&json, facts);
	cairn_json_object_end(&json);
	return cmd_json_end(&json, err);
}
