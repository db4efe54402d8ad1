/* SPDX-License-Identifier: Apache-2.0 */

/* Calls that anybody may make and that hold a thread, from several addresses. */

#include "cairntest.h"

#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "grpc_raw.h"
#include "limits_counted.h"
#include "net/grpc/call.h"
#include "net/grpc/call_places.h"
#include "net/grpc/grpc_client.h"
#include "net/grpc/grpc_server.h"
#include "overload.h"
#include "proto/descriptors.h"

#define REFLECTION "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo"
#define WATCH      "/grpc.health.v1.Health/Watch"
#define HOSTS      4
#define EACH       (NET_CALL_PLACES_EACH + 8)
#define WORKERS    (NET_CALL_PLACES + 16)

static struct net_server *server;
static uint16_t port;

static int ping(struct net_call *call, void *arg, struct cairn_err *err)
{
	(void)arg;
	return net_call_send(call, "pong", 4, err);
}

static int start(void **state)
{
	static const struct net_method methods[] = {{"/t.T/Ping", NET_UNARY, ping, NULL, 0}};
	const struct net_server_options options = {.authenticates = true,
						   .limits = {.workers = WORKERS}};
	struct proto_bytes set = proto_descriptors_cairn();
	struct cairn_err err = {0};

	(void)state;
	assert_ok(net_server_new(&options, &server, &err), &err);
	assert_ok(net_server_add(server, methods, 1, &err), &err);
	assert_ok(net_server_add_reflection(server, set.data, set.len, &err), &err);
	assert_ok(net_server_listen_tcp(server, "127.0.0.1:0", NULL, &port, &err), &err);
	assert_ok(net_server_start(server, &err), &err);
	return 0;
}

static int stop(void **state)
{
	(void)state;
	net_server_free(server);
	return 0;
}

static void greet_from(struct raw *raw, unsigned host)
{
	*raw = (struct raw){.fd = overload_dial(host, port)};
	raw_put(raw, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 24);
	raw_put_frame(raw, RAW_SETTINGS, 0, 0, NULL, 0);
}

/* Begins calls, with a message for a watch, and none for reflection. */
static void begin_calls(struct raw *raw, const char *path, unsigned n)
{
	bool watch = strcmp(path, WATCH) == 0;

	for (unsigned i = 0; i < n; i++) {
		raw_put_request(raw, 1 + 2 * i, path);
		if (watch)
			raw_put_frame(raw, RAW_DATA, RAW_END_STREAM, 1 + 2 * i, "\0\0\0\0\0", 5);
	}
	raw_flush(raw);
}

static void wait_for_calls(uint64_t least, uint64_t most)
{
	struct net_server_stats stats = {0};

	for (int i = 0; i < 6000; i++) {
		net_server_stats(server, &stats);
		if (stats.calls_open >= least && stats.calls_open <= most)
			return;
		cairn_sleep_ms(10);
	}
	fail_msg("%lu calls are open", (unsigned long)stats.calls_open);
}

/* Four addresses that hold as many calls as they can. */
static void crowd_begin(struct raw crowd[HOSTS], const char *path)
{
	for (unsigned i = 0; i < HOSTS; i++) {
		greet_from(&crowd[i], 2 + i);
		begin_calls(&crowd[i], path, EACH);
	}
	wait_for_calls(NET_CALL_PLACES, NET_CALL_PLACES);
}

static void crowd_end(struct raw crowd[HOSTS])
{
	for (unsigned i = 0; i < HOSTS; i++)
		close(crowd[i].fd);
	wait_for_calls(0, 0);
}

static void other_calls_are_served(void)
{
	struct net_channel_options to = {0};
	struct net_rpc_options how = {.path = "/t.T/Ping", .timeout_ms = 60000};
	struct net_channel *channel = NULL;
	struct cairn_err err = {0};
	char target[32];
	uint8_t *data = NULL;
	size_t n = 0;

	snprintf(target, sizeof(target), "127.0.0.1:%u", port);
	to.target = target;
	assert_ok(net_channel_new(&to, &channel, &err), &err);
	assert_ok(net_rpc_unary(channel, &how, "", 0, &data, &n, &err), &err);
	free(data);
	net_channel_free(channel);
}

static void watches_of_four_addresses_keep_no_fifth_out(void **state)
{
	static struct raw crowd[HOSTS], fifth;
	static struct raw_reply reply;

	(void)state;
	crowd_begin(crowd, WATCH);
	other_calls_are_served();
	greet_from(&fifth, 9);
	begin_calls(&fifth, WATCH, 1);
	raw_read_until(&fifth, &reply, "content-type");
	assert_null(strstr(reply.text, "grpc-status"));
	wait_for_calls(NET_CALL_PLACES, NET_CALL_PLACES); /* one of the others has ended */
	close(fifth.fd);
	crowd_end(crowd);
}

static void idle_reflection_takes_no_threads_of_others(void **state)
{
	static struct raw crowd[HOSTS], fifth;
	static struct raw_reply reply;

	(void)state;
	crowd_begin(crowd, REFLECTION);
	other_calls_are_served();
	greet_from(&fifth, 9);
	begin_calls(&fifth, REFLECTION, 1);
	raw_put_frame(&fifth, RAW_DATA, 0, 1, "\0\0\0\0\3\x3a\1*", 8); /* list_services */
	raw_flush(&fifth);
	raw_read_until(&fifth, &reply, "content-type");
	assert_null(strstr(reply.text, "grpc-status"));
	wait_for_calls(NET_CALL_PLACES, NET_CALL_PLACES); /* one of the others has ended */
	close(fifth.fd);
	crowd_end(crowd);
}

static void the_limits_above_are_counted(void **state)
{
	(void)state;
	assert_limits_counted(NET_LIMIT_WAITING_CALLS);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(watches_of_four_addresses_keep_no_fifth_out),
		cmocka_unit_test(idle_reflection_takes_no_threads_of_others),
		cmocka_unit_test(the_limits_above_are_counted),
	};

	return cmocka_run_group_tests(tests, start, stop);
}
