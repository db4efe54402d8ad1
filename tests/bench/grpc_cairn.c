/* SPDX-License-Identifier: Apache-2.0 */

/* The gRPC server, relay and client of the benchmark, on our own module.
 *
 *   bench-grpc-cairn serve LISTEN [--cert FILE --key FILE] [--relay TARGET]
 *   bench-grpc-cairn tuples TARGET COUNT PER_MESSAGE [--ca FILE]
 *   bench-grpc-cairn calls TARGET COUNT IN_FLIGHT [--ca FILE]
 *   bench-grpc-cairn slow TARGET CONNECTIONS [--ca FILE]
 *
 * LISTEN is "unix:PATH" or "host:port". The server tells its own CPU time
 * through a method, so that a client can measure the other side. Clients decode
 * every tuple.
 */

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/flags.h"
#include "base/mem.h"
#include "cairn_test.pb-c.h"
#include "measure.h"
#include "net/grpc/call.h"
#include "net/grpc/grpc_client.h"
#include "net/grpc/grpc_server.h"
#include "net/grpc/relay.h"
#include "net/signals.h"
#include "net/tls/tls_settings.h"
#include "proto/block_metadata.h"
#include "proto/message.h"
#include "streams.h"
#include "tuples.h"

#define TUPLES_PATH "/cairn.test.Test/Tuples"
#define UNARY_PATH  "/cairn.test.Test/Unary"
#define CPU_PATH    "/cairn.test.Test/Cpu"

static struct bench_files files;
static bool scan_relayed;

/* --- server --- */

static int tuples(struct net_call *call, void *arg, struct cairn_err *err)
{
	proto_auto_message ProtobufCMessage *message = NULL;
	const Cairn__Test__TupleRequest *r;
	const uint8_t *data;
	size_t n;
	int rc = net_call_recv(call, &data, &n, err);

	(void)arg;
	if (rc != 1)
		return rc;
	rc = proto_unpack(&cairn__test__tuple_request__descriptor, data, n, &message, err);
	if (rc != 0)
		return rc;
	r = (const Cairn__Test__TupleRequest *)message;
	return bench_send_tuples(call,
				 &(struct bench_tuples){.count = r->count,
							.per_message = r->per_message,
							.stride = (uint64_t)r->stride,
							.length = (uint64_t)r->length},
				 err);
}

static int scan(void *arg, const uint8_t *message, size_t n, struct cairn_err *err)
{
	return proto_block_scan(arg, message, n, NULL, err);
}

static int relay_tuples(struct net_call *call, void *arg, struct cairn_err *err)
{
	cairn_cleanup(net_rpc_freep) struct net_rpc *up = NULL;
	struct net_rpc_options options = {.path = TUPLES_PATH, .identity_only = true};
	struct proto_block_scan state = {0};
	struct net_relay_options relay = {.scan = scan_relayed ? scan : NULL, .arg = &state};
	const uint8_t *data;
	size_t n;
	int rc = net_call_recv(call, &data, &n, err);

	if (rc != 1)
		return rc;
	rc = net_rpc_request(arg, &options, data, n, &up, err);
	return rc == 0 ? net_relay_run(call, up, &relay, NULL, err) : rc;
}

static int echo(struct net_call *call, void *arg, struct cairn_err *err)
{
	const uint8_t *data;
	size_t n;
	int rc = net_call_recv(call, &data, &n, err);

	(void)arg;
	return rc == 1 ? net_call_send(call, data, n, err) : rc;
}

static int tell_cpu(struct net_call *call, void *arg, struct cairn_err *err)
{
	uint64_t now = bench_cpu_us();

	(void)arg;
	return net_call_send(call, &now, sizeof(now), err);
}

static void listen_on(struct net_server *server, const char *address, struct net_tls *tls,
		      struct cairn_err *err)
{
	int rc = strncmp(address, "unix:", 5) == 0
			 ? net_server_listen_unix(server, address + 5, 0600, err)
			 : net_server_listen_tcp(server, address, tls, NULL, err);

	if (rc != 0)
		bench_die(err->msg);
}

static int serve(const char *address)
{
	struct net_server_options options = {.name = "bench"};
	struct net_tls_options tls_options = {
		.cert_file = files.cert, .key_file = files.key, .h2 = true};
	struct net_channel_options up_options = {.target = files.relay};
	struct net_server *server = NULL;
	struct net_channel *up = NULL;
	struct net_tls *tls = NULL;
	struct cairn_err err = {0};
	sigset_t set;

	net_signals_block(&set);
	if (files.cert && net_tls_server_new(&tls_options, &tls, &err) != 0)
		bench_die(err.msg);
	if (net_server_new(&options, &server, &err) != 0)
		bench_die(err.msg);
	up_options.loop = net_server_loop(server, 0);
	if (files.relay && net_channel_new(&up_options, &up, &err) != 0)
		bench_die(err.msg);
	{
		const struct net_method methods[] = {
			{TUPLES_PATH, NET_SERVER_STREAM, up ? relay_tuples : tuples, up},
			{UNARY_PATH, NET_UNARY, echo, NULL, .quick = true},
			{CPU_PATH, NET_UNARY, tell_cpu, NULL},
		};

		if (net_server_add(server, methods, 3, &err) != 0)
			bench_die(err.msg);
	}
	listen_on(server, address, tls, &err);
	if (net_server_start(server, &err) != 0)
		bench_die(err.msg);
	puts("ready");
	fflush(stdout);
	net_signals_wait(&set, UINT64_MAX);
	net_server_drain(server, 0);
	net_channel_free(up);
	net_server_free(server);
	net_tls_free(tls);
	return 0;
}

/* --- client --- */

