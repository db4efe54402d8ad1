/* SPDX-License-Identifier: Apache-2.0 */

#include "test_service.h"

#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/err.h"
#include "cairn_test.pb-c.h"
#include "net/grpc/call.h"
#include "net/grpc/grpc_server.h"
#include "proto/block_metadata.h"
#include "proto/message.h"
#include "proto/test_descriptors.h"

#define MESSAGE_MAX    (32U << 20)
#define DESCRIPTOR_MAX 4096

/* Receives and decodes the next request: 1, 0 at the end, or a code. */
static int receive(struct net_call *call, ProtobufCMessage **ret, struct cairn_err *err)
{
	const uint8_t *data;
	size_t n;
	int rc = net_call_recv(call, &data, &n, err);

	if (rc <= 0)
		return rc;
	rc = proto_unpack(&cairn__test__echo_request__descriptor, data, n, ret, err);
	return rc < 0 ? rc : 1;
}

static int echo_metadata(struct net_call *call, struct cairn_err *err)
{
	const char *name, *value;
	size_t len;
	int rc = 0;

	for (size_t i = 0; rc == 0 && net_call_metadata_at(call, i, &name, &value, &len); i++) {
		if (strncmp(name, "x-head-", 7) == 0)
			rc = net_call_add_header(call, name, value, len, err);
		else if (strncmp(name, "x-tail-", 7) == 0)
			rc = net_call_add_trailer(call, name, value, len, err);
	}
	return rc;
}

/* Breaks every connection of this process, as a crash would. All are found before
 * the first is broken: a client comes back at once, and its new connection must
 * live. */
static void break_connections(void)
{
	int found[DESCRIPTOR_MAX];
	size_t n = 0;

	for (int fd = 3; fd < DESCRIPTOR_MAX; fd++) {
		struct sockaddr_storage peer;
		socklen_t len = sizeof(peer);

		if (getpeername(fd, (struct sockaddr *)&peer, &len) == 0)
			found[n++] = fd;
	}
	for (size_t i = 0; i < n; i++)
		(void)shutdown(found[i], SHUT_RDWR);
}

static void add_bytes(struct cairn_buf *buf, uint8_t tag, const void *data, size_t n)
{
	cairn_buf_add(buf, &tag, 1);
	cairn_buf_add_varint(buf, n);
	cairn_buf_add(buf, data, n);
}

/* A google.rpc.Status with one detail. */
static int set_details(struct net_call *call, const Cairn__Test__EchoRequest *request,
		       struct cairn_err *err)
{
	static const char type[] = "cairn.test/details";
	cairn_auto_buf struct cairn_buf any = CAIRN_BUF_INIT(65536);
	cairn_auto_buf struct cairn_buf status = CAIRN_BUF_INIT(65536);

	add_bytes(&any, 1 << 3 | 2, type, sizeof(type) - 1);
	add_bytes(&any, 2 << 3 | 2, request->status_details.data, request->status_details.len);
	cairn_buf_addc(&status, 1 << 3);
	cairn_buf_add_varint(&status, (uint64_t)request->status_code);
	add_bytes(&status, 2 << 3 | 2, request->status_message, strlen(request->status_message));
	add_bytes(&status, 3 << 3 | 2, any.data, any.len);
	if (cairn_buf_failed(&any) || cairn_buf_failed(&status))
		return cairn_err_nomem(err, "details");
	return net_call_set_details(call, status.data, status.len, err);
}

/* 0, or the end that the request asks for. */
static int status_of(struct net_call *call, const Cairn__Test__EchoRequest *request,
		     struct cairn_err *err)
{
	int rc;

	if (request->die) {
		break_connections();
		return cairn_err_set(err, CAIRN_UNAVAILABLE, "died");
	}
	if (request->status_code <= 0 || request->status_code > 16)
		return 0;
	if (request->status_details.len > 0) {
		rc = set_details(call, request, err);
		if (rc < 0)
			return rc;
	}
	return cairn_err_set(err, -request->status_code, "%s", request->status_message);
}

static int answer(struct net_call *call, const Cairn__Test__EchoRequest *request, uint64_t index,
		  struct cairn_err *err)
{
	cairn_auto_buf struct cairn_buf zeros = CAIRN_BUF_INIT(MESSAGE_MAX);
	cairn_auto_buf struct cairn_buf out = CAIRN_BUF_INIT(MESSAGE_MAX);
	uint64_t deadline = net_call_deadline(call), now = cairn_monotonic_ns();
	Cairn__Test__EchoResponse response;
	int rc = request->delay_ms ? net_call_sleep(call, request->delay_ms, err) : 0;

	if (rc < 0)
		return rc;
	cairn__test__echo_response__init(&response);
	response.index = index;
	response.payload = request->payload;
	if (deadline != UINT64_MAX && deadline > now)
		response.deadline_ms = (deadline - now) / CAIRN_NS_PER_MS;
	if (request->reply_bytes > 0) {
		void *at = cairn_buf_reserve(&zeros, request->reply_bytes);

		if (!at)
			return cairn_err_nomem(err, "reply");
		memset(at, 0, request->reply_bytes);
		response.payload.data = at;
		response.payload.len = request->reply_bytes;
	}
	proto_pack(&response.base, &out);
	if (cairn_buf_failed(&out))
		return cairn_err_nomem(err, "reply");
	return net_call_send(call, out.data, out.len, err);
}

