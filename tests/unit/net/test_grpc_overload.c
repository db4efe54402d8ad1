/* SPDX-License-Identifier: Apache-2.0 */

/* What a peer makes the server keep before anybody knows who it is: fields of
 * calls that wait, frames that nobody reads, resets. */

#include "cairntest.h"

#include <malloc.h>
#include <poll.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "grpc_fixture.h"
#include "grpc_raw.h"
#include "hpack.h"
#include "limits_counted.h"
#include "net/loop.h"
#include "net/shares.h"
#include "overload.h"

#define SHORT_MS     300
#define LONG_MS      600000U
#define MEMORY_BYTES (48U << 20)
#define ENHANCE_CALM 11

static void others_are_served(struct grpc_fixture *f)
{
	struct net_rpc_options options = grpc_to("/t.T/Quick");
	struct cairn_err err = {0};
	uint8_t *data = NULL;
	size_t n = 0;

	options.wait_for_ready = true;
	assert_ok(net_rpc_unary(f->channel, &options, "still", 5, &data, &n, &err), &err);
	assert_int_equal(n, 5);
	free(data);
}

static size_t large_block(uint8_t *block, const char *path, bool define, unsigned times)
{
	size_t n = raw_request_block(block, path);

	return n + hpack_large_fields(block + n, define, times);
}

/* 20 fields of 3000 bytes for each of many calls that a handler waits in. */
static void put_waiting_calls(struct raw *raw, unsigned calls)
{
	static uint8_t block[4096];

	for (unsigned i = 0; i < calls; i++) {
		size_t n = large_block(block, "/t.T/Wait", i == 0, 20);

		raw_put_frame(raw, RAW_HEADERS, RAW_END_HEADERS, 1 + i * 2, block, (uint32_t)n);
		raw_put_frame(raw, RAW_DATA, RAW_END_STREAM, 1 + i * 2, "\0\0\0\0\0", 5);
	}
	raw_flush(raw);
}

static void wait_for_calls(struct grpc_fixture *f, uint64_t open)
{
	struct net_server_stats stats = {0};

	for (int i = 0; i < RAW_WAIT_MS / 10; i++) {
		net_server_stats(f->server, &stats);
		if (stats.calls_open <= open)
			return;
		cairn_sleep_ms(10);
	}
	fail_msg("%lu calls are open", (unsigned long)stats.calls_open);
}

static void fields_of_waiting_calls_have_a_limit(void **state)
{
	struct grpc_fixture *f = *state;
	size_t before = overload_resident();
	static struct raw raws[8];
	struct net_server_stats stats;

	for (size_t i = 0; i < ARRAY_LEN(raws); i++) {
		raw_greet(&raws[i], f->path);
		put_waiting_calls(&raws[i], 1000);
	}
	do {
		others_are_served(f);
		net_server_stats(f->server, &stats);
	} while (stats.requests_refused == 0);
	overload_assert_memory(before, MEMORY_BYTES);
	for (size_t i = 0; i < ARRAY_LEN(raws); i++)
		close(raws[i].fd);
	wait_for_calls(f, 0);
	net_server_stats(f->server, &stats);
	assert_int_equal(stats.request_bytes, 0);
	overload_wait_memory(before, MEMORY_BYTES / 3);
	others_are_served(f);
}

/* Sends without reading a byte, until the server stops reading or the
 * connection is gone. */
static void push_blindly(int fd, const uint8_t *data, size_t n, size_t total)
{
	for (size_t at = 0; at < total;) {
		struct pollfd p = {.fd = fd, .events = POLLOUT};
		ssize_t sent = send(fd, data + at % n, n - at % n, MSG_NOSIGNAL | MSG_DONTWAIT);

		if (sent > 0)
			at += (size_t)sent;
		else if (sent < 0 && poll(&p, 1, 1000) != 1)
			return;
		else if (p.revents & (POLLERR | POLLHUP))
			return;
	}
}

