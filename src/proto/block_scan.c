/* SPDX-License-Identifier: Apache-2.0 */

#include "proto/block_metadata.h"

#include <inttypes.h>

#include "base/err.h"
#include "block/extent.h"

enum {
	FIELD_TYPE = 1,
	FIELD_CAPACITY = 2,
	FIELD_TUPLE = 3,
	TUPLE_OFFSET = 1,
	TUPLE_LENGTH = 2,
};

/* Type and capacity of one message. */
struct head {
	uint64_t type;
	uint64_t capacity;
	uint64_t tuples;
	uint64_t last_offset;
};

static int block_scan_malformed(const struct proto_block_scan *scan, struct cairn_err *err)
{
	return cairn_err_set(err, CAIRN_INTERNAL, "block metadata message %" PRIu64 " is malformed",
			     scan->messages);
}

/* Decodes a tuple in any form that protobuf allows. */
static bool tuple_parse(struct proto_in body, uint64_t *ret_offset, uint64_t *ret_length)
{
	uint64_t offset = 0, length = 0;

	while (body.pos < body.end) {
		uint32_t field;
		enum proto_wire wire;
		bool ok;

		if (!proto_tag_get(&body, &field, &wire))
			return false;
		if (field == TUPLE_OFFSET)
			ok = wire == PROTO_WIRE_VARINT && proto_varint_get(&body, &offset);
		else if (field == TUPLE_LENGTH)
			ok = wire == PROTO_WIRE_VARINT && proto_varint_get(&body, &length);
		else
			ok = proto_skip(&body, field, wire);
		if (!ok)
			return false;
	}
	*ret_offset = offset;
	*ret_length = length;
	return true;
}

/* Joins the 7-bit groups of `v`. The PEXT instruction replaces a dozen others; the loop is
 * compiled once with it and once without. */
static inline __attribute__((always_inline)) uint64_t block_scan_gather(uint64_t v, bool pext)
{
#if defined(__x86_64__)
	if (pext) {
		uint64_t ret;

		__asm__("pext %2, %1, %0" : "=r"(ret) : "r"(v), "r"(0x7f7f7f7f7f7f7f7fULL));
		return ret;
	}
#endif
	(void)pext;
	return proto_gather56(v & 0x7f7f7f7f7f7f7f7fULL);
}

/* AMD's family 17h implements the instruction in microcode, which is slower than without. */
static inline bool has_pext(void)
{
#if defined(__x86_64__)
	return __builtin_cpu_supports("bmi2") && !__builtin_cpu_is("amdfam17h");
#else
	return false;
#endif
}

/* Decodes one number of at most eight bytes at `p`; returns the byte after it, or NULL.
 * Eight bytes must be readable. */
static inline __attribute__((always_inline)) const uint8_t *number_usual(const uint8_t *p,
									 uint64_t *ret, bool pext)
{
	uint64_t word, stop;

	memcpy(&word, p, sizeof(word));
	word = le64toh(word);
	stop = ~word & 0x8080808080808080ULL;
	if (!stop)
		return NULL;
	*ret = block_scan_gather(word & (stop ^ (stop - 1)), pext);
	return p + __builtin_ctzll(stop) / 8 + 1;
}

/* Decodes the body of a tuple, from `p` to `end`, in the form that all encoders write:
 * offset unless 0, then size. False for any other form. Bytes after the body may be read
 * but are ignored. */
static inline __attribute__((always_inline)) bool tuple_parse_usual(const uint8_t *p,
								    const uint8_t *end,
								    uint64_t *ret_offset,
								    uint64_t *ret_length, bool pext)
{
	*ret_offset = 0;
	if (*p == (TUPLE_OFFSET << 3 | PROTO_WIRE_VARINT)) {
		p = number_usual(p + 1, ret_offset, pext);
		if (!p)
			return false;
	}
	if (*p != (TUPLE_LENGTH << 3 | PROTO_WIRE_VARINT))
		return false;
	return number_usual(p + 1, ret_length, pext) == end;
}

