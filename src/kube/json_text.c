/* SPDX-License-Identifier: Apache-2.0 */

/* JSON text to trees and back; part of object.h. */
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/mem.h"
#include "kube/global_init.h"
#include "kube/object.h"

#define PARSE_FLAGS (JSON_ALLOW_NUL | JSON_DECODE_ANY)

/* Digits of an integer that certainly fits 64 bits. */
#define SAFE_DIGITS 18

/* Returns the position after the string whose opening quote is text[at]. */
static size_t skip_string(const char *text, size_t n, size_t at)
{
	for (at++; at < n && text[at] != '"'; at++)
		if (text[at] == '\\')
			at++;
	return at < n ? at + 1 : n;
}

static size_t count_digits(const char *text, size_t n, size_t at)
{
	size_t digits = 0;

	while (at + digits < n && text[at + digits] >= '0' && text[at + digits] <= '9')
		digits++;
	return digits;
}

/* Copies the string text[begin, at). jansson rejects NUL in a field name, so such a name
 * is altered; values are never altered. */
static void copy_string(const char *text, size_t n, size_t begin, size_t at, struct cairn_buf *out)
{
	static const char nul[] = "\\u0000";
	size_t next = at;

	while (next < n && strchr(" \t\r\n", text[next]))
		next++;
	if (next == n || text[next] != ':') {
		cairn_buf_add(out, text + begin, at - begin);
		return;
	}
	while (begin < at) {
		if (text[begin] == '\\' && at - begin >= 6 && memcmp(text + begin, nul, 6) == 0) {
			cairn_buf_adds(out, "\\ufffd");
			begin += 6;
		} else if (text[begin] == '\\') {
			cairn_buf_add(out, text + begin, at - begin < 2 ? at - begin : 2);
			begin += 2;
		} else {
			cairn_buf_addc(out, text[begin++]);
		}
	}
}

/* The API server stores a number beyond 64 bits as a real and writes it with
 * all its digits. Gives such numbers an exponent, which makes jansson read them
 * as reals too. */
static void make_readable(const char *text, size_t n, struct cairn_buf *out)
{
	size_t at = 0;

	while (at < n) {
		size_t begin = at;
		size_t digits;

		if (text[at] == '"') {
			at = skip_string(text, n, at);
			copy_string(text, n, begin, at, out);
			continue;
		}
		digits = count_digits(text, n, at);
		at += digits ? digits : 1;
		cairn_buf_add(out, text + begin, at - begin);
		if (digits > SAFE_DIGITS && (at == n || !strchr(".eE", text[at])) &&
		    (begin == 0 || !strchr(".eE+", text[begin - 1])))
			cairn_buf_adds(out, "e0");
	}
}

/* Errors of jansson for input that is valid JSON. */
static bool is_curable(const json_error_t *error)
{
	enum json_error_code code = json_error_code(error);

	return code == json_error_numeric_overflow || code == json_error_null_byte_in_key;
}

static json_t *parse_cured(const char *text, size_t n, bool *ret_starved, json_error_t *error)
{
	struct cairn_buf cured = CAIRN_BUF_INIT(2 * n + 16);
	json_t *json = NULL;

	make_readable(text, n, &cured);
	*ret_starved = cairn_buf_failed(&cured);
	if (!*ret_starved)
		json = json_loadb((const char *)cured.data, cured.len, PARSE_FLAGS, error);
	cairn_buf_done(&cured);
	return json;
}

int kube_json_parse(const char *text, size_t n, json_t **ret, struct cairn_err *err)
{
	json_error_t error = {.line = -1};
	bool starved = false;
	json_t *json;

	if (!text)
		text = ""; /* an empty body */
	(void)kube_global_starved();
	json = json_loadb(text, n, PARSE_FLAGS, &error);
	if (!json && is_curable(&error))
		json = parse_cured(text, n, &starved, &error);
	if (json) {
		*ret = json;
		return 0;
	}
	if (kube_global_starved() || starved)
		return cairn_err_nomem(err, "JSON");
	/* jansson's own text quotes the input, which may be a secret. */
	return cairn_err_set(err, CAIRN_INVALID, "not JSON: at byte %d", error.position);
}

char *kube_json_text(const json_t *json, size_t *ret_len)
{
	size_t n = json_dumpb(json, NULL, 0, JSON_COMPACT | JSON_ENCODE_ANY);
	char *text;

	if (n == 0)
		return NULL;
	text = cairn_alloc(n + 1);
	if (!text)
		return NULL;
	if (json_dumpb(json, text, n, JSON_COMPACT | JSON_ENCODE_ANY) != n) {
		free(text);
		return NULL;
	}
	text[n] = '\0';
	if (ret_len)
		*ret_len = n;
	return text;
}
