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

static bool used;

static const struct cairn_flag volume_info_flags[] = {
	CAIRN_FLAG_SWITCH("used", used, "also what it alone holds; may take long"),
	CAIRN_FLAG_END,
};

struct facts {
	struct pool_volume volume;
	uint64_t allocated;
	struct pool_usage usage;
	uint64_t exclusive;
	char *path; /* NULL where the store has no files */
};

static int volume_info_collect(struct pool *pool, const char *name, struct facts *facts,
			       struct cairn_err *err)
{
	int rc = pool_volume_get(pool, name, &facts->volume, err);

	if (rc || facts->volume.deleted)
		return rc;
	rc = pool_allocated_bytes(pool, facts->volume.id, &facts->allocated, err);
	if (!rc)
		rc = pool_volume_path(pool, facts->volume.id, &facts->path, err);
	if (rc == CAIRN_UNIMPLEMENTED)
		rc = 0;
	if (!rc)
		rc = pool_usage_get(pool, facts->volume.id, NULL, &facts->usage, err);
	if (!rc && used)
		rc = pool_exclusive_bytes(pool, facts->volume.id, &facts->exclusive, err);
	return rc;
}

static void volume_info_print_facts(const struct facts *facts)
{
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
	cmd_out_fact("allocated", "%s", cairn_format_size(facts->allocated, text));
	cmd_out_fact("path", "%s", facts->path ? facts->path : "-");
	cmd_out_fact("used", "%s", cairn_format_size(facts->usage.used_bytes, text));
	if (used)
		cmd_out_fact("alone", "%s", cairn_format_size(facts->exclusive, text));
	cmd_out_fact("device", "%s", *facts->usage.device ? facts->usage.device : "-");
	cmd_out_fact("mounted", "%s", *facts->usage.mounted ? facts->usage.mounted : "-");
}

static int volume_info_print_json(const struct facts *facts, struct cairn_err *err)
{
	struct cairn_json json;

	cmd_json_begin(&json);
	cairn_json_object_begin(&json);
	cmd_json_volume_fields(&json, &facts->volume);
	cmd_json_field_u64(&json, "allocated_bytes", facts->allocated);
	cmd_json_field_string(&json, "path", facts->path);
	cmd_json_usage_fields(&json, facts->volume.deleted ? NULL : &facts->usage);
	if (used)
		cmd_json_field_u64(&json, "exclusive_bytes", facts->exclusive);
	cairn_json_object_end(&json);
	return cmd_json_end(&json, err);
}

static int volume_info_run(int argc, char **argv, struct cairn_err *err)
{
	cairn_cleanup(pool_closep) struct pool *pool = NULL;
	struct facts facts = {0};
	int rc;

	(void)argc;
	rc = cmd_pool_open(CMD_READ, &pool, err);
	if (!rc)
		rc = volume_info_collect(pool, argv[0], &facts, err);
	if (!rc && cmd_options.output == CMD_OUTPUT_TABLE)
		volume_info_print_facts(&facts);
	else if (!rc)
		rc = volume_info_print_json(&facts, err);
	free(facts.path);
	return rc;
}

const struct command cmd_volume_info = {
	.name = "info",
	.summary = "show a volume",
	.args = (const struct cmd_arg[]){{.name = "VOLUME", .kind = CMD_ARG_VOLUME}, CMD_ARG_END},
	.flags = volume_info_flags,
	.has_output = true,
	.run = volume_info_run,
};
