/* SPDX-License-Identifier: Apache-2.0 */

#include "older/diffsnap/answer.h"

#include <inttypes.h>
#include <string.h>

#include "base/base64.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/json.h"
#include "base/num.h"

int diffsnap_answer_check(const Csi__V1__DifferentialSnapshotResponse *page, const char *start,
			  struct cairn_err *err)
{
	uint64_t end = 0;

	for (size_t i = 0; i < page->n_change_block_list; i++) {
		const Csi__V1__ChangedBlock *block = page->change_block_list[i];

		if (block->size == 0 || block->offset < end ||
		    __builtin_add_overflow(block->offset, block->size, &end))
			return cairn_err_set(err, CAIRN_INTERNAL,
					     "the driver's blocks are out of order at offset "
					     "%" PRIu64,
					     block->offset);
	}
	if (page->next_offset[0] && strcmp(page->next_offset, start ? start : "") == 0)
		return cairn_err_set(err, CAIRN_INTERNAL,
				     "the driver's next page is this one again, at '%.64s'", start);
	return 0;
}

static void answer_add_number(struct cairn_buf *out, const char *before, uint64_t value)
{
	char digits[24];

	cairn_buf_adds(out, before);
	cairn_buf_add(out, digits, cairn_format_u64(value, digits));
}

static void answer_add_text(struct cairn_buf *out, const char *before, const char *text)
{
	char code[CAIRN_JSON_ESCAPE_MAX];
	size_t used;

	cairn_buf_adds(out, before);
	cairn_buf_addc(out, '"');
	for (; *text; text += used) {
		size_t n = cairn_json_escape(text, code, &used);

		cairn_buf_add(out, code, n);
	}
	cairn_buf_addc(out, '"');
}

static void answer_add_context(struct cairn_buf *out, const char *before,
			       const ProtobufCBinaryData *context, const char *suffix)
{
	cairn_auto_buf struct cairn_buf whole = CAIRN_BUF_INIT(SIZE_MAX);

	cairn_buf_add(&whole, context->data, context->len);
	cairn_buf_adds(&whole, suffix);
	cairn_buf_adds(out, before);
	cairn_buf_addc(out, '"');
	if (!cairn_buf_failed(&whole))
		cairn_base64_add(out, whole.data, whole.len);
	cairn_buf_addc(out, '"');
}

/* The text before each value. */
struct answer_names {
	const char *list;
	const char *offset;
	const char *size;
	const char *context;
	const char *zero_out;
	const char *next_offset;
	const char *volume_size;
	const char *timeout;
};

static const struct answer_names proposal_names = {
	.list = "{\"ChangeBlockList\":[",
	.offset = "{\"Offset\":",
	.size = ",\"Size\":",
	.context = ",\"Context\":",
	.zero_out = ",\"ZeroOut\":true",
	.next_offset = "],\"NextOffset\":",
	.volume_size = ",\"VolumeSize\":",
	.timeout = ",\"Timeout\":",
};

static const struct answer_names camel_case_names = {
	.list = "{\"changeBlockList\":[",
	.offset = "{\"offset\":",
	.size = ",\"size\":",
	.context = ",\"context\":",
	.zero_out = ",\"zeroOut\":true",
	.next_offset = "],\"nextOffset\":",
	.volume_size = ",\"volumeSize\":",
	.timeout = ",\"timeout\":",
};

void diffsnap_answer_write(const Csi__V1__DifferentialSnapshotResponse *page, bool camel_case,
			   const char *suffix, struct cairn_buf *out)
{
	const struct answer_names *names = camel_case ? &camel_case_names : &proposal_names;

	cairn_buf_adds(out, names->list);
	for (size_t i = 0; i < page->n_change_block_list; i++) {
		const Csi__V1__ChangedBlock *block = page->change_block_list[i];

		if (i > 0)
			cairn_buf_addc(out, ',');
		answer_add_number(out, names->offset, block->offset);
		answer_add_number(out, names->size, block->size);
		if (block->context.len > 0)
			answer_add_context(out, names->context, &block->context, suffix);
		if (block->zero_out)
			cairn_buf_adds(out, names->zero_out);
		cairn_buf_addc(out, '}');
	}
	if (page->next_offset[0]) {
		answer_add_text(out, names->next_offset, page->next_offset);
	} else {
		cairn_buf_adds(out, names->next_offset);
		cairn_buf_adds(out, "null");
	}
	answer_add_number(out, names->volume_size, page->volume_size);
	answer_add_number(out, names->timeout, page->timeout);
	cairn_buf_adds(out, "}\n");
}

void diffsnap_answer_error(int code, const char *text, struct cairn_buf *out)
{
	answer_add_text(out, "{\"code\":", cairn_code_name(code));
	answer_add_text(out, ",\"error\":", text);
	cairn_buf_adds(out, "}\n");
}
