/* SPDX-License-Identifier: Apache-2.0 */

#include "proto/block_metadata.h"

#include <inttypes.h>

#include "base/err.h"
#include "proto/block_scan_impl.h"

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
		if (field == PROTO_BLOCK_TUPLE_OFFSET)
			ok = wire == PROTO_WIRE_VARINT && proto_varint_get(&body, &offset);
		else if (field == PROTO_BLOCK_TUPLE_LENGTH)
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

static int tuple_take(struct proto_block_scan *scan, struct proto_block_head *head,
		      struct proto_in *in, const struct block_sink *sink, struct cairn_err *err)
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
	return sink ? proto_block_emit(sink, offset, length, err) : 0;
}

static int field_take(struct proto_block_scan *scan, struct proto_block_head *head,
		      struct proto_in *in, const struct block_sink *sink, struct cairn_err *err)
{
	uint32_t field;
	enum proto_wire wire;
	bool ok;

	if (!proto_tag_get(in, &field, &wire))
		return block_scan_malformed(scan, err);
	if (field == PROTO_BLOCK_FIELD_TUPLE && wire == PROTO_WIRE_LEN)
		return tuple_take(scan, head, in, sink, err);
	if (field == PROTO_BLOCK_FIELD_TYPE)
		ok = wire == PROTO_WIRE_VARINT && proto_varint_get(in, &head->type);
	else if (field == PROTO_BLOCK_FIELD_CAPACITY)
		ok = wire == PROTO_WIRE_VARINT && proto_varint_get(in, &head->capacity);
	else
		ok = field != PROTO_BLOCK_FIELD_TUPLE && proto_skip(in, field, wire);
	return ok ? 0 : block_scan_malformed(scan, err);
}

/* Checks the rules for the whole message. Offsets ascend, so checking the last one is
 * enough. */
static int head_check(const struct proto_block_scan *scan, const struct proto_block_head *head,
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
	struct proto_block_head head = {0};
	int rc;

	while (in.pos < in.end) {
		rc = scan->tuples > 0 ? proto_block_scan_fast(scan, &head, &in, sink, err) : 0;
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
