/* SPDX-License-Identifier: Apache-2.0 */

#include "proto/message.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/mem.h"
#include "base/text.h"
#include "proto/wire.h"

/* Counts the allocated memory and never subtracts: an unpack frees only when it fails. */
struct budget {
	size_t left;
	bool spent; /* or memory is short */
};

static void *budget_alloc(void *arg, size_t size)
{
	struct budget *budget = arg;
	void *p = size <= budget->left ? cairn_alloc(size) : NULL;

	if (p)
		budget->left -= size;
	else
		budget->spent = true;
	return p;
}

static void budget_free(void *arg, void *p)
{
	(void)arg;
	free(p);
}

static int message_check(const ProtobufCMessageDescriptor *type, struct proto_in in, unsigned depth,
			 struct cairn_err *err);

/* Checks one value of a string or message field; all other fields are ignored. */
static int message_check_value(const ProtobufCFieldDescriptor *field, struct proto_in body,
			       unsigned depth, struct cairn_err *err)
{
	size_t n = proto_in_left(&body);

	if (field->type == PROTOBUF_C_TYPE_MESSAGE)
		return message_check(field->descriptor, body, depth + 1, err);
	if (field->type == PROTOBUF_C_TYPE_STRING &&
	    (memchr(body.pos, 0, n) || !cairn_utf8_valid((const char *)body.pos, n)))
		return cairn_err_set(err, CAIRN_INVALID, "field %s holds no valid text",
				     field->name);
	return 0;
}

static int message_check(const ProtobufCMessageDescriptor *type, struct proto_in in, unsigned depth,
			 struct cairn_err *err)
{
	if (depth > PROTO_DEPTH_MAX)
		return cairn_err_set(err, CAIRN_INVALID, "messages are nested too deeply");
	while (in.pos < in.end) {
		const ProtobufCFieldDescriptor *field;
		struct proto_in body;
		enum proto_wire wire;
		uint32_t number;
		bool ok = proto_tag_get(&in, &number, &wire);

		if (ok && wire == PROTO_WIRE_LEN)
			ok = proto_len_get(&in, &body);
		else if (ok)
			ok = proto_skip(&in, number, wire);
		if (!ok)
			return cairn_err_set(err, CAIRN_INVALID, "malformed %s", type->name);
		field = protobuf_c_message_descriptor_get_field(type, number);
		if (field && wire == PROTO_WIRE_LEN) {
			int rc = message_check_value(field, body, depth, err);

			if (rc < 0)
				return rc;
		}
	}
	return 0;
}

int proto_unpack(const ProtobufCMessageDescriptor *type, const uint8_t *data, size_t len,
		 ProtobufCMessage **ret_message, struct cairn_err *err)
{
	/* An empty message may be passed as a NULL pointer. */
	const uint8_t *bytes = len ? data : (const uint8_t *)"";
	struct proto_in in = {.pos = bytes, .end = bytes + len};
	struct budget budget = {.left = PROTO_UNPACK_MEMORY_MAX};
	ProtobufCAllocator allocator = {
		.alloc = budget_alloc, .free = budget_free, .allocator_data = &budget};
	ProtobufCMessage *message;
	int rc = message_check(type, in, 0, err);

	if (rc < 0)
		return rc;
	message = protobuf_c_message_unpack(type, &allocator, len, bytes);
	if (!message && budget.spent)
		return cairn_err_set(err, CAIRN_NO_SPACE, "%s takes too much memory", type->name);
	if (!message)
		return cairn_err_set(err, CAIRN_INVALID, "malformed %s", type->name);
	*ret_message = message;
	return 0;
}

void proto_message_free(ProtobufCMessage *message)
{
	ProtobufCAllocator allocator = {.alloc = budget_alloc, .free = budget_free};

	if (message)
		protobuf_c_message_free_unpacked(message, &allocator);
}

void proto_message_freep(void *p)
{
	proto_message_free(*(ProtobufCMessage **)p);
}

char *proto_text(const char *text)
{
	return (char *)(uintptr_t)(text ? text : "");
}

void proto_pack(const ProtobufCMessage *message, struct cairn_buf *buf)
{
	size_t n = protobuf_c_message_get_packed_size(message);
	uint8_t *out = cairn_buf_reserve(buf, n);

	if (out)
		buf->len += protobuf_c_message_pack(message, out);
}
