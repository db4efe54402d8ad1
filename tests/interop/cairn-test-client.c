/* SPDX-License-Identifier: Apache-2.0 */

/* Our gRPC client against any server of the cairn.test service.
 *
 *	cairn-test-client [--ca FILE --name NAME] TARGET
 *
 * A line for each check, "ok NAME" or "not ok NAME: why"; exit 1 when one
 * failed. The checks are those that the peers' clients make of our server.
 */

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/mem.h"
#include "block/extent.h"
#include "cairn_test.pb-c.h"
#include "grpc_health.pb-c.h"
#include "net/grpc/grpc_client.h"
#include "net/signals.h"
#include "net/tls/tls_settings.h"
#include "proto/block_metadata.h"
#include "proto/message.h"

#define STEP_MS     60000
#define MESSAGE_MAX (32U << 20)
#define UNARY       "/cairn.test.Test/Unary"
#define STREAM      "/cairn.test.Test/ServerStream"
#define UPLOAD      "/cairn.test.Test/ClientStream"
#define BIDI        "/cairn.test.Test/Bidi"
#define TUPLES      "/cairn.test.Test/Tuples"

/* What a check has: a channel, and the options to make another. */
struct env {
	struct net_channel *channel;
	struct net_channel_options options;
};

/* Fails a check; `err` itself may be among the arguments. */
#define CHECK(cond, ...)                                                        \
	do {                                                                    \
		if (!(cond))                                                    \
			return failed(err, "line " LINE_TEXT ": " __VA_ARGS__); \
	} while (0)
#define LINE_TEXT2(n) #n
#define LINE_TEXT1(n) LINE_TEXT2(n)
#define LINE_TEXT     LINE_TEXT1(__LINE__)

__attribute__((format(printf, 2, 3))) static int failed(struct cairn_err *err, const char *fmt, ...)
{
	char text[CAIRN_ERR_TEXT_MAX];
	va_list args;

	va_start(args, fmt);
	vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	return cairn_err_set(err, CAIRN_UNKNOWN, "%s", text);
}

static Cairn__Test__EchoRequest request_new(void)
{
	Cairn__Test__EchoRequest request;

	cairn__test__echo_request__init(&request);
	return request;
}

static struct net_rpc_options call_options(const char *path)
{
	return (struct net_rpc_options){.path = path, .timeout_ms = STEP_MS};
}

static int send_request(struct net_rpc *rpc, const Cairn__Test__EchoRequest *request, bool last,
			struct cairn_err *err)
{
	cairn_auto_buf struct cairn_buf buf = CAIRN_BUF_INIT(MESSAGE_MAX);

	proto_pack(&request->base, &buf);
	if (cairn_buf_failed(&buf))
		return cairn_err_nomem(err, "request");
	return net_rpc_send(rpc, buf.len ? (const void *)buf.data : "", buf.len, last, err);
}

/* The next response: 1, 0 or the status. */
static int receive(struct net_rpc *rpc, Cairn__Test__EchoResponse **ret, struct cairn_err *err)
{
	ProtobufCMessage *message = NULL;
	const uint8_t *data;
	size_t n;
	int rc = net_rpc_recv(rpc, &data, &n, err);

	if (rc <= 0)
		return rc;
	rc = proto_unpack(&cairn__test__echo_response__descriptor, data, n, &message, err);
	if (rc < 0)
		return rc;
	*ret = (Cairn__Test__EchoResponse *)message;
	return 1;
}

/* Receives a response and forgets it. */
static int skip(struct net_rpc *rpc, struct cairn_err *err)
{
	const uint8_t *data;
	size_t n;

	return net_rpc_recv(rpc, &data, &n, err);
}

/* A call whose one request is sent. */
static int start(struct env *env, const struct net_rpc_options *options,
		 const Cairn__Test__EchoRequest *request, struct net_rpc **ret,
		 struct cairn_err *err)
{
	int rc = net_rpc_start(env->channel, options, ret, err);

	return rc < 0 ? rc : send_request(*ret, request, true, err);
}

/* A unary call; its response may be thrown away with NULL. */
static int unary(struct env *env, const struct net_rpc_options *options,
		 const Cairn__Test__EchoRequest *request, Cairn__Test__EchoResponse **ret,
		 struct cairn_err *err)
{
	cairn_auto_buf struct cairn_buf buf = CAIRN_BUF_INIT(MESSAGE_MAX);
	cairn_auto_free uint8_t *data = NULL;
	ProtobufCMessage *message = NULL;
	size_t n;
	int rc;