static int tuple_refuse(const struct proto_block_scan *scan, uint64_t offset, uint64_t length,
			const char *why, struct cairn_err *err)
{
	return cairn_err_set(err, CAIRN_INTERNAL,
			     "block metadata message %" PRIu64 ": tuple %" PRIu64
			     " (offset %" PRId64 ", size %" PRId64 ") %s",
			     scan->messages, scan->tuples, (int64_t)offset, (int64_t)length, why);
}

static int tuple_bad(const struct proto_block_scan *scan, uint64_t offset, uint64_t length,
		     struct cairn_err *err)
{
	if ((int64_t)length <= 0)
		return tuple_refuse(scan, offset, length, "has no size", err);
	if ((int64_t)offset < 0)
		return tuple_refuse(scan, offset, length, "has a negative offset", err);
	if ((int64_t)(offset + length) < 0)
		return tuple_refuse(scan, offset, length, "ends past what an offset can hold", err);
	if (scan->tuples > 0)
		return tuple_refuse(scan, offset, length, "begins before the last one ends", err);
	return tuple_refuse(scan, offset, length, "ends before the offset asked for", err);
}

/* Checks the rules for a tuple that do not depend on the rest of its message. */
static int tuple_check(struct proto_block_scan *scan, uint64_t offset, uint64_t length,
		       struct cairn_err *err)
{
	uint64_t end = offset + length;
	bool early = scan->tuples > 0 ? offset < scan->end : end <= scan->starting_offset;

	/* A value that is too large has its sign bit set. */
	if ((int64_t)(offset | length | end) < 0 || length == 0 || early)
		return tuple_bad(scan, offset, length, err);
	if (scan->tuples == 0)
		scan->fixed_length = length;
	scan->lengths_differ |= length != scan->fixed_length;
	scan->end = end;
	scan->bytes_reported += length;
	scan->tuples++;
	return 0;
}

static int tuple_emit(const struct block_sink *sink, uint64_t offset, uint64_t length,
		      struct cairn_err *err)
{
	struct block_extent extent = {.offset = offset, .length = length};

	return sink->emit(sink->arg, &extent, err);
}

static int tuple_take(struct proto_block_scan *scan, struct head *head, struct proto_in *in,
		      const struct block_sink *sink, struct cairn_err *err)
{
	struct proto_in body;
	uint64_t offset, length;
	int rc;

	if (!proto_len_get(in, &body) || !tuple_parse(body, &offset, &length))
		return block_scan_malformed(scan, err);
	rc = tuple_check(scan, offset, length, err);
	if (rc < 0)
		return rc;
	head->tuples++;
	head->last_offset = offset;
	return sink ? tuple_emit(sink, offset, length, err) : 0;
}

/* Decodes tuples of the usual form while they are valid. A relay spends its time in this
 * loop, so its state is in locals. It stops at anything else and near the end of the
 * message, and leaves the remaining bytes in `in`. The stream must have had a tuple
 * before. */
static inline __attribute__((always_inline)) int take_usual(struct proto_block_scan *scan,
							    struct head *head, struct proto_in *in,
							    const struct block_sink *sink,
							    struct cairn_err *err, bool pext)
{
	const uint64_t fixed_length = scan->fixed_length;
	uint64_t end = scan->end, tuples = 0, bytes = 0, differing = 0, last = head->last_offset;
	const uint8_t *p = in->pos;
	int rc = 0;

