/* SPDX-License-Identifier: Apache-2.0 */

/* How calls end when something goes wrong: deadlines, cancellation, slow and
 * dead peers, drains; and many calls at once. */

#include "cairntest.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "grpc_fixture.h"
#include "limits_counted.h"

#define MANY 1000

static struct net_rpc *start_call(struct grpc_fixture *f, const char *path, const char *request,
				  uint64_t timeout_ms)
{
	struct net_rpc_options options = {.path = path, .timeout_ms = timeout_ms};
	struct net_rpc *rpc = NULL;
	struct cairn_err err = {0};

	assert_ok(net_rpc_start(f->channel, &options, &rpc, &err), &err);
	assert_ok(net_rpc_send(rpc, request, strlen(request), true, &err), &err);
	return rpc;
}

static int read_to_end(struct net_rpc *rpc, struct cairn_err *err)
{
	const uint8_t *data;
	size_t n;
	int rc;

	while ((rc = net_rpc_recv(rpc, &data, &n, err)) == 1)
		;
	return rc;
}

static void wait_for_handlers(struct grpc_fixture *f, int want)
{
	for (int i = 0; i < 6000 && atomic_load(&f->handlers) != want; i++)
		cairn_sleep_ms(10);
	assert_int_equal(atomic_load(&f->handlers), want);
}

static void a_deadline_ends_both_sides(void **state)
{
	struct grpc_fixture *f = *state;

	/* On a busy machine a short one may pass before there is a handler. */
	atomic_store(&f->last_result, 0);
	for (uint64_t ms = 100; ms < 20000 && atomic_load(&f->last_result) == 0; ms *= 2) {
		cairn_cleanup(net_rpc_freep) struct net_rpc *rpc =
			start_call(f, "/t.T/Wait", "", ms);
		struct cairn_err err = {0};

		assert_code(read_to_end(rpc, &err), CAIRN_DEADLINE);
		wait_for_handlers(f, 0);
	}
	/* The server's own clock or the client's reset, whichever came first. */
	assert_true(atomic_load(&f->last_result) == CAIRN_DEADLINE ||
		    atomic_load(&f->last_result) == CAIRN_CANCELLED);
}

static void a_deadline_ends_a_call_whose_window_is_shut(void **state)
{
	struct grpc_fixture *f = *state;
	cairn_cleanup(net_rpc_freep) struct net_rpc *rpc = start_call(f, "/t.T/Flood", "", 300);
	struct cairn_err err = {0};

	wait_for_handlers(f, 1); /* nobody reads, the handler comes to stand in send */
	wait_for_handlers(f, 0);
	assert_code(read_to_end(rpc, &err), CAIRN_DEADLINE);
}

static void a_cancelled_call_ends_its_handler(void **state)
{
	struct grpc_fixture *f = *state;
	cairn_cleanup(net_rpc_freep) struct net_rpc *rpc = start_call(f, "/t.T/Wait", "", 60000);
	struct cairn_err err = {0};

	wait_for_handlers(f, 1);
	net_rpc_cancel(rpc);
	assert_code(read_to_end(rpc, &err), CAIRN_CANCELLED);
	wait_for_handlers(f, 0);
	assert_int_equal(atomic_load(&f->last_result), CAIRN_CANCELLED);
}

static void a_reader_that_stops_holds_the_sender(void **state)
{
	struct grpc_fixture *f = *state;
	struct net_rpc *rpc = start_call(f, "/t.T/Flood", "", 60000);
	struct net_server_stats stats;
	struct cairn_err err = {0};
	const uint8_t *data;
	size_t n;

	assert_int_equal(net_rpc_recv(rpc, &data, &n, &err), 1);
	cairn_sleep_ms(200);
	net_server_stats(f->server, &stats);
	assert_true(stats.bytes_buffered < 1U << 20);
	for (int i = 0; i < 2000; i++) /* far more than was buffered anywhere */
		assert_int_equal(net_rpc_recv(rpc, &data, &n, &err), 1);
	net_rpc_free(rpc);
	wait_for_handlers(f, 0);
}

static void a_thousand_calls_live_at_once(void **state)
{
	struct grpc_fixture *f = *state;
	static struct net_rpc *rpcs[MANY];
	struct cairn_err err = {0};
	const uint8_t *data;
	size_t n;

	for (uint32_t i = 0; i < MANY; i++) {
		struct net_rpc_options options = grpc_to("/t.T/Chat");

		assert_ok(net_rpc_start(f->channel, &options, &rpcs[i], &err), &err);
		assert_ok(net_rpc_send(rpcs[i], &i, sizeof(i), false, &err), &err);
	}
	for (uint32_t i = MANY; i-- > 0;) {
		assert_int_equal(net_rpc_recv(rpcs[i], &data, &n, &err), 1);
		assert_memory_equal(data, &i, sizeof(i));
	}
	for (uint32_t i = 0; i < MANY; i++) {
		assert_ok(net_rpc_send_end(rpcs[i], &err), &err);
		assert_int_equal(net_rpc_recv(rpcs[i], &data, &n, &err), 0);
		net_rpc_free(rpcs[i]);
	}
}