/* Each request has a field name in upper case, so that nghttp2 resets it. */
static void a_peer_that_never_reads_queues_nothing(void **state)
{
	struct grpc_fixture *f = *state;
	size_t before = overload_resident();
	static struct raw raw;
	static uint8_t frames[1000 * 40];

	raw_greet(&raw, f->path);
	raw_flush(&raw);
	for (uint32_t round = 0; round < 400; round++) {
		size_t n = 0;

		for (uint32_t i = 0; i < 1000; i++) {
			uint32_t id = (round * 1000 + i) * 2 + 1;
			uint8_t *at = frames + n;
			size_t k = raw_field(at + 9, "X-Bad", "1");

			memcpy(at,
			       ((uint8_t[]){0, 0, (uint8_t)k, RAW_HEADERS,
					    RAW_END_HEADERS | RAW_END_STREAM, (uint8_t)(id >> 24),
					    (uint8_t)(id >> 16), (uint8_t)(id >> 8), (uint8_t)id}),
			       9);
			n += 9 + k;
		}
		push_blindly(raw.fd, frames, n, n);
	}
	overload_assert_memory(before, MEMORY_BYTES / 4);
	others_are_served(f);
	close(raw.fd);
}

static void a_malformed_request_costs_only_its_stream(void **state)
{
	static const struct grpc_setup setup = {.limits.header_ms = SHORT_MS};
	static const char *const names[] = {"X-Bad", ":odd", "connection"};
	struct grpc_fixture f;
	struct raw_reply reply;
	static struct raw raw;
	uint8_t block[512];
	uint32_t id = 1;
	size_t n;

	(void)state;
	grpc_fixture_start(&f, &setup);
	raw_greet(&raw, f.path);
	for (size_t i = 0; i < ARRAY_LEN(names); i++, id += 2) {
		n = raw_request_block(block, "/t.T/Echo");
		n += raw_field(block + n, names[i], "1");
		raw_put_frame(&raw, RAW_HEADERS, RAW_END_HEADERS | RAW_END_STREAM, id, block,
			      (uint32_t)n);
		raw_flush(&raw);
		cairn_sleep_ms((uint64_t)SHORT_MS * 3); /* for longer than headers may take */
	}
	raw_put_request(&raw, id, "/t.T/Echo");
	raw_put_frame(&raw, RAW_DATA, RAW_END_STREAM, id, "\0\0\0\0\0", 5);
	raw_read_until(&raw, &reply, "grpc-status: 0\n");
	assert_false(reply.closed);
	assert_int_equal(reply.resets, ARRAY_LEN(names));
	close(raw.fd);
	grpc_fixture_stop(&f);
}

/* A block that was rejected and does not end. */
static void a_rejected_block_must_end_too(void **state)
{
	static const struct grpc_setup setup = {.limits.header_ms = SHORT_MS};
	struct raw_reply reply;
	static struct raw raw;
	struct grpc_fixture f;
	uint8_t block[512];
	size_t n = raw_field(block, "X-Bad", "1");

	(void)state;
	grpc_fixture_start(&f, &setup);
	raw_greet(&raw, f.path);
	raw_put_frame(&raw, RAW_HEADERS, 0, 1, block, (uint32_t)n);
	raw_read_reply(&raw, &reply, UINT32_MAX);
	assert_true(reply.closed);
	close(raw.fd);
	grpc_fixture_stop(&f);
}

/* Frames that make the server reset a stream that has been requested (MadeYouReset). */
static const struct provocation {
	uint8_t type;
	uint8_t flags;
	const char *bytes;
	uint32_t n;
} provocations[] = {
	{RAW_WINDOW_UPDATE, 0, "\0\0\0\0", 4},         /* an increment of 0 */
	{RAW_WINDOW_UPDATE, 0, "\x7f\xff\xff\xff", 4}, /* a window that is too large */
	{RAW_DATA, RAW_END_STREAM, "\0\0\0\0\0", 5},   /* after the end of the request */
};

static void provoke_resets(struct grpc_fixture *f, const struct provocation *by)
{
	struct raw_reply reply;
	static struct raw raw;

	raw_greet(&raw, f->path);
	for (uint32_t id = 1; id < 40000 && !raw.broken; id += 2) {
		raw_put_request(&raw, id, "/t.T/Wait");
		raw_put_frame(&raw, RAW_DATA, RAW_END_STREAM, id, "\0\0\0\0\0", 5);
		raw_put_frame(&raw, by->type, by->flags, id, by->bytes, by->n);
	}
	raw_read_reply(&raw, &reply, UINT32_MAX);
	assert_true(reply.closed);
	if (!raw.broken)
		assert_int_equal(reply.goaway, ENHANCE_CALM);
	close(raw.fd);
	wait_for_calls(f, 0);
}

