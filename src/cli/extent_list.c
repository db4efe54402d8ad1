/* SPDX-License-Identifier: Apache-2.0 */

#include "cli/extent_list.h"

#include <inttypes.h>
#include <string.h>

#include "base/num.h"
#include "block/extent.h"
#include "cli/options.h"
#include "cli/output.h"
#include "cli/output_record.h"

void cmd_extent_list_begin(struct cmd_extent_list *list, uint64_t capacity, bool knows_zeros)
{
	char digits[20];
	size_t columns = cairn_format_u64(capacity, digits);

	*list = (struct cmd_extent_list){.capacity = capacity, .knows_zeros = knows_zeros};
	list->columns = columns < strlen("OFFSET") ? strlen("OFFSET") : columns;
	if (cmd_options.output == CMD_OUTPUT_TABLE)
		cmd_outf("%*s%*s%s\n", (int)list->columns, "OFFSET", (int)list->columns + 2, "SIZE",
			 knows_zeros ? "  WHAT" : "");
}

static char *put_json(char *to, const struct block_extent *extent, bool knows_zeros)
{
	to = CMD_PUT(to, "{\"byte_offset\":");
	to += cairn_format_u64(extent->offset, to);
	to = CMD_PUT(to, ",\"size_bytes\":");
	to += cairn_format_u64(extent->length, to);
	if (!knows_zeros)
		return CMD_PUT(to, "}");
	return extent->zero ? CMD_PUT(to, ",\"zero\":true}") : CMD_PUT(to, ",\"zero\":false}");
}

static char *put_row(char *to, const struct block_extent *extent,
		     const struct cmd_extent_list *list)
{
	to = cmd_put_right(to, extent->offset, list->columns);
	to = cmd_put_right(to, extent->length, list->columns + 2);
	if (!list->knows_zeros)
		return to;
	return extent->zero ? CMD_PUT(to, "  zero") : CMD_PUT(to, "  data");
}

void cmd_extent_list_add(struct cmd_extent_list *list, const struct block_extent *extent)
{
	char *start = cmd_out_reserve(128);
	char *to = start;

	if (cmd_options.output == CMD_OUTPUT_TABLE) {
		to = put_row(to, extent, list);
	} else {
		if (cmd_options.output == CMD_OUTPUT_JSON && list->extents > 0)
			to = CMD_PUT(to, ",\n");
		to = put_json(to, extent, list->knows_zeros);
	}
	if (cmd_options.output != CMD_OUTPUT_JSON)
		to = CMD_PUT(to, "\n");
	cmd_out_advance((size_t)(to - start));
	list->extents++;
	list->bytes += extent->length;
	list->zero_bytes += extent->zero ? extent->length : 0;
	list->end = block_extent_end(extent);
}

static void print_totals(const struct cmd_extent_list *list, const char *what)
{
	char bytes[CAIRN_SIZE_TEXT_MAX];
	char zero[CAIRN_SIZE_TEXT_MAX];
	char count[CMD_COUNT_TEXT_MAX];
	char capacity[CAIRN_SIZE_TEXT_MAX];

	if (cmd_options.quiet)
		return;
	cmd_outf("%s: %s of %s %s", cmd_count_text(list->extents, "extent", count),
		 cairn_format_size(list->bytes, bytes), cairn_format_size(list->capacity, capacity),
		 what);
	if (list->zero_bytes)
		cmd_outf(", %s of it now zero", cairn_format_size(list->zero_bytes, zero));
	if (list->more)
		cmd_outf("; more from --starting-offset %" PRIu64, list->end);
	cmd_out_text("\n");
}

/* A list that was cut short says so, so that it is not mistaken for a complete one. */
static void json_tail(const struct cmd_extent_list *list)
{
	cmd_out_text(list->extents ? "\n]" : "]");
	if (list->more)
		cmd_outf(",\"next_offset\":%" PRIu64, list->end);
	cmd_out_text("}\n");
}

void cmd_extent_list_end(const struct cmd_extent_list *list, const char *what)
{
	if (cmd_options.output == CMD_OUTPUT_TABLE)
		print_totals(list, what);
	else if (cmd_options.output == CMD_OUTPUT_JSON)
		json_tail(list);
}
