/* SPDX-License-Identifier: Apache-2.0 */

#include "cli/commands.h"

#include "base/err.h"
#include "base/num.h"
#include "cli/info.h"
#include "cli/output.h"
#include "cli/output_record.h"
#include "pool/pool.h"

struct snapshot_facts {
	struct pool_snapshot snapshot;
	struct cmd_space space;
};

static int snapshot_info_collect(struct pool *pool, const char *name, void *arg,
				 struct cairn_err *err)
{
	struct snapshot_facts *facts = arg;
	int rc = pool_snapshot_get(pool, name, &facts->snapshot, err);

	if (rc || facts->snapshot.deleted)
		return rc;
	return cmd_space_collect(pool, facts->snapshot.id, &facts->space, err);
}

static void print_set(const struct pool_snapshot *snapshot)
{
	char changed[CAIRN_SIZE_TEXT_MAX];
	char zero[CAIRN_SIZE_TEXT_MAX];
	char count[CMD_COUNT_TEXT_MAX];

	if (snapshot->set != POOL_SET_READY) {
		cmd_out_fact("change set", "%s", cmd_set_state_text(snapshot->set));
		return;
	}
	cmd_out_fact("change set", "%s in %s, %s of it zeroed",
		     cairn_format_size(snapshot->set_changed_bytes, changed),
		     cmd_count_text(snapshot->set_extents, "extent", count),
		     cairn_format_size(snapshot->set_zero_bytes, zero));
}

static void snapshot_info_print(const void *arg)
{
	const struct snapshot_facts *facts = arg;
	const struct pool_snapshot *snapshot = &facts->snapshot;
	char text[CAIRN_SIZE_TEXT_MAX];
	char time[CMD_TIME_TEXT_MAX];

	cmd_out_fact("name", "%s@%s", snapshot->volume_name, snapshot->name);
	cmd_out_fact("id", "%s", snapshot->id);
	cmd_out_fact("volume id", "%s", snapshot->volume_id);
	cmd_out_fact("size", "%s", cairn_format_size(snapshot->size, text));
	cmd_out_fact("created", "%s", cmd_time_text(snapshot->created_ns, time));
	cmd_out_fact("predecessor", "%s", *snapshot->parent ? snapshot->parent : "-");
	print_set(snapshot);
	if (snapshot->deleted) {
		cmd_out_fact("state", "deleted; answers as base until %s",
			     cmd_time_text(snapshot->expires_ns, time));
		return;
	}
	cmd_space_print_allocated(&facts->space);
	cmd_space_print(&facts->space);
}

static void snapshot_info_json(struct cairn_json *json, const void *arg)
{
	const struct snapshot_facts *facts = arg;

	cmd_json_snapshot_fields(json, &facts->snapshot);
	cmd_json_field_u64(json, "allocated_bytes", facts->space.allocated);
	cmd_space_json(json, &facts->space, facts->snapshot.deleted);
}

static int snapshot_info_run(int argc, char **argv, struct cairn_err *err)
{
	static const struct cmd_info info = {
		.collect = snapshot_info_collect,
		.print = snapshot_info_print,
		.json = snapshot_info_json,
	};
	struct snapshot_facts facts = {0};

	(void)argc;
	return cmd_info_run(&info, argv[0], &facts, err);
}

const struct command cmd_snapshot_info = {
	.name = "info",
	.summary = "show a snapshot",
	.args = (const struct cmd_arg[]){{.name = "SNAPSHOT", .kind = CMD_ARG_SNAPSHOT},
					 CMD_ARG_END},
	.flags = cmd_info_flags,
	.has_output = true,
	.run = snapshot_info_run,
};
