/* SPDX-License-Identifier: Apache-2.0 */

#include "roles/client/list.h"

#include <inttypes.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "base/num.h"
#include "cli/options.h"
#include "cli/output.h"
#include "cli/progress.h"
#include "roles/client/listing_run.h"

static const char *type_name(int type)
{
	static const char *const names[] = {"UNKNOWN", "FIXED_LENGTH", "VARIABLE_LENGTH"};

	return names[type >= 0 && type < 3 ? type : 0];
}

static const char *kind_name(int kind)
{
	return kind == CAIRN_LISTING_CHANGED ? "changed" : "allocated";
}

/* --- one message in each form --- */

/* Columns and headings are those of external-snapshot-metadata's lister. */
static void print_table(const struct cairn_listing_info *info, const struct cairn_block *blocks,
			size_t n)
{
	char head[64], *end;
	size_t head_len;

	if (info->messages == 1)
		cmd_out_text("Record#   VolCapBytes  BlockMetadataType   ByteOffset     SizeBytes\n"
			     "------- -------------- ----------------- -------------- "
			     "--------------\n");
	end = cmd_put_right(head, info->messages, 7);
	*end++ = ' ';
	end = cmd_put_right(end, info->capacity, 14);
	head_len = (size_t)(end - head);
	for (size_t i = 0; i < n; i++) {
		char *start = cmd_out_reserve(160), *to = start;
		const char *type = type_name(info->type);

		memcpy(to, head, head_len);
		to += head_len;
		memset(to, ' ', 18 - strlen(type));
		to += 18 - strlen(type);
		memcpy(to, type, strlen(type));
		to += strlen(type);
		*to++ = ' ';
		to = cmd_put_right(to, blocks[i].offset, 14);
		*to++ = ' ';
		to = cmd_put_right(to, blocks[i].length, 14);
		*to++ = '\n';
		cmd_out_advance((size_t)(to - start));
	}
}

static char *put_block(char *to, const struct cairn_block *block, bool with_zero)
{
	*to++ = '{';
	if (block->offset || with_zero) {
		to = CMD_PUT(to, "\"byte_offset\":");
		to += cairn_format_u64(block->offset, to);
		*to++ = ',';
	}
	to = CMD_PUT(to, "\"size_bytes\":");
	to += cairn_format_u64(block->length, to);
	*to++ = '}';
	return to;
}

/* The format of that lister: an offset of 0 is left out, and an empty list of blocks is null. */
static void list_print_json(const struct cairn_listing_info *info, const struct cairn_block *blocks,
			    size_t n)
{
	cmd_outf("%s{", info->messages == 1 ? "[" : ",");
	cmd_outf("\"block_metadata_type\":%d,\"volume_capacity_bytes\":%" PRIu64, info->type,
		 info->capacity);
	cmd_out_text(n ? ",\"block_metadata\":[" : ",\"block_metadata\":null");
	for (size_t i = 0; i < n; i++) {
		char *start = cmd_out_reserve(128), *to = start;

		if (i > 0)
			*to++ = ',';
		to = put_block(to, &blocks[i], false);
		cmd_out_advance((size_t)(to - start));
	}
	cmd_out_text(n ? "]}" : "}");
}

static void print_ndjson(const struct cairn_listing_info *info, const struct cairn_block *blocks,
			 size_t n)
{
	if (info->messages == 1)
		cmd_outf("{\"kind\":\"%s\",\"block_metadata_type\":\"%s\","
			 "\"volume_capacity_bytes\":%" PRIu64 "}\n",
			 kind_name(info->kind), type_name(info->type), info->capacity);
	for (size_t i = 0; i < n; i++) {
		char *start = cmd_out_reserve(128), *to = start;

		to = put_block(to, &blocks[i], true);
		*to++ = '\n';
		cmd_out_advance((size_t)(to - start));
	}
}

/* --- the listing --- */

static int list_message(void *arg, const struct cairn_listing_info *info,
			const struct cairn_block *blocks, size_t n, struct cairn_err *err)
{
	struct cmd_progress *progress = arg;

	if (info->messages == 1 && info->fell_back)
		cmd_note("changed blocks are not known; these are allocated ones");
	if (cmd_options.output == CMD_OUTPUT_JSON)
		list_print_json(info, blocks, n);
	else if (cmd_options.output == CMD_OUTPUT_NDJSON)
		print_ndjson(info, blocks, n);
	else
		print_table(info, blocks, n);
	progress->hooks.report(progress, info->position, info->capacity);
	return cmd_out_failed() ? cmd_out_finish(err) : 0;
}

static bool list_cancelled(void *arg)
{
	(void)arg;
	return cmd_interrupted() != 0;
}

/* Ends the document. Called only for a complete listing, so that an incomplete one is
 * recognised. */
static void print_end(const struct cairn_listing_info *info)
{
	if (cmd_options.output == CMD_OUTPUT_JSON) {
		cmd_out_text(info->messages ? "]" : "[]");
		if (isatty(STDOUT_FILENO))
			cmd_out_text("\n");
	} else if (cmd_options.output == CMD_OUTPUT_NDJSON) {
		cmd_outf("{\"complete\":true,\"blocks\":%" PRIu64 ",\"bytes\":%" PRIu64 "}\n",
			 info->blocks, info->bytes);
	}
}

int client_list_run(struct cairn_err *err)
{
	struct cmd_progress progress;
	struct client_watch watch = {
		.message = list_message, .cancelled = list_cancelled, .arg = &progress};
	struct cairn_listing_query *query = &cmd_list.query;
	struct cairn_listing_info info;
	int rc;

	cmd_progress_begin(&progress, "listing");
	if (isatty(STDOUT_FILENO))
		progress.shown = false; /* the list itself is printed there */
	query->on_retry = cmd_client_flags_told_retry;
	query->on_retry_arg = &progress;
	rc = client_listing_run(&cmd_list.options, query, &watch, &info, err);
	cmd_progress_end(&progress);
	if (rc && info.position > query->starting_offset)
		cmd_note("listed up to --starting-offset %" PRIu64, info.position);
	if (!rc)
		print_end(&info);
	return rc;
}
