/* SPDX-License-Identifier: Apache-2.0 */

/* Peers that do not play by the rules. Each gets an error or loses its
 * connection, costs little memory, and others are served as before. */

#include "cairntest.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/io.h"
#include "grpc_fixture.h"
#include "grpc_raw.h"
#include "limits_counted.h"
#include "overload.h"

#define SHORT_MS     500 /* the limit that a test is about, and only that one */
#define MEMORY_BYTES (48U << 20)
#define ENHANCE_CALM 11

/* --- what must hold afterwards --- */

static const char *path_of(void **state)
{
	return ((const struct grpc_fixture *)*state)->path;
}

static void others_are_served(struct grpc_fixture *f)
{
	struct net_rpc_options options = grpc_to("/t.T/Echo");
	struct cairn_err err = {0};
	uint8_t *data = NULL;
	size_t n = 0;
	int rc = CAIRN_UNAVAILABLE;

	/* A limit that a test is about holds for our own channel too: where everything is
	 * slow, its connection may be taken for one that does not come to the point. */
	options.wait_for_ready = true;
	for (int i = 0; i < 20 && rc == CAIRN_UNAVAILABLE; i++)
		rc = net_rpc_unary(f->channel, &options, "still", 5, &data, &n, &err);
	assert_ok(rc, &err);
	assert_int_equal(n, 5);
	free(data);
}

static void wait_for_handlers(struct grpc_fixture *f, int want)
{
	for (int i = 0; i < RAW_WAIT_MS / 10 && atomic_load(&f->handlers) != want; i++)
		cairn_sleep_ms(10);
	assert_int_equal(atomic_load(&f->handlers), want);
}

static void ends_with_calm(struct grpc_fixture *f, struct raw *raw, size_t before)
{
	struct raw_reply reply;

	raw_read_reply(raw, &reply, UINT32_MAX);
	assert_true(reply.closed);
	if (!raw->broken) /* otherwise the RAW_GOAWAY may be lost with the connection */
		assert_int_equal(reply.goaway, ENHANCE_CALM);
	overload_assert_memory(before, MEMORY_BYTES);
	close(raw->fd);
	others_are_served(f);
}

/* --- the attacks --- */

static void rapid_reset_ends_the_connection(void **state)
{
	struct grpc_fixture *f = *state;
	size_t before = overload_resident();
	struct raw_reply reply;
	struct raw raw;

	raw_greet(&raw, f->path);
	for (uint32_t id = 1; id < 40000 && !raw.broken; id += 2) {
		raw_put_request(&raw, id, "/t.T/Wait");
		raw_put_frame(&raw, RAW_DATA, RAW_END_STREAM, id, "\0\0\0\0\0", 5);
		raw_put_frame(&raw, RAW_RST_STREAM, 0, id, "\0\0\0\10", 4);
	}
	raw_read_reply(&raw, &reply, UINT32_MAX);
	assert_true(reply.closed);
	overload_assert_memory(before, MEMORY_BYTES);
	close(raw.fd);
	others_are_served(f);
	wait_for_handlers(f, 0);
}

static void a_continuation_flood_ends_the_connection(void **state)
{
	struct grpc_fixture *f = *state;
	size_t before = overload_resident(), n;
	uint8_t block[512];
	struct raw_reply reply;
	struct raw raw;

	raw_greet(&raw, f->path);
	n = raw_request_block(block, "/t.T/Echo");
	raw_put_frame(&raw, RAW_HEADERS, 0, 1, block, (uint32_t)n);
	for (int i = 0; i < 20000 && !raw.broken; i++) {
		n = raw_field(block, "x-more", "and more and more and more");
		raw_put_frame(&raw, RAW_CONTINUATION, 0, 1, block, (uint32_t)n);
	}
	raw_read_reply(&raw, &reply, UINT32_MAX);
	assert_true(reply.closed);
	overload_assert_memory(before, MEMORY_BYTES);
	close(raw.fd);
	others_are_served(f);
}