static void resets_that_the_peer_provokes_are_counted(void **state)
{
	struct grpc_fixture *f = *state;

	for (size_t i = 0; i < ARRAY_LEN(provocations); i++)
		provoke_resets(f, &provocations[i]);
	others_are_served(f);
}

/* Peers at four addresses that say nothing, and one at a fifth. */
static void silent_connections_lock_nobody_out(void **state)
{
	static const struct grpc_setup setup = {.tls = true, .limits.connections = 64};
	static int fds[400];
	struct net_server_stats stats;
	struct grpc_fixture f;

	(void)state;
	grpc_fixture_start(&f, &setup);
	for (size_t i = 0; i < ARRAY_LEN(fds); i++)
		fds[i] = overload_dial(2 + (unsigned)(i % 4), f.port);
	others_are_served(&f);
	net_server_stats(f.server, &stats);
	assert_true(stats.connections_displaced > 0);
	for (size_t i = 0; i < ARRAY_LEN(fds); i++)
		close(fds[i]);
	grpc_fixture_stop(&f);
}

static void handshakes_of_one_address_have_a_rate(void **state)
{
	static const struct grpc_setup setup = {
		.tls = true, .limits = {.handshakes_burst = 20, .handshakes_per_second = 1}};
	struct net_shares_stats stats = {0};
	struct grpc_fixture f;
	int fds[100];

	(void)state;
	grpc_fixture_start(&f, &setup);
	for (size_t i = 0; i < ARRAY_LEN(fds); i++) {
		fds[i] = overload_dial(2, f.port);
		(void)!send(fds[i], "\x16", 1, MSG_NOSIGNAL);
	}
	for (int i = 0; i < RAW_WAIT_MS / 10 && stats.handshakes_refused == 0; i++) {
		net_shares_totals(&stats);
		cairn_sleep_ms(10);
	}
	assert_true(stats.handshakes_refused > 0);
	for (size_t i = 0; i < ARRAY_LEN(fds); i++)
		close(fds[i]);
	others_are_served(&f);
	grpc_fixture_stop(&f);
}

static void key_updates_have_a_limit(void **state)
{
	static const struct grpc_setup setup = {.tls = true, .limits.handshake_ms = LONG_MS};
	struct grpc_fixture f;

	(void)state;
	grpc_fixture_start(&f, &setup);
	/* If the server reads only a few at once, it is another limit that ends the connection. */
	for (int i = 0; i < 100 && net_limit_counted(NET_LIMIT_KEY_UPDATES) == 0; i++) {
		int fd = overload_dial(2, f.port);

		assert_true(overload_key_updates(fd, "h2", 20000));
		close(fd);
	}
	others_are_served(&f);
	grpc_fixture_stop(&f);
}

static int start(void **state)
{
	static const struct grpc_setup setup = {
		.limits = {.header_ms = LONG_MS, .streams = 1000, .workers = 100}};

	grpc_group_start(state, &setup);
	others_are_served(*state);
	return 0;
}

/* --- crowds --- */

struct stuck {
	struct net_task task;
	sem_t go;
};

static void be_stuck(struct net_task *task)
{
	struct stuck *stuck = (struct stuck *)task;

	while (sem_wait(&stuck->go) != 0)
		;
}

static void a_crowd_delays_only_itself(void **state)
{
	static const struct grpc_setup setup = {.tls = true};
	struct stuck stuck = {.task.run = be_stuck};
	struct grpc_fixture f;
	int fds[40];

	(void)state;
	sem_init(&stuck.go, 0, 0);
	grpc_fixture_start(&f, &setup);
	net_loop_post(net_server_loop(f.server, net_server_loops(f.server) - 1), &stuck.task);
	for (size_t i = 0; i < ARRAY_LEN(fds); i++)
		fds[i] = overload_dial(2, f.port);
	others_are_served(&f);
	sem_post(&stuck.go);
	for (size_t i = 0; i < ARRAY_LEN(fds); i++)
		close(fds[i]);
	grpc_fixture_stop(&f);
	sem_destroy(&stuck.go);
}

struct opened {
	struct net_task task;
	struct net_server *server;
	uint64_t connections;
	sem_t done;
};

