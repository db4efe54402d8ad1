/* SPDX-License-Identifier: Apache-2.0 */

#include "cli/commands.h"

#include "base/err.h"
#include "base/flags.h"
#include "base/num.h"
#include "cli/background.h"
#include "cli/options.h"
#include "cli/output.h"
#include "cli/output_record.h"
#include "cli/pool_open.h"
#include "cli/progress.h"
#include "pool/pool.h"

static uint64_t set_wait_ms = 2000;

static const struct cairn_flag snapshot_create_flags[] = {
	CAIRN_FLAG_VALUE(DURATION, "set-wait", set_wait_ms, "TIME",
			 "time to wait for change sets; or none (default: 2s)"),
	CAIRN_FLAG_END,
};

struct group {
	struct pool_snapshot_spec specs[POOL_GROUP_MAX];
	char *volumes[POOL_GROUP_MAX]; /* own the texts of `specs` */
	char *names[POOL_GROUP_MAX];
	struct pool_snapshot made[POOL_GROUP_MAX];
	size_t n;
};

static void group_done(struct group *group)
{
	for (size_t i = 0; i < group->n; i++) {
		free(group->volumes[i]);
		free(group->names[i]);
	}
}

static int snapshot_create_cut(struct pool *pool, struct group *group, int argc, char **argv,
			       struct cairn_err *err)
{
	if (argc > (int)POOL_GROUP_MAX)
		return cairn_err_set(err, CAIRN_INVALID,
				     "at most %u volumes can be cut at one point in time",
				     POOL_GROUP_MAX);
	for (int i = 0; i < argc; i++) {
		int rc = pool_snapshot_spec_parse(pool, argv[i], &group->volumes[i],
						  &group->names[i], err);

		if (rc)
			return rc;
		group->n++;
		group->specs[i].volume = group->volumes[i];
		group->specs[i].name = group->names[i];
	}
	return pool_snapshot_create(pool, group->specs, group->n, group->made, err);
}

/* Builds the change sets in this process, with a progress line. */
static int complete_here(struct pool *pool, const struct group *group, struct cairn_err *err)
{
	struct cmd_progress progress;
	int rc = 0;

	cmd_progress_begin(&progress, "comparing");
	for (size_t i = 0; i < group->n && !rc; i++)
		rc = pool_snapshot_complete(pool, group->made[i].id, &progress.hooks, err);
	cmd_progress_end(&progress);
	return rc;
}

/* Closes the pool. */
static void complete_behind(struct pool *pool, const struct group *group)
{
	struct pool_hold hold = pool_hold_take(pool);
	struct cairn_err err = {0};

	pool_close(pool);
	cmd_catch_interrupts();
	switch (cmd_sets_make(group->made, group->n, set_wait_ms, &hold, &err)) {
	case CMD_SETS_DONE:
		break;
	case CMD_SETS_RUNNING:
		cmd_note("the change set is being made in the background; a query waits for it");
		break;
	case CMD_SETS_FAILED:
		cmd_note("the change set is not made yet (%s); the next query makes it", err.msg);
		break;
	}
}

static bool any_pending(const struct group *group)
{
	for (size_t i = 0; i < group->n; i++)
		if (group->made[i].set == POOL_SET_PENDING)
			return true;
	return false;
}

/* Prints the records as they are now, with the results of the change sets. */
static int snapshot_create_print_json(struct group *group, struct cairn_err *err)
{
	cairn_cleanup(pool_closep) struct pool *pool = NULL;
	struct cmd_listing listing;
	int rc = cmd_pool_open(CMD_READ, &pool, err);

	if (rc)
		return rc;
	cmd_listing_begin(&listing, "snapshots", NULL, 0);
	for (size_t i = 0; i < group->n && !rc; i++) {
		rc = pool_snapshot_get(pool, group->made[i].id, &group->made[i], err);
		if (!rc)
			cmd_listing_snapshot(&listing, &group->made[i]);
	}
	return rc ? rc : cmd_listing_end(&listing, err);
}

static int snapshot_create_print(struct group *group, struct cairn_err *err)
{
	char name[CMD_SNAPSHOT_TEXT_MAX];
	char size[CAIRN_SIZE_TEXT_MAX];

	if (cmd_options.output != CMD_OUTPUT_TABLE)
		return snapshot_create_print_json(group, err);
	for (size_t i = 0; i < group->n && !cmd_options.quiet; i++)
		cmd_outf("snapshot %s: %s, %s\n", cmd_snapshot_text(&group->made[i], name),
			 cairn_format_size(group->made[i].size, size), group->made[i].id);
	return 0;
}

static int run_group(struct group *group, int argc, char **argv, struct cairn_err *err)
{
	cairn_cleanup(pool_closep) struct pool *pool = NULL;
	int rc_set = 0;
	int rc = cmd_pool_open(CMD_WRITE, &pool, err);

	if (!rc)
		rc = snapshot_create_cut(pool, group, argc, argv, err);
	if (rc)
		return rc;
	if (any_pending(group) && set_wait_ms == UINT64_MAX) {
		rc_set = complete_here(pool, group, err);
		if (rc_set)
			cairn_err_wrap(err, "the snapshot is made, its change set is not yet");
	}
	if (any_pending(group) && set_wait_ms != UINT64_MAX)
		complete_behind(cairn_take(pool), group);
	else
		pool_close(cairn_take(pool));
	rc = snapshot_create_print(group, rc_set ? NULL : err);
	return rc_set ? rc_set : rc;
}

static int snapshot_create_run(int argc, char **argv, struct cairn_err *err)
{
	static struct group group;
	int rc = run_group(&group, argc, argv, err);

	group_done(&group);
	if (!rc && cmd_interrupted())
		rc = cairn_err_set(err, CAIRN_CANCELLED, "interrupted; the snapshot is made");
	return rc;
}

const struct command cmd_snapshot_create = {
	.name = "create",
	.summary = "cut snapshots of one or several volumes at one point in time",
	.about =
		"Each is crash consistent. What it changed against its predecessor is recorded as\n"
		"its change set; where that takes long it is done behind the command.\n",
	.args =
		(const struct cmd_arg[]){
			{.name = "VOLUME@NAME", .kind = CMD_ARG_NEW_SNAPSHOT, .repeated = true},
			CMD_ARG_END},
	.flags = snapshot_create_flags,
	.has_output = true,
	.run = snapshot_create_run,
};