static void a_ping_flood_ends_the_connection(void **state)
{
	size_t before = overload_resident();
	struct raw raw;

	raw_greet(&raw, path_of(state));
	for (int i = 0; i < 5000 && !raw.broken; i++)
		raw_put_frame(&raw, RAW_PING, 0, 0, "12345678", 8);
	ends_with_calm(*state, &raw, before);
}

static void a_settings_flood_ends_the_connection(void **state)
{
	size_t before = overload_resident();
	struct raw raw;

	raw_greet(&raw, path_of(state));
	for (int i = 0; i < 20000 && !raw.broken; i++)
		raw_put_frame(&raw, RAW_SETTINGS, 0, 0, NULL, 0);
	ends_with_calm(*state, &raw, before);
}

static void a_flood_of_empty_data_ends_the_connection(void **state)
{
	size_t before = overload_resident();
	struct raw raw;

	raw_greet(&raw, path_of(state));
	raw_put_request(&raw, 1, "/t.T/Sum");
	for (int i = 0; i < 20000 && !raw.broken; i++)
		raw_put_frame(&raw, RAW_DATA, 0, 1, NULL, 0);
	ends_with_calm(*state, &raw, before);
}

/* One entry of the dynamic table, named over and over in a byte each. */
static void a_header_bomb_ends_the_connection(void **state)
{
	size_t before = overload_resident(), n;
	static uint8_t block[16000];
	struct raw raw;

	raw_greet(&raw, path_of(state));
	n = raw_request_block(block, "/t.T/Echo");
	block[n++] = 0x40; /* literal, to be indexed */
	block[n++] = 6;
	memcpy(block + n, "x-bomb", 6);
	n += 6;
	block[n++] = 0x7f; /* a value of 3000 bytes */
	block[n++] = (uint8_t)((3000 - 127) & 127) | 0x80;
	block[n++] = (3000 - 127) >> 7;
	memset(block + n, 'b', 3000);
	n += 3000;
	memset(block + n, 0x80 | 62, sizeof(block) - n); /* the newest entry */
	raw_put_frame(&raw, RAW_HEADERS, RAW_END_HEADERS | RAW_END_STREAM, 1, block, sizeof(block));
	ends_with_calm(*state, &raw, before);
}

static void too_much_metadata_is_refused_with_a_status(void **state)
{
	static uint8_t block[16000];
	struct raw_reply reply;
	struct raw raw;
	size_t n;

	raw_greet(&raw, path_of(state));
	n = raw_request_block(block, "/t.T/Echo");
	while (n + 60 < sizeof(block))
		n += raw_field(block + n, "x-much", "1234567890123456789012345678901234567890");
	raw_put_frame(&raw, RAW_HEADERS, RAW_END_HEADERS, 1, block, (uint32_t)n);
	raw_put_frame(&raw, RAW_DATA, RAW_END_STREAM, 1, "\0\0\0\0\0", 5);
	raw_read_reply(&raw, &reply, 1);
	assert_non_null(strstr(reply.text, "grpc-status: 8\n"));
	close(raw.fd);
	others_are_served(*state);
}

static void a_window_of_zero_is_not_held_for_ever(void **state)
{
	struct grpc_fixture own, *f = &own;
	struct raw_reply reply;
	struct raw raw;

	(void)state;
	grpc_fixture_start(f, &(struct grpc_setup){.limits.stall_ms = SHORT_MS});
	raw_connect(&raw, f->path);
	raw_put(&raw, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 24);
	raw_put_frame(&raw, RAW_SETTINGS, 0, 0, "\0\4\0\0\0\0", 6); /* INITIAL_WINDOW_SIZE 0 */
	raw_put_request(&raw, 1, "/t.T/Flood");
	raw_put_frame(&raw, RAW_DATA, RAW_END_STREAM, 1, "\0\0\0\0\0", 5);
	raw_flush(&raw);
	wait_for_handlers(f, 1);
	wait_for_handlers(f, 0);
	assert_int_equal(atomic_load(&f->last_result), CAIRN_CANCELLED);
	shutdown(raw.fd, SHUT_WR);
	raw_read_reply(&raw, &reply, UINT32_MAX);
	assert_int_equal(reply.resets, 1);
	close(raw.fd);
	others_are_served(f);
	grpc_fixture_stop(f);
}

