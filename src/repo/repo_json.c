/* SPDX-License-Identifier: Apache-2.0 */

#include "repo/repo_json.h"

#include <string.h>

#include "base/buf.h"
#include "base/text.h"

static void repo_json_add_char(struct cairn_buf *out, uint32_t c, const char *bytes, size_t n)
{
	static const char named[] = "\"\\\n\r\t", letters[] = "\"\\nrt";
	const char *at = c < 0x80 ? strchr(named, (int)c) : NULL;

	if (at) {
		cairn_buf_addc(out, '\\');
		cairn_buf_addc(out, letters[at - named]);
	} else if (c < 0x20 || c == '&' || c == '<' || c == '>' || c == 0x2028 || c == 0x2029) {
		cairn_buf_addf(out, "\\u%04x", c);
	} else {
		cairn_buf_add(out, bytes, n);
	}
}

void repo_json_string(struct cairn_buf *out, const char *text)
{
	size_t left = strlen(text);

	cairn_buf_addc(out, '"');
	while (left > 0) {
		uint32_t c = 0;
		size_t n = cairn_utf8_next(text, left, &c);

		if (n == 0) {
			cairn_buf_adds(out, "\\ufffd");
			n = 1;
		} else {
			repo_json_add_char(out, c, text, n);
		}
		text += n;
		left -= n;
	}
	cairn_buf_addc(out, '"');
}
