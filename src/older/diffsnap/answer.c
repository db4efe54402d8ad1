/* SPDX-License-Identifier: Apache-2.0 */

#include "older/diffsnap/answer.h"
#include "base/base64.h"

#include "base/buf.h"
#include "base/err.h"
#include "base/json.h"
#include "base/num.h"

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

static void answer_add_bytes(struct cairn_buf *out, const char *before, const uint8_t *data,
			     size_t n)
{
	cairn_buf_adds(out, before);
	cairn_buf_addc(out, '"');
	cairn_base64_add(out, data, n);
	cairn_buf_addc(out, '"');
}

void diffsnap_answer_write(const Csi__V1__DifferentialSnapshotResponse *page, struct cairn_buf *out)
{
	cairn_buf_adds(out, "{\"changeBlockList\":[");
	for (size_t i = 0; i < page->n_change_block_list; i++) {
		const Csi__V1__ChangedBlock *block = page->change_block_list[i];

		answer_add_number(out, i ? ",{\"offset\":" : "{\"offset\":", block->offset);
		answer_add_number(out, ",\"size\":", block->size);
		if (block->context.len > 0)
			answer_add_bytes(out, ",\"context\":", block->context.data,
					 block->context.len);
		if (block->zero_out)
			cairn_buf_adds(out, ",\"zeroOut\":true");
		cairn_buf_addc(out, '}');
	}
	answer_add_text(out, "],\"nextOffset\":", page->next_offset);
	answer_add_number(out, ",\"volumeSize\":", page->volume_size);
	answer_add_number(out, ",\"timeout\":", page->timeout);
	cairn_buf_adds(out, "}\n");
}

void diffsnap_answer_error(int code, const char *text, struct cairn_buf *out)
{
	answer_add_text(out, "{\"code\":", cairn_code_name(code));
	answer_add_text(out, ",\"error\":", text);
	cairn_buf_adds(out, "}\n");
}