static void an_oversized_message_is_refused_before_it_comes(void **state)
{
	size_t before = overload_resident();
	struct raw_reply reply;
	struct raw raw;

	raw_greet(&raw, path_of(state));
	raw_put_request(&raw, 1, "/t.T/Echo");
	raw_put_frame(&raw, RAW_DATA, 0, 1, "\0\xff\xff\xff\xff", 5);
	raw_read_reply(&raw, &reply, 1);
	assert_non_null(strstr(reply.text, "grpc-status: 8\n"));
	overload_assert_memory(before, MEMORY_BYTES);
	close(raw.fd);
	others_are_served(*state);
}

static void garbage_before_the_preface_ends_the_connection(void **state)
{
	static const char *const greetings[] = {"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
						"PRI * HTTP/2.0\r\n\r\nXX\r\n\r\n",
						"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"};

	for (size_t i = 0; i < ARRAY_LEN(greetings); i++) {
		struct raw_reply reply;
		struct raw raw;

		raw_connect(&raw, path_of(state));
		raw_put(&raw, greetings[i], strlen(greetings[i]) + (i == 2 ? 1 : 0));
		raw_read_reply(&raw, &reply, UINT32_MAX);
		assert_true(reply.closed);
		close(raw.fd);
	}
	others_are_served(*state);
}

static void silence_is_not_waited_for(void **state)
{
	static const struct grpc_setup setups[] = {
		{.limits.handshake_ms = SHORT_MS},
		{.limits.handshake_ms = SHORT_MS},
		{.limits.header_ms = SHORT_MS},
		{.limits = {.keepalive_ms = SHORT_MS, .keepalive_wait_ms = SHORT_MS}}};
	uint8_t block[512];
	size_t n = raw_request_block(block, "/t.T/Echo");

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(setups); i++) {
		struct raw_reply reply;
		struct grpc_fixture f;
		struct raw raw;

		grpc_fixture_start(&f, &setups[i]);
		if (i == 0) { /* no preface at all */
			raw_connect(&raw, f.path);
		} else if (i == 1) { /* half of it */
			raw_connect(&raw, f.path);
			raw_put(&raw, "PRI * HTTP", 10);
		} else if (i == 2) { /* a header block that does not end */
			raw_greet(&raw, f.path);
			raw_put_frame(&raw, RAW_HEADERS, 0, 1, block, (uint32_t)n);
		} else { /* no call, and no answer to our pings */
			raw_greet(&raw, f.path);
		}
		raw_read_reply(&raw, &reply, UINT32_MAX);
		assert_true(reply.closed);
		close(raw.fd);
		others_are_served(&f);
		grpc_fixture_stop(&f);
	}
}

static void a_request_that_does_not_end_is_not_waited_for(void **state)
{
	struct raw_reply reply;
	struct grpc_fixture f;
	struct raw raw;

	(void)state;
	grpc_fixture_start(&f, &(struct grpc_setup){.limits.request_ms = SHORT_MS});
	raw_greet(&raw, f.path);
	raw_put_request(&raw, 1, "/t.T/Echo");
	raw_put_frame(&raw, RAW_DATA, 0, 1, "\0\0\0\0\5he", 7);
	raw_read_reply(&raw, &reply, 1);
	assert_non_null(strstr(reply.text, "grpc-status: 4\n"));
	close(raw.fd);
	grpc_fixture_stop(&f);
}

static void too_many_connections_are_refused_and_idle_ones_end(void **state)
{
	static const struct grpc_setup setup = {
		.limits = {.connections = 200, .handshake_ms = SHORT_MS}};
	struct grpc_fixture own, *f = &own;
	static int fds[10000];
	struct net_server_stats stats;
	size_t before, n = overload_descriptors(ARRAY_LEN(fds));

	(void)state;
	grpc_fixture_start(f, &setup);
	others_are_served(f);
	before = overload_resident();
	for (size_t i = 0; i < n; i++) {
		struct raw raw;

		raw_connect(&raw, f->path);
		fds[i] = raw.fd;
	}
	others_are_served(f); /* over a connection from before */
	net_server_stats(f->server, &stats);
	assert_true(stats.connections_open <= 200);
	assert_true(stats.connections_refused > 0);
	overload_assert_memory(before, MEMORY_BYTES);
	for (size_t i = 0; i < n; i++) {
		struct raw raw = {.fd = fds[i]};
		struct raw_reply reply;

		raw_read_reply(&raw, &reply, UINT32_MAX);
		assert_true(reply.closed);
		close(fds[i]);
	}
	others_are_served(f);
	grpc_fixture_stop(f);
}