	proto_pack(&request->base, &buf);
	rc = net_rpc_unary(env->channel, options, buf.len ? (const void *)buf.data : "", buf.len,
			   &data, &n, err);
	if (rc < 0)
		return rc;
	rc = proto_unpack(&cairn__test__echo_response__descriptor, data, n, &message, err);
	if (rc < 0)
		return rc;
	if (ret)
		*ret = (Cairn__Test__EchoResponse *)message;
	else
		proto_message_free(message);
	return 0;
}

static int ping(struct env *env, struct cairn_err *err)
{
	struct net_rpc_options options = call_options(UNARY);
	Cairn__Test__EchoRequest request = request_new();

	return unary(env, &options, &request, NULL, err);
}

static int check_statuses(struct env *env, struct cairn_err *err)
{
	static const char *const texts[] = {"space at the end: ", "grüße, мир, 世界 🪨",
					    "100%25 \"quoted\" \\ back", "line\nbreak\ttab"};
	struct net_rpc_options options = call_options(UNARY);

	for (int code = 1; code <= 16; code++) {
		Cairn__Test__EchoRequest request = request_new();
		cairn_auto_free char *text = cairn_strdup(texts[code % 4]);
		struct cairn_err got = {0};

		request.status_code = code;
		request.status_message = text;
		CHECK(unary(env, &options, &request, NULL, &got) == -code, "%d gave %d", code,
		      got.code);
		CHECK(strcmp(got.msg, text) == 0, "%d: message '%s'", code, got.msg);
	}
	return 0;
}

static int check_details(struct env *env, struct cairn_err *err)
{
	static uint8_t detail[] = {0, 1, 2, 0xff, 'x'};
	cairn_cleanup(net_rpc_freep) struct net_rpc *rpc = NULL;
	struct net_rpc_options options = call_options(UNARY);
	Cairn__Test__EchoRequest request = request_new();
	struct cairn_err got = {0};
	const char *value;
	size_t n;

	request.status_code = 9;
	request.status_details = (ProtobufCBinaryData){sizeof(detail), detail};
	CHECK(start(env, &options, &request, &rpc, err) == 0, "start");
	CHECK(skip(rpc, &got) == CAIRN_PRECONDITION, "code %d", got.code);
	value = net_rpc_trailer(rpc, "grpc-status-details-bin", &n);
	CHECK(value && memmem(value, n, detail, sizeof(detail)), "no details");
	return 0;
}

static int check_metadata(struct env *env, struct cairn_err *err)
{
	static const uint8_t blob[] = {0, 1, 0xfe, 0xff, ',', '='};
	static const struct net_metadata_entry entries[] = {
		{"x-head-text", "one, two; three", 15},
		{"x-tail-text", "t", 1},
		{"x-head-data-bin", blob, sizeof(blob)},
		{"x-tail-data-bin", "", 0},
	};
	cairn_cleanup(net_rpc_freep) struct net_rpc *rpc = NULL;
	struct net_rpc_options options = call_options(UNARY);
	Cairn__Test__EchoRequest request = request_new();
	const char *value;
	size_t n;

	options.metadata = entries;
	options.n_metadata = sizeof(entries) / sizeof(entries[0]);
	CHECK(start(env, &options, &request, &rpc, err) == 0, "start");
	CHECK(net_rpc_headers(rpc, err) == 0, "headers");
	value = net_rpc_metadata(rpc, "x-head-text", &n);
	CHECK(value && strcmp(value, "one, two; three") == 0, "x-head-text is '%s'", value);
	value = net_rpc_metadata(rpc, "x-head-data-bin", &n);
	CHECK(value && n == sizeof(blob) && memcmp(value, blob, n) == 0, "x-head-data-bin");
	CHECK(skip(rpc, err) == 1, "message");
	CHECK(skip(rpc, err) == 0, "end");
	value = net_rpc_trailer(rpc, "x-tail-text", &n);
	CHECK(value && strcmp(value, "t") == 0, "x-tail-text");
	value = net_rpc_trailer(rpc, "x-tail-data-bin", &n);
	CHECK(value && n == 0, "x-tail-data-bin");
	return 0;
}

