/* SPDX-License-Identifier: Apache-2.0 */

#include "proto/block_translate.h"

#include <string.h>

#include "proto/block_metadata.h"
#include "proto/wire.h"

#define FIELD_TYPE 1U
#define TAG_TYPE   (FIELD_TYPE << 3 | PROTO_WIRE_VARINT)

static void block_translate_copy(uint8_t **to, const uint8_t *from, const uint8_t *end)
{
	memcpy(*to, from, (size_t)(end - from));
	*to += end - from;
}

bool proto_block_translate(const uint8_t *data, size_t n, uint8_t *out, size_t *ret_n)
{
	struct proto_in in = {.pos = data, .end = data + n};
	const uint8_t *kept = data; /* copied up to here */
	uint8_t *to = out + 2;      /* the new type is written before this */
	uint64_t type = PROTO_BLOCK_UNKNOWN;

	if (n < 2)
		return false;
	while (in.pos < in.end) {
		const uint8_t *field = in.pos;
		uint32_t number;
		enum proto_wire wire;

		if (!proto_tag_get(&in, &number, &wire))
			return false;
		if (number != FIELD_TYPE) {
			if (!proto_skip(&in, number, wire))
				return false;
			continue;
		}
		if (wire != PROTO_WIRE_VARINT || !proto_varint_get(&in, &type))
			return false;
		/* The first type field frees the two bytes for that. */
		block_translate_copy(&to, kept, field);
		kept = in.pos;
	}
	if (type != PROTO_BLOCK_FIXED && type != PROTO_BLOCK_VARIABLE)
		return false;
	block_translate_copy(&to, kept, in.end);
	if (type == PROTO_BLOCK_FIXED) { /* 0 is not encoded */
		*ret_n = (size_t)(to - out - 2);
		memmove(out, out + 2, *ret_n);
		return true;
	}
	out[0] = TAG_TYPE;
	out[1] = (uint8_t)(PROTO_BLOCK_VARIABLE - 1);
	*ret_n = (size_t)(to - out);
	return true;
}
