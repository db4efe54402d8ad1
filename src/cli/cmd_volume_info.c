/* SPDX-License-Identifier: Apache-2.0 */

#include "cli/commands.h"

#include "base/err.h"
#include "base/num.h"
#include "cli/info.h"
#include "cli/output.h"
#include "cli/output_record.h"
#include "pool/pool.h"

struct volume_facts {
	struct pool_volume volume;
	struct cmd_space space;
	char *path; /* NULL where the store has no files */
};

static int volume_info_collect(struct pool *pool, const char *name, void *arg,
			       struct cairn_err *err)
{
	struct volume_facts *facts = arg;
	int rc = pool_volume_get(pool, name, &facts->volume, err);

	if (rc || facts->volume.deleted)
		return rc;
	rc = pool_volume_path(pool, facts->volume.id, &facts->path, err);
	if (rc && rc != CAIRN_UNIMPLEMENTED)
		return rc;
	return cmd_space_collect(pool, facts->volume.id, &facts->space, err);
}

static void volume_info_print(const void *arg)
{
	const struct volume_facts *facts = arg;
	const struct pool_volume *volume = &facts->volume;
	char text[CAIRN_SIZE_TEXT_MAX];
	char created[CMD_TIME_TEXT_MAX];
	char retention[CMD_DURATION_TEXT_MAX];

	cmd_out_fact("name", "%s", volume->name);
	cmd_out_fact("id", "%s", volume->id);
	cmd_out_fact("size", "%s", cairn_format_size(volume->size, text));
	cmd_out_fact("created", "%s", cmd_time_text(volume->created_ns, created));
	cmd_out_fact("origin", "%s", *volume->origin ? volume->origin : "-");
	if (*volume->restoring)
		cmd_out_fact("restoring", "%s (not finished)", volume->restoring);
	cmd_out_fact("retention", "%s", cmd_duration_text(volume->retention_ms, retention));
	cmd_out_fact("granularity", "%u bytes", volume->granularity);
	if (volume->deleted) {
		cmd_out_fact("state", "deleted; snapshots of it live on");
		return;
	}
	cmd_space_print_allocated(&facts->space);
	cmd_out_fact("path", "%s", facts->path ? facts->path : "-");
	cmd_space_print(&facts->space);
}

static void volume_info_json(struct cairn_json *json, const void *arg)
{
	const struct volume_facts *facts = arg;

	cmd_json_volume_fields(json, &facts->volume);
	cmd_json_field_u64(json, "allocated_bytes", facts->space.allocated);
	cmd_json_field_string(json, "path", facts->path);
	cmd_space_json(json, &facts->space, facts->volume.deleted);
}

static int volume_info_run(int argc, char **argv, struct cairn_err *err)
{
	static const struct cmd_info info = {
		.collect = volume_info_collect,
		.print = volume_info_print,
		.json = volume_info_json,
	};
	struct volume_facts facts = {0};
	int rc;

	(void)argc;
	rc = cmd_info_run(&info, argv[0], &facts, err);
	free(facts.path);
	return rc;
}

const struct command cmd_volume_info = {
	.name = "info",
	.summary = "show a volume",
	.args = (const struct cmd_arg[]){{.name = "VOLUME", .kind = CMD_ARG_VOLUME}, CMD_ARG_END},
	.flags = cmd_info_flags,
	.has_output = true,
	.run = volume_info_run,
};
