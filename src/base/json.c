/* SPDX-License-Identifier: Apache-2.0 */

#include "base/json.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/io.h"
#include "base/num.h"
#include "base/text.h"

void cairn_json_init(struct cairn_json *json, int fd, bool pretty)
{
	json->fd = fd;
	json->sys_errno = 0;
	json->depth = 0;
	json->pretty = pretty;
	json->after_key = false;
	json->len = 0;
	json->comma[0] = false;
	json->is_array[0] = false;
}

static void json_flush(struct cairn_json *json)
{
	/* After a failed write nothing more is written: a reader must not see a document with
	 * a part missing in its middle. */
	if (json->len > 0 && json->sys_errno == 0 &&
	    cairn_write_full(json->fd, json->buf, json->len) < 0)
		json->sys_errno = errno;
	json->len = 0;
}

void cairn_json_raw(struct cairn_json *json, const char *bytes, size_t n)
{
	while (n > sizeof(json->buf) - json->len) {
		size_t part = sizeof(json->buf) - json->len;

		memcpy(json->buf + json->len, bytes, part);
		json->len += part;
		bytes += part;
		n -= part;
		json_flush(json);
	}
	memcpy(json->buf + json->len, bytes, n);
	json->len += n;
}

static void json_put(struct cairn_json *json, const char *text)
{
	cairn_json_raw(json, text, strlen(text));
}

static void json_indent(struct cairn_json *json)
{
	json_put(json, "\n");
	for (unsigned i = 0; i < json->depth; i++)
		json_put(json, "  ");
}

/* Writes the separator before a new value or key. */
static void json_separate(struct cairn_json *json)
{
	if (json->after_key) {
		json->after_key = false;
		return;
	}
	if (json->comma[json->depth])
		json_put(json, ",");
	json->comma[json->depth] = json->depth > 0; /* documents are not separated by commas */
	if (json->pretty && json->depth > 0)
		json_indent(json);
}

static void open_scope(struct cairn_json *json, const char *bracket, bool is_array)
{
	json_separate(json);
	json_put(json, bracket);
	if (json->depth + 1 < CAIRN_JSON_DEPTH_MAX) /* a caller's bug must not write behind it */
		json->depth++;
	json->comma[json->depth] = false;
	json->is_array[json->depth] = is_array;
}

static void close_scope(struct cairn_json *json, const char *bracket)
{
	bool filled = json->comma[json->depth];

	if (json->depth > 0)
		json->depth--;
	if (json->pretty && filled)
		json_indent(json);
	json_put(json, bracket);
}

void cairn_json_object_begin(struct cairn_json *json)
{
	open_scope(json, "{", false);
}

void cairn_json_object_end(struct cairn_json *json)
{
	close_scope(json, "}");
}

void cairn_json_array_begin(struct cairn_json *json)
{
	open_scope(json, "[", true);
}

void cairn_json_array_end(struct cairn_json *json)
{
	close_scope(json, "]");
}

size_t cairn_json_escape(const char *text, char out[CAIRN_JSON_ESCAPE_MAX], size_t *ret_used)
{
	uint32_t c = 0;
	size_t n = cairn_utf8_next(text, strnlen(text, 4), &c);

	*ret_used = n ? n : 1;
	if (n == 0)
		return (size_t)snprintf(out, CAIRN_JSON_ESCAPE_MAX, "\\ufffd");
	if (c == '"' || c == '\\') {
		out[0] = '\\';
		out[1] = (char)c;
		return 2;
	}
	if (c < 0x20 || (c >= 0x7f && c < 0xa0))
		return (size_t)snprintf(out, CAIRN_JSON_ESCAPE_MAX, "\\u%04x", (unsigned)c);
	memcpy(out, text, n);
	return n;
}

static void put_escaped(struct cairn_json *json, const char *text)
{
	char code[CAIRN_JSON_ESCAPE_MAX];
	size_t used;

	json_put(json, "\"");
	for (const char *p = text; *p; p += used) {
		size_t n = cairn_json_escape(p, code, &used);

		cairn_json_raw(json, code, n);
	}
	json_put(json, "\"");
}

void cairn_json_key(struct cairn_json *json, const char *key)
{
	json_separate(json);
	put_escaped(json, key);
	json_put(json, json->pretty ? ": " : ":");
	json->after_key = true;
}

void cairn_json_string(struct cairn_json *json, const char *value)
{
	json_separate(json);
	if (value)
		put_escaped(json, value);
	else
		json_put(json, "null");
}

void cairn_json_u64(struct cairn_json *json, uint64_t value)
{
	char digits[20];

	json_separate(json);
	cairn_json_raw(json, digits, cairn_format_u64(value, digits));
}

void cairn_json_i64(struct cairn_json *json, int64_t value)
{
	if (value >= 0) {
		cairn_json_u64(json, (uint64_t)value);
		return;
	}
	char digits[21] = "-";

	json_separate(json);
	cairn_json_raw(json, digits, 1 + cairn_format_u64(0 - (uint64_t)value, digits + 1));
}

void cairn_json_bool(struct cairn_json *json, bool value)
{
	json_separate(json);
	json_put(json, value ? "true" : "false");
}

void cairn_json_null(struct cairn_json *json)
{
	json_separate(json);
	json_put(json, "null");
}

void cairn_json_value(struct cairn_json *json, const char *text)
{
	json_separate(json);
	json_put(json, text);
}

void cairn_json_newline(struct cairn_json *json)
{
	json_put(json, "\n");
	json->comma[0] = false;
}

int cairn_json_finish(struct cairn_json *json, struct cairn_err *err)
{
	json_flush(json);
	if (json->sys_errno)
		return cairn_err_sys(err, json->sys_errno, "write output");
	return 0;
}