static void count_opened(struct net_task *task)
{
	struct opened *opened = (struct opened *)task;
	struct net_server_stats stats;

	net_server_stats(opened->server, &stats);
	opened->connections = stats.connections_open;
	sem_post(&opened->done);
}

static void do_nothing(void *arg)
{
	(void)arg;
}

/* All that were dialled were handed to their loops. */
static void wait_for_connections(struct grpc_fixture *f, uint64_t n)
{
	struct net_server_stats stats = {0};

	for (int i = 0; i < RAW_WAIT_MS / 10 && stats.connections_total < n; i++) {
		cairn_sleep_ms(10);
		net_server_stats(f->server, &stats);
	}
	assert_int_equal(stats.connections_total, n);
}

/* While their loop was behind, all of its connections were displaced. It counts them
 * after it has made the new ones and before it looks at any socket. */
static void displaced_connections_go_before_new_ones_come(void **state)
{
	enum { CONNECTIONS = 64, ROUNDS = 3 };
	static const struct grpc_setup setup = {.tls = true, .limits.connections = CONNECTIONS};
	struct stuck stuck = {.task.run = be_stuck};
	struct opened opened = {.task.run = count_opened};
	static int fds[ROUNDS * CONNECTIONS];
	struct grpc_fixture f;
	struct net_loop *loop;

	(void)state;
	sem_init(&stuck.go, 0, 0);
	sem_init(&opened.done, 0, 0);
	grpc_fixture_start(&f, &setup);
	opened.server = f.server;
	loop = net_server_loop(f.server, net_server_loops(f.server) - 1);
	for (size_t i = 0; i < ARRAY_LEN(fds); i++) {
		if (i == CONNECTIONS) {
			wait_for_connections(&f, CONNECTIONS);
			net_loop_call(loop, do_nothing, NULL);
			net_loop_post(loop, &stuck.task);
		}
		fds[i] = overload_dial(2 + (unsigned)(i % 4), f.port);
	}
	wait_for_connections(&f, ARRAY_LEN(fds));
	net_loop_post(loop, &opened.task);
	sem_post(&stuck.go);
	while (sem_wait(&opened.done) != 0)
		;
	assert_in_range(opened.connections, 1, CONNECTIONS + CONNECTIONS / 2);
	for (size_t i = 0; i < ARRAY_LEN(fds); i++)
		close(fds[i]);
	grpc_fixture_stop(&f);
	sem_destroy(&opened.done);
	sem_destroy(&stuck.go);
}

/* 4 bytes of a record cost no buffers of 33 KiB. */
static void a_begun_record_costs_what_came_of_it(void **state)
{
	enum { CONNECTIONS = 800, EACH_BYTES = 16U << 10 };
	static const struct grpc_setup setup = {.tls = true, .limits.handshake_ms = LONG_MS};
	static int fds[CONNECTIONS];
	size_t n = overload_descriptors(2 * (size_t)CONNECTIONS) / 2;
	struct grpc_fixture f;
	size_t before;

	(void)state;
	grpc_fixture_start(&f, &setup);
	others_are_served(&f);
	before = overload_resident();
	for (size_t i = 0; i < n; i++) {
		fds[i] = overload_dial(2 + (unsigned)(i % 4), f.port);
		assert_int_equal(send(fds[i], "\x16\x03\x01\x02", 4, MSG_NOSIGNAL), 4);
	}
	/* The connections of an address are worked on in their order. */
	for (unsigned host = 2; host < 6; host++) {
		int fd = overload_dial(host, f.port);

		overload_handshake_in_pieces(fd, "h2", SIZE_MAX);
		close(fd);
	}
	overload_assert_memory(before, n * EACH_BYTES);
	others_are_served(&f);
	for (size_t i = 0; i < n; i++)
		close(fds[i]);
	grpc_fixture_stop(&f);
}

/* A stranger's handshake that comes in pieces. */
static void records_may_come_in_pieces(void **state)
{
	static const struct grpc_setup setup = {.tls = true, .limits.handshake_ms = LONG_MS};
	struct grpc_fixture f;
	int fd;

	(void)state;
	grpc_fixture_start(&f, &setup);
	for (size_t piece = 1; piece <= 64; piece *= 4) {
		fd = overload_dial(2, f.port);
		overload_handshake_in_pieces(fd, "h2", piece);
		close(fd);
	}
	grpc_fixture_stop(&f);
}

