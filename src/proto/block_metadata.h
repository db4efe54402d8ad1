/* SPDX-License-Identifier: Apache-2.0 */

/* Writes and checks block-metadata responses.
 *
 * Four messages have the same fields and numbers: GetMetadataAllocatedResponse and
 * GetMetadataDeltaResponse of csi.v1 and of snapshotmetadata. A volume may need millions
 * of tuples, so they never become objects: the driver writes tuples directly into the
 * buffer that goes to the socket, and the receiver checks a message in place. The bytes
 * are the same as those of protobuf-c; a test checks that.
 *
 * A writer or a scan belongs to one thread at a time.
 */
#ifndef CAIRN_PROTO_BLOCK_METADATA_H
#define CAIRN_PROTO_BLOCK_METADATA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/wire.h"

struct block_sink;
struct cairn_err;

enum proto_block_type {
	PROTO_BLOCK_UNKNOWN = 0,
	PROTO_BLOCK_FIXED = 1,
	PROTO_BLOCK_VARIABLE = 2,
};

/* Largest size of type and capacity, and of one tuple (offset and size are below 2^63, so
 * nine bytes each). */
#define PROTO_BLOCK_HEAD_MAX  13
#define PROTO_BLOCK_TUPLE_MAX 22

/* Reserve at the end of the buffer, because the writer stores numbers eight bytes at a
 * time. */
#define PROTO_BLOCK_SLACK 8

/* The smallest buffer that holds any message of `n` tuples. */
#define PROTO_BLOCK_ROOM(n) \
	(PROTO_BLOCK_HEAD_MAX + PROTO_BLOCK_SLACK + (size_t)(n)*PROTO_BLOCK_TUPLE_MAX)

/* A message under construction in the caller's memory. */
struct proto_block_writer {
	uint8_t *begin;
	uint8_t *pos;
	uint8_t *full; /* no tuple begins after this */
};

/* Starts a message at `out`; `cap` must be PROTO_BLOCK_ROOM(1) or more. */
void proto_block_begin(struct proto_block_writer *w, uint8_t *out, size_t cap,
		       enum proto_block_type type, uint64_t capacity);

/* Appends a tuple. `offset` and `length` must be below 2^63, as every range of a volume
 * is. Returns false if the buffer may not hold another tuple: the message is then
 * complete. */
static inline bool proto_block_add(struct proto_block_writer *w, uint64_t offset, uint64_t length)
{
	uint8_t *p = w->pos;

	if (p > w->full)
		return false;
	/* The body is written after two reserved bytes, then its length (below 128) is filled
	 * in. */
	p += 2;
	if (offset) {
		*p++ = 1 << 3 | PROTO_WIRE_VARINT;
		p = proto_varint_put(p, offset);
	}
	if (length) {
		*p++ = 2 << 3 | PROTO_WIRE_VARINT;
		p = proto_varint_put(p, length);
	}
	w->pos[0] = 3 << 3 | PROTO_WIRE_LEN;
	w->pos[1] = (uint8_t)(p - w->pos - 2);
	w->pos = p;
	return true;
}

/* Bytes of the message so far. */
static inline size_t proto_block_len(const struct proto_block_writer *w)
{
	return (size_t)(w->pos - w->begin);
}

/* State of a stream's check. Zero it, then set the first group; the other fields belong to
 * proto_block_scan(). */
struct proto_block_scan {
	/* From the request. */
	uint64_t starting_offset;
	uint32_t max_results; /* tuples a message; 0 is any number */

	/* Values of the stream so far; for the caller to read. */
	uint64_t messages;
	uint64_t tuples;
	uint64_t bytes_reported; /* sum of the tuples' sizes */
	uint64_t end;            /* end of the last tuple: resume here */
	uint64_t capacity;
	uint32_t type;

	uint64_t fixed_length; /* of the first tuple */
	bool lengths_differ;
};

/* Checks the next message of a stream in place, without allocating, and passes each tuple
 * to `sink` unless that is NULL. A tuple is passed on when it is valid by itself; the
 * rules for the whole message (type, capacity, count) are known to hold only when the call
 * returns 0, so after an error the caller must drop the message. After an error the scan
 * must not be used again.
 *
 * Unknown fields are skipped, as protobuf requires. Known fields may come in any order and
 * the last of several counts. A known field with another wire type is rejected, because
 * decoders disagree about it.
 *
 * CAIRN_INTERNAL  the message is malformed or breaks a rule of the stream:
 *                 sizes above 0, ascending without overlap over all messages,
 *                 nothing that ends at or before starting_offset, nothing that
 *                 begins past the capacity or ends past 2^63, type and capacity
 *                 constant, one size only if the type is FIXED, max_results
 * other           the return value of the sink
 */
int proto_block_scan(struct proto_block_scan *scan, const uint8_t *data, size_t len,
		     const struct block_sink *sink, struct cairn_err *err);

#endif