static int check_deadlines(struct env *env, struct cairn_err *err)
{
	struct net_rpc_options options = call_options(UNARY);
	Cairn__Test__EchoRequest request = request_new();
	Cairn__Test__EchoResponse *response = NULL;
	uint64_t left;

	request.delay_ms = 30000;
	options.timeout_ms = 100;
	CHECK(unary(env, &options, &request, NULL, err) == CAIRN_DEADLINE, "%d", err->code);
	request.delay_ms = 0;
	options.timeout_ms = 50000;
	CHECK(unary(env, &options, &request, &response, err) == 0, "%s", err->msg);
	left = response->deadline_ms;
	proto_message_free(&response->base);
	CHECK(left > 0 && left <= 50000, "server saw %lu ms", (unsigned long)left);
	return 0;
}

static int check_cancel(struct env *env, struct cairn_err *err)
{
	cairn_cleanup(net_rpc_freep) struct net_rpc *rpc = NULL;
	struct net_rpc_options options = call_options(STREAM);
	Cairn__Test__EchoRequest request = request_new();
	int rc = 1;

	request.repeat = 1U << 30;
	CHECK(start(env, &options, &request, &rpc, err) == 0, "start");
	for (int i = 0; i < 10; i++)
		CHECK(skip(rpc, err) == 1, "message %d", i);
	net_rpc_cancel(rpc);
	for (int i = 0; rc == 1 && i < 1000000; i++)
		rc = skip(rpc, err);
	CHECK(rc == CAIRN_CANCELLED, "ended with %d", rc);
	return ping(env, err);
}

static int check_server_ends(struct env *env, struct cairn_err *err)
{
	cairn_cleanup(net_rpc_freep) struct net_rpc *rpc = NULL;
	struct net_rpc_options options = call_options(BIDI);
	Cairn__Test__EchoRequest request = request_new();
	static char text[] = "enough";
	int rc = 0;

	CHECK(net_rpc_start(env->channel, &options, &rpc, err) == 0, "start");
	request.status_code = 10;
	request.status_message = text;
	CHECK(send_request(rpc, &request, false, err) == 0, "send");
	request.status_code = 0;
	for (int i = 0; rc == 0 && i < 1000000; i++)
		rc = send_request(rpc, &request, false, err);
	CHECK(rc == CAIRN_ABORTED, "sending ended with %d", rc);
	rc = skip(rpc, err);
	CHECK(rc == CAIRN_ABORTED && strcmp(err->msg, "enough") == 0, "%d %s", rc, err->msg);
	return 0;
}

static int check_sizes(struct env *env, struct cairn_err *err)
{
	static const size_t sizes[] = {0, 1, 16383, 16384, 65535, 1 << 20, (4 << 20) - 64};
	struct net_rpc_options options = call_options(UNARY);
	cairn_auto_free uint8_t *bytes = cairn_alloc(4 << 20);

	CHECK(bytes, "memory");
	memset(bytes, 0x5a, 4 << 20);
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		Cairn__Test__EchoRequest request = request_new();
		Cairn__Test__EchoResponse *response = NULL;
		bool same;

		request.payload = (ProtobufCBinaryData){sizes[i], bytes};
		CHECK(unary(env, &options, &request, &response, err) == 0, "%zu: %s", sizes[i],
		      err->msg);
		same = response->payload.len == sizes[i] &&
		       (sizes[i] == 0 || memcmp(response->payload.data, bytes, sizes[i]) == 0);
		proto_message_free(&response->base);
		CHECK(same, "%zu bytes differ", sizes[i]);
	}
	return 0;
}

static int check_too_large(struct env *env, struct cairn_err *err)
{
	struct net_rpc_options options = call_options(UNARY);
	Cairn__Test__EchoRequest request = request_new();

	request.reply_bytes = 15U << 20; /* our own limit is 14 MiB */
	CHECK(unary(env, &options, &request, NULL, err) == CAIRN_NO_SPACE, "%d", err->code);
	return ping(env, err);
}