static void a_channel_that_closes_ends_its_calls(void **state)
{
	struct grpc_fixture *f = *state;
	struct net_channel_options options = {.target = f->target, .tls = f->client_tls};
	struct net_channel *channel = NULL, *usual = f->channel;
	struct cairn_err err = {0};
	struct net_rpc *rpc;

	assert_ok(net_channel_new(&options, &channel, &err), &err);
	f->channel = channel;
	rpc = start_call(f, "/t.T/Wait", "", 60000);
	f->channel = usual;
	wait_for_handlers(f, 1);
	net_channel_free(channel);
	assert_code(read_to_end(rpc, &err), CAIRN_CANCELLED);
	net_rpc_free(rpc);
	wait_for_handlers(f, 0);
}

/* --- ends of servers; each with a fixture of its own --- */

static struct grpc_fixture own;

static void a_server_that_dies_in_mid_stream_never_ends_ok(void **state)
{
	struct net_rpc *flood, *wait;
	struct cairn_err err = {0};
	const uint8_t *data;
	size_t n;

	(void)state;
	grpc_fixture_start(&own, &(struct grpc_setup){.tls = true});
	flood = start_call(&own, "/t.T/Flood", "", 60000);
	wait = start_call(&own, "/t.T/Wait", "", 60000);
	assert_int_equal(net_rpc_recv(flood, &data, &n, &err), 1);
	wait_for_handlers(&own, 2);
	net_server_free(own.server);
	own.server = NULL;
	assert_code(read_to_end(flood, &err), CAIRN_UNAVAILABLE);
	assert_code(read_to_end(wait, &err), CAIRN_UNAVAILABLE);
	net_rpc_free(flood);
	net_rpc_free(wait);
	grpc_fixture_stop(&own);
}

static void *drain_thread(void *arg)
{
	return (void *)(uintptr_t)net_server_drain(arg, 120000);
}

static void a_drain_lets_calls_end_and_takes_no_new_ones(void **state)
{
	struct net_rpc *nap, *late;
	struct cairn_err err = {0};
	pthread_t thread;
	void *cut;

	(void)state;
	grpc_fixture_start(&own, &(struct grpc_setup){.channel.backoff_first_ms = 10});
	nap = start_call(&own, "/t.T/Nap", "500", 60000);
	for (int i = 0; i < 60000; i++) { /* until it runs */
		struct net_server_stats stats;

		net_server_stats(own.server, &stats);
		if (stats.calls_open > 0)
			break;
		cairn_sleep_ms(1);
	}
	assert_int_equal(pthread_create(&thread, NULL, drain_thread, own.server), 0);
	assert_code(read_to_end(nap, &err), 0);
	pthread_join(thread, &cut);
	assert_int_equal((uintptr_t)cut, 0);
	late = start_call(&own, "/t.T/Echo", "", 60000);
	assert_code(read_to_end(late, &err), CAIRN_UNAVAILABLE);
	net_rpc_free(nap);
	net_rpc_free(late);
	grpc_fixture_stop(&own);
}

static void a_drain_cuts_off_what_takes_too_long(void **state)
{
	struct cairn_err err = {0};
	struct net_rpc *wait;

	(void)state;
	grpc_fixture_start(&own, &(struct grpc_setup){0});
	wait = start_call(&own, "/t.T/Wait", "", 60000);
	wait_for_handlers(&own, 1);
	assert_int_equal(net_server_drain(own.server, 100), 1);
	assert_code(read_to_end(wait, &err), CAIRN_UNAVAILABLE);
	net_rpc_free(wait);
	grpc_fixture_stop(&own);
}

