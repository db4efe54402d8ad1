/* SPDX-License-Identifier: Apache-2.0 */

#include "proto/block_metadata.h"

void proto_block_begin(struct proto_block_writer *w, uint8_t *out, size_t cap,
		       enum proto_block_type type, uint64_t capacity)
{
	uint8_t *p = out;

	w->begin = out;
	if (type != PROTO_BLOCK_UNKNOWN) {
		*p++ = 1 << 3 | PROTO_WIRE_VARINT;
		*p++ = (uint8_t)type;
	}
	if (capacity) {
		*p++ = 2 << 3 | PROTO_WIRE_VARINT;
		p = proto_varint_put(p, capacity);
	}
	w->pos = p;
	w->full = out + (cap - PROTO_BLOCK_TUPLE_MAX - PROTO_BLOCK_SLACK);
}