/* What 1000 streams do, after they were all started. */
static int drive(struct net_rpc **rpcs, int n, struct cairn_err *err)
{
	for (int round = 0; round < 3; round++) {
		for (int i = 0; i < n; i++) {
			Cairn__Test__EchoRequest request = request_new();
			uint8_t byte = (uint8_t)i;

			request.payload = (ProtobufCBinaryData){1, &byte};
			CHECK(send_request(rpcs[i], &request, round == 2, err) == 0,
			      "send on %d: %s", i, err->msg);
		}
		for (int i = 0; i < n; i++) {
			Cairn__Test__EchoResponse *response = NULL;
			bool good;

			CHECK(receive(rpcs[i], &response, err) == 1, "stream %d: %s", i, err->msg);
			good = response->payload.len == 1 &&
			       response->payload.data[0] == (uint8_t)i &&
			       response->index == (uint64_t)round;
			proto_message_free(&response->base);
			CHECK(good, "stream %d got another's answer", i);
		}
	}
	for (int i = 0; i < n; i++)
		CHECK(skip(rpcs[i], err) == 0, "stream %d: %s", i, err->msg);
	return 0;
}

static int check_many(struct env *env, struct cairn_err *err)
{
	enum { N = 1000 };
	static struct net_rpc *rpcs[N];
	struct net_rpc_options options = call_options(BIDI);
	int rc = 0;

	for (int i = 0; rc == 0 && i < N; i++)
		rc = net_rpc_start(env->channel, &options, &rpcs[i], err);
	if (rc == 0)
		rc = drive(rpcs, N, err);
	for (int i = 0; i < N; i++) {
		net_rpc_free(rpcs[i]);
		rpcs[i] = NULL;
	}
	return rc;
}

struct caller {
	pthread_t thread;
	struct env *env;
	struct cairn_err err;
	int rc;
};

static void *call_often(void *arg)
{
	struct caller *caller = arg;

	for (int i = 0; caller->rc == 0 && i < 50; i++)
		caller->rc = ping(caller->env, &caller->err);
	return NULL;
}

static int check_callers(struct env *env, struct cairn_err *err)
{
	enum { N = 64 };
	static struct caller callers[N];
	int rc = 0;

	for (int i = 0; i < N; i++) {
		callers[i] = (struct caller){.env = env};
		CHECK(pthread_create(&callers[i].thread, NULL, call_often, &callers[i]) == 0,
		      "thread");
	}
	for (int i = 0; i < N; i++) {
		pthread_join(callers[i].thread, NULL);
		if (callers[i].rc < 0) {
			rc = callers[i].rc;
			*err = callers[i].err;
		}
	}
	return rc;
}

static int check_slow(struct env *env, struct cairn_err *err)
{
	cairn_cleanup(net_rpc_freep) struct net_rpc *rpc = NULL;
	struct net_rpc_options options = call_options(STREAM);
	Cairn__Test__EchoRequest request = request_new();

	request.repeat = 400;
	request.reply_bytes = 64 << 10;
	CHECK(start(env, &options, &request, &rpc, err) == 0, "start");
	CHECK(skip(rpc, err) == 1, "first");
	cairn_sleep_ms(200);
	for (int i = 0; i < 20; i++)
		CHECK(ping(env, err) == 0, "ping beside a slow stream: %s", err->msg);
	for (unsigned i = 1; i < 400; i++) {
		Cairn__Test__EchoResponse *response = NULL;
		uint64_t index;

		CHECK(receive(rpc, &response, err) == 1, "message %u: %s", i, err->msg);
		index = response->index;
		proto_message_free(&response->base);
		CHECK(index == i, "message %u has index %lu", i, (unsigned long)index);
	}
	CHECK(skip(rpc, err) == 0, "end: %s", err->msg);
	return 0;
}

static int check_upload(struct env *env, struct cairn_err *err)
{
	cairn_cleanup(net_rpc_freep) struct net_rpc *rpc = NULL;
	proto_auto_message ProtobufCMessage *message = NULL;
	struct net_rpc_options options = call_options(UPLOAD);
	Cairn__Test__EchoRequest request = request_new();
	static uint8_t bytes[1000];
	const Cairn__Test__Summary *summary;
	const uint8_t *data;
	size_t n;

	request.payload = (ProtobufCBinaryData){sizeof(bytes), bytes};
	CHECK(net_rpc_start(env->channel, &options, &rpc, err) == 0, "start");
	for (int i = 0; i < 100; i++)
		CHECK(send_request(rpc, &request, false, err) == 0, "send: %s", err->msg);
	CHECK(net_rpc_send_end(rpc, err) == 0, "half-close");
	CHECK(net_rpc_recv(rpc, &data, &n, err) == 1, "summary: %s", err->msg);
	CHECK(proto_unpack(&cairn__test__summary__descriptor, data, n, &message, err) == 0, "%s",
	      err->msg);
	summary = (const Cairn__Test__Summary *)message;
	CHECK(summary->messages == 100 && summary->bytes == 100000, "summary is wrong");
	CHECK(skip(rpc, err) == 0, "end: %s", err->msg);
	return 0;
}

