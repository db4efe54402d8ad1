/* SPDX-License-Identifier: Apache-2.0 */

/* The server, relay and client of the benchmark once more, on the C core of
 * gRPC (Debian's libgrpc), with the same encoder, decoder and method names.
 * Only a measure for grpc_cairn.c, whose arguments and output it shares; errors
 * end the program.
 *
 * One completion queue and one thread, which is the C core's fastest form for
 * a few connections.
 */

#include <grpc/byte_buffer.h>
#include <grpc/byte_buffer_reader.h>
#include <grpc/grpc.h>
#include <grpc/grpc_security.h>
#include <grpc/slice.h>
#include <grpc/support/alloc.h>
#include <grpc/support/time.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/flags.h"
#include "base/io.h"
#include "base/mem.h"
#include "measure.h"
#include "proto/block_metadata.h"

#define TUPLES_PATH   "/cairn.test.Test/Tuples"
#define UNARY_PATH    "/cairn.test.Test/Unary"
#define CPU_PATH      "/cairn.test.Test/Cpu"
#define PENDING_CALLS 64 /* that the server asks for at once */

static struct bench_files files;
static grpc_completion_queue *queue;

static char *read_file(const char *path)
{
	struct cairn_err err = {0};
	char *data;
	size_t n;

	if (cairn_file_read(-100, path, 1 << 20, &data, &n, &err) != 0)
		bench_die(err.msg);
	return data;
}

static void start(grpc_call *call, const grpc_op *ops, size_t n, void *tag)
{
	if (grpc_call_start_batch(call, ops, n, tag, NULL) != GRPC_CALL_OK)
		bench_die("batch refused");
}

static grpc_slice flatten(grpc_byte_buffer *buffer)
{
	grpc_byte_buffer_reader reader;
	grpc_slice slice;

	if (!grpc_byte_buffer_reader_init(&reader, buffer))
		bench_die("unreadable message");
	slice = grpc_byte_buffer_reader_readall(&reader);
	grpc_byte_buffer_reader_destroy(&reader);
	return slice;
}

/* --- server --- */

enum step { ASKED, GOT_REQUEST, SENDING, UP_MESSAGE, UP_STATUS, DONE };

/* Where a completion leads: the call and which of its batches ended. */
struct tag {
	struct server_call *call;
	enum step step;
};

struct server_call {
	grpc_call *call, *up;
	grpc_call_details details;
	grpc_metadata_array metadata, up_headers, up_trailers;
	grpc_byte_buffer *message, *up_message;
	grpc_status_code up_code;
	grpc_slice up_text;
	int cancelled;
	struct tag asked, got, sending, up_got, up_status, done;
	uint64_t count, sent, per, stride, length;
	bool up_ended, up_read_done;
};

static grpc_server *server;
static grpc_channel *up_channel;

static void ask_for_call(void)
{
	struct server_call *c = cairn_calloc(1, sizeof(*c));

	if (!c)
		bench_die("memory");
	grpc_call_details_init(&c->details);
	grpc_metadata_array_init(&c->metadata);
	grpc_metadata_array_init(&c->up_headers);
	grpc_metadata_array_init(&c->up_trailers);
	c->asked = (struct tag){c, ASKED};
	c->got = (struct tag){c, GOT_REQUEST};
	c->sending = (struct tag){c, SENDING};
	c->up_got = (struct tag){c, UP_MESSAGE};
	c->up_status = (struct tag){c, UP_STATUS};
	c->done = (struct tag){c, DONE};
	grpc_server_request_call(server, &c->call, &c->details, &c->metadata, queue, queue,
				 &c->asked);
}

static void free_call(struct server_call *c)
{
	grpc_call_unref(c->call);
	if (c->up)
		grpc_call_unref(c->up);
	grpc_call_details_destroy(&c->details);
	grpc_metadata_array_destroy(&c->metadata);
	grpc_metadata_array_destroy(&c->up_headers);
	grpc_metadata_array_destroy(&c->up_trailers);
	if (c->message)
		grpc_byte_buffer_destroy(c->message);
	free(c);
}

/* Sends a message (may be NULL), the headers with the first and the status with
 * the last. */
static void reply(struct server_call *c, grpc_byte_buffer *message, bool first, bool last,
		  grpc_status_code code)
{
	grpc_op ops[4] = {0};
	size_t n = 0;

	if (first)
		ops[n++].op = GRPC_OP_SEND_INITIAL_METADATA;
	if (message) {
		ops[n].op = GRPC_OP_SEND_MESSAGE;
		ops[n++].data.send_message.send_message = message;
	}
	if (last) {
		ops[n].op = GRPC_OP_SEND_STATUS_FROM_SERVER;
		ops[n++].data.send_status_from_server.status = code;
		ops[n].op = GRPC_OP_RECV_CLOSE_ON_SERVER;
		ops[n++].data.recv_close_on_server.cancelled = &c->cancelled;
	}
	start(c->call, ops, n, last ? &c->done : &c->sending);
	if (message)
		grpc_byte_buffer_destroy(message);
}

