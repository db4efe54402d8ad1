/* SPDX-License-Identifier: Apache-2.0 */

/* The client against servers that answer in every way, scripted byte by byte. */

#include "cairntest.h"

#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "grpc_fixture.h"

enum { DATA = 0, HEADERS = 1, RST_STREAM = 3, SETTINGS = 4, GOAWAY = 7 };
enum { END_STREAM = 1, END_HEADERS = 4 };

#define BYTES_MAX 4096

/* What a fake server sends for the first request of a connection; the second
 * connection gets the second script. */
struct script {
	uint8_t bytes[BYTES_MAX];
	size_t n;
	bool hang_up; /* close afterwards */
	uint64_t after_ms;
};

struct fake {
	char dir[64], path[96], target[128];
	int fd;
	pthread_t thread;
	struct script scripts[2];
	_Atomic bool stop;
	_Atomic int connections;
};

static void add(struct script *s, const void *data, size_t n)
{
	assert_true(n <= BYTES_MAX - s->n);
	memcpy(s->bytes + s->n, data, n);
	s->n += n;
}

static void add_frame(struct script *s, uint8_t type, uint8_t flags, uint32_t id, const void *data,
		      size_t n)
{
	uint8_t head[9] = {
		(uint8_t)(n >> 16),  (uint8_t)(n >> 8),   (uint8_t)n,         type,       flags,
		(uint8_t)(id >> 24), (uint8_t)(id >> 16), (uint8_t)(id >> 8), (uint8_t)id};

	add(s, head, sizeof(head));
	add(s, data, n);
}

/* Fields as "name: value" lines. */
static void add_headers(struct script *s, uint32_t id, uint8_t flags, const char *lines)
{
	uint8_t block[1024];
	size_t n = 0;

	while (*lines) {
		const char *colon = strstr(lines, ": "), *end = strchr(lines, '\n');

		block[n++] = 0;
		block[n++] = (uint8_t)(colon - lines);
		memcpy(block + n, lines, (size_t)(colon - lines));
		n += (size_t)(colon - lines);
		block[n++] = (uint8_t)(end - colon - 2);
		memcpy(block + n, colon + 2, (size_t)(end - colon - 2));
		n += (size_t)(end - colon - 2);
		lines = end + 1;
	}
	add_frame(s, HEADERS, flags | END_HEADERS, id, block, n);
}

/* Waits for the HEADERS of a request, then plays the script. */
static void play(struct fake *f, int fd, const struct script *script)
{
	static const uint8_t settings[9] = {0, 0, 0, SETTINGS, 0, 0, 0, 0, 0};
	uint8_t seen[65536];
	size_t n = 0;

	(void)!send(fd, settings, sizeof(settings), MSG_NOSIGNAL);
	while (!atomic_load(&f->stop)) {
		struct pollfd p = {.fd = fd, .events = POLLIN};
		ssize_t got;
		size_t at = 24;
		bool asked = false;

		if (poll(&p, 1, 20) == 1) {
			got = read(fd, seen + n, sizeof(seen) - n);
			if (got <= 0)
				return;
			n += (size_t)got;
		}
		for (; at + 9 <= n; at += 9 + ((size_t)seen[at + 1] << 8 | seen[at + 2]))
			asked |= seen[at + 3] == HEADERS;
		if (!asked || !script)
			continue;
		cairn_sleep_ms(script->after_ms);
		(void)!send(fd, script->bytes, script->n, MSG_NOSIGNAL);
		if (script->hang_up)
			return;
		script = NULL;
	}
}

static void *fake_main(void *arg)
{
	struct fake *f = arg;

	while (!atomic_load(&f->stop)) {
		struct pollfd p = {.fd = f->fd, .events = POLLIN};
		int fd;

		if (poll(&p, 1, 20) != 1)
			continue;
		fd = accept(f->fd, NULL, NULL);
		play(f, fd, &f->scripts[atomic_fetch_add(&f->connections, 1) > 0]);
		close(fd);
	}
	return NULL;
}

static void fake_start(struct fake *f)
{
	struct sockaddr_un addr = {.sun_family = AF_UNIX};

	scratch_template(f->dir, "fake");
	assert_non_null(mkdtemp(f->dir));
	snprintf(f->path, sizeof(f->path), "%s/s", f->dir);
	snprintf(f->target, sizeof(f->target), "unix:%s", f->path);
	snprintf(addr.sun_path, sizeof(addr.sun_path), "%s", f->path);
	f->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(bind(f->fd, (struct sockaddr *)&addr, sizeof(addr)), 0);
	assert_int_equal(listen(f->fd, 5), 0);
	assert_int_equal(pthread_create(&f->thread, NULL, fake_main, f), 0);
}

