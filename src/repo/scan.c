/* SPDX-License-Identifier: Apache-2.0 */

#include "repo/scan.h"

#include <string.h>

#include "base/buf.h"
#include "repo/utf8.h"

void repo_scan_init(struct repo_scan *scan, const char *json, size_t n)
{
	*scan = (struct repo_scan){.at = json, .end = json + n};
}

bool repo_scan_failed(const struct repo_scan *scan)
{
	return scan->failed;
}

static void skip_space(struct repo_scan *scan)
{
	while (scan->at < scan->end &&
	       (*scan->at == ' ' || *scan->at == '\n' || *scan->at == '\t' || *scan->at == '\r'))
		scan->at++;
}

/* The next character that is not a space; 0 at the end or after a failure. */
static char scan_peek(struct repo_scan *scan)
{
	if (scan->failed)
		return 0;
	skip_space(scan);
	return scan->at < scan->end ? *scan->at : 0;
}

static bool scan_take(struct repo_scan *scan, char c)
{
	if (scan_peek(scan) != c) {
		scan->failed = true;
		return false;
	}
	scan->at++;
	return true;
}

bool repo_scan_end(struct repo_scan *scan)
{
	skip_space(scan);
	return !scan->failed && scan->at == scan->end;
}

void repo_scan_object(struct repo_scan *scan)
{
	scan->first = scan_take(scan, '{');
}

void repo_scan_array(struct repo_scan *scan)
{
	scan->first = scan_take(scan, '[');
}

/* True if another item follows, false after `close`. */
static bool next_item(struct repo_scan *scan, char close)
{
	bool first = scan->first;

	scan->first = false;
	if (scan_peek(scan) == close) {
		scan->at++;
		return false;
	}
	return first ? !scan->failed : scan_take(scan, ',');
}

bool repo_scan_member(struct repo_scan *scan, struct repo_scan_text *ret_key)
{
	if (!next_item(scan, '}'))
		return false;
	repo_scan_string(scan, ret_key);
	scan_take(scan, ':');
	return !scan->failed;
}

bool repo_scan_element(struct repo_scan *scan)
{
	return next_item(scan, ']');
}

#define EACH_BYTE(value) (0x0101010101010101ULL * (value))

/* Nonzero if a byte of the word is below `n` (at most 128); bytes above 127 count as not below. */
static uint64_t has_below(uint64_t word, unsigned n)
{
	return (word - EACH_BYTE(n)) & ~word & EACH_BYTE(0x80U);
}

/* Length of the prefix, in whole words, without special characters. Scanned a word at a
 * time because most of the text is ids: a quarter of a million of 64 characters each. */
static size_t plain_length(const char *text, size_t n)
{
	size_t i = 0;

	for (; i + sizeof(uint64_t) <= n; i += sizeof(uint64_t)) {
		uint64_t word;

		memcpy(&word, text + i, sizeof(word));
		if (has_below(word ^ EACH_BYTE('"'), 1) | has_below(word ^ EACH_BYTE('\\'), 1) |
		    has_below(word, 0x20))
			break;
	}
	return i;
}

void repo_scan_string(struct repo_scan *scan, struct repo_scan_text *ret)
{
	const char *p;

	*ret = (struct repo_scan_text){.at = ""};
	scan->first = false;
	if (!scan_take(scan, '"'))
		return;
	ret->at = p = scan->at;
	p += plain_length(p, (size_t)(scan->end - p));
	for (; p < scan->end && *p != '"'; p++) {
		if ((unsigned char)*p < 0x20)
			break;
		if (*p == '\\') {
			ret->escaped = true;
			if (++p == scan->end)
				break;
		}
	}
	if (p == scan->end || *p != '"') {
		scan->failed = true;
		return;
	}
	ret->n = (size_t)(p - ret->at);
	scan->at = p + 1;
}

