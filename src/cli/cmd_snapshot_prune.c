/* SPDX-License-Identifier: Apache-2.0 */

#include "cli/commands.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/keep.h"
#include "base/mem.h"
#include "cli/keep_flags.h"
#include "cli/options.h"
#include "cli/output.h"
#include "cli/output_record.h"
#include "cli/pool_open.h"
#include "pool/pool.h"

#define REASONS_TEXT_MAX 96

static struct cairn_keep_policy keep;
static bool dry_run;

static const struct cairn_flag snapshot_prune_flags[] = {
	CMD_KEEP_FLAGS(keep),
	{.name = "dry-run",
	 .letter = 'n',
	 .kind = CAIRN_FLAG_BOOL,
	 .target = &dry_run,
	 .help = "only show what would be done"},
	CAIRN_FLAG_END,
};

static const struct cmd_column columns[] = {
	{.title = "WHAT"}, {.title = "SNAPSHOT"}, {.title = "CREATED"}, {.title = "KEPT BY"}};

struct report {
	struct cmd_listing listing;
	uint64_t removed;
	uint64_t kept;
};

static const char *reasons_text(unsigned reasons, char out[REASONS_TEXT_MAX])
{
	size_t len = 0;

	out[0] = '\0';
	for (unsigned bit = 1; bit <= reasons; bit <<= 1)
		if (reasons & bit && len < REASONS_TEXT_MAX)
			len += (size_t)snprintf(out + len, REASONS_TEXT_MAX - len, "%s%s",
						len ? ", " : "", pool_keep_reason_text(bit));
	return out;
}

static int snapshot_prune_add_row(struct report *report, const struct pool_snapshot *snapshot,
				  unsigned reasons, struct cairn_err *err)
{
	char name[CMD_SNAPSHOT_TEXT_MAX];
	char created[CMD_TIME_TEXT_MAX];
	char why[REASONS_TEXT_MAX];
	const char *cells[] = {reasons ? "keep" : "remove", cmd_snapshot_text(snapshot, name),
			       cmd_time_text(snapshot->created_ns, created),
			       reasons ? reasons_text(reasons, why) : "-"};

	return cmd_table_add(&report->listing.table, cells, err);
}

static void add_record(struct cairn_json *json, const struct pool_snapshot *snapshot,
		       unsigned reasons)
{
	cairn_json_object_begin(json);
	cmd_json_field_string(json, "id", snapshot->id);
	cmd_json_field_string(json, "name", snapshot->name);
	cmd_json_field_string(json, "volume", snapshot->volume_name);
	cmd_json_field_string(json, "volume_id", snapshot->volume_id);
	cmd_json_field_time(json, "created_at", snapshot->created_ns);
	cmd_json_field_bool(json, "removed", reasons == 0);
	cmd_json_field_bool(json, "dry_run", dry_run);
	cairn_json_key(json, "reasons");
	cairn_json_array_begin(json);
	for (unsigned bit = 1; bit <= reasons; bit <<= 1)
		if (reasons & bit)
			cairn_json_string(json, pool_keep_reason_text(bit));
	cairn_json_array_end(json);
	cairn_json_object_end(json);
	if (cmd_options.output == CMD_OUTPUT_NDJSON)
		cairn_json_newline(json);
}

static int snapshot_prune_on_snapshot(void *arg, const struct pool_snapshot *snapshot,
				      unsigned reasons, struct cairn_err *err)
{
	struct report *report = arg;

	if (reasons)
		report->kept++;
	else
		report->removed++;
	if (cmd_options.output == CMD_OUTPUT_TABLE)
		return snapshot_prune_add_row(report, snapshot, reasons, err);
	add_record(&report->listing.json, snapshot, reasons);
	return 0;
}

struct volumes {
	char (*ids)[POOL_ID_MAX + 1];
	size_t n;
};

static int snapshot_prune_add_volume(void *arg, const struct pool_volume *volume,
				     struct cairn_err *err)
{
	struct volumes *volumes = arg;
	void *more = cairn_realloc_array(volumes->ids, volumes->n + 1, sizeof(*volumes->ids));