static int check_half_closed(struct env *env, struct cairn_err *err)
{
	cairn_cleanup(net_rpc_freep) struct net_rpc *rpc = NULL;
	cairn_cleanup(net_rpc_freep) struct net_rpc *empty = NULL;
	struct net_rpc_options options = call_options(BIDI);
	Cairn__Test__EchoRequest request = request_new();

	request.delay_ms = 20;
	CHECK(net_rpc_start(env->channel, &options, &rpc, err) == 0, "start");
	for (int i = 0; i < 3; i++)
		CHECK(send_request(rpc, &request, i == 2, err) == 0, "send");
	for (int i = 0; i < 3; i++)
		CHECK(skip(rpc, err) == 1, "answer %d: %s", i, err->msg);
	CHECK(skip(rpc, err) == 0, "end: %s", err->msg);
	CHECK(net_rpc_start(env->channel, &options, &empty, err) == 0, "start");
	CHECK(net_rpc_send_end(empty, err) == 0, "half-close");
	CHECK(skip(empty, err) == 0, "empty call: %s", err->msg);
	return 0;
}

/* One call without any message: what it ends with. */
static int end_of(struct env *env, const char *path, int status, uint32_t repeat,
		  unsigned *ret_messages)
{
	cairn_cleanup(net_rpc_freep) struct net_rpc *rpc = NULL;
	struct net_rpc_options options = call_options(path);
	Cairn__Test__EchoRequest request = request_new();
	struct cairn_err err = {0};
	int rc;

	request.status_code = status;
	request.repeat = repeat;
	*ret_messages = 0;
	rc = start(env, &options, &request, &rpc, &err);
	if (rc < 0)
		return rc;
	while ((rc = skip(rpc, &err)) == 1)
		++*ret_messages;
	return rc;
}

static int check_ends(struct env *env, struct cairn_err *err)
{
	static const struct {
		const char *path;
		int status;
		uint32_t repeat;
		int code;
		unsigned messages;
	} cases[] = {
		{STREAM, 5, 0, CAIRN_NOT_FOUND, 0},
		{STREAM, 0, 0, CAIRN_OK, 0},
		{STREAM, 15, 5, CAIRN_DATA_LOSS, 5},
		{"/cairn.test.Test/Nothing", 0, 0, CAIRN_UNIMPLEMENTED, 0},
		{"/no.such.Service/Nothing", 0, 0, CAIRN_UNIMPLEMENTED, 0},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		unsigned n;
		int rc = end_of(env, cases[i].path, cases[i].status, cases[i].repeat, &n);

		CHECK(rc == cases[i].code && n == cases[i].messages, "%s: %d after %u",
		      cases[i].path, rc, n);
	}
	return 0;
}

/* The scan that a relay makes, over what another implementation encoded. */
static int check_tuples(struct env *env, struct cairn_err *err)
{
	static const uint32_t per_message[] = {1, 16, 1024};

	for (size_t i = 0; i < 3; i++) {
		cairn_cleanup(net_rpc_freep) struct net_rpc *rpc = NULL;
		cairn_auto_buf struct cairn_buf buf = CAIRN_BUF_INIT(1024);
		struct proto_block_scan scan = {.max_results = per_message[i]};
		struct net_rpc_options options = call_options(TUPLES);
		Cairn__Test__TupleRequest request;
		const uint8_t *data;
		size_t n;
		int rc;

		cairn__test__tuple_request__init(&request);
		request.count = 10000;
		request.per_message = per_message[i];
		request.stride = 8192;
		request.length = 4096;
		proto_pack(&request.base, &buf);
		CHECK(net_rpc_start(env->channel, &options, &rpc, err) == 0, "start");
		CHECK(net_rpc_send(rpc, buf.data, buf.len, true, err) == 0, "send");
		while ((rc = net_rpc_recv(rpc, &data, &n, err)) == 1)
			CHECK(proto_block_scan(&scan, data, n, NULL, err) == 0, "%s", err->msg);
		CHECK(rc == 0 && scan.tuples == 10000, "%d after %lu", rc,
		      (unsigned long)scan.tuples);
		CHECK(scan.end == 9999 * 8192 + 4096, "last tuple");
	}
	return 0;
}

