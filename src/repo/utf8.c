/* SPDX-License-Identifier: Apache-2.0 */

#include "repo/utf8.h"

#include "base/buf.h"

void repo_utf8_add(struct cairn_buf *out, uint32_t c)
{
	uint8_t bytes[4];
	size_t n = 1;

	if (c < 0x80) {
		bytes[0] = (uint8_t)c;
	} else if (c < 0x800) {
		bytes[0] = (uint8_t)(0xc0 | c >> 6);
		n = 2;
	} else if (c < 0x10000) {
		bytes[0] = (uint8_t)(0xe0 | c >> 12);
		n = 3;
	} else {
		bytes[0] = (uint8_t)(0xf0 | c >> 18);
		n = 4;
	}
	for (size_t i = 1; i < n; i++)
		bytes[i] = (uint8_t)(0x80 | ((c >> (6 * (n - 1 - i))) & 0x3f));
	cairn_buf_add(out, bytes, n);
}

bool repo_hex_parse(const char *text, size_t n, uint32_t *ret)
{
	uint32_t value = 0;

	for (size_t i = 0; i < n; i++) {
		char c = text[i];
		uint32_t digit;

		if (c >= '0' && c <= '9')
			digit = (uint32_t)(c - '0');
		else if (c >= 'a' && c <= 'f')
			digit = (uint32_t)(c - 'a' + 10);
		else if (c >= 'A' && c <= 'F')
			digit = (uint32_t)(c - 'A' + 10);
		else
			return false;
		value = value << 4 | digit;
	}
	*ret = value;
	return true;
}
