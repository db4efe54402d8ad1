/* SPDX-License-Identifier: Apache-2.0 */

#include "cli/commands.h"

#include <stdio.h>
#include <time.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/flags.h"
#include "cli/background.h"
#include "cli/options.h"
#include "cli/output.h"
#include "cli/output_record.h"
#include "cli/pool_open.h"
#include "pool/pool.h"

/* Number of rollbacks within one second that get distinct default names. */
#define NAMES_TRIED 100

/* The same as 'snapshot create' waits for its change set. */
#define SET_WAIT_MS 2000

static const char *snapshot_first;
static bool no_snapshot;

static const struct cairn_flag volume_rollback_flags[] = {
	CAIRN_FLAG_VALUE(STRING, "snapshot-first", snapshot_first, "NAME",
			 "name of the snapshot that is made first"),
	CAIRN_FLAG_SWITCH("no-snapshot", no_snapshot, "discard the volume's current contents"),
	CAIRN_FLAG_END,
};

static void default_name(unsigned try, char out[POOL_NAME_MAX + 1])
{
	time_t now = (time_t)(cairn_now_ns() / CAIRN_NS_PER_SEC);
	char stamp[32] = "";
	struct tm tm;

	if (gmtime_r(&now, &tm))
		strftime(stamp, sizeof(stamp), "%Y%m%dT%H%M%SZ", &tm);
	if (try == 0)
		snprintf(out, POOL_NAME_MAX + 1, "before-rollback-%s", stamp);
	else
		snprintf(out, POOL_NAME_MAX + 1, "before-rollback-%s-%u", stamp, try + 1);
}

static int cmd_volume_rollback_roll_back(struct pool *pool, const char *snapshot,
					 struct pool_rollback_result *ret, struct cairn_err *err)
{
	struct pool_rollback_spec spec = {.snapshot = snapshot, .keep_as = snapshot_first};
	char name[POOL_NAME_MAX + 1];
	int rc = CAIRN_EXISTS;

	if (no_snapshot || snapshot_first)
		return pool_volume_rollback(pool, &spec, ret, err);
	spec.keep_as = name;
	for (unsigned try = 0; try < NAMES_TRIED && rc == CAIRN_EXISTS; try++) {
		default_name(try, name);
		rc = pool_volume_rollback(pool, &spec, ret, err);
	}
	return rc;
}

/* Closes the pool. A failure is not an error: the change set can be built later, and the
 * rollback is done. */
static void complete_kept(struct pool *pool, const struct pool_snapshot *kept)
{
	bool pending = kept->id[0] && kept->set == POOL_SET_PENDING;
	struct pool_hold hold = {.lock_fd = -1, .index_fd = -1};
	struct cairn_err err = {0};

	if (pending)
		hold = pool_hold_take(pool);
	pool_close(pool);
	if (pending && cmd_sets_make(kept, 1, SET_WAIT_MS, &hold, &err) == CMD_SETS_FAILED)
		cmd_note("the change set is not made yet (%s); the next query makes it", err.msg);
}

static int volume_rollback_print_json(const struct pool_rollback_result *result,
				      struct cairn_err *err)
{
	struct cairn_json json;

	cmd_json_begin(&json);
	cairn_json_object_begin(&json);
	cairn_json_key(&json, "volume");
	cairn_json_object_begin(&json);
	cmd_json_volume_fields(&json, &result->volume);
	cairn_json_object_end(&json);
	cmd_json_field_string(&json, "snapshot", result->snapshot.name);
	cmd_json_field_string(&json, "snapshot_id", result->snapshot.id);
	cmd_json_field_string(&json, "kept_as", result->kept.id[0] ? result->kept.name : NULL);
	cmd_json_field_string(&json, "kept_id", result->kept.id[0] ? result->kept.id : NULL);
	cairn_json_object_end(&json);
	return cmd_json_end(&json, err);
}

static void volume_rollback_print(const struct pool_rollback_result *result)
{
	char to[CMD_SNAPSHOT_TEXT_MAX];
	char kept[CMD_SNAPSHOT_TEXT_MAX];

	if (cmd_options.quiet)
		return;
	cmd_outf("volume %s has the contents of %s\n", result->volume.name,
		 cmd_snapshot_text(&result->snapshot, to));
	if (result->kept.id[0])
		cmd_outf("its previous contents are in %s\n",
			 cmd_snapshot_text(&result->kept, kept));
}

static int volume_rollback_run(int argc, char **argv, struct cairn_err *err)
{
	cairn_cleanup(pool_closep) struct pool *pool = NULL;
	struct pool_rollback_result result;
	int rc;

	(void)argc;
	if (no_snapshot && snapshot_first)
		return cmd_usage(err, "--snapshot-first and --no-snapshot exclude each other");
	rc = cmd_pool_open(CMD_WRITE, &pool, err);
	if (!rc)
		rc = cmd_volume_rollback_roll_back(pool, argv[0], &result, err);
	if (rc)
		return rc;
	complete_kept(cairn_take(pool), &result.kept);
	if (cmd_options.output != CMD_OUTPUT_TABLE)
		return volume_rollback_print_json(&result, err);
	volume_rollback_print(&result);
	return 0;
}

const struct command cmd_volume_rollback = {
	.name = "rollback",
	.summary = "set a volume back to one of its snapshots",
	.about =
		"The current contents become a snapshot first, unless --no-snapshot is given: rolling\n"
		"back to that one undoes it. All snapshots stay, also newer ones. A volume that is\n"
		"attached or mounted is refused. The volume keeps its size.\n",
	.args = (const struct cmd_arg[]){{.name = "SNAPSHOT", .kind = CMD_ARG_SNAPSHOT},
					 CMD_ARG_END},
	.flags = volume_rollback_flags,
	.has_output = true,
	.run = volume_rollback_run,
};