static void fake_stop(struct fake *f)
{
	atomic_store(&f->stop, true);
	pthread_join(f->thread, NULL);
	close(f->fd);
	unlink(f->path);
	rmdir(f->dir);
}

/* The server does not answer pings: with `keepalive_ms` it has that long to speak. */
static int call_alive(const char *target, uint64_t keepalive_ms, struct cairn_err *err)
{
	struct net_channel_options options = {.target = target,
					      .keepalive_ms = keepalive_ms,
					      .keepalive_wait_ms = keepalive_ms,
					      .backoff_first_ms = 20};
	struct net_rpc_options rpc = {.path = "/t.T/X", .timeout_ms = 120000};
	cairn_cleanup(net_channel_freep) struct net_channel *channel = NULL;
	cairn_auto_free uint8_t *data = NULL;
	size_t n;

	assert_ok(net_channel_new(&options, &channel, err), err);
	return net_rpc_unary(channel, &rpc, "ask", 3, &data, &n, err);
}

static int call(const char *target, struct cairn_err *err)
{
	return call_alive(target, 0, err);
}

#define OK_HEADERS ":status: 200\ncontent-type: application/grpc\n"

static void every_way_to_answer_has_its_status(void **state)
{
	static const struct {
		const char *headers; /* of the response */
		uint8_t flags;
		const char *body;
		size_t body_n;
		const char *trailers;
		int code;
		const char *text; /* part of the message */
	} cases[] = {
		{OK_HEADERS, 0, "\0\0\0\0\2hi", 7, "grpc-status: 0\n", 0, ""},
		{OK_HEADERS "grpc-status: 5\ngrpc-message: not%20here\n", END_STREAM, "", 0, "",
		 CAIRN_NOT_FOUND, "not here"},
		{OK_HEADERS, 0, "", 0, "grpc-status: 7\ngrpc-message: n%C3%B6\n", CAIRN_DENIED,
		 "nö"},
		{OK_HEADERS, 0, "", 0, "grpc-status: 99\n", CAIRN_UNKNOWN, ""},
		{OK_HEADERS, 0, "", 0, "grpc-status: x\n", CAIRN_UNKNOWN, "no status"},
		{OK_HEADERS, 0, "", 0, "x-other: 1\n", CAIRN_UNKNOWN, "no status"},
		{OK_HEADERS, 0, "\0\0\0\0\5hi", 7, "grpc-status: 0\n", CAIRN_INTERNAL, "within"},
		{OK_HEADERS, 0, "\0\0\0\0\5hi", 7, "grpc-status: 8\n", CAIRN_NO_SPACE, ""},
		{OK_HEADERS, 0, "\7\0\0\0\1h", 6, "grpc-status: 0\n", CAIRN_INTERNAL,
		 "not a message"},
		{OK_HEADERS, 0, "\0\7\0\0\1h", 6, "grpc-status: 0\n", CAIRN_NO_SPACE, "larger"},
		{OK_HEADERS, 0, "\1\0\0\0\1h", 6, "grpc-status: 0\n", CAIRN_INTERNAL, "compressed"},
		{OK_HEADERS, 0, "", 0, "grpc-status: 0\n", CAIRN_UNIMPLEMENTED, "no message"},
		{OK_HEADERS, 0, "\0\0\0\0\0\0\0\0\0\0", 10, "grpc-status: 0\n", CAIRN_UNIMPLEMENTED,
		 "two"},
		{":status: 503\ncontent-type: text/html\n", END_STREAM, "", 0, "",
		 CAIRN_UNAVAILABLE, "503"},
		{":status: 401\n", END_STREAM, "", 0, "", CAIRN_UNAUTHENTICATED, "401"},
		{":status: 404\n", 0, "page", 4, "", CAIRN_UNIMPLEMENTED, "404"},
		{":status: 200\ncontent-type: text/html\n", 0, "page", 4, "", CAIRN_UNKNOWN, "200"},
		{OK_HEADERS "x-bad-bin: ***\n", 0, "", 0, "", CAIRN_INTERNAL, "base64"},
		{":status: 500\ngrpc-status: 5\n", END_STREAM, "", 0, "", CAIRN_NOT_FOUND, ""},
		{":status: 302\nlocation: /x\n", END_STREAM, "", 0, "", CAIRN_UNKNOWN, "302"},
		{":status: 429\n", END_STREAM, "", 0, "", CAIRN_UNAVAILABLE, "429"},
		{OK_HEADERS "grpc-encoding: gzip\n", 0, "\1\0\0\0\1h", 6, "grpc-status: 0\n",
		 CAIRN_INTERNAL, "gzip"},
		{OK_HEADERS "grpc-encoding: snappy\n", 0, "\1\0\0\0\1h", 6, "grpc-status: 0\n",
		 CAIRN_INTERNAL, "compressed"},
		{OK_HEADERS, 0, "", 0, "grpc-status: -1\n", CAIRN_UNKNOWN, "no status"},
		{OK_HEADERS, 0, "", 0, "grpc-status: 00005\n", CAIRN_UNKNOWN, ""},
		{OK_HEADERS, 0, "", 0, "grpc-status: 5\ngrpc-message: %zz%4\n", CAIRN_NOT_FOUND,
		 "%zz%4"},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct fake f = {0};
		struct cairn_err err = {0};
		int rc;

		if (i == 0) /* an informational response changes nothing */
			add_headers(&f.scripts[0], 1, 0, ":status: 100\n");
		add_headers(&f.scripts[0], 1, cases[i].flags, cases[i].headers);
		if (cases[i].body_n)
			add_frame(&f.scripts[0], DATA, 0, 1, cases[i].body, cases[i].body_n);
		if (*cases[i].trailers)
			add_headers(&f.scripts[0], 1, END_STREAM, cases[i].trailers);
		fake_start(&f);
		rc = call(f.target, &err);
		if (rc != cases[i].code || (rc != 0 && !strstr(err.msg, cases[i].text)))
			fail_msg("case %zu: %s '%s'", i, cairn_code_name(rc), err.msg);
		fake_stop(&f);
	}
}

