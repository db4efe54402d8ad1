/* SPDX-License-Identifier: Apache-2.0 */

/* A CSI driver that only makes tuples, and callers of a sidecar, for scripts/bench
 * sidecar.
 *
 *   bench-sidecar driver SOCKET NAME
 *   bench-sidecar tuples TARGET SNAPSHOT PER_MESSAGE
 *   bench-sidecar starts TARGET SNAPSHOT,... COUNT IN_FLIGHT
 *   bench-sidecar slow TARGET SNAPSHOT CONNECTIONS
 *
 * Callers take --ca FILE, --tokens FILE (one a line) and --namespace. How many
 * tuples a snapshot has is in its handle: "tuples-N". Callers decode every one.
 */

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/flags.h"
#include "base/mem.h"
#include "base/num.h"
#include "csi_answers.h"
#include "csi_metadata.pb-c.h"
#include "measure.h"
#include "net/grpc/call.h"
#include "net/grpc/grpc_client.h"
#include "net/grpc/grpc_server.h"
#include "net/loop.h"
#include "net/signals.h"
#include "net/tls/tls_settings.h"
#include "proto/block_metadata.h"
#include "proto/message.h"
#include "snapshotmetadata.pb-c.h"
#include "streams.h"
#include "tuples.h"

#define ALLOCATED   "/snapshotmetadata.SnapshotMetadata/GetMetadataAllocated"
#define PER_DEFAULT 256U
#define STRIDE      8192U
#define LENGTH      4096U
#define NAMES_MAX   64
#define TOKENS_MAX  (256U << 10)
#define CALL_MS     120000U
#define SLOW_WINDOW (64U << 10) /* what a Go client has */

static const char *ca_file, *tokens_file;
static const char *namespace = "one";
static char *tokens[NAMES_MAX];
static size_t n_tokens;

/* --- the driver --- */

static const char *driver_name;

static int info(struct net_call *call, void *arg, struct cairn_err *err)
{
	(void)arg;
	return csi_answer_name(call, driver_name, err);
}

static int capabilities(struct net_call *call, void *arg, struct cairn_err *err)
{
	(void)arg;
	return csi_answer_capability(
		call, CSI__V1__PLUGIN_CAPABILITY__SERVICE__TYPE__SNAPSHOT_METADATA_SERVICE, err);
}

static int probe(struct net_call *call, void *arg, struct cairn_err *err)
{
	(void)arg;
	return net_call_send(call, "", 0, err);
}

static int allocated(struct net_call *call, void *arg, struct cairn_err *err)
{
	proto_auto_message ProtobufCMessage *message = NULL;
	const Csi__V1__GetMetadataAllocatedRequest *request;
	const uint8_t *data;
	uint64_t count;
	size_t n;
	int rc = net_call_recv(call, &data, &n, err);

	(void)arg;
	if (rc != 1)
		return rc;
	rc = proto_unpack(&csi__v1__get_metadata_allocated_request__descriptor, data, n, &message,
			  err);
	if (rc != 0)
		return rc;
	request = (const void *)message;
	if (strncmp(request->snapshot_id, "tuples-", 7) != 0 ||
	    cairn_parse_u64(request->snapshot_id + 7, &count, err) != 0)
		return cairn_err_set(err, CAIRN_NOT_FOUND, "no such snapshot");
	return bench_send_tuples(
		call,
		&(struct bench_tuples){.count = count,
				       .per_message = request->max_results > 0
							      ? (uint32_t)request->max_results
							      : PER_DEFAULT,
				       .stride = STRIDE,
				       .length = LENGTH},
		err);
}

static int serve(const char *socket, const char *name)
{
	const struct net_method methods[] = {
		{.path = "/csi.v1.Identity/GetPluginInfo", .handler = info},
		{.path = "/csi.v1.Identity/GetPluginCapabilities", .handler = capabilities},
		{.path = "/csi.v1.Identity/Probe", .handler = probe},
		{.path = "/csi.v1.SnapshotMetadata/GetMetadataAllocated",
		 .kind = NET_SERVER_STREAM,
		 .handler = allocated},
	};
	struct net_server_options options = {.name = "driver"};
	struct net_server *server = NULL;
	struct cairn_err err = {0};
	sigset_t set;

	driver_name = name;
	net_signals_block(&set);
	if (net_server_new(&options, &server, &err) != 0 ||
	    net_server_add(server, methods, sizeof(methods) / sizeof(methods[0]), &err) != 0 ||
	    net_server_listen_unix(server, socket, 0600, &err) != 0 ||
	    net_server_start(server, &err) != 0)
		bench_die(err.msg);
	puts("ready");
	fflush(stdout);
	net_signals_wait(&set, UINT64_MAX);
	net_server_free(server);
	return 0;
}