	if (!more)
		return cairn_err_nomem(err, "list of volumes");
	volumes->ids = more;
	memcpy(volumes->ids[volumes->n++], volume->id, sizeof(volume->id));
	return 0;
}

/* Look up all names before anything is deleted. */
static int cmd_snapshot_prune_find_volumes(struct pool *pool, int argc, char **argv,
					   struct volumes *ret, struct cairn_err *err)
{
	int rc = 0;

	if (argc == 0)
		return pool_volume_list(pool, NULL, snapshot_prune_add_volume, ret, err);
	for (int i = 0; i < argc && !rc; i++) {
		struct pool_volume volume;

		rc = pool_volume_get(pool, argv[i], &volume, err);
		if (!rc)
			rc = snapshot_prune_add_volume(ret, &volume, err);
	}
	return rc;
}

/* A volume that was deleted in the meantime is skipped. */
static int snapshot_prune_all(struct pool *pool, const struct volumes *volumes,
			      struct report *report, struct cairn_err *err)
{
	struct pool_prune_spec spec = {
		.keep = keep, .dry_run = dry_run, .fn = snapshot_prune_on_snapshot, .arg = report};
	int result = 0;

	for (size_t i = 0; i < volumes->n; i++) {
		struct cairn_err why = {0};
		int rc;

		spec.volume = volumes->ids[i];
		rc = pool_snapshot_prune(pool, &spec, &why);
		if (!rc || rc == CAIRN_NOT_FOUND || result)
			continue;
		result = rc;
		*err = why;
	}
	return result;
}

static int snapshot_prune_finish(struct report *report, struct cairn_err *err)
{
	char count[CMD_COUNT_TEXT_MAX];
	int rc;

	if (cmd_options.output == CMD_OUTPUT_TABLE && cmd_options.quiet) {
		cmd_table_done(&report->listing.table);
		return 0;
	}
	rc = cmd_listing_end(&report->listing, err);
	if (cmd_options.output == CMD_OUTPUT_TABLE)
		cmd_outf("%s %sremoved, %llu kept\n",
			 cmd_count_text(report->removed, "snapshot", count),
			 dry_run ? "would be " : "", (unsigned long long)report->kept);
	return rc;
}

static int snapshot_prune_run(int argc, char **argv, struct cairn_err *err)
{
	cairn_cleanup(pool_closep) struct pool *pool = NULL;
	struct volumes volumes = {0};
	struct report report = {0};
	int rc;

	if (cairn_keep_policy_empty(&keep))
		return cmd_usage(err, "use --keep-... to choose the snapshots to keep");
	rc = cmd_pool_open(dry_run ? CMD_READ : CMD_WRITE, &pool, err);
	if (!rc)
		rc = cmd_snapshot_prune_find_volumes(pool, argc, argv, &volumes, err);
	if (!rc) {
		int rc_end;

		cmd_listing_begin(&report.listing, "snapshots", columns,
				  sizeof(columns) / sizeof(columns[0]));
		rc = snapshot_prune_all(pool, &volumes, &report, err);
		rc_end = snapshot_prune_finish(&report, rc ? NULL : err);
		rc = rc ? rc : rc_end;
	}
	free(volumes.ids);
	return rc;
}

const struct command cmd_snapshot_prune = {
	.name = "prune",
	.summary = "delete snapshots by age",
	.about =
		"Rules are counted for each volume on its own, as 'cairn backup forget' counts them;\n"
		"without VOLUME, for all volumes. The newest of a volume stays, and so does what is\n"
		"attached, mounted or being read. A deleted snapshot can still be the base of 'cairn\n"
		"delta' for the volume's retention time.\n",
	.args = (const struct cmd_arg[]){{.name = "VOLUME",
					  .kind = CMD_ARG_VOLUME,
					  .optional = true,
					  .repeated = true},
					 CMD_ARG_END},
	.flags = snapshot_prune_flags,
	.has_output = true,
	.run = snapshot_prune_run,
};
