/* SPDX-License-Identifier: Apache-2.0 */

#include "cli/commands.h"

#include <string.h>

#include "base/err.h"
#include "cli/options.h"
#include "cli/output.h"
#include "cli/output_record.h"
#include "cli/pool_open.h"
#include "pool/pool.h"

/* NEW must be VOLUME@NAME with the same volume: a snapshot cannot move to another one. */
static int find_name(struct pool *pool, const struct pool_snapshot *snapshot, const char *text,
		     char **ret, struct cairn_err *err)
{
	cairn_auto_free char *volume = NULL;
	cairn_auto_free char *name = NULL;
	struct pool_volume found;
	int rc = pool_snapshot_spec_parse(pool, text, &volume, &name, err);

	if (!rc)
		rc = pool_volume_get(pool, volume, &found, err);
	if (!rc && strcmp(found.id, snapshot->volume_id) != 0)
		rc = cairn_err_set(err, CAIRN_INVALID,
				   "a snapshot stays with its volume: write %s@NAME",
				   snapshot->volume_name);
	if (!rc)
		*ret = cairn_take(name);
	return rc;
}

/* Uses the id from here on, because the name may be given to another snapshot meanwhile. */
static int rename_snapshot(struct pool *pool, char **argv, struct pool_snapshot *ret,
			   struct cairn_err *err)
{
	cairn_auto_free char *name = NULL;
	int rc = pool_snapshot_get(pool, argv[0], ret, err);

	if (!rc && ret->deleted)
		rc = cairn_err_set(err, CAIRN_NOT_FOUND, "snapshot '%s' was deleted", argv[0]);
	if (!rc)
		rc = find_name(pool, ret, argv[1], &name, err);
	return rc ? rc : pool_snapshot_rename(pool, ret->id, name, ret, err);
}

static int snapshot_rename_print_json(const struct pool_snapshot *snapshot, struct cairn_err *err)
{
	struct cairn_json json;

	cmd_json_begin(&json);
	cairn_json_object_begin(&json);
	cmd_json_snapshot_fields(&json, snapshot);
	cairn_json_object_end(&json);
	return cmd_json_end(&json, err);
}

static int snapshot_rename_run(int argc, char **argv, struct cairn_err *err)
{
	cairn_cleanup(pool_closep) struct pool *pool = NULL;
	struct pool_snapshot snapshot;
	char text[CMD_SNAPSHOT_TEXT_MAX];
	int rc = cmd_pool_open(CMD_WRITE, &pool, err);

	(void)argc;
	if (!rc)
		rc = rename_snapshot(pool, argv, &snapshot, err);
	if (rc)
		return rc;
	if (cmd_options.output != CMD_OUTPUT_TABLE)
		return snapshot_rename_print_json(&snapshot, err);
	if (!cmd_options.quiet)
		cmd_outf("snapshot %s: %s\n", cmd_snapshot_text(&snapshot, text), snapshot.id);
	return 0;
}

const struct command cmd_snapshot_rename = {
	.name = "rename",
	.summary = "give a snapshot another name",
	.about = "Its id stays, so deltas and backups find it as before.\n",
	.args = (const struct cmd_arg[]){{.name = "SNAPSHOT", .kind = CMD_ARG_SNAPSHOT},
					 {.name = "VOLUME@NAME", .kind = CMD_ARG_NEW_SNAPSHOT},
					 CMD_ARG_END},
	.has_output = true,
	.run = snapshot_rename_run,
};