static struct net_channel *connect_to(const char *target, struct net_tls **ret_tls)
{
	struct net_tls_options tls_options = {.ca_file = files.ca, .h2 = true};
	struct net_channel_options options = {.target = target};
	struct net_channel *channel = NULL;
	struct cairn_err err = {0};

	if (files.ca && !*ret_tls && net_tls_client_new(&tls_options, ret_tls, &err) != 0)
		bench_die(err.msg);
	options.tls = *ret_tls;
	if (net_channel_new(&options, &channel, &err) != 0 ||
	    net_channel_connect(channel, 5000, &err) != 0)
		bench_die(err.msg);
	return channel;
}

static uint64_t server_cpu(struct net_channel *channel)
{
	struct net_rpc_options options = {.path = CPU_PATH};
	cairn_auto_free uint8_t *data = NULL;
	struct cairn_err err = {0};
	uint64_t us = 0;
	size_t n;

	if (net_rpc_unary(channel, &options, "", 0, &data, &n, &err) != 0) {
		if (err.code == CAIRN_UNIMPLEMENTED) /* not a server of ours */
			return 0;
		bench_die(err.msg);
	}
	memcpy(&us, data, n < sizeof(us) ? n : sizeof(us));
	return us;
}

static struct net_rpc *ask_tuples(struct net_channel *channel, uint64_t count, uint64_t per)
{
	struct net_rpc_options options = {.path = TUPLES_PATH};
	Cairn__Test__TupleRequest request;
	struct net_rpc *rpc = NULL;
	struct cairn_err err = {0};
	uint8_t packed[64];

	cairn__test__tuple_request__init(&request);
	request.count = count;
	request.per_message = (uint32_t)per;
	request.stride = 8192;
	request.length = 4096;
	if (net_rpc_start(channel, &options, &rpc, &err) != 0 ||
	    net_rpc_send(rpc, packed, protobuf_c_message_pack(&request.base, packed), true, &err) !=
		    0)
		bench_die(err.msg);
	return rpc;
}

static int read_tuples(const char *target, uint64_t count, uint64_t per)
{
	struct net_tls *tls = NULL;
	struct net_channel *channel = connect_to(target, &tls);
	struct bench_cost cost = bench_cost_begin(server_cpu(channel));
	struct net_rpc *rpc = ask_tuples(channel, count, per);
	struct proto_block_scan state = {0};
	struct cairn_err err = {0};
	const uint8_t *data;
	size_t n;
	int rc;

	while ((rc = net_rpc_recv(rpc, &data, &n, &err)) == 1) {
		if (proto_block_scan(&state, data, n, NULL, &err) != 0)
			bench_die(err.msg);
	}
	if (rc != 0)
		bench_die(err.msg);
	bench_cost_end(&cost);
	cost.server_us = server_cpu(channel) - cost.server_us;
	bench_print_tuples(state.tuples, &cost);
	net_rpc_free(rpc);
	net_channel_free(channel);
	net_tls_free(tls);
	return state.tuples == count ? 0 : 1;
}

static void *begin_small(void *channel, uint64_t i)
{
	struct net_rpc_options options = {.path = UNARY_PATH, .timeout_ms = 20000};
	struct net_rpc *rpc = NULL;
	struct cairn_err err = {0};

	(void)i;
	if (net_rpc_start(channel, &options, &rpc, &err) != 0 ||
	    net_rpc_send(rpc, "\x0a\x05hello", 7, true, &err) != 0)
		bench_die(err.msg);
	return rpc;
}

static void finish_small(void *call)
{
	struct net_rpc *rpc = call;
	struct cairn_err err = {0};
	const uint8_t *data;
	size_t n;

	if (net_rpc_recv(rpc, &data, &n, &err) != 1 || n != 7 ||
	    net_rpc_recv(rpc, &data, &n, &err) != 0)
		bench_die(err.msg);
	net_rpc_free(rpc);
}

static int small_calls(const char *target, uint64_t count, uint64_t in_flight)
{
	struct net_tls *tls = NULL;
	struct net_channel *channel = connect_to(target, &tls);
	struct bench_cost cost = bench_cost_begin(server_cpu(channel));
	uint64_t *times = bench_pipeline(count, in_flight, begin_small, finish_small, channel);

	bench_cost_end(&cost);
	cost.server_us = server_cpu(channel) - cost.server_us;
	bench_print_calls(count, times, &cost);
	free(times);
	net_channel_free(channel);
	net_tls_free(tls);
	return 0;
}

/* Begins a stream on each of many connections, reads one message of each and
 * then nothing more until standard input ends. */
static int slow_readers(const char *target, uint64_t count)
{
	struct bench_streams slow;
	struct cairn_err err = {0};
	const uint8_t *data;
	size_t n;

	if (!bench_streams_init(&slow, count))
		return 1;
	for (uint64_t i = 0; i < count; i++) {
		slow.channels[i] = connect_to(target, &slow.tls);
		slow.rpcs[i] = ask_tuples(slow.channels[i], 1ULL << 40, 1024);
		if (net_rpc_recv(slow.rpcs[i], &data, &n, &err) != 1)
			bench_die(err.msg);
	}
	puts("ready");
	fflush(stdout);
	(void)!getchar();
	bench_streams_done(&slow);
	return 0;
}

int main(int argc, char **argv)
{
	const struct cairn_flag table[] = {
		BENCH_FILES_FLAGS(&files),
		{.name = "scan", .kind = CAIRN_FLAG_BOOL, .target = &scan_relayed},
		CAIRN_FLAG_END,
	};
	const struct bench_modes modes = {
		.serve = serve, .tuples = read_tuples, .calls = small_calls, .slow = slow_readers};
	int n = bench_arguments(table, argc, argv);

	return bench_run(&modes, n, argv + 1);
}
