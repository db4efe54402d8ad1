/* SPDX-License-Identifier: Apache-2.0 */

/* The part of the protobuf wire format that hand-written coders need.
 *
 * Control messages use generated code; messages with millions of tuples are written and
 * checked in place with the inline functions below. They are in the header because a call
 * for each number would cost as much as decoding it.
 */
#ifndef CAIRN_PROTO_WIRE_H
#define CAIRN_PROTO_WIRE_H

#include <endian.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum proto_wire {
	PROTO_WIRE_VARINT = 0,
	PROTO_WIRE_I64 = 1,
	PROTO_WIRE_LEN = 2,
	PROTO_WIRE_GROUP = 3, /* begins; ends with PROTO_WIRE_END of the same number */
	PROTO_WIRE_END = 4,
	PROTO_WIRE_I32 = 5,
};

#define PROTO_VARINT_MAX 10

/* Limit of nested groups in an unknown field: a deep one could exhaust the stack, here and
 * in the next receiver. */
#define PROTO_GROUP_DEPTH_MAX 32

/* Input not read yet. */
struct proto_in {
	const uint8_t *pos;
	const uint8_t *end;
};

static inline size_t proto_in_left(const struct proto_in *in)
{
	return (size_t)(in->end - in->pos);
}

/* Every load below is eight bytes; spread and gather move 7-bit groups between a number
 * and the low bits of eight bytes, in three steps each way. */
static inline uint64_t proto_spread56(uint64_t v)
{
	v = (v & 0x000000000fffffffULL) | ((v & 0x00fffffff0000000ULL) << 4);
	v = (v & 0x00003fff00003fffULL) | ((v & 0x0fffc0000fffc000ULL) << 2);
	return (v & 0x007f007f007f007fULL) | ((v & 0x3f803f803f803f80ULL) << 1);
}

static inline uint64_t proto_gather56(uint64_t v)
{
	v = (v & 0x007f007f007f007fULL) | ((v & 0x7f007f007f007f00ULL) >> 1);
	v = (v & 0x00003fff00003fffULL) | ((v & 0x3fff00003fff0000ULL) >> 2);
	return (v & 0x000000000fffffffULL) | ((v & 0x0fffffff00000000ULL) >> 4);
}

static inline size_t proto_varint_size(uint64_t v)
{
	return (size_t)(((63 - __builtin_clzll(v | 1)) * 9 + 73) / 64);
}

/* Writes `v` and returns the byte after it. There must be room for ten bytes: up to eight
 * are written even if fewer count. */
static inline uint8_t *proto_varint_put(uint8_t *out, uint64_t v)
{
	if (v < 0x80) {
		*out = (uint8_t)v;
		return out + 1;
	}
	if (v < (1ULL << 56)) {
		size_t n = proto_varint_size(v);
		uint64_t more = 0x8080808080808080ULL >> (8 * (9 - n));
		uint64_t word = htole64(proto_spread56(v) | more);

		memcpy(out, &word, sizeof(word));
		return out + n;
	}
	while (v >= 0x80) {
		*out++ = (uint8_t)(v | 0x80);
		v >>= 7;
	}
	*out++ = (uint8_t)v;
	return out;
}

/* One byte at a time: the end of a buffer, and numbers of nine bytes or more. */
bool proto_varint_get_slow(struct proto_in *in, uint64_t *ret);

/* False if the input ends too early or the number exceeds 64 bits. */
static inline bool proto_varint_get(struct proto_in *in, uint64_t *ret)
{
	uint64_t word, stop;

	if (in->pos < in->end && *in->pos < 0x80) {
		*ret = *in->pos++;
		return true;
	}
	if (proto_in_left(in) < sizeof(word))
		return proto_varint_get_slow(in, ret);
	memcpy(&word, in->pos, sizeof(word));
	word = le64toh(word);
	stop = ~word & 0x8080808080808080ULL;
	if (!stop)
		return proto_varint_get_slow(in, ret);
	/* stop ^ (stop - 1) covers everything up to the first stop bit. */
	*ret = proto_gather56(word & (stop ^ (stop - 1)) & 0x7f7f7f7f7f7f7f7fULL);
	in->pos += (size_t)(__builtin_ctzll(stop) / 8 + 1);
	return true;
}

/* Reads a field's number and wire type; false for number 0, a number over 29 bits, or
 * truncated input. */
bool proto_tag_get(struct proto_in *in, uint32_t *ret_field, enum proto_wire *ret_wire);

/* Reads a length and that many bytes. */
bool proto_len_get(struct proto_in *in, struct proto_in *ret_body);

/* Skips the value of a field whose tag was just read. False for an invalid wire type, an
 * end of group without a start, groups nested too deeply, or truncated input. */
bool proto_skip(struct proto_in *in, uint32_t field, enum proto_wire wire);

#endif
