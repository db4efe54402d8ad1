/* SPDX-License-Identifier: Apache-2.0 */

#include "cli/space.h"

#include "base/num.h"
#include "cli/output.h"
#include "cli/output_record.h"

int cmd_space_collect(struct pool *pool, const char *id, bool alone, struct cmd_space *ret,
		      struct cairn_err *err)
{
	int rc = pool_allocated_bytes(pool, id, &ret->allocated, err);

	ret->alone = alone;
	if (!rc)
		rc = pool_usage_get(pool, id, NULL, &ret->usage, err);
	if (!rc && alone)
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
	if (space->alone)
		cmd_out_fact("alone", "%s", cairn_format_size(space->exclusive, text));
	cmd_out_fact("device", "%s", *usage->device ? usage->device : "-");
	cmd_out_fact("mounted", "%s", *usage->mounted ? usage->mounted : "-");
}

void cmd_space_json(struct cairn_json *json, const struct cmd_space *space, bool deleted)
{
	cmd_json_usage_fields(json, deleted ? NULL : &space->usage);
	if (space->alone)
		cmd_json_field_u64(json, "exclusive_bytes", space->exclusive);
}
