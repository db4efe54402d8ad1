/* SPDX-License-Identifier: Apache-2.0 */

#include "repo/node_name.h"

#include <stdint.h>
#include <string.h>

#include "base/buf.h"
#include "base/text.h"
#include "repo/utf8.h"

static const char escaped[] = "\a\b\f\n\r\t\v\\\"", letters[] = "abfnrtv\\\"";

/* Characters that Go considers not printable, among those that occur in file names:
 * controls, spaces other than ' ', format characters, private use. */
static bool is_printable(uint32_t c)
{
	static const struct {
		uint32_t first, last;
	} not [] = {
		{0x80, 0xa0},        {0xad, 0xad},     {0x600, 0x605},   {0x61c, 0x61c},
		{0x6dd, 0x6dd},      {0x70f, 0x70f},   {0x1680, 0x1680}, {0x180e, 0x180e},
		{0x2000, 0x200f},    {0x2028, 0x202f}, {0x205f, 0x206f}, {0x3000, 0x3000},
		{0xe000, 0xf8ff},    {0xfeff, 0xfeff}, {0xfff0, 0xfffb}, {0xfffe, 0xffff},
		{0xe0000, 0x10ffff},
	};

	for (size_t i = 0; i < sizeof(not ) / sizeof(not [0]); i++)
		if (c >= not [i].first && c <= not [i].last)
			return false;
	return true;
}

static void quote_char(struct cairn_buf *out, uint32_t c, const char *bytes, size_t n)
{
	const char *at = c && c < 0x80 ? strchr(escaped, (int)c) : NULL;

	if (at) {
		cairn_buf_addc(out, '\\');
		cairn_buf_addc(out, letters[at - escaped]);
	} else if (c < 0x20 || c == 0x7f) {
		cairn_buf_addf(out, "\\x%02x", c);
	} else if (!is_printable(c)) {
		cairn_buf_addf(out, c > 0xffff ? "\\U%08x" : "\\u%04x", c);
	} else {
		cairn_buf_add(out, bytes, n);
	}
}

void repo_name_quote(struct cairn_buf *out, const char *name)
{
	size_t left = strlen(name);

	while (left > 0) {
		uint32_t c = 0;
		size_t n = cairn_utf8_next(name, left, &c);

		if (n == 0) {
			cairn_buf_addf(out, "\\x%02x", (unsigned char)*name);
			n = 1;
		} else {
			quote_char(out, c, name, n);
		}
		name += n;
		left -= n;
	}
}

static bool node_name_octal(const char *text, uint32_t *ret)
{
	*ret = 0;
	for (int i = 0; i < 3; i++) {
		if (text[i] < '0' || text[i] > '7')
			return false;
		*ret = *ret << 3 | (uint32_t)(text[i] - '0');
	}
	return *ret < 256;
}

/* Decodes the escape after a backslash. Returns the number of bytes that it took, or 0 if
 * it is invalid. */
static size_t unquote_escape(struct cairn_buf *out, const char *p, size_t left)
{
	const char *at = left > 0 && *p ? strchr(letters, *p) : NULL;
	uint32_t c;

	if (at) {
		cairn_buf_addc(out, escaped[at - letters]);
		return 1;
	}
	if (left >= 1 && *p == '\'') {
		cairn_buf_addc(out, '\'');
		return 1;
	}
	if (left >= 3 && *p == 'x' && repo_hex_parse(p + 1, 2, &c)) {
		cairn_buf_addc(out, (char)c);
		return 3;
	}
	if (left >= 3 && node_name_octal(p, &c)) {
		cairn_buf_addc(out, (char)c);
		return 3;
	}
	for (int i = 0; i < 2; i++) {
		size_t n = i ? 8 : 4;

		if (left > n && *p == (i ? 'U' : 'u') && repo_hex_parse(p + 1, n, &c) &&
		    c <= 0x10ffff && (c < 0xd800 || c > 0xdfff)) {
			repo_utf8_add(out, c);
			return n + 1;
		}
	}
	return 0;
}

bool repo_name_unquote(struct cairn_buf *out, const char *text, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		size_t used;

		if (text[i] != '\\') {
			cairn_buf_addc(out, text[i]);
			continue;
		}
		used = unquote_escape(out, text + i + 1, n - i - 1);
		if (used == 0)
			return false;
		i += used;
	}
	return !cairn_buf_failed(out);
}

bool repo_name_valid(const char *name, size_t n)
{
	if (n == 0 || memchr(name, '/', n) || memchr(name, 0, n))
		return false;
	return !(n == 1 && name[0] == '.') && !(n == 2 && name[0] == '.' && name[1] == '.');
}