static grpc_byte_buffer *bytes(const void *data, size_t n)
{
	grpc_slice slice = grpc_slice_from_copied_buffer(data, n);
	grpc_byte_buffer *buffer = grpc_raw_byte_buffer_create(&slice, 1);

	grpc_slice_unref(slice);
	return buffer;
}

static void send_tuples(struct server_call *c)
{
	uint64_t left = c->count - c->sent, n = left < c->per ? left : c->per;
	grpc_slice slice = grpc_slice_malloc(PROTO_BLOCK_ROOM(n));
	bool first = c->sent == 0;
	struct proto_block_writer w;
	grpc_byte_buffer *buffer;

	proto_block_begin(&w, GRPC_SLICE_START_PTR(slice), PROTO_BLOCK_ROOM(n),
			  PROTO_BLOCK_VARIABLE, c->count * c->stride);
	for (uint64_t i = 0; i < n; i++, c->sent++)
		proto_block_add(&w, c->sent * c->stride, c->length);
	GRPC_SLICE_SET_LENGTH(slice, proto_block_len(&w));
	buffer = grpc_raw_byte_buffer_create(&slice, 1);
	grpc_slice_unref(slice);
	reply(c, buffer, first, c->sent == c->count, GRPC_STATUS_OK);
}

static void parse_tuples(struct server_call *c, grpc_slice request)
{
	struct proto_in in = {GRPC_SLICE_START_PTR(request), GRPC_SLICE_END_PTR(request)};
	uint64_t *const fields[] = {NULL, &c->count, &c->per, &c->stride, &c->length};
	enum proto_wire wire;
	uint32_t field;

	while (in.pos < in.end) {
		if (!proto_tag_get(&in, &field, &wire) || field < 1 || field > 4 ||
		    !proto_varint_get(&in, fields[field]))
			bench_die("bad request");
	}
}

static void read_upstream(struct server_call *c)
{
	grpc_op op = {.op = GRPC_OP_RECV_MESSAGE};

	op.data.recv_message.recv_message = &c->up_message;
	start(c->up, &op, 1, &c->up_got);
}

static void begin_relay(struct server_call *c)
{
	grpc_op ops[5] = {0};

	c->up = grpc_channel_create_call(up_channel, NULL, GRPC_PROPAGATE_DEFAULTS, queue,
					 grpc_slice_from_static_string(TUPLES_PATH), NULL,
					 gpr_inf_future(GPR_CLOCK_REALTIME), NULL);
	ops[0].op = GRPC_OP_SEND_INITIAL_METADATA;
	ops[1].op = GRPC_OP_SEND_MESSAGE;
	ops[1].data.send_message.send_message = c->message;
	ops[2].op = GRPC_OP_SEND_CLOSE_FROM_CLIENT;
	ops[3].op = GRPC_OP_RECV_INITIAL_METADATA;
	ops[3].data.recv_initial_metadata.recv_initial_metadata = &c->up_headers;
	ops[4].op = GRPC_OP_RECV_STATUS_ON_CLIENT;
	ops[4].data.recv_status_on_client.trailing_metadata = &c->up_trailers;
	ops[4].data.recv_status_on_client.status = &c->up_code;
	ops[4].data.recv_status_on_client.status_details = &c->up_text;
	start(c->up, ops, 5, &c->up_status);
	read_upstream(c);
}

static void got_request(struct server_call *c)
{
	grpc_slice request = c->message ? flatten(c->message) : grpc_empty_slice();

	if (grpc_slice_str_cmp(c->details.method, TUPLES_PATH) == 0) {
		if (up_channel) {
			begin_relay(c);
		} else {
			parse_tuples(c, request);
			send_tuples(c);
		}
	} else if (grpc_slice_str_cmp(c->details.method, UNARY_PATH) == 0) {
		grpc_byte_buffer *copy = grpc_raw_byte_buffer_create(&request, 1);

		reply(c, copy, true, true, GRPC_STATUS_OK);
	} else {
		uint64_t now = bench_cpu_us();

		reply(c, bytes(&now, sizeof(now)), true, true, GRPC_STATUS_OK);
	}
	grpc_slice_unref(request);
}

static void end_relay(struct server_call *c)
{
	if (!c->up_ended || !c->up_read_done)
		return;
	grpc_slice_unref(c->up_text);
	reply(c, NULL, c->sent == 0, true, c->up_code);
}