/* --- callers --- */

static void read_tokens(void)
{
	struct cairn_err err = {0};
	FILE *file = fopen(tokens_file ? tokens_file : "/dev/null", "re");
	static char text[TOKENS_MAX];
	char *rest = text;

	if (!file || fread(text, 1, sizeof(text) - 1, file) == 0) {
		cairn_err_set(&err, CAIRN_INVALID, "--tokens: nothing in it");
		bench_die(err.msg);
	}
	fclose(file);
	while (rest && *rest && n_tokens < NAMES_MAX)
		tokens[n_tokens++] = strsep(&rest, "\n");
}

static struct net_channel *connect_to(const char *target, struct net_tls **tls,
				      struct net_loop *loop, uint32_t window)
{
	struct net_tls_options tls_options = {.ca_file = ca_file, .h2 = true};
	struct net_channel_options options = {
		.target = target, .loop = loop, .stream_window = window, .recv_bytes = window};
	struct net_channel *channel = NULL;
	struct cairn_err err = {0};

	if (!*tls && net_tls_client_new(&tls_options, tls, &err) != 0)
		bench_die(err.msg);
	options.tls = *tls;
	if (net_channel_new(&options, &channel, &err) != 0 ||
	    net_channel_connect(channel, 20000, &err) != 0)
		bench_die(err.msg);
	return channel;
}

static struct net_rpc *begin(struct net_channel *channel, const char *token, const char *snapshot,
			     uint64_t per, uint64_t timeout_ms)
{
	struct net_rpc_options options = {.path = ALLOCATED, .timeout_ms = timeout_ms};
	cairn_auto_buf struct cairn_buf buf = CAIRN_BUF_INIT(TOKENS_MAX);
	Snapshotmetadata__GetMetadataAllocatedRequest request;
	struct net_rpc *rpc = NULL;
	struct cairn_err err = {0};

	snapshotmetadata__get_metadata_allocated_request__init(&request);
	request.security_token = (char *)(uintptr_t)token;
	request.namespace_ = (char *)(uintptr_t) namespace;
	request.snapshot_name = (char *)(uintptr_t)snapshot;
	request.max_results = (int32_t)per;
	proto_pack(&request.base, &buf);
	if (net_rpc_start(channel, &options, &rpc, &err) != 0 ||
	    net_rpc_send(rpc, buf.data, buf.len, true, &err) != 0)
		bench_die(err.msg);
	return rpc;
}

/* Reads a stream to its end and decodes it: how many tuples. */
static uint64_t finish(struct net_rpc *rpc)
{
	struct proto_block_scan scan = {0};
	struct cairn_err err = {0};
	const uint8_t *data;
	size_t n;
	int rc;

	while ((rc = net_rpc_recv(rpc, &data, &n, &err)) == 1)
		if (proto_block_scan(&scan, data, n, NULL, &err) != 0)
			bench_die(err.msg);
	if (rc != 0)
		bench_die(err.msg);
	net_rpc_free(rpc);
	return scan.tuples;
}

static int read_tuples(const char *target, const char *snapshot, uint64_t per)
{
	struct net_tls *tls = NULL;
	struct net_channel *channel = connect_to(target, &tls, NULL, 0);
	uint64_t own = bench_cpu_us(), wall = cairn_monotonic_ns();
	uint64_t tuples = finish(begin(channel, tokens[0], snapshot, per, CALL_MS));

	wall = cairn_monotonic_ns() - wall;
	own = bench_cpu_us() - own;
	printf("{\"tuples\": %llu, \"wall_s\": %.6f, \"client_cpu_s\": %.6f}\n",
	       (unsigned long long)tuples, (double)wall / 1e9, (double)own / 1e6);
	net_channel_free(channel);
	net_tls_free(tls);
	return 0;
}

