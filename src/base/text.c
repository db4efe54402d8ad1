/* SPDX-License-Identifier: Apache-2.0 */

#include "base/text.h"

#include <string.h>

/* Decodes one character at `p`, before `end`. Returns its length, or 0 if the bytes are
 * not UTF-8. */
static size_t text_decode(const unsigned char *p, const unsigned char *end, uint32_t *ret)
{
	static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
	size_t n = p[0] < 0x80 ? 1 : p[0] < 0xc2 ? 0 : p[0] < 0xe0 ? 2 : p[0] < 0xf0 ? 3 : 4;
	uint32_t value;

	if (n == 0 || p[0] > 0xf4 || (size_t)(end - p) < n)
		return 0;
	value = n == 1 ? p[0] : p[0] & (0x7fU >> n);
	for (size_t i = 1; i < n; i++) {
		if ((p[i] & 0xc0) != 0x80)
			return 0;
		value = value << 6 | (p[i] & 0x3f);
	}
	if (value < least[n] || value > 0x10ffff || (value >= 0xd800 && value <= 0xdfff))
		return 0;
	*ret = value;
	return n;
}

size_t cairn_utf8_next(const char *text, size_t n, uint32_t *ret)
{
	const unsigned char *p = (const unsigned char *)text;

	return text_decode(p, p + n, ret);
}

bool cairn_utf8_valid(const char *text, size_t n)
{
	const unsigned char *p = (const unsigned char *)text;
	const unsigned char *end = p + n;
	uint32_t c;

	while (p < end) {
		size_t used = text_decode(p, end, &c);

		if (used == 0)
			return false;
		p += used;
	}
	return true;
}

bool cairn_text_printable(const char *text, size_t n)
{
	const unsigned char *p = (const unsigned char *)text;
	const unsigned char *end = p + n;
	uint32_t c;

	while (p < end) {
		size_t used = text_decode(p, end, &c);

		if (used == 0 || c < 0x20 || (c >= 0x7f && c < 0xa0))
			return false;
		p += used;
	}
	return true;
}

/* Returns 0 for combining marks and joiners, 2 for East Asian wide characters and emoji:
 * the ranges that matter for aligning a table. */
static size_t columns_of(uint32_t c)
{
	static const struct {
		uint32_t first, last;
	} none[] = {{0x300, 0x36f},   {0x483, 0x489},   {0x591, 0x5bd},   {0x610, 0x61a},
		    {0x64b, 0x65f},   {0x93c, 0x93c},   {0x941, 0x948},   {0xe31, 0xe31},
		    {0xe34, 0xe3a},   {0x1ab0, 0x1aff}, {0x1dc0, 0x1dff}, {0x200b, 0x200f},
		    {0x20d0, 0x20ff}, {0xfe00, 0xfe0f}, {0xfe20, 0xfe2f}},
	  wide[] = {{0x1100, 0x115f},   {0x2e80, 0x303e},   {0x3041, 0x33ff},  {0x3400, 0x4dbf},
		    {0x4e00, 0x9fff},   {0xa000, 0xa4cf},   {0xac00, 0xd7a3},  {0xf900, 0xfaff},
		    {0xfe30, 0xfe6f},   {0xff00, 0xff60},   {0xffe0, 0xffe6},  {0x1f300, 0x1f64f},
		    {0x1f680, 0x1f6ff}, {0x1f900, 0x1f9ff}, {0x20000, 0x3fffd}};

	for (size_t i = 0; i < sizeof(none) / sizeof(none[0]); i++)
		if (c >= none[i].first && c <= none[i].last)
			return 0;
	for (size_t i = 0; i < sizeof(wide) / sizeof(wide[0]); i++)
		if (c >= wide[i].first && c <= wide[i].last)
			return 2;
	return 1;
}

bool cairn_text_same(const char *a, const char *b)
{
	return a && b && strcmp(a, b) == 0;
}

size_t cairn_text_columns(const char *text)
{
	const unsigned char *p = (const unsigned char *)text;
	const unsigned char *end = p + strlen(text);
	size_t columns = 0;

	while (p < end) {
		uint32_t c = 0;
		size_t used = text_decode(p, end, &c);

		columns += used ? columns_of(c) : 1;
		p += used ? used : 1;
	}
	return columns;
}

static size_t least_of(size_t a, size_t b, size_t c)
{
	size_t least = a < b ? a : b;

	return least < c ? least : c;
}

size_t cairn_text_distance(const char *a, const char *b)
{
	size_t n = strlen(a);
	size_t m = strlen(b);
	/* Three rows of the usual matrix, because a swap needs the row before the previous one. */
	size_t rows[3][CAIRN_TEXT_DISTANCE_MAX + 1];
	size_t *before = rows[0];
	size_t *above = rows[1];
	size_t *row = rows[2];

	if (n > CAIRN_TEXT_DISTANCE_MAX || m > CAIRN_TEXT_DISTANCE_MAX)
		return SIZE_MAX;
	for (size_t j = 0; j <= m; j++)
		above[j] = j;
	for (size_t i = 1; i <= n; i++) {
		size_t *oldest = before;

		row[0] = i;
		for (size_t j = 1; j <= m; j++) {
			row[j] = least_of(above[j] + 1, row[j - 1] + 1,
					  above[j - 1] + (a[i - 1] != b[j - 1]));
			if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] &&
			    before[j - 2] + 1 < row[j])
				row[j] = before[j - 2] + 1;
		}
		before = above;
		above = row;
		row = oldest;
	}
	return above[m];
}

size_t cairn_text_near(const char *typed)
{
	return strlen(typed) < 4 ? 1 : strlen(typed) < 8 ? 2 : 3;
}