static void a_channel_comes_back_when_its_server_does(void **state)
{
	struct net_server_options options = {.name = "second"};
	struct net_server *second = NULL;
	struct cairn_err err = {0};
	struct net_rpc *rpc;

	(void)state;
	grpc_fixture_start(&own, &(struct grpc_setup){.channel.backoff_first_ms = 20,
						      .channel.backoff_max_ms = 100});
	assert_ok(net_channel_connect(own.channel, 60000, &err), &err);
	net_server_free(own.server);
	own.server = NULL;
	rpc = start_call(&own, "/t.T/Echo", "", 60000);
	assert_code(read_to_end(rpc, &err), CAIRN_UNAVAILABLE);
	net_rpc_free(rpc);

	assert_ok(net_server_new(&options, &second, &err), &err);
	assert_ok(net_server_listen_unix(second, own.path, 0600, &err), &err);
	assert_ok(net_server_start(second, &err), &err);
	{
		struct net_rpc_options patient = {
			.path = "/t.T/Echo", .timeout_ms = 60000, .wait_for_ready = true};

		assert_ok(net_rpc_start(own.channel, &patient, &rpc, &err), &err);
		assert_ok(net_rpc_send(rpc, "", 0, true, &err), &err);
		assert_code(read_to_end(rpc, &err), CAIRN_UNIMPLEMENTED); /* it is there */
		net_rpc_free(rpc);
	}
	net_server_free(second);
	grpc_fixture_stop(&own);
}

static void a_call_refused_by_a_drain_goes_to_the_next_server(void **state)
{
	struct net_server_options options = {.name = "second"};
	struct net_server *second = NULL;
	struct cairn_err err = {0};
	int ended_ok = 0;

	(void)state;
	grpc_fixture_start(&own, &(struct grpc_setup){.channel.backoff_first_ms = 5,
						      .channel.backoff_max_ms = 50});
	assert_ok(net_server_new(&options, &second, &err), &err);
	for (int i = 0; i < 200; i++) {
		struct net_rpc_options patient = {.path = "/grpc.health.v1.Health/Check",
						  .timeout_ms = 60000,
						  .wait_for_ready = true};
		struct net_rpc *rpc;

		if (i == 50) {
			/* The old one drains while the new one listens already. */
			assert_int_equal(net_server_drain(own.server, 0), 0);
			assert_ok(net_server_listen_unix(second, own.path, 0600, &err), &err);
			assert_ok(net_server_start(second, &err), &err);
		}
		assert_ok(net_rpc_start(own.channel, &patient, &rpc, &err), &err);
		assert_ok(net_rpc_send(rpc, "", 0, true, &err), &err);
		ended_ok += read_to_end(rpc, &err) == 0;
		net_rpc_free(rpc);
	}
	/* Only the one call that met the closing connection may have failed. */
	assert_true(ended_ok >= 199);
	net_server_free(second);
	grpc_fixture_stop(&own);
}

static void an_idle_connection_ends_and_comes_back_when_needed(void **state)
{
	struct net_server_stats stats = {0};
	struct cairn_err err = {0};

	(void)state;
	grpc_fixture_start(&own, &(struct grpc_setup){.tls = true, .limits.idle_ms = 1000});
	for (int round = 1; round <= 3; round++) {
		struct net_rpc *rpc = start_call(&own, "/t.T/Echo", "", 60000);

		assert_code(read_to_end(rpc, &err), 0);
		net_rpc_free(rpc);
		for (int i = 0; i < 6000; i++) {
			net_server_stats(own.server, &stats);
			if (stats.connections_open == 0)
				break;
			cairn_sleep_ms(10);
		}
		assert_int_equal(stats.connections_open, 0);
		/* More when one was idle for too long before its call came. */
		assert_true(stats.connections_total >= (uint64_t)round);
	}
	grpc_fixture_stop(&own);
}

struct sender {
	struct net_rpc *rpc;
	pthread_t thread;
	int rc;
};

static atomic_int senders_refused;

/* More than one stream's windows, so that some of it must wait there. */
static void *send_much(void *arg)
{
	static const uint8_t message[64 << 10];
	struct sender *sender = arg;
	struct cairn_err err = {0};
	int rc = 0;

	for (int i = 0; i < 24 && rc == 0; i++)
		rc = net_rpc_send(sender->rpc, message, sizeof(message), false, &err);
	sender->rc = read_to_end(sender->rpc, &err);
	if (sender->rc == CAIRN_NO_SPACE)
		atomic_fetch_add(&senders_refused, 1);
	return NULL;
}