static void every_reset_has_its_status(void **state)
{
	static const struct {
		uint8_t h2;
		int code;
	} cases[] = {{0, CAIRN_INTERNAL},   {1, CAIRN_INTERNAL},  {2, CAIRN_INTERNAL},
		     {8, CAIRN_CANCELLED},  {11, CAIRN_NO_SPACE}, {12, CAIRN_DENIED},
		     {7, CAIRN_UNAVAILABLE}};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct fake f = {0};
		struct cairn_err err = {0};
		uint8_t code[4] = {0, 0, 0, cases[i].h2};

		if (cases[i].h2 == 7) { /* refused after an answer began: not to be sent again */
			add_headers(&f.scripts[0], 1, 0, OK_HEADERS);
		}
		add_frame(&f.scripts[0], RST_STREAM, 0, 1, code, 4);
		fake_start(&f);
		if (call(f.target, &err) != cases[i].code)
			fail_msg("case %zu: %s '%s'", i, cairn_code_name(err.code), err.msg);
		fake_stop(&f);
	}
}

static void a_refused_call_is_sent_again(void **state)
{
	struct fake f = {0};
	struct cairn_err err = {0};

	(void)state;
	/* The first server goes away without having seen stream 1. */
	add_frame(&f.scripts[0], GOAWAY, 0, 0, "\0\0\0\0\0\0\0\0", 8);
	f.scripts[0].hang_up = true;
	add_headers(&f.scripts[1], 1, 0, OK_HEADERS);
	add_frame(&f.scripts[1], DATA, 0, 1, "\0\0\0\0\2hi", 7);
	add_headers(&f.scripts[1], 1, END_STREAM, "grpc-status: 0\n");
	fake_start(&f);
	assert_ok(call(f.target, &err), &err);
	assert_int_equal(atomic_load(&f.connections), 2);
	fake_stop(&f);
}

static void a_call_that_was_seen_is_not_sent_again(void **state)
{
	struct fake f = {0};
	struct cairn_err err = {0};

	(void)state;
	add_frame(&f.scripts[0], GOAWAY, 0, 0, "\0\0\0\1\0\0\0\0", 8);
	f.scripts[0].hang_up = true;
	fake_start(&f);
	assert_code(call(f.target, &err), CAIRN_UNAVAILABLE);
	assert_int_equal(atomic_load(&f.connections), 1);
	fake_stop(&f);
}

