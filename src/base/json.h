/* SPDX-License-Identifier: Apache-2.0 */

/* Streaming JSON writer.
 *
 * Output that can be ten million items long never becomes a tree: values are
 * written to a buffer that is flushed to a descriptor as it fills. Commas and
 * colons are the writer's business. The first write error sticks and is
 * reported by cairn_json_finish(). Reading JSON is not done here.
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

/* Bytes that are already JSON, such as a hot loop's own digits. */
void cairn_json_raw(struct cairn_json *json, const char *bytes, size_t n);

/* A whole value that is JSON already. */
void cairn_json_value(struct cairn_json *json, const char *text);

/* How the first character of `text` (not empty) is written inside a string:
 * escaped where JSON or a terminal needs it; bytes that are no UTF-8 become
 * U+FFFD. Returns how many bytes it put to `out`; *ret_used is how many it
 * took. */
#define CAIRN_JSON_ESCAPE_MAX 8
size_t cairn_json_escape(const char *text, char out[CAIRN_JSON_ESCAPE_MAX], size_t *ret_used);

/* Flushes; fails if any write failed. */
int cairn_json_finish(struct cairn_json *json, struct cairn_err *err);

#endif
