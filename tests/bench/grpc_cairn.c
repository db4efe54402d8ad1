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
#include <sys/resource.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/flags.h"
#include "base/mem.h"
#include "base/num.h"
#include "cairn_test.pb-c.h"
#include "net/grpc/call.h"
#include "net/grpc/grpc_client.h"
#include "net/grpc/grpc_server.h"
#include "net/grpc/relay.h"
#include "net/signals.h"
#include "net/tls/tls_settings.h"
#include "proto/block_metadata.h"
#include "proto/message.h"

#define TUPLES_PATH   "/cairn.test.Test/Tuples"
#define UNARY_PATH    "/cairn.test.Test/Unary"
#define CPU_PATH      "/cairn.test.Test/Cpu"
#define IN_FLIGHT_MAX 1024

static const char *cert_file, *key_file, *ca_file, *relay_target;
static bool scan_relayed;

static _Noreturn void die(const struct cairn_err *err)
{
	fprintf(stderr, "bench-grpc-cairn: %s\n", err->msg);
	exit(1);
}

static uint64_t cpu_us(void)
{
	struct rusage usage;

	getrusage(RUSAGE_SELF, &usage);
	return (uint64_t)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1000000 +
	       (uint64_t)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
}

/* --- server --- */

static int send_tuples(struct net_call *call, const Cairn__Test__TupleRequest *r,
		       struct cairn_err *err)
{
	const uint64_t capacity = r->count * (uint64_t)r->stride;
	uint64_t done = 0;

	while (done < r->count) {
		size_t n = r->count - done < r->per_message ? r->count - done : r->per_message;
		struct proto_block_writer w;
		uint8_t *at;
		int rc = net_call_reserve(call, PROTO_BLOCK_ROOM(n), &at, err);

		if (rc != 0)
			return rc;
		proto_block_begin(&w, at, PROTO_BLOCK_ROOM(n), PROTO_BLOCK_VARIABLE, capacity);
		for (size_t i = 0; i < n; i++, done++)
			proto_block_add(&w, done * (uint64_t)r->stride, (uint64_t)r->length);
		net_call_commit(call, proto_block_len(&w), done < r->count);
	}
	return 0;
}

static int tuples(struct net_call *call, void *arg, struct cairn_err *err)
{
	proto_auto_message ProtobufCMessage *message = NULL;
	const uint8_t *data;
	size_t n;
	int rc = net_call_recv(call, &data, &n, err);

	(void)arg;
	if (rc != 1)
		return rc;
	rc = proto_unpack(&cairn__test__tuple_request__descriptor, data, n, &message, err);
	if (rc != 0)
		return rc;
	return send_tuples(call, (Cairn__Test__TupleRequest *)message, err);
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
	rc = net_rpc_start(arg, &options, &up, err);
	if (rc == 0)
		rc = net_rpc_send(up, data, n, true, err);
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
	uint64_t now = cpu_us();

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
		die(err);
}

static int serve(const char *address)
{
	struct net_server_options options = {.name = "bench"};
	struct net_tls_options tls_options = {
		.cert_file = cert_file, .key_file = key_file, .h2 = true};
	struct net_channel_options up_options = {.target = relay_target};
	struct net_server *server = NULL;
	struct net_channel *up = NULL;
	struct net_tls *tls = NULL;
	struct cairn_err err = {0};
	sigset_t set;

	net_signals_block(&set);
	if (cert_file && net_tls_server_new(&tls_options, &tls, &err) != 0)
		die(&err);
	if (net_server_new(&options, &server, &err) != 0)
		die(&err);
	up_options.loop = net_server_loop(server, 0);
	if (relay_target && net_channel_new(&up_options, &up, &err) != 0)
		die(&err);
	{
		const struct net_method methods[] = {
			{TUPLES_PATH, NET_SERVER_STREAM, up ? relay_tuples : tuples, up},
			{UNARY_PATH, NET_UNARY, echo, NULL, .quick = true},
			{CPU_PATH, NET_UNARY, tell_cpu, NULL},
		};

		if (net_server_add(server, methods, 3, &err) != 0)
			die(&err);
	}
	listen_on(server, address, tls, &err);
	if (net_server_start(server, &err) != 0)
		die(&err);
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
	struct net_tls_options tls_options = {.ca_file = ca_file, .h2 = true};
	struct net_channel_options options = {.target = target};
	struct net_channel *channel = NULL;
	struct cairn_err err = {0};

	if (ca_file && !*ret_tls && net_tls_client_new(&tls_options, ret_tls, &err) != 0)
		die(&err);
	options.tls = *ret_tls;
	if (net_channel_new(&options, &channel, &err) != 0 ||
	    net_channel_connect(channel, 5000, &err) != 0)
		die(&err);
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
		die(&err);
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
		die(&err);
	return rpc;
}

static int read_tuples(const char *target, uint64_t count, uint64_t per)
{
	struct net_tls *tls = NULL;
	struct net_channel *channel = connect_to(target, &tls);
	uint64_t server = server_cpu(channel), own = cpu_us(), wall = cairn_monotonic_ns();
	struct net_rpc *rpc = ask_tuples(channel, count, per);
	struct proto_block_scan state = {0};
	struct cairn_err err = {0};
	const uint8_t *data;
	size_t n;
	int rc;

	while ((rc = net_rpc_recv(rpc, &data, &n, &err)) == 1) {
		if (proto_block_scan(&state, data, n, NULL, &err) != 0)
			die(&err);
	}
	if (rc != 0)
		die(&err);
	wall = cairn_monotonic_ns() - wall;
	own = cpu_us() - own;
	server = server_cpu(channel) - server;
	printf("{\"tuples\": %llu, \"wall_s\": %.6f, \"client_cpu_s\": %.6f, \"server_cpu_s\": %.6f}\n",
	       (unsigned long long)state.tuples, (double)wall / 1e9, (double)own / 1e6,
	       (double)server / 1e6);
	net_rpc_free(rpc);
	net_channel_free(channel);
	net_tls_free(tls);
	return state.tuples == count ? 0 : 1;
}