static void advance(struct tag *tag)
{
	struct server_call *c = tag->call;
	grpc_op op = {.op = GRPC_OP_RECV_MESSAGE};

	switch (tag->step) {
	case ASKED:
		ask_for_call();
		op.data.recv_message.recv_message = &c->message;
		start(c->call, &op, 1, &c->got);
		break;
	case GOT_REQUEST:
		got_request(c);
		break;
	case SENDING:
		if (up_channel)
			read_upstream(c);
		else
			send_tuples(c);
		break;
	case UP_MESSAGE:
		if (c->up_message) {
			reply(c, c->up_message, c->sent++ == 0, false, GRPC_STATUS_OK);
			c->up_message = NULL;
		} else {
			c->up_read_done = true;
			end_relay(c);
		}
		break;
	case UP_STATUS:
		c->up_ended = true;
		end_relay(c);
		break;
	case DONE:
		free_call(c);
		break;
	}
}

static grpc_server_credentials *server_credentials(void)
{
	grpc_ssl_pem_key_cert_pair pair;

	if (!files.cert)
		return grpc_insecure_server_credentials_create();
	pair.cert_chain = read_file(files.cert);
	pair.private_key = read_file(files.key);
	return grpc_ssl_server_credentials_create_ex(
		NULL, &pair, 1, GRPC_SSL_DONT_REQUEST_CLIENT_CERTIFICATE, NULL);
}

static grpc_channel *connect_to(const char *target)
{
	char *ca = files.ca ? read_file(files.ca) : NULL;
	grpc_channel_credentials *credentials =
		ca ? grpc_ssl_credentials_create(ca, NULL, NULL, NULL)
		   : grpc_insecure_credentials_create();
	grpc_channel *channel = grpc_channel_create(target, credentials, NULL);

	grpc_channel_credentials_release(credentials);
	free(ca);
	return channel;
}

static int serve(const char *address)
{
	grpc_server_credentials *credentials = server_credentials();

	server = grpc_server_create(NULL, NULL);
	grpc_server_register_completion_queue(server, queue, NULL);
	if (!grpc_server_add_http2_port(server, address, credentials))
		bench_die("cannot listen");
	if (files.relay)
		up_channel = connect_to(files.relay);
	grpc_server_start(server);
	for (int i = 0; i < PENDING_CALLS; i++)
		ask_for_call();
	puts("ready");
	fflush(stdout);
	for (;;) {
		grpc_event event =
			grpc_completion_queue_next(queue, gpr_inf_future(GPR_CLOCK_REALTIME), NULL);

		if (event.type != GRPC_OP_COMPLETE)
			return 0;
		advance(event.tag);
	}
}

/* --- client --- */

struct client_call {
	grpc_call *call;
	grpc_metadata_array headers, trailers;
	grpc_byte_buffer *message;
	grpc_status_code code;
	grpc_slice text;
	uint64_t begun;
};

static void begin_call(grpc_channel *channel, struct client_call *c, const char *path,
		       grpc_byte_buffer *request, bool one_answer)
{
	grpc_op ops[6] = {0};
	size_t n = 4;

	*c = (struct client_call){.begun = cairn_monotonic_ns()};
	grpc_metadata_array_init(&c->headers);
	grpc_metadata_array_init(&c->trailers);
	c->call = grpc_channel_create_call(
		channel, NULL, GRPC_PROPAGATE_DEFAULTS, queue, grpc_slice_from_static_string(path),
		NULL,
		one_answer ? gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC),
					  gpr_time_from_seconds(20, GPR_TIMESPAN))
			   : gpr_inf_future(GPR_CLOCK_MONOTONIC),
		NULL);
	ops[0].op = GRPC_OP_SEND_INITIAL_METADATA;
	ops[1].op = GRPC_OP_SEND_MESSAGE;
	ops[1].data.send_message.send_message = request;
	ops[2].op = GRPC_OP_SEND_CLOSE_FROM_CLIENT;
	ops[3].op = GRPC_OP_RECV_INITIAL_METADATA;
	ops[3].data.recv_initial_metadata.recv_initial_metadata = &c->headers;
	if (one_answer) {
		ops[n].op = GRPC_OP_RECV_MESSAGE;
		ops[n++].data.recv_message.recv_message = &c->message;
		ops[n].op = GRPC_OP_RECV_STATUS_ON_CLIENT;
		ops[n].data.recv_status_on_client.trailing_metadata = &c->trailers;
		ops[n].data.recv_status_on_client.status = &c->code;
		ops[n++].data.recv_status_on_client.status_details = &c->text;
	}
	start(c->call, ops, n, c);
	grpc_byte_buffer_destroy(request);
}

static void end_call(struct client_call *c)
{
	grpc_metadata_array_destroy(&c->headers);
	grpc_metadata_array_destroy(&c->trailers);
	if (c->message)
		grpc_byte_buffer_destroy(c->message);
	grpc_slice_unref(c->text);
	grpc_call_unref(c->call);
}