	while (in->end - p >= 2 + PROTO_BLOCK_TUPLE_MAX + PROTO_BLOCK_SLACK && rc == 0) {
		const uint8_t *next = p + 2 + p[1];
		uint64_t offset, length;

		if (p[0] != (FIELD_TUPLE << 3 | PROTO_WIRE_LEN) || p[1] > PROTO_BLOCK_TUPLE_MAX ||
		    !tuple_parse_usual(p + 2, next, &offset, &length, pext))
			break;
		/* Numbers of eight bytes are below 2^56, so neither they nor their sum are
		 * negative. */
		if (length == 0 || offset < end)
			break;
		differing |= length ^ fixed_length;
		end = offset + length;
		bytes += length;
		tuples++;
		last = offset;
		p = next;
		if (sink)
			rc = tuple_emit(sink, offset, length, err);
	}
	head->tuples += tuples;
	head->last_offset = last;
	scan->tuples += tuples;
	scan->bytes_reported += bytes;
	scan->end = end;
	scan->lengths_differ |= differing != 0;
	in->pos = p;
	return rc;
}

static int tuples_take_usual(struct proto_block_scan *scan, struct head *head, struct proto_in *in,
			     const struct block_sink *sink, struct cairn_err *err)
{
	if (scan->tuples == 0)
		return 0;
	return has_pext() ? take_usual(scan, head, in, sink, err, true)
			  : take_usual(scan, head, in, sink, err, false);
}

static int field_take(struct proto_block_scan *scan, struct head *head, struct proto_in *in,
		      const struct block_sink *sink, struct cairn_err *err)
{
	uint32_t field;
	enum proto_wire wire;
	bool ok;

	if (!proto_tag_get(in, &field, &wire))
		return block_scan_malformed(scan, err);
	if (field == FIELD_TUPLE && wire == PROTO_WIRE_LEN)
		return tuple_take(scan, head, in, sink, err);
	if (field == FIELD_TYPE)
		ok = wire == PROTO_WIRE_VARINT && proto_varint_get(in, &head->type);
	else if (field == FIELD_CAPACITY)
		ok = wire == PROTO_WIRE_VARINT && proto_varint_get(in, &head->capacity);
	else
		ok = field != FIELD_TUPLE && proto_skip(in, field, wire);
	return ok ? 0 : block_scan_malformed(scan, err);
}

/* Checks the rules for the whole message. Offsets ascend, so checking the last one is
 * enough. */
static int head_check(const struct proto_block_scan *scan, const struct head *head,
		      struct cairn_err *err)
{
	const char *why = NULL;

	if (head->type > PROTO_BLOCK_VARIABLE)
		why = "has an unknown block metadata type";
	else if ((int64_t)head->capacity < 0)
		why = "has a negative volume capacity";
	else if (scan->messages > 0 && head->type != scan->type)
		why = "changes the block metadata type";
	else if (scan->messages > 0 && head->capacity != scan->capacity)
		why = "changes the volume capacity";
	else if (head->tuples > 0 && head->last_offset >= head->capacity)
		why = "has a tuple past the volume capacity";
	else if (head->type == PROTO_BLOCK_FIXED && scan->lengths_differ)
		why = "has tuples of several sizes though the type is FIXED_LENGTH";
	else if (scan->max_results > 0 && head->tuples > scan->max_results)
		why = "has more tuples than max_results";
	if (!why)
		return 0;
	return cairn_err_set(err, CAIRN_INTERNAL, "block metadata message %" PRIu64 " %s",
			     scan->messages, why);
}

int proto_block_scan(struct proto_block_scan *scan, const uint8_t *data, size_t len,
		     const struct block_sink *sink, struct cairn_err *err)
{
	struct proto_in in = {.pos = data, .end = data + len};
	struct head head = {0};
	int rc;

	while (in.pos < in.end) {
		rc = tuples_take_usual(scan, &head, &in, sink, err);
		if (rc == 0 && in.pos < in.end)
			rc = field_take(scan, &head, &in, sink, err);
		if (rc < 0)
			return rc;
	}
	rc = head_check(scan, &head, err);
	if (rc < 0)
		return rc;
	scan->type = (uint32_t)head.type;
	scan->capacity = head.capacity;
	scan->messages++;
	return 0;
}