uint64_t repo_scan_u64(struct repo_scan *scan)
{
	uint64_t value = 0;
	char c = scan_peek(scan);

	scan->first = false;
	if (c < '0' || c > '9') {
		scan->failed = true;
		return 0;
	}
	for (; scan->at < scan->end && *scan->at >= '0' && *scan->at <= '9'; scan->at++) {
		if (__builtin_mul_overflow(value, 10U, &value) ||
		    __builtin_add_overflow(value, (uint64_t)(*scan->at - '0'), &value)) {
			scan->failed = true;
			return 0;
		}
	}
	/* A number with a fraction or an exponent is not an integer. */
	if (scan->at < scan->end && (*scan->at == '.' || *scan->at == 'e' || *scan->at == 'E'))
		scan->failed = true;
	return value;
}

static bool take_word(struct repo_scan *scan, const char *word)
{
	size_t n = strlen(word);

	if ((size_t)(scan->end - scan->at) < n || memcmp(scan->at, word, n) != 0)
		return false;
	scan->at += n;
	return true;
}

bool repo_scan_null(struct repo_scan *scan)
{
	if (scan_peek(scan) != 'n' || !take_word(scan, "null"))
		return false;
	scan->first = false;
	return true;
}

static void skip_number(struct repo_scan *scan)
{
	const char *start = scan->at;

	while (scan->at < scan->end && ((*scan->at >= '0' && *scan->at <= '9') ||
					(*scan->at != 0 && strchr("+-.eE", *scan->at))))
		scan->at++;
	if (scan->at == start)
		scan->failed = true;
}

static void skip_container(struct repo_scan *scan, bool object)
{
	struct repo_scan_text key;

	if (scan->depth >= REPO_SCAN_DEPTH_MAX) {
		scan->failed = true;
		return;
	}
	scan->depth++;
	if (object) {
		repo_scan_object(scan);
		while (repo_scan_member(scan, &key))
			repo_scan_skip(scan);
	} else {
		repo_scan_array(scan);
		while (repo_scan_element(scan))
			repo_scan_skip(scan);
	}
	scan->depth--;
}

void repo_scan_skip(struct repo_scan *scan)
{
	struct repo_scan_text text;
	char c = scan_peek(scan);

	if (c == '{' || c == '[') {
		skip_container(scan, c == '{');
		return;
	}
	scan->first = false;
	if (c == '"')
		repo_scan_string(scan, &text);
	else if (c == 't' || c == 'f' || c == 'n')
		scan->failed = !take_word(scan, c == 't' ? "true" : c == 'f' ? "false" : "null");
	else
		skip_number(scan);
}

bool repo_scan_is(const struct repo_scan_text *a, const char *text)
{
	return !a->escaped && a->n == strlen(text) && memcmp(a->at, text, a->n) == 0;
}

static bool scan_hex4(const char *p, size_t n, uint32_t *ret)
{
	return n >= 4 && repo_hex_parse(p, 4, ret);
}

/* Decodes \uXXXX and the second half of a surrogate pair. Returns the number of bytes after
 * the backslash, or 0 if it is invalid. */
static size_t unescape_code(const char *p, size_t n, struct cairn_buf *out)
{
	uint32_t high, low;

	if (!scan_hex4(p + 1, n - 1, &high))
		return 0;
	if (high >= 0xd800 && high < 0xdc00 && n >= 11 && p[5] == '\\' && p[6] == 'u' &&
	    scan_hex4(p + 7, n - 7, &low) && low >= 0xdc00 && low < 0xe000) {
		repo_utf8_add(out, 0x10000 + ((high - 0xd800) << 10) + (low - 0xdc00));
		return 11;
	}
	repo_utf8_add(out, high >= 0xd800 && high < 0xe000 ? 0xfffd : high);
	return 5;
}

bool repo_scan_unescape(const struct repo_scan_text *text, struct cairn_buf *out)
{
	static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
	const char *p = text->at, *end = p + text->n;

	while (p < end) {
		const char *plain = memchr(p, '\\', (size_t)(end - p));
		const char *known;

		if (!plain)
			plain = end;
		cairn_buf_add(out, p, (size_t)(plain - p));
		p = plain + 1;
		if (plain == end)
			break;
		if (p == end)
			return false;
		known = *p ? strchr(from, *p) : NULL;
		if (known) {
			cairn_buf_addc(out, to[known - from]);
			p++;
		} else {
			size_t used = *p == 'u' ? unescape_code(p, (size_t)(end - p), out) : 0;

			if (used == 0)
				return false;
			p += used;
		}
	}
	return !cairn_buf_failed(out);
}