static struct net_rpc *begin_small(struct net_channel *channel)
{
	struct net_rpc_options options = {.path = UNARY_PATH, .timeout_ms = 20000};
	struct net_rpc *rpc = NULL;
	struct cairn_err err = {0};

	if (net_rpc_start(channel, &options, &rpc, &err) != 0 ||
	    net_rpc_send(rpc, "\x0a\x05hello", 7, true, &err) != 0)
		die(&err);
	return rpc;
}

static int by_value(const void *a, const void *b)
{
	const uint64_t *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

static void finish_small(struct net_rpc *rpc)
{
	struct cairn_err err = {0};
	const uint8_t *data;
	size_t n;

	if (net_rpc_recv(rpc, &data, &n, &err) != 1 || n != 7 ||
	    net_rpc_recv(rpc, &data, &n, &err) != 0)
		die(&err);
	net_rpc_free(rpc);
}

static int small_calls(const char *target, uint64_t count, uint64_t in_flight)
{
	struct net_tls *tls = NULL;
	struct net_channel *channel = connect_to(target, &tls);
	struct net_rpc *rpcs[IN_FLIGHT_MAX];
	uint64_t *times = cairn_calloc(count, sizeof(*times)), begun[IN_FLIGHT_MAX];
	uint64_t server = server_cpu(channel), own = cpu_us(), wall = cairn_monotonic_ns();
	uint64_t p50, p99;

	if (!times || in_flight > IN_FLIGHT_MAX)
		return 1;
	for (uint64_t i = 0; i < count + in_flight; i++) {
		uint64_t slot = i % in_flight;

		if (i >= in_flight) {
			finish_small(rpcs[slot]);
			times[i - in_flight] = cairn_monotonic_ns() - begun[slot];
		}
		if (i < count) {
			begun[slot] = cairn_monotonic_ns();
			rpcs[slot] = begin_small(channel);
		}
	}
	wall = cairn_monotonic_ns() - wall;
	own = cpu_us() - own;
	server = server_cpu(channel) - server;
	qsort(times, count, sizeof(*times), by_value);
	p50 = times[count / 2];
	p99 = times[count - 1 - count / 100];
	printf("{\"calls\": %llu, \"wall_s\": %.6f, \"client_cpu_s\": %.6f, \"server_cpu_s\": %.6f, "
	       "\"p50_us\": %.1f, \"p99_us\": %.1f}\n",
	       (unsigned long long)count, (double)wall / 1e9, (double)own / 1e6,
	       (double)server / 1e6, (double)p50 / 1e3, (double)p99 / 1e3);
	free(times);
	net_channel_free(channel);
	net_tls_free(tls);
	return 0;
}

/* Begins a stream on each of many connections, reads one message of each and
 * then nothing more until standard input ends. */
static int slow_readers(const char *target, uint64_t count)
{
	struct net_channel **channels = cairn_calloc(count, sizeof(struct net_channel *));
	struct net_rpc **rpcs = cairn_calloc(count, sizeof(struct net_rpc *));
	struct net_tls *tls = NULL;
	struct cairn_err err = {0};
	const uint8_t *data;
	size_t n;

	if (!channels || !rpcs)
		return 1;
	for (uint64_t i = 0; i < count; i++) {
		channels[i] = connect_to(target, &tls);
		rpcs[i] = ask_tuples(channels[i], 1ULL << 40, 1024);
		if (net_rpc_recv(rpcs[i], &data, &n, &err) != 1)
			die(&err);
	}
	puts("ready");
	fflush(stdout);
	(void)!getchar();
	for (uint64_t i = 0; i < count; i++) {
		net_rpc_free(rpcs[i]);
		net_channel_free(channels[i]);
	}
	free(channels);
	free(rpcs);
	net_tls_free(tls);
	return 0;
}

static uint64_t number(const char *text)
{
	struct cairn_err err = {0};
	uint64_t value;

	if (cairn_parse_u64(text, &value, &err) != 0)
		die(&err);
	return value;
}

int main(int argc, char **argv)
{
	const struct cairn_flag table[] = {
		{.name = "cert", .kind = CAIRN_FLAG_STRING, .target = &cert_file},
		{.name = "key", .kind = CAIRN_FLAG_STRING, .target = &key_file},
		{.name = "ca", .kind = CAIRN_FLAG_STRING, .target = &ca_file},
		{.name = "relay", .kind = CAIRN_FLAG_STRING, .target = &relay_target},
		{.name = "scan", .kind = CAIRN_FLAG_BOOL, .target = &scan_relayed},
		CAIRN_FLAG_END,
	};
	const struct cairn_flag *const tables[] = {table, NULL};
	struct cairn_err err = {0};
	char **args = argv + 1;
	int n = 0;

	if (cairn_flags_parse(tables, argc - 1, args, 0, &n, &err) != 0)
		die(&err);
	if (n == 2 && strcmp(args[0], "serve") == 0)
		return serve(args[1]);
	if (n == 4 && strcmp(args[0], "tuples") == 0)
		return read_tuples(args[1], number(args[2]), number(args[3]));
	if (n == 4 && strcmp(args[0], "calls") == 0)
		return small_calls(args[1], number(args[2]), number(args[3]));
	if (n == 3 && strcmp(args[0], "slow") == 0)
		return slow_readers(args[1], number(args[2]));
	cairn_err_set(&err, CAIRN_INVALID, "serve, tuples, calls or slow");
	die(&err);
}
