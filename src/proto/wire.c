/* SPDX-License-Identifier: Apache-2.0 */

#include "proto/wire.h"

#define FIELD_NUMBER_MAX ((1U << 29) - 1)

bool proto_varint_get_slow(struct proto_in *in, uint64_t *ret)
{
	uint64_t v = 0;

	for (unsigned i = 0; i < PROTO_VARINT_MAX && in->pos < in->end; i++) {
		uint8_t byte = *in->pos++;

		if (i == PROTO_VARINT_MAX - 1 && byte > 1)
			return false;
		v |= (uint64_t)(byte & 0x7f) << (7 * i);
		if (byte < 0x80) {
			*ret = v;
			return true;
		}
	}
	return false;
}

bool proto_tag_get(struct proto_in *in, uint32_t *ret_field, enum proto_wire *ret_wire)
{
	uint64_t tag;

	if (!proto_varint_get(in, &tag) || tag >> 3 == 0 || tag >> 3 > FIELD_NUMBER_MAX)
		return false;
	*ret_field = (uint32_t)(tag >> 3);
	*ret_wire = (enum proto_wire)(tag & 7);
	return true;
}

bool proto_len_get(struct proto_in *in, struct proto_in *ret_body)
{
	uint64_t len;

	if (!proto_varint_get(in, &len) || len > proto_in_left(in))
		return false;
	ret_body->pos = in->pos;
	ret_body->end = in->pos + len;
	in->pos += len;
	return true;
}

static bool skip_bytes(struct proto_in *in, size_t n)
{
	if (proto_in_left(in) < n)
		return false;
	in->pos += n;
	return true;
}

/* Skips any value except groups. */
static bool skip_plain(struct proto_in *in, enum proto_wire wire)
{
	struct proto_in body;
	uint64_t number;

	switch (wire) {
	case PROTO_WIRE_VARINT:
		return proto_varint_get(in, &number);
	case PROTO_WIRE_I64:
		return skip_bytes(in, 8);
	case PROTO_WIRE_LEN:
		return proto_len_get(in, &body);
	case PROTO_WIRE_I32:
		return skip_bytes(in, 4);
	case PROTO_WIRE_GROUP:
	case PROTO_WIRE_END:
		break;
	}
	return false;
}

bool proto_skip(struct proto_in *in, uint32_t field, enum proto_wire wire)
{
	uint32_t open[PROTO_GROUP_DEPTH_MAX];
	unsigned depth = 0;

	for (;;) {
		if (wire == PROTO_WIRE_GROUP) {
			if (depth == PROTO_GROUP_DEPTH_MAX)
				return false;
			open[depth++] = field;
		} else if (wire == PROTO_WIRE_END) {
			if (depth == 0 || open[--depth] != field)
				return false;
		} else if (!skip_plain(in, wire)) {
			return false;
		}
		if (depth == 0)
			return true;
		if (!proto_tag_get(in, &field, &wire))
			return false;
	}
}