static size_t split(char *text, char *names[NAMES_MAX])
{
	size_t n = 0;

	while (text && n < NAMES_MAX)
		names[n++] = strsep(&text, ",");
	return n;
}

struct starts {
	struct net_channel *channel;
	char *names[NAMES_MAX];
	size_t n_names;
};

static void *begin_start(void *arg, uint64_t i)
{
	const struct starts *starts = arg;

	return begin(starts->channel, tokens[i % n_tokens], starts->names[i % starts->n_names], 0,
		     CALL_MS);
}

static void finish_start(void *call)
{
	finish(call);
}

static int start_streams(const char *target, char *snapshots, uint64_t count, uint64_t in_flight)
{
	struct net_tls *tls = NULL;
	struct starts starts = {.channel = connect_to(target, &tls, NULL, 0)};
	uint64_t wall, p50, p99, *times;

	starts.n_names = split(snapshots, starts.names);
	wall = cairn_monotonic_ns();
	times = bench_pipeline(count, in_flight, begin_start, finish_start, &starts);
	wall = cairn_monotonic_ns() - wall;
	bench_percentiles(times, count, &p50, &p99);
	printf("{\"starts\": %llu, \"wall_s\": %.6f, \"p50_ms\": %.3f, \"p99_ms\": %.3f}\n",
	       (unsigned long long)count, (double)wall / 1e9, (double)p50 / 1e6, (double)p99 / 1e6);
	free(times);
	net_channel_free(starts.channel);
	net_tls_free(tls);
	return 0;
}

/* A stream on each of many connections, of each of which a message a second is
 * read until standard input ends. */
static int read_slowly(const char *target, const char *snapshot, uint64_t count)
{
	struct bench_streams slow;
	struct net_loop *loop = NULL;
	struct cairn_err err = {0};
	const uint8_t *data;
	uint64_t messages = 0;
	size_t n;

	if (!bench_streams_init(&slow, count) || net_loop_new("slow", &loop, &err) != 0)
		return 1;
	for (uint64_t i = 0; i < count; i++) {
		slow.channels[i] = connect_to(target, &slow.tls, loop, SLOW_WINDOW);
		slow.rpcs[i] = begin(slow.channels[i], tokens[i % n_tokens], snapshot, 0, 0);
		if (net_rpc_recv(slow.rpcs[i], &data, &n, &err) != 1)
			bench_die(err.msg);
	}
	puts("ready");
	fflush(stdout);
	while (poll(&(struct pollfd){.fd = 0, .events = POLLIN}, 1, 1000) == 0) {
		for (uint64_t i = 0; i < count; i++, messages++)
			if (net_rpc_recv(slow.rpcs[i], &data, &n, &err) != 1)
				bench_die(err.msg);
	}
	printf("{\"messages\": %llu}\n", (unsigned long long)messages);
	bench_streams_done(&slow);
	net_loop_free(loop);
	return 0;
}

int main(int argc, char **argv)
{
	const struct cairn_flag table[] = {
		{.name = "ca", .kind = CAIRN_FLAG_STRING, .target = &ca_file},
		{.name = "tokens", .kind = CAIRN_FLAG_STRING, .target = &tokens_file},
		{.name = "namespace", .kind = CAIRN_FLAG_STRING, .target = &namespace},
		CAIRN_FLAG_END,
	};
	char **args = argv + 1;
	int n = bench_arguments(table, argc, argv);

	if (n == 3 && strcmp(args[0], "driver") == 0)
		return serve(args[1], args[2]);
	read_tokens();
	if (n == 4 && strcmp(args[0], "tuples") == 0)
		return read_tuples(args[1], args[2], bench_number(args[3]));
	if (n == 5 && strcmp(args[0], "starts") == 0)
		return start_streams(args[1], args[2], bench_number(args[3]),
				     bench_number(args[4]));
	if (n == 4 && strcmp(args[0], "slow") == 0)
		return read_slowly(args[1], args[2], bench_number(args[3]));
	bench_die("driver, tuples, starts or slow");
}
