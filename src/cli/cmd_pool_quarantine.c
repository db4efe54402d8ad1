/* SPDX-License-Identifier: Apache-2.0 */

#include "cli/commands.h"

#include <stdio.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/flags.h"
#include "cli/options.h"
#include "cli/output.h"
#include "cli/output_record.h"
#include "cli/pool_open.h"
#include "pool/pool.h"

static const char *restore_id;
static const char *drop_id;

static const struct cairn_flag pool_quarantine_flags[] = {
	CAIRN_FLAG_VALUE(STRING, "restore", restore_id, "ID",
			 "bring it back, with a new record where it has none"),
	CAIRN_FLAG_VALUE(STRING, "drop", drop_id, "ID", "remove it for good"),
	CAIRN_FLAG_END,
};

static const char *kind_text(enum pool_quarantine_kind kind)
{
	switch (kind) {
	case POOL_QUARANTINE_VOLUME:
		return "volume";
	case POOL_QUARANTINE_SNAPSHOT:
		return "snapshot";
	case POOL_QUARANTINE_SET:
		return "change set";
	case POOL_QUARANTINE_VALUE:
		return "record";
	}
	return "unknown";
}

/* Prints the bytes of a damaged record in hex, for debugging. */
static void json_bytes(struct cairn_json *json, const struct pool_quarantined *item)
{
	cairn_auto_buf struct cairn_buf hex = CAIRN_BUF_INIT(256U << 10);

	for (size_t i = 0; i < item->len; i++)
		cairn_buf_addf(&hex, "%02x", item->data[i]);
	cairn_buf_addc(&hex, '\0');
	if (!cairn_buf_failed(&hex))
		cmd_json_field_string(json, "hex", (const char *)hex.data);
}

static int print_item(void *arg, const struct pool_quarantined *item, struct cairn_err *err)
{
	struct cairn_json *json = arg;

	(void)err;
	if (cmd_options.output == CMD_OUTPUT_TABLE) {
		cmd_outf("%-10s %s%s%s\n", kind_text(item->kind), item->id, *item->key ? "  " : "",
			 item->key);
		return 0;
	}
	cairn_json_object_begin(json);
	cmd_json_field_string(json, "kind", kind_text(item->kind));
	cmd_json_field_string(json, "id", item->id);
	if (item->kind == POOL_QUARANTINE_VALUE) {
		cmd_json_field_string(json, "key", item->key);
		json_bytes(json, item);
	}
	cairn_json_object_end(json);
	if (cmd_options.output == CMD_OUTPUT_NDJSON)
		cairn_json_newline(json);
	return 0;
}

static int list_items(struct pool *pool, struct cairn_err *err)
{
	struct cairn_json json;
	int rc;

	cmd_json_begin(&json);
	if (cmd_options.output == CMD_OUTPUT_JSON)
		cairn_json_array_begin(&json);
	rc = pool_quarantine_list(pool, print_item, &json, err);
	if (rc)
		return rc;
	if (cmd_options.output == CMD_OUTPUT_JSON) {
		cairn_json_array_end(&json);
		cairn_json_newline(&json);
	}
	return cairn_json_finish(&json, err);
}

static int pool_quarantine_run(int argc, char **argv, struct cairn_err *err)
{
	cairn_cleanup(pool_closep) struct pool *pool = NULL;
	char text[300];
	int rc;

	if (argc > 0)
		cmd_options.pool = argv[0];
	if (restore_id && drop_id)
		return cairn_err_set(err, CAIRN_INVALID,
				     "--restore and --drop can not be used together");
	rc = cmd_pool_open(restore_id || drop_id ? CMD_WRITE : CMD_READ, &pool, err);
	if (rc)
		return rc;
	if (!restore_id && !drop_id)
		return list_items(pool, err);
	if (drop_id)
		return pool_quarantine_drop(pool, drop_id, err);
	rc = pool_quarantine_restore(pool, restore_id, text, sizeof(text), err);
	if (!rc && !cmd_options.quiet)
		cmd_outf("restored: %s\n", text);
	return rc;
}

const struct command cmd_pool_quarantine = {
	.name = "quarantine",
	.summary = "show, restore or drop what a repair moved aside",
	.about =
		"'pool check --repair' removes nothing: data that no record refers to and the bytes of\n"
		"damaged records are kept here.\n",
	.args = (const struct cmd_arg[]){{.name = "DIR", .kind = CMD_ARG_DIR, .optional = true},
					 CMD_ARG_END},
	.flags = pool_quarantine_flags,
	.has_output = true,
	.run = pool_quarantine_run,
};
