/* SPDX-License-Identifier: Apache-2.0 */

/* client -TLS-> relay -unix-> server. */

#include "cairntest.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "grpc_fixture.h"
#include "net/grpc/relay.h"

/* `back` is the server behind; `front` the fixture whose server relays to it. */
struct world {
	struct grpc_fixture back, front;
	struct net_channel *to_back;
	uint64_t stop_at; /* the scan refuses the message of this number */
	_Atomic uint64_t scanned;
	struct net_relay_result last;
	_Atomic unsigned flows;
};

static int scan(void *arg, const uint8_t *message, size_t n, struct cairn_err *err)
{
	struct world *w = arg;
	uint64_t number = 0;

	atomic_fetch_add(&w->scanned, 1);
	if (n == sizeof(number))
		memcpy(&number, message, n);
	if (w->stop_at && number == w->stop_at)
		return cairn_err_set(err, CAIRN_DATA_LOSS, "message %d is wrong", (int)number);
	return 0;
}

static int relay(struct net_call *call, void *arg, struct cairn_err *err)
{
	cairn_cleanup(net_rpc_freep) struct net_rpc *up = NULL;
	struct world *w = arg;
	struct net_rpc_options options = {.path = net_call_metadata(call, "x-to", NULL),
					  .identity_only = true};
	struct net_relay_options relay_options = {.scan = scan, .arg = w, .flows = &w->flows};
	/* Several floods run at once. */
	bool flood = strcmp(options.path, "/t.T/Flood") == 0;
	const uint8_t *data;
	size_t n;
	int rc = net_call_recv(call, &data, &n, err);

	if (rc != 1)
		return CAIRN_INTERNAL;
	rc = net_rpc_start(w->to_back, &options, &up, err);
	if (rc == 0)
		rc = net_rpc_send(up, data, n, true, err);
	if (rc == 0)
		rc = net_relay_run(call, up, &relay_options, flood ? NULL : &w->last, err);
	return rc;
}

static int start(void **state, bool same_loop)
{
	static struct world w;
	struct net_method method = {"/t.T/Relay", NET_SERVER_STREAM, relay, &w};
	struct net_channel_options options = {.backoff_first_ms = 10};
	struct cairn_err err = {0};

	memset(&w, 0, sizeof(w));
	grpc_fixture_start(&w.back, &(struct grpc_setup){0});
	grpc_fixture_start(&w.front,
			   &(struct grpc_setup){.tls = true, .more = &method, .n_more = 1});
	options.target = w.back.target;
	if (same_loop)
		options.loop = net_server_loop(w.front.server, 0);
	assert_ok(net_channel_new(&options, &w.to_back, &err), &err);
	*state = &w;
	return 0;
}

static int start_same_loop(void **state)
{
	return start(state, true);
}

static int start_two_loops(void **state)
{
	return start(state, false);
}

static int stop(void **state)
{
	struct world *w = *state;

	net_server_drain(w->front.server, 0);
	net_channel_free(w->to_back);
	grpc_fixture_stop(&w->front);
	grpc_fixture_stop(&w->back);
	return 0;
}

static struct net_rpc *call_through(struct world *w, const char *to, const char *request)
{
	const struct net_metadata_entry entry = {"x-to", to, strlen(to)};
	struct net_rpc_options options = grpc_to("/t.T/Relay");
	struct net_rpc *rpc = NULL;
	struct cairn_err err = {0};

	options.metadata = &entry;
	options.n_metadata = 1;
	assert_ok(net_rpc_start(w->front.channel, &options, &rpc, &err), &err);
	assert_ok(net_rpc_send(rpc, request, strlen(request), true, &err), &err);
	return rpc;
}

static uint64_t read_numbers(struct net_rpc *rpc, int want_rc, struct cairn_err *err)
{
	const uint8_t *data;
	uint64_t i = 0, got;
	size_t n;
	int rc;

	while ((rc = net_rpc_recv(rpc, &data, &n, err)) == 1) {
		assert_int_equal(n, sizeof(got));
		memcpy(&got, data, n);
		assert_int_equal(got, i);
		i++;
	}
	if (rc != want_rc)
		fail_msg("%s: %s", cairn_code_name(rc), err->msg);
	return i;
}

static void wait_until_idle(struct world *w)
{
	for (int i = 0; i < 6000 && atomic_load(&w->back.handlers) > 0; i++)
		cairn_sleep_ms(10);
	assert_int_equal(atomic_load(&w->back.handlers), 0);
}

static void a_stream_passes_whole_and_in_order(void **state)
{
	struct world *w = *state;
	struct cairn_err err = {0};

	w->stop_at = 0;
	atomic_store(&w->scanned, 0);
	for (int i = 0; i < 3; i++) {
		cairn_cleanup(net_rpc_freep) struct net_rpc *rpc =
			call_through(w, "/t.T/Count", "30000");

		assert_int_equal(read_numbers(rpc, 0, &err), 30000);
		assert_int_equal(w->last.messages, 30000);
		assert_int_equal(w->last.bytes, 30000 * 8);
	}
	assert_int_equal(atomic_load(&w->scanned), 90000);
}

