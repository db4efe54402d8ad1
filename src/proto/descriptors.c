/* SPDX-License-Identifier: Apache-2.0 */

#include "proto/descriptors.h"

#include <stdio.h>
#include <string.h>

#include "proto/wire.h"

/* Field numbers of google.protobuf.File-, Message-, Service- and
 * MethodDescriptorProto. A name is field 1 in all of them. */
enum {
	SET_FILE = 1,
	ANY_NAME = 1,
	FILE_PACKAGE = 2,
	FILE_IMPORT = 3,
	FILE_MESSAGE = 4,
	FILE_ENUM = 5,
	FILE_SERVICE = 6,
	MESSAGE_NESTED = 3,
	MESSAGE_ENUM = 4,
	SERVICE_METHOD = 2,
};

#define NAME_MAX_BYTES 256

extern const uint8_t proto_cairn_set[];
extern const size_t proto_cairn_set_len;

struct proto_bytes proto_descriptors_cairn(void)
{
	return (struct proto_bytes){.data = proto_cairn_set, .len = proto_cairn_set_len};
}

static struct proto_in descriptors_reader(struct proto_bytes bytes)
{
	return (struct proto_in){.pos = bytes.data, .end = bytes.data + bytes.len};
}

/* Returns the next value of field `wanted`; false at the end. */
static bool descriptors_next(struct proto_in *in, uint32_t wanted, struct proto_bytes *ret)
{
	while (in->pos < in->end) {
		struct proto_in body;
		enum proto_wire wire;
		uint32_t field;

		if (!proto_tag_get(in, &field, &wire))
			return false;
		if (wire != PROTO_WIRE_LEN) {
			if (!proto_skip(in, field, wire))
				return false;
			continue;
		}
		if (!proto_len_get(in, &body))
			return false;
		if (field == wanted) {
			*ret = (struct proto_bytes){body.pos, proto_in_left(&body)};
			return true;
		}
	}
	return false;
}

/* Returns the first value of a field, or no bytes. */
static struct proto_bytes descriptors_first(struct proto_bytes message, uint32_t field)
{
	struct proto_in in = descriptors_reader(message);
	struct proto_bytes value = {.data = (const uint8_t *)"", .len = 0};

	(void)descriptors_next(&in, field, &value);
	return value;
}

static bool descriptors_equal(struct proto_bytes a, struct proto_bytes b)
{
	return a.len == b.len && memcmp(a.data, b.data, a.len) == 0;
}

/* If `*path` is `name` or begins with `name` and a dot, removes that. */
static bool path_take(struct proto_bytes *path, struct proto_bytes name)
{
	size_t cut = name.len;

	if (name.len == 0 || path->len < name.len || memcmp(path->data, name.data, name.len) != 0)
		return false;
	if (path->len > name.len && path->data[cut++] != '.')
		return false;
	if (cut > name.len && cut == path->len) /* nothing after the dot */
		return false;
	path->data += cut;
	path->len -= cut;
	return true;
}

/* Whether `parent` has a child with exactly this name in `field`. */
static bool child_has(struct proto_bytes parent, uint32_t field, struct proto_bytes path)
{
	struct proto_in in = descriptors_reader(parent);
	struct proto_bytes child;

	while (descriptors_next(&in, field, &child))
		if (descriptors_equal(descriptors_first(child, ANY_NAME), path))
			return true;
	return false;
}

static bool service_has(struct proto_bytes file, struct proto_bytes path)
{
	struct proto_in in = descriptors_reader(file);
	struct proto_bytes service;

	while (descriptors_next(&in, FILE_SERVICE, &service)) {
		struct proto_bytes rest = path;

		if (path_take(&rest, descriptors_first(service, ANY_NAME)) &&
		    (rest.len == 0 || child_has(service, SERVICE_METHOD, rest)))
			return true;
	}
	return false;
}

/* Descends into nested messages; the path gets shorter at each step. */
static bool message_has(struct proto_bytes parent, uint32_t field, struct proto_bytes path)
{
	struct proto_in in = descriptors_reader(parent);
	struct proto_bytes message;

	while (descriptors_next(&in, field, &message)) {
		struct proto_bytes rest = path;

		if (!path_take(&rest, descriptors_first(message, ANY_NAME)))
			continue;
		if (rest.len == 0 || child_has(message, MESSAGE_ENUM, rest))
			return true;
		/* Only one message has this name: continue inside it. */
		in = descriptors_reader(message);
		field = MESSAGE_NESTED;
		path = rest;
	}
	return false;
}

static bool file_defines(struct proto_bytes file, const char *symbol)
{
	struct proto_bytes path = {.data = (const uint8_t *)symbol, .len = strlen(symbol)};
	struct proto_bytes package = descriptors_first(file, FILE_PACKAGE);

	if (package.len > 0 && (!path_take(&path, package) || path.len == 0))
		return false;
	return service_has(file, path) || message_has(file, FILE_MESSAGE, path) ||
	       child_has(file, FILE_ENUM, path);
}

bool proto_file_by_name(const struct proto_bytes *sets, size_t n, const char *name,
			struct proto_bytes *ret_file)
{
	struct proto_bytes wanted = {.data = (const uint8_t *)name, .len = strlen(name)};

	for (size_t i = 0; i < n; i++) {
		struct proto_in in = descriptors_reader(sets[i]);
		struct proto_bytes file;

		while (descriptors_next(&in, SET_FILE, &file)) {
			if (descriptors_equal(descriptors_first(file, ANY_NAME), wanted)) {
				*ret_file = file;
				return true;
			}
		}
	}
	return false;
}

bool proto_file_by_symbol(const struct proto_bytes *sets, size_t n, const char *symbol,
			  struct proto_bytes *ret_file)
{
	for (size_t i = 0; i < n; i++) {
		struct proto_in in = descriptors_reader(sets[i]);
		struct proto_bytes file;

		while (descriptors_next(&in, SET_FILE, &file)) {
			if (file_defines(file, symbol)) {
				*ret_file = file;
				return true;
			}
		}
	}
	return false;
}

static bool name_copy(struct proto_bytes name, char out[NAME_MAX_BYTES])
{
	if (name.len >= NAME_MAX_BYTES)
		return false;
	memcpy(out, name.data, name.len);
	out[name.len] = 0;
	return true;
}

static bool descriptors_listed(const struct proto_bytes *files, size_t n, struct proto_bytes file)
{
	for (size_t i = 0; i < n; i++)
		if (files[i].data == file.data)
			return true;
	return false;
}

size_t proto_file_closure(const struct proto_bytes *sets, size_t n, struct proto_bytes file,
			  struct proto_bytes ret_files[PROTO_FILES_MAX])
{
	size_t count = 1;

	ret_files[0] = file;
	for (size_t i = 0; i < count; i++) {
		struct proto_in in = descriptors_reader(ret_files[i]);
		struct proto_bytes import, found;
		char name[NAME_MAX_BYTES];

		while (count < PROTO_FILES_MAX && descriptors_next(&in, FILE_IMPORT, &import))
			if (name_copy(import, name) && proto_file_by_name(sets, n, name, &found) &&
			    !descriptors_listed(ret_files, count, found))
				ret_files[count++] = found;
	}
	return count;
}