static int check_health(struct env *env, struct cairn_err *err)
{
	struct net_rpc_options options = call_options("/grpc.health.v1.Health/Check");
	cairn_auto_free uint8_t *data = NULL;
	size_t n;

	CHECK(net_rpc_unary(env->channel, &options, "", 0, &data, &n, err) == 0, "%s", err->msg);
	CHECK(n == 2 && data[0] == 8 && data[1] == 1, "not SERVING");
	return 0;
}

/* On a channel of its own: the server breaks every connection. */
static int check_death(struct env *env, struct cairn_err *err)
{
	cairn_cleanup(net_channel_freep) struct net_channel *channel = NULL;
	cairn_cleanup(net_rpc_freep) struct net_rpc *rpc = NULL;
	struct net_rpc_options options = call_options(STREAM);
	Cairn__Test__EchoRequest request = request_new();
	struct env own = *env;
	int rc = 1;

	CHECK(net_channel_new(&env->options, &channel, err) == 0, "channel");
	own.channel = channel;
	request.repeat = 3;
	request.die = true;
	CHECK(start(&own, &options, &request, &rpc, err) == 0, "start");
	while (rc == 1)
		rc = skip(rpc, err);
	CHECK(rc == CAIRN_UNAVAILABLE || rc == CAIRN_INTERNAL, "ended with %d", rc);
	options = call_options(UNARY);
	options.wait_for_ready = true;
	request = request_new();
	CHECK(unary(&own, &options, &request, NULL, err) == 0, "after it: %s", err->msg);
	return 0;
}

static const struct {
	const char *name;
	int (*run)(struct env *env, struct cairn_err *err);
} checks[] = {
	{"statuses", check_statuses},
	{"status details", check_details},
	{"metadata", check_metadata},
	{"deadlines", check_deadlines},
	{"cancel from the client", check_cancel},
	{"cancel from the server", check_server_ends},
	{"messages up to 4 MiB", check_sizes},
	{"message over the limit", check_too_large},
	{"1000 concurrent streams", check_many},
	{"64 concurrent callers", check_callers},
	{"slow reader", check_slow},
	{"client streaming", check_upload},
	{"half-closed streams", check_half_closed},
	{"trailers only and other ends", check_ends},
	{"tuples", check_tuples},
	{"health", check_health},
	{"server dies in mid-stream", check_death},
};

static int run(struct env *env)
{
	int bad = 0;

	for (size_t i = 0; i < sizeof(checks) / sizeof(checks[0]); i++) {
		struct cairn_err err = {0};

		if (checks[i].run(env, &err) == 0) {
			printf("ok %s\n", checks[i].name);
		} else {
			bad++;
			printf("not ok %s: %s\n", checks[i].name, err.msg);
		}
		fflush(stdout);
	}
	return bad ? 1 : 0;
}

int main(int argc, char **argv)
{
	cairn_cleanup(net_channel_freep) struct net_channel *channel = NULL;
	cairn_cleanup(net_tls_freep) struct net_tls *tls = NULL;
	struct net_tls_options tls_options = {.h2 = true};
	struct env env = {.options = {.message_max = 14U << 20, .backoff_first_ms = 50}};
	struct cairn_err err = {0};
	sigset_t signals;
	int i = 1;

	net_signals_block(&signals);
	for (; i + 1 < argc && strncmp(argv[i], "--", 2) == 0; i += 2) {
		if (strcmp(argv[i], "--ca") == 0)
			tls_options.ca_file = argv[i + 1];
		else if (strcmp(argv[i], "--name") == 0)
			tls_options.server_name = argv[i + 1];
	}
	if (i + 1 != argc) {
		fprintf(stderr, "usage: cairn-test-client [--ca FILE --name NAME] TARGET\n");
		return 2;
	}
	env.options.target = argv[i];
	env.options.server_name = tls_options.server_name;
	if ((tls_options.ca_file && net_tls_client_new(&tls_options, &tls, &err) < 0) ||
	    (env.options.tls = tls, net_channel_new(&env.options, &channel, &err) < 0)) {
		fprintf(stderr, "cairn-test-client: %s\n", err.msg);
		return 1;
	}
	env.channel = channel;
	return run(&env);
}