static void senders_that_fill_all_buffers_are_refused(void **state)
{
	struct sender senders[8];
	struct net_server_stats stats;
	struct cairn_err err = {0};

	(void)state;
	atomic_store(&senders_refused, 0);
	grpc_fixture_start(&own, &(struct grpc_setup){.limits.buffered_bytes = 2 << 20});
	for (size_t i = 0; i < ARRAY_LEN(senders); i++) {
		struct net_rpc_options options = {.path = "/t.T/Deaf", .timeout_ms = 600000};
		struct sender *sender = &senders[i];

		assert_ok(net_rpc_start(own.channel, &options, &sender->rpc, &err), &err);
		assert_int_equal(pthread_create(&sender->thread, NULL, send_much, sender), 0);
	}
	for (int i = 0; i < 6000 && atomic_load(&senders_refused) == 0; i++)
		cairn_sleep_ms(10);
	for (size_t i = 0; i < ARRAY_LEN(senders); i++)
		net_rpc_cancel(senders[i].rpc);
	for (size_t i = 0; i < ARRAY_LEN(senders); i++) {
		pthread_join(senders[i].thread, NULL);
		assert_true(senders[i].rc == CAIRN_NO_SPACE || senders[i].rc == CAIRN_CANCELLED);
		net_rpc_free(senders[i].rpc);
	}
	assert_true(atomic_load(&senders_refused) > 0);
	wait_for_handlers(&own, 0);
	net_server_stats(own.server, &stats);
	assert_true(stats.bytes_buffered <= 3U << 20);
	grpc_fixture_stop(&own);
}

static void a_server_that_cannot_prove_its_name_is_not_called(void **state)
{
	struct net_channel_options options = {.server_name = "other.example"};
	struct net_rpc_options call = grpc_to("/t.T/Echo");
	struct cairn_err err = {0};
	struct net_channel *channel = NULL;
	uint8_t *data = NULL;
	size_t n;

	(void)state;
	grpc_fixture_start(&own, &(struct grpc_setup){.tls = true});
	options.target = own.target;
	options.tls = own.client_tls;
	assert_ok(net_channel_new(&options, &channel, &err), &err);
	assert_code(net_rpc_unary(channel, &call, "", 0, &data, &n, &err), CAIRN_UNAVAILABLE);
	assert_non_null(strstr(err.msg, "certificate"));
	net_channel_free(channel);
	grpc_fixture_stop(&own);
}

static void nobody_there_is_unavailable_at_once(void **state)
{
	struct net_channel_options options = {.target = "unix:/nonexistent/socket",
					      .backoff_first_ms = 600000,
					      .backoff_max_ms = 600000};
	cairn_cleanup(net_channel_freep) struct net_channel *channel = NULL;
	struct net_rpc_options call = grpc_to("/t.T/Echo");
	struct cairn_err err = {0};
	uint8_t *data = NULL;
	size_t n;

	(void)state;
	assert_ok(net_channel_new(&options, &channel, &err), &err);
	for (int i = 0; i < 2; i++)
		assert_code(net_rpc_unary(channel, &call, "", 0, &data, &n, &err),
			    CAIRN_UNAVAILABLE);
	assert_code(net_channel_connect(channel, 50, &err), CAIRN_DEADLINE); /* it pauses */
}

static void the_limits_above_are_counted(void **state)
{
	(void)state;
	assert_limits_counted(NET_LIMIT_BUFFERED_BYTES, NET_LIMIT_IDLE_TIME);
}

int main(void)
{
	const struct CMUnitTest calls[] = {
		cmocka_unit_test(a_deadline_ends_both_sides),
		cmocka_unit_test(a_deadline_ends_a_call_whose_window_is_shut),
		cmocka_unit_test(a_cancelled_call_ends_its_handler),
		cmocka_unit_test(a_reader_that_stops_holds_the_sender),
		cmocka_unit_test(a_thousand_calls_live_at_once),
		cmocka_unit_test(a_channel_that_closes_ends_its_calls),
	};
	const struct CMUnitTest servers[] = {
		cmocka_unit_test(a_server_that_dies_in_mid_stream_never_ends_ok),
		cmocka_unit_test(a_drain_lets_calls_end_and_takes_no_new_ones),
		cmocka_unit_test(a_drain_cuts_off_what_takes_too_long),
		cmocka_unit_test(a_channel_comes_back_when_its_server_does),
		cmocka_unit_test(a_call_refused_by_a_drain_goes_to_the_next_server),
		cmocka_unit_test(an_idle_connection_ends_and_comes_back_when_needed),
		cmocka_unit_test(senders_that_fill_all_buffers_are_refused),
		cmocka_unit_test(a_server_that_cannot_prove_its_name_is_not_called),
		cmocka_unit_test(nobody_there_is_unavailable_at_once),
		cmocka_unit_test(the_limits_above_are_counted),
	};
	int failed = cmocka_run_group_tests_name("net/grpc ends, unix", calls,
						 grpc_group_start_unix, grpc_group_stop);

	failed += cmocka_run_group_tests_name("net/grpc ends, TLS", calls, grpc_group_start_tls,
					      grpc_group_stop);
	return failed + cmocka_run_group_tests_name("net/grpc servers", servers, NULL, NULL);
}
