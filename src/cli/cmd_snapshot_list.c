/* SPDX-License-Identifier: Apache-2.0 */

#include "cli/commands.h"

#include "base/err.h"
#include "base/flags.h"
#include "base/num.h"
#include "cli/options.h"
#include "cli/output_record.h"
#include "cli/pool_open.h"
#include "pool/pool.h"

static bool all;
static bool used;

static const struct cairn_flag snapshot_list_flags[] = {
	{.name = "all",
	 .letter = 'a',
	 .kind = CAIRN_FLAG_BOOL,
	 .target = &all,
	 .help = "also deleted ones that still answer as base"},
	CAIRN_FLAG_SWITCH("used", used, "also the space it takes and holds alone; may take long"),
	CAIRN_FLAG_END,
};

/* The last two are shown only with --used. */
static const struct cmd_column columns[] = {
	{.title = "SNAPSHOT"},
	{.title = "SIZE", .right = true, .spare = 3},
	{.title = "CREATED", .spare = 4},
	{.title = "CHANGED", .right = true, .spare = 2},
	{.title = "STATE"},
	{.title = "ID", .spare = 1},
	{.title = "USED", .right = true},
	{.title = "ALONE", .right = true},
};

#define COLUMNS      (sizeof(columns) / sizeof(columns[0]))
#define COLUMNS_USED 2

struct run {
	struct pool *pool;
	struct pool_attached *attached;
	struct cmd_listing listing;
};

/* Values that are measured for each snapshot, not stored in its record. */
struct state {
	struct pool_usage usage;
	bool known; /* its data is readable */
	uint64_t exclusive;
};

static int snapshot_list_look(const struct run *run, const struct pool_snapshot *snapshot,
			      struct state *ret, struct cairn_err *err)
{
	int rc = 0;

	*ret = (struct state){0};
	if (snapshot->deleted)
		return 0;
	/* If the data is not readable, show the rest of the record. */
	ret->known = pool_usage_get(run->pool, snapshot->id, run->attached, &ret->usage, NULL) == 0;
	if (ret->known && used)
		rc = pool_exclusive_bytes(run->pool, snapshot->id, &ret->exclusive, err);
	return rc == CAIRN_NOT_FOUND ? 0 : rc;
}

static const char *snapshot_list_state_text(const struct pool_snapshot *snapshot,
					    const struct state *state)
{
	if (snapshot->deleted)
		return "deleted";
	if (*state->usage.mounted)
		return "mounted";
	return *state->usage.device ? "attached" : "live";
}

static const char *changed_text(const struct pool_snapshot *snapshot, char out[CAIRN_SIZE_TEXT_MAX])
{
	if (snapshot->set == POOL_SET_READY)
		return cairn_format_size(snapshot->set_changed_bytes, out);
	return snapshot->set == POOL_SET_NONE ? "-" : cmd_set_state_text(snapshot->set);
}

static int snapshot_list_add_row(struct cmd_listing *listing, const struct pool_snapshot *snapshot,
				 const struct state *state, struct cairn_err *err)
{
	char name[CMD_SNAPSHOT_TEXT_MAX];
	char size[CAIRN_SIZE_TEXT_MAX];
	char created[CMD_TIME_TEXT_MAX];
	char changed[CAIRN_SIZE_TEXT_MAX];
	char blocks[CAIRN_SIZE_TEXT_MAX];
	char exclusive[CAIRN_SIZE_TEXT_MAX];
	const char *cells[] = {
		cmd_snapshot_text(snapshot, name),
		cairn_format_size(snapshot->size, size),
		cmd_time_text(snapshot->created_ns, created),
		changed_text(snapshot, changed),
		snapshot_list_state_text(snapshot, state),
		snapshot->id,
		state->known ? cairn_format_size(state->usage.used_bytes, blocks) : "-",
		state->known ? cairn_format_size(state->exclusive, exclusive) : "-",
	};

	return cmd_table_add(&listing->table, cells, err);
}

static int snapshot_list_on_snapshot(void *arg, const struct pool_snapshot *snapshot,
				     struct cairn_err *err)
{
	struct run *run = arg;
	struct state state;
	int rc = snapshot_list_look(run, snapshot, &state, err);

	if (rc)
		return rc;
	if (cmd_options.output == CMD_OUTPUT_TABLE)
		return snapshot_list_add_row(&run->listing, snapshot, &state, err);
	cmd_listing_record_begin(&run->listing);
	cmd_json_snapshot_fields(&run->listing.json, snapshot);
	cmd_json_usage_fields(&run->listing.json, state.known ? &state.usage : NULL);
	if (used)
		cmd_json_field_u64(&run->listing.json, "exclusive_bytes", state.exclusive);
	cmd_listing_record_end(&run->listing);
	return 0;
}

static int cmd_snapshot_list_run_list(int argc, char **argv, struct cairn_err *err)
{
	cairn_cleanup(pool_closep) struct pool *pool = NULL;
	struct pool_snapshot_list_spec spec = {.volume = argc > 0 ? argv[0] : NULL,
					       .with_deleted = all};
	cairn_cleanup(pool_attached_freep) struct pool_attached *attached = NULL;
	struct run run;
	int rc;
	int rc_end;

	rc = cmd_pool_open(CMD_READ, &pool, err);
	if (!rc)
		rc = pool_attached_get(&attached, err);
	if (rc)
		return rc;
	run.pool = pool;
	run.attached = attached;
	cmd_listing_begin(&run.listing, "snapshots", columns,
			  used ? COLUMNS : COLUMNS - COLUMNS_USED);
	rc = pool_snapshot_list(pool, &spec, snapshot_list_on_snapshot, &run, err);
	rc_end = rc ? 0 : cmd_listing_end(&run.listing, err);
	return rc ? rc : rc_end;
}

const struct command cmd_snapshot_list = {
	.name = "list",
	.alias = "ls",
	.summary = "list snapshots of a volume or of all, oldest first",
	.args =
		(const struct cmd_arg[]){
			{.name = "VOLUME", .kind = CMD_ARG_VOLUME, .optional = true}, CMD_ARG_END},
	.flags = snapshot_list_flags,
	.has_output = true,
	.run = cmd_snapshot_list_run_list,
};