static void *wait_one(void)
{
	grpc_event event =
		grpc_completion_queue_next(queue, gpr_inf_future(GPR_CLOCK_REALTIME), NULL);

	if (event.type != GRPC_OP_COMPLETE)
		bench_die("queue");
	return event.tag;
}

static uint64_t server_cpu(grpc_channel *channel)
{
	struct client_call c;
	uint64_t us = 0;
	grpc_slice slice;

	begin_call(channel, &c, CPU_PATH, bytes("", 0), true);
	wait_one();
	if (c.code != GRPC_STATUS_OK || !c.message)
		bench_die("no CPU time");
	slice = flatten(c.message);
	memcpy(&us, GRPC_SLICE_START_PTR(slice), sizeof(us));
	grpc_slice_unref(slice);
	end_call(&c);
	return us;
}

static grpc_byte_buffer *tuple_request(uint64_t count, uint64_t per)
{
	uint8_t packed[64], *p = packed;

	*p++ = 1 << 3;
	p = proto_varint_put(p, count);
	*p++ = 2 << 3;
	p = proto_varint_put(p, per);
	*p++ = 3 << 3;
	p = proto_varint_put(p, 8192);
	*p++ = 4 << 3;
	p = proto_varint_put(p, 4096);
	return bytes(packed, (size_t)(p - packed));
}

static void read_stream(struct client_call *c, struct proto_block_scan *state)
{
	struct cairn_err err = {0};

	for (;;) {
		grpc_op op = {.op = GRPC_OP_RECV_MESSAGE};
		grpc_slice slice;

		op.data.recv_message.recv_message = &c->message;
		start(c->call, &op, 1, c);
		wait_one();
		if (!c->message)
			return;
		slice = flatten(c->message);
		if (proto_block_scan(state, GRPC_SLICE_START_PTR(slice), GRPC_SLICE_LENGTH(slice),
				     NULL, &err) != 0)
			bench_die(err.msg);
		grpc_slice_unref(slice);
		grpc_byte_buffer_destroy(c->message);
	}
}

static int read_tuples(const char *target, uint64_t count, uint64_t per)
{
	grpc_channel *channel = connect_to(target);
	struct bench_cost cost = bench_cost_begin(server_cpu(channel));
	struct proto_block_scan state = {0};
	grpc_op op = {.op = GRPC_OP_RECV_STATUS_ON_CLIENT};
	struct client_call c;

	begin_call(channel, &c, TUPLES_PATH, tuple_request(count, per), false);
	wait_one();
	read_stream(&c, &state);
	op.data.recv_status_on_client.trailing_metadata = &c.trailers;
	op.data.recv_status_on_client.status = &c.code;
	op.data.recv_status_on_client.status_details = &c.text;
	start(c.call, &op, 1, &c);
	wait_one();
	bench_cost_end(&cost);
	cost.server_us = server_cpu(channel) - cost.server_us;
	bench_print_tuples(state.tuples, &cost);
	return c.code == GRPC_STATUS_OK && state.tuples == count ? 0 : 1;
}

static int small_calls(const char *target, uint64_t count, uint64_t in_flight)
{
	static struct client_call calls[BENCH_IN_FLIGHT_MAX];
	grpc_channel *channel = connect_to(target);
	uint64_t *times = cairn_calloc(count, sizeof(*times)), done = 0, begun = 0;
	struct bench_cost cost = bench_cost_begin(server_cpu(channel));

	if (!times || in_flight > BENCH_IN_FLIGHT_MAX)
		bench_die("too many");
	for (; begun < in_flight && begun < count; begun++)
		begin_call(channel, &calls[begun], UNARY_PATH, bytes("\x0a\x05hello", 7), true);
	while (done < count) {
		struct client_call *c = wait_one();

		if (c->code != GRPC_STATUS_OK || !c->message)
			bench_die("call failed");
		times[done++] = cairn_monotonic_ns() - c->begun;
		end_call(c);
		if (begun++ < count)
			begin_call(channel, c, UNARY_PATH, bytes("\x0a\x05hello", 7), true);
	}
	bench_cost_end(&cost);
	cost.server_us = server_cpu(channel) - cost.server_us;
	bench_print_calls(count, times, &cost);
	free(times);
	return 0;
}

int main(int argc, char **argv)
{
	const struct cairn_flag table[] = {
		BENCH_FILES_FLAGS(&files),
		CAIRN_FLAG_END,
	};
	const struct bench_modes modes = {
		.serve = serve, .tuples = read_tuples, .calls = small_calls};
	int n = bench_arguments(table, argc, argv);

	grpc_init();
	queue = grpc_completion_queue_create_for_next(NULL);
	return bench_run(&modes, n, argv + 1);
}
