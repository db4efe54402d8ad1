/* SPDX-License-Identifier: Apache-2.0 */

#include "conformance/csi_request.h"

#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/mem.h"
#include "proto/wire.h"

int conformance_request_map_add(struct request_map *map, const char *key, const char *value,
				struct cairn_err *err)
{
	char *k, *v;

	if (map->n == REQUEST_MAP_MAX)
		return cairn_err_set(err, CAIRN_NO_SPACE, "a map of more than %u entries",
				     REQUEST_MAP_MAX);
	if (!map->keys)
		map->keys = cairn_calloc(REQUEST_MAP_MAX, sizeof(char *));
	if (!map->values)
		map->values = cairn_calloc(REQUEST_MAP_MAX, sizeof(char *));
	if (!map->keys || !map->values)
		return cairn_err_nomem(err, "map");
	k = cairn_strdup(key);
	v = cairn_strdup(value);
	if (!k || !v) {
		free(k);
		free(v);
		return cairn_err_nomem(err, "map");
	}
	map->keys[map->n] = k;
	map->values[map->n++] = v;
	return 0;
}

void conformance_request_map_done(struct request_map *map)
{
	for (size_t i = 0; i < map->n; i++) {
		free(map->keys[i]);
		free(map->values[i]);
	}
	free(map->keys);
	free(map->values);
	*map = (struct request_map){0};
}

int conformance_request_map_parse(struct request_map *map, const char *text, const char *separators,
				  struct cairn_err *err)
{
	cairn_auto_free char *copy = cairn_strdup(text);
	char *rest = copy;
	char *item;

	if (!copy)
		return cairn_err_nomem(err, "map");
	while ((item = strsep(&rest, separators))) {
		char *equals = strchr(item, '=');
		int rc;

		if (!*item)
			continue;
		/* The item may contain a secret, so the text does not quote it. */
		if (!equals || equals == item)
			return cairn_err_set(err, CAIRN_INVALID, "an item is not KEY=VALUE");
		*equals = '\0';
		rc = conformance_request_map_add(map, item, equals + 1, err);
		if (rc)
			return rc;
	}
	return 0;
}

static void csi_request_add_tag(struct cairn_buf *buf, uint32_t field, enum proto_wire wire)
{
	cairn_buf_add_varint(buf, (uint64_t)field << 3 | wire);
}

void conformance_request_add_bytes(struct cairn_buf *buf, uint32_t field, const void *data,
				   size_t n)
{
	csi_request_add_tag(buf, field, PROTO_WIRE_LEN);
	cairn_buf_add_varint(buf, n);
	cairn_buf_add(buf, data, n);
}

void conformance_request_add_string(struct cairn_buf *buf, uint32_t field, const char *text)
{
	if (text && *text)
		conformance_request_add_bytes(buf, field, text, strlen(text));
}

void conformance_request_add_int(struct cairn_buf *buf, uint32_t field, int64_t value)
{
	if (value == 0)
		return;
	csi_request_add_tag(buf, field, PROTO_WIRE_VARINT);
	cairn_buf_add_varint(buf, (uint64_t)value);
}

void conformance_request_add_map(struct cairn_buf *buf, uint32_t field,
				 const struct request_map *map)
{
	for (size_t i = 0; i < map->n; i++) {
		cairn_auto_buf struct cairn_buf entry = CAIRN_BUF_INIT(REQUEST_MAX);

		conformance_request_add_string(&entry, 1, map->keys[i]);
		conformance_request_add_string(&entry, 2, map->values[i]);
		conformance_request_add_bytes(buf, field, entry.data, entry.len);
		buf->failed = buf->failed || cairn_buf_failed(&entry);
	}
}

void conformance_request_add_capacity(struct cairn_buf *buf, uint32_t field, uint64_t bytes)
{
	cairn_auto_buf struct cairn_buf range = CAIRN_BUF_INIT(REQUEST_MAX);

	conformance_request_add_int(&range, 1, (int64_t)bytes);
	conformance_request_add_bytes(buf, field, range.data, range.len);
	buf->failed = buf->failed || cairn_buf_failed(&range);
}

void conformance_request_add_capability(struct cairn_buf *buf, uint32_t field)
{
	/* block {} and access_mode { SINGLE_NODE_WRITER } */
	static const uint8_t capability[] = {1 << 3 | PROTO_WIRE_LEN,    0,
					     3 << 3 | PROTO_WIRE_LEN,    2,
					     1 << 3 | PROTO_WIRE_VARINT, 1};

	conformance_request_add_bytes(buf, field, capability, sizeof(capability));
}