static void an_upstream_status_passes_with_its_details(void **state)
{
	cairn_cleanup(net_rpc_freep) struct net_rpc *rpc = call_through(*state, "/t.T/Fail", "");
	struct cairn_err err = {0};
	size_t n;

	assert_int_equal(read_numbers(rpc, CAIRN_PRECONDITION, &err), 0);
	assert_string_equal(err.msg, "größer als 100%\nzwei");
	assert_memory_equal(net_rpc_trailer(rpc, "grpc-status-details-bin", &n), "\x08\x09", 2);
}

static void the_scan_stops_before_the_message_it_refuses(void **state)
{
	struct world *w = *state;
	cairn_cleanup(net_rpc_freep) struct net_rpc *rpc = NULL;
	struct cairn_err err = {0};

	w->stop_at = 12345;
	rpc = call_through(w, "/t.T/Count", "1000000");
	assert_int_equal(read_numbers(rpc, CAIRN_DATA_LOSS, &err), 12345);
	assert_string_equal(err.msg, "message 12345 is wrong");
	w->stop_at = 0;
}

static void a_caller_that_leaves_cancels_upstream(void **state)
{
	struct world *w = *state;
	struct net_rpc *rpc = call_through(w, "/t.T/Flood", "");
	struct cairn_err err = {0};
	const uint8_t *data;
	size_t n;

	for (int i = 0; i < 100; i++)
		assert_int_equal(net_rpc_recv(rpc, &data, &n, &err), 1);
	net_rpc_free(rpc);
	wait_until_idle(w);
	assert_int_equal(atomic_load(&w->back.last_result), CAIRN_CANCELLED);
}

static void a_slow_reader_slows_upstream(void **state)
{
	struct world *w = *state;
	struct net_rpc *rpc = call_through(w, "/t.T/Flood", "");
	struct net_server_stats front, back;
	struct cairn_err err = {0};
	const uint8_t *data;
	uint64_t scanned;
	size_t n;

	assert_int_equal(net_rpc_recv(rpc, &data, &n, &err), 1);
	/* Everything fills up and stands still. */
	do {
		scanned = atomic_load(&w->scanned);
		cairn_sleep_ms(100);
	} while (atomic_load(&w->scanned) != scanned);
	net_server_stats(w->front.server, &front);
	net_server_stats(w->back.server, &back);
	assert_true(front.bytes_buffered <= 3U << 20);
	assert_true(back.bytes_buffered <= 1U << 20);
	for (int i = 0; i < 1000; i++)
		assert_int_equal(net_rpc_recv(rpc, &data, &n, &err), 1);
	net_rpc_free(rpc);
	wait_until_idle(w);
}

static void read_bytes(struct net_rpc *rpc, uint64_t bytes)
{
	struct cairn_err err = {0};
	const uint8_t *data;
	size_t n;

	for (uint64_t got = 0; got < bytes; got += n)
		assert_int_equal(net_rpc_recv(rpc, &data, &n, &err), 1);
}

/* The larger window is for few relays at once; it is free again when a relay ends, also when
 * its caller leaves. */
static void a_relay_that_flows_has_a_large_window_until_it_ends(void **state)
{
	struct world *w = *state;
	struct net_rpc *first = call_through(w, "/t.T/Flood", ""), *second;

	read_bytes(first, 4 * NET_RELAY_FLOWS_BYTES);
	assert_int_equal(atomic_load(&w->flows), 1);
	atomic_store(&w->flows, NET_RELAY_FLOWS);
	second = call_through(w, "/t.T/Flood", "");
	read_bytes(second, 4 * NET_RELAY_FLOWS_BYTES);
	net_rpc_free(second);
	net_rpc_free(first);
	wait_until_idle(w);
	assert_int_equal(atomic_load(&w->flows), NET_RELAY_FLOWS - 1);
}

static void an_upstream_that_dies_never_ends_ok(void **state)
{
	struct world *w = *state;
	struct net_rpc *rpc = call_through(w, "/t.T/Flood", "");
	struct cairn_err err = {0};
	const uint8_t *data;
	size_t n;
	int rc;

	for (int i = 0; i < 10; i++)
		assert_int_equal(net_rpc_recv(rpc, &data, &n, &err), 1);
	net_server_free(w->back.server);
	w->back.server = NULL;
	while ((rc = net_rpc_recv(rpc, &data, &n, &err)) == 1)
		;
	assert_int_equal(rc, CAIRN_UNAVAILABLE);
	net_rpc_free(rpc);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_stream_passes_whole_and_in_order),
		cmocka_unit_test(an_upstream_status_passes_with_its_details),
		cmocka_unit_test(the_scan_stops_before_the_message_it_refuses),
		cmocka_unit_test(a_caller_that_leaves_cancels_upstream),
		cmocka_unit_test(a_slow_reader_slows_upstream),
		cmocka_unit_test(a_relay_that_flows_has_a_large_window_until_it_ends),
		cmocka_unit_test(an_upstream_that_dies_never_ends_ok),
	};
	int failed =
		cmocka_run_group_tests_name("net/relay on one loop", tests, start_same_loop, stop);

	return failed +
	       cmocka_run_group_tests_name("net/relay on two loops", tests, start_two_loops, stop);
}