/* A server that goes away ends what it has begun; the next call goes elsewhere. */
static void a_call_under_way_outlives_a_goaway(void **state)
{
	struct fake f = {0};
	struct net_channel_options options = {.target = f.target, .backoff_first_ms = 20};
	struct net_rpc_options rpc = {.path = "/t.T/X", .timeout_ms = 60000};
	cairn_cleanup(net_channel_freep) struct net_channel *channel = NULL;
	struct cairn_err err = {0};

	(void)state;
	for (int i = 0; i < 2; i++) {
		add_headers(&f.scripts[i], 1, 0, OK_HEADERS);
		add_frame(&f.scripts[i], DATA, 0, 1, "\0\0\0\0\2h", 6);
		if (i == 0)
			add_frame(&f.scripts[i], GOAWAY, 0, 0, "\0\0\0\1\0\0\0\0", 8);
		add_frame(&f.scripts[i], DATA, 0, 1, "i", 1);
		add_headers(&f.scripts[i], 1, END_STREAM, "grpc-status: 0\n");
	}
	fake_start(&f);
	assert_ok(net_channel_new(&options, &channel, &err), &err);
	for (int i = 0; i < 2; i++) {
		cairn_auto_free uint8_t *data = NULL;
		size_t n = 0;

		assert_ok(net_rpc_unary(channel, &rpc, "ask", 3, &data, &n, &err), &err);
		assert_int_equal(n, 2);
		assert_memory_equal(data, "hi", 2);
	}
	assert_int_equal(atomic_load(&f.connections), 2);
	net_channel_freep(&channel);
	channel = NULL;
	fake_stop(&f);
}

static void a_connection_that_breaks_is_unavailable(void **state)
{
	struct fake f = {0};
	struct cairn_err err = {0};

	(void)state;
	add_headers(&f.scripts[0], 1, 0, OK_HEADERS);
	add_frame(&f.scripts[0], DATA, 0, 1, "\0\0\0\0\2hi", 7);
	f.scripts[0].hang_up = true;
	fake_start(&f);
	assert_code(call(f.target, &err), CAIRN_UNAVAILABLE);
	fake_stop(&f);
}

static void what_is_no_http2_is_unavailable(void **state)
{
	struct fake f = {0};
	struct cairn_err err = {0};

	(void)state;
	add(&f.scripts[0], "HTTP/1.1 400 Bad Request\r\n\r\n", 28);
	fake_start(&f);
	assert_code(call(f.target, &err), CAIRN_UNAVAILABLE);
	fake_stop(&f);
}

static void a_server_that_falls_silent_is_given_up(void **state)
{
	struct fake f = {0};
	struct cairn_err err = {0};

	(void)state;
	add_headers(&f.scripts[0], 1, 0, OK_HEADERS);
	fake_start(&f);
	assert_code(call_alive(f.target, 200, &err), CAIRN_UNAVAILABLE);
	assert_non_null(strstr(err.msg, "ping"));
	fake_stop(&f);
}

static void targets_are_checked(void **state)
{
	static const char *const bad[] = {"",      "x",           "unix:",         ":80",
					  "host:", "10.0.0.1:80", "example.org:80"};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		struct net_channel_options options = {.target = bad[i]};
		struct net_channel *channel = NULL;
		struct cairn_err err = {0};

		if (net_channel_new(&options, &channel, &err) != CAIRN_INVALID)
			fail_msg("'%s' was taken", bad[i]);
		assert_null(channel);
	}
}

static void a_name_is_looked_up(void **state)
{
	struct net_channel_options options = {.target = "localhost:1", .connect_ms = 60000};
	cairn_cleanup(net_channel_freep) struct net_channel *channel = NULL;
	struct cairn_err err = {0};

	(void)state;
	assert_ok(net_channel_new(&options, &channel, &err), &err);
	assert_code(net_channel_connect(channel, 120000, &err), CAIRN_UNAVAILABLE);
}

static int call_with_grace(const char *target, uint64_t timeout_ms, uint64_t grace_ms,
			   struct cairn_err *err)
{
	struct net_channel_options options = {.target = target};
	struct net_rpc_options rpc = {
		.path = "/t.T/X", .timeout_ms = timeout_ms, .grace_ms = grace_ms};
	cairn_cleanup(net_channel_freep) struct net_channel *channel = NULL;
	cairn_auto_free uint8_t *data = NULL;
	size_t n;

	assert_ok(net_channel_new(&options, &channel, err), err);
	return net_rpc_unary(channel, &rpc, "ask", 3, &data, &n, err);
}

