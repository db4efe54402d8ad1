/* SPDX-License-Identifier: Apache-2.0 */

/* Streaming JSON writer.
 *
 * Output may have ten million items, so no tree is built: values are written to a buffer
 * that is flushed to a descriptor as it fills. The writer adds commas and colons. The
 * first write error is sticky and reported by cairn_json_finish(). There is no parser
 * here.
 */
#ifndef CAIRN_BASE_JSON_H
#define CAIRN_BASE_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct cairn_err;

#define CAIRN_JSON_DEPTH_MAX 16

struct cairn_json {
	int fd;
	int sys_errno; /* first failed write */
	unsigned depth;
	bool pretty; /* indent nested values; off inside an ndjson line */
	bool comma[CAIRN_JSON_DEPTH_MAX];
	bool is_array[CAIRN_JSON_DEPTH_MAX];
	bool after_key;
	size_t len;
	char buf[32768];
};

void cairn_json_init(struct cairn_json *json, int fd, bool pretty);

void cairn_json_object_begin(struct cairn_json *json);
void cairn_json_object_end(struct cairn_json *json);
void cairn_json_array_begin(struct cairn_json *json);
void cairn_json_array_end(struct cairn_json *json);
void cairn_json_key(struct cairn_json *json, const char *key);

void cairn_json_string(struct cairn_json *json, const char *value); /* NULL is null */
void cairn_json_u64(struct cairn_json *json, uint64_t value);
void cairn_json_i64(struct cairn_json *json, int64_t value);
void cairn_json_bool(struct cairn_json *json, bool value);
void cairn_json_null(struct cairn_json *json);

/* Ends an item of an ndjson stream, or the document. */
void cairn_json_newline(struct cairn_json *json);

/* Writes bytes that are already JSON, such as digits that a hot loop formats itself. */
void cairn_json_raw(struct cairn_json *json, const char *bytes, size_t n);

/* Writes a complete value that is already JSON. */
void cairn_json_value(struct cairn_json *json, const char *text);

/* Escapes the first character of `text` (not empty) for use in a string, where JSON or a
 * terminal requires it; bytes that are not UTF-8 become U+FFFD. Returns the number of
 * bytes written to `out`; *ret_used is the number consumed. */
#define CAIRN_JSON_ESCAPE_MAX 8
size_t cairn_json_escape(const char *text, char out[CAIRN_JSON_ESCAPE_MAX], size_t *ret_used);

/* Flushes; fails if any write failed. */
int cairn_json_finish(struct cairn_json *json, struct cairn_err *err);

#endif