static void more_streams_than_allowed_are_refused(void **state)
{
	struct grpc_fixture *f = *state;
	struct raw_reply reply;
	struct raw raw;

	raw_greet(&raw, f->path);
	for (uint32_t i = 0; i < 300; i++)
		raw_put_request(&raw, 1 + i * 2, "/t.T/Chat");
	raw_flush(&raw);
	shutdown(raw.fd, SHUT_WR);
	raw_read_reply(&raw, &reply, UINT32_MAX);
	assert_int_equal(reply.resets, 100); /* 200 are allowed */
	close(raw.fd);
	others_are_served(f);
}

static void a_slow_tls_handshake_is_not_waited_for(void **state)
{
	static const char *const starts[] = {"", "\x16\x03\x01\x02"};
	struct grpc_fixture f;

	(void)state;
	grpc_fixture_start(&f, &(struct grpc_setup){.tls = true, .limits.handshake_ms = SHORT_MS});
	for (size_t i = 0; i < ARRAY_LEN(starts); i++) {
		struct sockaddr_in addr = {.sin_family = AF_INET, .sin_port = htons(f.port)};
		int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
		uint8_t byte;

		addr.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
		assert_int_equal(connect(fd, (struct sockaddr *)&addr, sizeof(addr)), 0);
		assert_int_equal(write(fd, starts[i], strlen(starts[i])), strlen(starts[i]));
		assert_false(raw_read_all(fd, &byte, 1));
		close(fd);
	}
	others_are_served(&f);
	grpc_fixture_stop(&f);
}

static int start(void **state)
{
	static const struct grpc_setup setup = {
		.limits = {.streams = 200, .header_bytes = 8192, .workers = 500}};

	grpc_group_start(state, &setup);
	others_are_served(*state);
	return 0;
}

static void the_limits_above_are_counted(void **state)
{
	(void)state;
	assert_limits_counted(NET_LIMIT_HANDSHAKE_TIME, NET_LIMIT_HEADER_TIME,
			      NET_LIMIT_HEADER_BYTES, NET_LIMIT_REQUEST_TIME,
			      NET_LIMIT_MESSAGE_BYTES, NET_LIMIT_STREAMS, NET_LIMIT_STALL_TIME,
			      NET_LIMIT_PROTOCOL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rapid_reset_ends_the_connection),
		cmocka_unit_test(a_continuation_flood_ends_the_connection),
		cmocka_unit_test(a_ping_flood_ends_the_connection),
		cmocka_unit_test(a_settings_flood_ends_the_connection),
		cmocka_unit_test(a_flood_of_empty_data_ends_the_connection),
		cmocka_unit_test(a_header_bomb_ends_the_connection),
		cmocka_unit_test(too_much_metadata_is_refused_with_a_status),
		cmocka_unit_test(a_window_of_zero_is_not_held_for_ever),
		cmocka_unit_test(an_oversized_message_is_refused_before_it_comes),
		cmocka_unit_test(garbage_before_the_preface_ends_the_connection),
		cmocka_unit_test(silence_is_not_waited_for),
		cmocka_unit_test(a_request_that_does_not_end_is_not_waited_for),
		cmocka_unit_test(too_many_connections_are_refused_and_idle_ones_end),
		cmocka_unit_test(more_streams_than_allowed_are_refused),
		cmocka_unit_test(a_slow_tls_handshake_is_not_waited_for),
		cmocka_unit_test(the_limits_above_are_counted),
	};

	return cmocka_run_group_tests_name("net/grpc attacks", tests, start, grpc_group_stop);
}