/* Receives the request of a call and sends its metadata back; 1 if the call goes on. */
static int begin_echo(struct net_call *call, ProtobufCMessage **ret,
		      const Cairn__Test__EchoRequest **ret_request, struct cairn_err *err)
{
	int rc = receive(call, ret, err);

	if (rc <= 0)
		return rc;
	*ret_request = (const Cairn__Test__EchoRequest *)*ret;
	rc = echo_metadata(call, err);
	return rc == 0 ? 1 : rc;
}

static int serve_unary(struct net_call *call, void *arg, struct cairn_err *err)
{
	proto_auto_message ProtobufCMessage *message = NULL;
	const Cairn__Test__EchoRequest *request;
	int rc = begin_echo(call, &message, &request, err);

	(void)arg;
	if (rc > 0)
		rc = status_of(call, request, err);
	else
		return rc;
	return rc < 0 ? rc : answer(call, request, 0, err);
}

static int serve_server_stream(struct net_call *call, void *arg, struct cairn_err *err)
{
	proto_auto_message ProtobufCMessage *message = NULL;
	const Cairn__Test__EchoRequest *request;
	int rc = begin_echo(call, &message, &request, err);

	(void)arg;
	if (rc <= 0)
		return rc;
	rc = 0;
	for (uint32_t i = 0; rc == 0 && i < request->repeat; i++)
		rc = answer(call, request, i, err);
	return rc < 0 ? rc : status_of(call, request, err);
}

static int serve_client_stream(struct net_call *call, void *arg, struct cairn_err *err)
{
	cairn_auto_buf struct cairn_buf out = CAIRN_BUF_INIT(1024);
	Cairn__Test__Summary summary;
	int rc = echo_metadata(call, err);

	(void)arg;
	cairn__test__summary__init(&summary);
	while (rc >= 0) {
		proto_auto_message ProtobufCMessage *message = NULL;
		const Cairn__Test__EchoRequest *request;

		rc = receive(call, &message, err);
		if (rc <= 0)
			break;
		request = (const Cairn__Test__EchoRequest *)message;
		rc = status_of(call, request, err);
		summary.messages++;
		summary.bytes += request->payload.len;
	}
	if (rc < 0)
		return rc;
	proto_pack(&summary.base, &out);
	return net_call_send(call, out.data, out.len, err);
}

static int serve_bidi(struct net_call *call, void *arg, struct cairn_err *err)
{
	int rc = echo_metadata(call, err);

	(void)arg;
	for (uint64_t i = 0; rc >= 0; i++) {
		proto_auto_message ProtobufCMessage *message = NULL;
		const Cairn__Test__EchoRequest *request;

		rc = receive(call, &message, err);
		if (rc <= 0)
			return rc;
		request = (const Cairn__Test__EchoRequest *)message;
		rc = status_of(call, request, err);
		if (rc == 0)
			rc = answer(call, request, i, err);
	}
	return rc;
}

static int send_tuples(struct net_call *call, const Cairn__Test__TupleRequest *request,
		       struct cairn_err *err)
{
	uint64_t stride = (uint64_t)request->stride, length = (uint64_t)request->length;
	uint64_t capacity = request->count * stride + length;
	size_t room = PROTO_BLOCK_ROOM(request->per_message);

	for (uint64_t at = 0; at < request->count;) {
		struct proto_block_writer w;
		uint8_t *out;
		int rc = net_call_reserve(call, room, &out, err);

		if (rc < 0)
			return rc;
		proto_block_begin(&w, out, room, PROTO_BLOCK_FIXED, capacity);
		for (uint32_t n = 0; n < request->per_message && at < request->count; n++, at++)
			(void)proto_block_add(&w, at * stride, length);
		net_call_commit(call, proto_block_len(&w), at < request->count);
	}
	return 0;
}

static int serve_tuples(struct net_call *call, void *arg, struct cairn_err *err)
{
	proto_auto_message ProtobufCMessage *message = NULL;
	const Cairn__Test__TupleRequest *request;
	const uint8_t *data;
	size_t n;
	int rc = net_call_recv(call, &data, &n, err);

	(void)arg;
	if (rc <= 0)
		return rc;
	rc = proto_unpack(&cairn__test__tuple_request__descriptor, data, n, &message, err);
	if (rc < 0)
		return rc;
	request = (const Cairn__Test__TupleRequest *)message;
	if (request->per_message == 0 || request->per_message > 65536 || request->stride <= 0 ||
	    request->length <= 0 || request->stride > 1LL << 32 || request->count > 1ULL << 30)
		return cairn_err_set(err, CAIRN_INVALID, "no such tuples");
	return send_tuples(call, request, err);
}

int test_service_add(struct net_server *server, struct cairn_err *err)
{
	static const struct net_method methods[] = {
		{.path = "/cairn.test.Test/Unary", .kind = NET_UNARY, .handler = serve_unary},
		{.path = "/cairn.test.Test/ServerStream",
		 .kind = NET_SERVER_STREAM,
		 .handler = serve_server_stream},
		{.path = "/cairn.test.Test/ClientStream",
		 .kind = NET_CLIENT_STREAM,
		 .handler = serve_client_stream},
		{.path = "/cairn.test.Test/Bidi", .kind = NET_BIDI, .handler = serve_bidi},
		{.path = "/cairn.test.Test/Tuples",
		 .kind = NET_SERVER_STREAM,
		 .handler = serve_tuples},
	};
	int rc = net_server_add(server, methods, sizeof(methods) / sizeof(methods[0]), err);

	if (rc < 0)
		return rc;
	return net_server_add_reflection(server, proto_test_set, proto_test_set_len, err);
}