static void with_grace_the_server_has_the_last_word_on_a_deadline(void **state)
{
	static const struct {
		const char *trailers;
		uint64_t grace_ms;
		int code;
		const char *text;
	} cases[] = {
		{"grpc-status: 0\n", 120000, 0, ""},
		{"grpc-status: 4\ngrpc-message: theirs\n", 120000, CAIRN_DEADLINE, "theirs"},
		{NULL, 0, CAIRN_DEADLINE, "deadline passed"}, /* no answer comes */
		{NULL, 1, CAIRN_DEADLINE, "deadline passed"},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct fake f = {.scripts[0].after_ms = 400};
		struct cairn_err err = {0};
		int rc;

		if (cases[i].trailers) {
			add_headers(&f.scripts[0], 1, 0, OK_HEADERS);
			add_frame(&f.scripts[0], DATA, 0, 1, "\0\0\0\0\2hi", 7);
			add_headers(&f.scripts[0], 1, END_STREAM, cases[i].trailers);
		}
		fake_start(&f);
		rc = call_with_grace(f.target, 100, cases[i].grace_ms, &err);
		if (rc != cases[i].code || (rc != 0 && !strstr(err.msg, cases[i].text)))
			fail_msg("case %zu: %s '%s'", i, cairn_code_name(rc), err.msg);
		fake_stop(&f);
	}
}

#define PIECE (16U << 10)

static _Atomic uint64_t bytes_sent;

/* Sends pieces until nobody wants them. */
static int pour(struct net_call *call, void *arg, struct cairn_err *err)
{
	static const uint8_t piece[PIECE];
	int rc;

	(void)arg;
	while ((rc = net_call_send(call, piece, sizeof(piece), err)) == 0)
		atomic_fetch_add(&bytes_sent, PIECE);
	return rc;
}

/* How much a server gets rid of when its caller takes the first message only: `least`, and what
 * else goes until nothing does. */
static uint64_t poured_into(size_t recv_bytes, uint64_t least)
{
	static const struct net_method method = {"/t.T/Pour", NET_SERVER_STREAM, pour, NULL};
	struct grpc_setup setup = {.more = &method,
				   .n_more = 1,
				   .limits.stream_send_bytes = PIECE,
				   .channel.stream_window = 65535,
				   .channel.recv_bytes = recv_bytes};
	struct net_rpc_options options = grpc_to("/t.T/Pour");
	struct net_rpc *rpc = NULL;
	struct cairn_err err = {0};
	struct grpc_fixture f;
	const uint8_t *data;
	uint64_t last = 0;
	size_t n;

	atomic_store(&bytes_sent, 0);
	grpc_fixture_start(&f, &setup);
	assert_ok(net_rpc_start(f.channel, &options, &rpc, &err), &err);
	assert_ok(net_rpc_send(rpc, "", 0, true, &err), &err);
	assert_int_equal(net_rpc_recv(rpc, &data, &n, &err), 1);
	for (int i = 0; i < 6000 && atomic_load(&bytes_sent) < least; i++)
		cairn_sleep_ms(10);
	do {
		last = atomic_load(&bytes_sent);
		cairn_sleep_ms(300);
	} while (atomic_load(&bytes_sent) != last);
	net_rpc_free(rpc);
	grpc_fixture_stop(&f);
	return last;
}

static void what_waits_for_a_caller_is_bounded_by_recv_bytes(void **state)
{
	const uint64_t much = (1U << 20) - 65535;
	uint64_t narrow, wide;

	(void)state;
	narrow = poured_into(1, PIECE);
	wide = poured_into(1U << 20, much);
	/* A window, what the server holds itself, and the message in hand. */
	assert_in_range(narrow, PIECE, 65535 + 4 * PIECE);
	assert_in_range(wide, much, (1U << 20) + 65535 + 4 * PIECE);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_way_to_answer_has_its_status),
		cmocka_unit_test(every_reset_has_its_status),
		cmocka_unit_test(a_refused_call_is_sent_again),
		cmocka_unit_test(a_call_that_was_seen_is_not_sent_again),
		cmocka_unit_test(a_call_under_way_outlives_a_goaway),
		cmocka_unit_test(a_connection_that_breaks_is_unavailable),
		cmocka_unit_test(what_is_no_http2_is_unavailable),
		cmocka_unit_test(a_server_that_falls_silent_is_given_up),
		cmocka_unit_test(targets_are_checked),
		cmocka_unit_test(a_name_is_looked_up),
		cmocka_unit_test(with_grace_the_server_has_the_last_word_on_a_deadline),
		cmocka_unit_test(what_waits_for_a_caller_is_bounded_by_recv_bytes),
	};

	return cmocka_run_group_tests_name("net/grpc client", tests, NULL, NULL);
}