struct seen {
	struct net_loop *loop;
	int priority;
};

static int look(struct net_call *call, void *arg, struct cairn_err *err)
{
	struct seen *seen = arg;

	seen->loop = net_call_loop(call);
	seen->priority = getpriority(PRIO_PROCESS, 0);
	return net_call_send(call, "", 0, err);
}

static void read_priority(void *arg)
{
	*(int *)arg = getpriority(PRIO_PROCESS, 0);
}

/* Handlers' threads are for all callers, whoever made the server start them. */
static void only_the_loop_of_crowds_has_a_lower_priority(void **state)
{
	struct seen seen = {0};
	const struct net_method method = {
		.path = "/t.T/Look", .kind = NET_UNARY, .handler = look, .arg = &seen};
	const struct grpc_setup setup = {.tls = true, .more = &method, .n_more = 1};
	struct net_rpc_options options = grpc_to("/t.T/Look");
	int usual = getpriority(PRIO_PROCESS, 0), first, last, fds[NET_CROWD_STRANGERS];
	struct cairn_err err = {0};
	struct grpc_fixture f;
	uint8_t *data = NULL;
	size_t n = 0;

	(void)state;
	grpc_fixture_start(&f, &setup);
	net_loop_call(net_server_loop(f.server, 0), read_priority, &first);
	net_loop_call(net_server_loop(f.server, 1), read_priority, &last);
	assert_int_equal(first, usual);
	if (usual < 19)
		assert_true(last > usual);
	for (size_t i = 0; i < ARRAY_LEN(fds); i++)
		fds[i] = overload_dial(1, f.port);
	options.wait_for_ready = true;
	assert_ok(net_rpc_unary(f.channel, &options, "", 0, &data, &n, &err), &err);
	assert_ptr_equal(seen.loop, net_server_loop(f.server, 1));
	assert_int_equal(seen.priority, usual);
	free(data);
	for (size_t i = 0; i < ARRAY_LEN(fds); i++)
		close(fds[i]);
	grpc_fixture_stop(&f);
}

/* Trimming holds the locks of the allocator, for which all threads wait. */
static void memory_is_returned_at_normal_priority(void **state)
{
	const struct grpc_setup setup = {.tls = true};
	int usual = getpriority(PRIO_PROCESS, 0), fds[200];
	struct grpc_fixture f;

	(void)state;
	grpc_fixture_start(&f, &setup);
	overload_trims = 0;
	for (size_t i = 0; i < ARRAY_LEN(fds); i++)
		fds[i] = overload_dial(2 + (unsigned)(i % 4), f.port);
	wait_for_connections(&f, ARRAY_LEN(fds));
	for (size_t i = 0; i < ARRAY_LEN(fds); i++)
		close(fds[i]);
	for (int i = 0; i < 6000 && overload_trims == 0; i++)
		cairn_sleep_ms(10);
	assert_true(overload_trims > 0);
	assert_int_equal(overload_trim_priority, usual);
	grpc_fixture_stop(&f);
}

static void the_limits_above_are_counted(void **state)
{
	(void)state;
	assert_limits_counted(NET_LIMIT_HEADER_TIME, NET_LIMIT_KEY_UPDATES);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(fields_of_waiting_calls_have_a_limit),
		cmocka_unit_test(a_peer_that_never_reads_queues_nothing),
		cmocka_unit_test(a_malformed_request_costs_only_its_stream),
		cmocka_unit_test(a_rejected_block_must_end_too),
		cmocka_unit_test(resets_that_the_peer_provokes_are_counted),
		cmocka_unit_test(silent_connections_lock_nobody_out),
		cmocka_unit_test(handshakes_of_one_address_have_a_rate),
		cmocka_unit_test(key_updates_have_a_limit),
		cmocka_unit_test(a_crowd_delays_only_itself),
		cmocka_unit_test(displaced_connections_go_before_new_ones_come),
		cmocka_unit_test(a_begun_record_costs_what_came_of_it),
		cmocka_unit_test(records_may_come_in_pieces),
		cmocka_unit_test(only_the_loop_of_crowds_has_a_lower_priority),
		cmocka_unit_test(memory_is_returned_at_normal_priority),
		cmocka_unit_test(the_limits_above_are_counted),
	};

	return cmocka_run_group_tests_name("net/grpc overload", tests, start, grpc_group_stop);
}
