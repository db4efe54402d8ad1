/* SPDX-License-Identifier: Apache-2.0 */

/* Peers that do not play by the rules. Each gets an error or loses its
 * connection, costs little memory, and others are served as before. */

#include "cairntest.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/io.h"
#include "base/num.h"
#include "grpc_fixture.h"

#define WAIT_MS      15000
#define SHORT_MS     200 /* the limits of these tests */
#define MEMORY_BYTES (48U << 20)
#define ENHANCE_CALM 11
#define NO_GOAWAY    UINT32_MAX

enum {
	DATA = 0,
	HEADERS = 1,
	RST_STREAM = 3,
	SETTINGS = 4,
	PING = 6,
	GOAWAY = 7,
	WINDOW = 8,
	CONTINUATION = 9
};
enum { END_STREAM = 1, END_HEADERS = 4 };

/* --- a client made of bytes --- */

struct raw {
	int fd;
	uint8_t out[1 << 16];
	size_t n;
	bool broken;
};

/* What came back until the connection ended. */
struct reply {
	bool closed;
	uint32_t goaway;    /* the last error code */
	uint32_t resets;    /* RST_STREAM frames */
	uint32_t headers;   /* HEADERS frames */
	char text[1 << 14]; /* payloads of HEADERS, unprintable bytes as '.' */
	size_t text_len;
};

static void flush_raw(struct raw *raw)
{
	size_t at = 0;

	while (at < raw->n && !raw->broken) {
		ssize_t sent =
			send(raw->fd, raw->out + at, raw->n - at, MSG_NOSIGNAL | MSG_DONTWAIT);

		if (sent > 0) {
			at += (size_t)sent;
		} else if (errno == EAGAIN) {
			struct pollfd p = {.fd = raw->fd, .events = POLLOUT | POLLIN};
			uint8_t drop[4096];

			poll(&p, 1, 100);
			/* A peer that never reads would block itself out. */
			if (p.revents & POLLIN)
				(void)!recv(raw->fd, drop, sizeof(drop), MSG_DONTWAIT);
		} else {
			raw->broken = true;
		}
	}
	raw->n = 0;
}

static void put(struct raw *raw, const void *data, size_t n)
{
	if (n > sizeof(raw->out) - raw->n)
		flush_raw(raw);
	memcpy(raw->out + raw->n, data, n);
	raw->n += n;
}

static void put_frame(struct raw *raw, uint8_t type, uint8_t flags, uint32_t id, const void *data,
		      uint32_t n)
{
	uint8_t head[9] = {
		(uint8_t)(n >> 16),  (uint8_t)(n >> 8),   (uint8_t)n,         type,       flags,
		(uint8_t)(id >> 24), (uint8_t)(id >> 16), (uint8_t)(id >> 8), (uint8_t)id};

	put(raw, head, sizeof(head));
	if (n > 0)
		put(raw, data, n);
}

/* A literal field that is not indexed. */
static size_t field(uint8_t *at, const char *name, const char *value)
{
	size_t n = strlen(name), v = strlen(value), k = 0;

	at[k++] = 0;
	at[k++] = (uint8_t)n;
	memcpy(at + k, name, n);
	k += n;
	at[k++] = (uint8_t)v;
	memcpy(at + k, value, v);
	return k + v;
}

static size_t request_block(uint8_t at[512], const char *path)
{
	size_t k = 0;

	at[k++] = 0x83; /* :method POST */
	at[k++] = 0x86; /* :scheme http */
	k += field(at + k, ":path", path);
	k += field(at + k, ":authority", "x");
	k += field(at + k, "te", "trailers");
	return k + field(at + k, "content-type", "application/grpc");
}

static void put_request(struct raw *raw, uint32_t id, const char *path)
{
	uint8_t block[512];

	put_frame(raw, HEADERS, END_HEADERS, id, block, (uint32_t)request_block(block, path));
}

static void connect_raw(struct raw *raw, const struct grpc_fixture *f)
{
	struct sockaddr_un addr = {.sun_family = AF_UNIX};

	*raw = (struct raw){.fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)};
	assert_true(raw->fd >= 0);
	snprintf(addr.sun_path, sizeof(addr.sun_path), "%s", f->path);
	assert_int_equal(connect(raw->fd, (struct sockaddr *)&addr, sizeof(addr)), 0);
}

static void greet(struct raw *raw, const struct grpc_fixture *f)
{
	connect_raw(raw, f);
	put(raw, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 24);
	put_frame(raw, SETTINGS, 0, 0, NULL, 0);
}

static bool read_all(int fd, uint8_t *at, size_t n)
{
	while (n > 0) {
		struct pollfd p = {.fd = fd, .events = POLLIN};
		ssize_t got = poll(&p, 1, WAIT_MS) == 1 ? read(fd, at, n) : -1;

		if (got <= 0)
			return false;
		at += got;
		n -= (size_t)got;
	}
	return true;
}

static void note(struct reply *reply, uint8_t type, const uint8_t *data, size_t n)
{
	if (type == GOAWAY && n >= 8)
		reply->goaway = (uint32_t)data[4] << 24 | (uint32_t)data[5] << 16 |
				(uint32_t)data[6] << 8 | data[7];
	reply->resets += type == RST_STREAM;
	reply->headers += type == HEADERS;
	for (size_t i = 0; type == HEADERS && i < n && reply->text_len < sizeof(reply->text) - 1;
	     i++)
		reply->text[reply->text_len++] =
			data[i] >= ' ' && data[i] <= '~' ? (char)data[i] : '.';
}

/* Reads frames until the end, or until `enough` HEADERS frames came. */
static void read_reply(struct raw *raw, struct reply *reply, uint32_t enough)
{
	static uint8_t body[1 << 24];
	uint8_t head[9];

	flush_raw(raw);
	*reply = (struct reply){.goaway = NO_GOAWAY};
	while (reply->headers < enough && read_all(raw->fd, head, sizeof(head))) {
		size_t n = (size_t)head[0] << 16 | (size_t)head[1] << 8 | head[2];

		if (!read_all(raw->fd, body, n))
			break;
		note(reply, head[3], body, n);
	}
	reply->text[reply->text_len] = '\0';
	reply->closed = reply->headers < enough;
}

/* --- what must hold afterwards --- */

static size_t resident(void)
{
	char text[256] = "", *second;
	struct cairn_err err = {0};
	uint64_t pages = 0;
	FILE *file = fopen("/proc/self/statm", "r");

	assert_non_null(file);
	assert_non_null(fgets(text, sizeof(text), file));
	fclose(file);
	second = strchr(text, ' ') + 1;
	*strchr(second, ' ') = '\0';
	assert_ok(cairn_parse_u64(second, &pages, &err), &err);
	return pages * 4096;
}

static void others_are_served(struct grpc_fixture *f)
{
	struct net_rpc_options options = grpc_to("/t.T/Echo");
	struct cairn_err err = {0};
	uint8_t *data = NULL;
	size_t n;

	assert_ok(net_rpc_unary(f->channel, &options, "still", 5, &data, &n, &err), &err);
	assert_int_equal(n, 5);
	free(data);
}

static void wait_for_handlers(struct grpc_fixture *f, int want)
{
	for (int i = 0; i < WAIT_MS / 10 && atomic_load(&f->handlers) != want; i++)
		cairn_sleep_ms(10);
	assert_int_equal(atomic_load(&f->handlers), want);
}

static void ends_with_calm(struct grpc_fixture *f, struct raw *raw, size_t before)
{
	struct reply reply;

	read_reply(raw, &reply, UINT32_MAX);
	assert_true(reply.closed);
	if (!raw->broken) /* otherwise the GOAWAY may be lost with the connection */
		assert_int_equal(reply.goaway, ENHANCE_CALM);
	assert_true(resident() < before + MEMORY_BYTES);
	close(raw->fd);
	others_are_served(f);
}

/* --- the attacks --- */

static void rapid_reset_ends_the_connection(void **state)
{
	struct grpc_fixture *f = *state;
	size_t before = resident();
	struct reply reply;
	struct raw raw;

	greet(&raw, f);
	for (uint32_t id = 1; id < 40000 && !raw.broken; id += 2) {
		put_request(&raw, id, "/t.T/Wait");
		put_frame(&raw, DATA, END_STREAM, id, "\0\0\0\0\0", 5);
		put_frame(&raw, RST_STREAM, 0, id, "\0\0\0\10", 4);
	}
	read_reply(&raw, &reply, UINT32_MAX);
	assert_true(reply.closed);
	assert_true(resident() < before + MEMORY_BYTES);
	close(raw.fd);
	others_are_served(f);
	wait_for_handlers(f, 0);
}

static void a_continuation_flood_ends_the_connection(void **state)
{
	struct grpc_fixture *f = *state;
	size_t before = resident(), n;
	uint8_t block[512];
	struct reply reply;
	struct raw raw;

	greet(&raw, f);
	n = request_block(block, "/t.T/Echo");
	put_frame(&raw, HEADERS, 0, 1, block, (uint32_t)n);
	for (int i = 0; i < 20000 && !raw.broken; i++) {
		n = field(block, "x-more", "and more and more and more");
		put_frame(&raw, CONTINUATION, 0, 1, block, (uint32_t)n);
	}
	read_reply(&raw, &reply, UINT32_MAX);
	assert_true(reply.closed);
	assert_true(resident() < before + MEMORY_BYTES);
	close(raw.fd);
	others_are_served(f);
}

static void a_ping_flood_ends_the_connection(void **state)
{
	size_t before = resident();
	struct raw raw;

	greet(&raw, *state);
	for (int i = 0; i < 5000 && !raw.broken; i++)
		put_frame(&raw, PING, 0, 0, "12345678", 8);
	ends_with_calm(*state, &raw, before);
}

static void a_settings_flood_ends_the_connection(void **state)
{
	size_t before = resident();
	struct raw raw;

	greet(&raw, *state);
	for (int i = 0; i < 20000 && !raw.broken; i++)
		put_frame(&raw, SETTINGS, 0, 0, NULL, 0);
	ends_with_calm(*state, &raw, before);
}

static void a_flood_of_empty_data_ends_the_connection(void **state)
{
	size_t before = resident();
	struct raw raw;

	greet(&raw, *state);
	put_request(&raw, 1, "/t.T/Sum");
	for (int i = 0; i < 20000 && !raw.broken; i++)
		put_frame(&raw, DATA, 0, 1, NULL, 0);
	ends_with_calm(*state, &raw, before);
}

/* One entry of the dynamic table, named over and over in a byte each. */
static void a_header_bomb_ends_the_connection(void **state)
{
	size_t before = resident(), n;
	static uint8_t block[16000];
	struct raw raw;

	greet(&raw, *state);
	n = request_block(block, "/t.T/Echo");
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
	put_frame(&raw, HEADERS, END_HEADERS | END_STREAM, 1, block, sizeof(block));
	ends_with_calm(*state, &raw, before);
}

static void too_much_metadata_is_refused_with_a_status(void **state)
{
	static uint8_t block[16000];
	struct reply reply;
	struct raw raw;
	size_t n;

	greet(&raw, *state);
	n = request_block(block, "/t.T/Echo");
	while (n + 60 < sizeof(block))
		n += field(block + n, "x-much", "1234567890123456789012345678901234567890");
	put_frame(&raw, HEADERS, END_HEADERS, 1, block, (uint32_t)n);
	put_frame(&raw, DATA, END_STREAM, 1, "\0\0\0\0\0", 5);
	read_reply(&raw, &reply, 1);
	assert_false(reply.closed);
	close(raw.fd);
	others_are_served(*state);
}

static void a_window_of_zero_is_not_held_for_ever(void **state)
{
	struct grpc_fixture *f = *state;
	struct reply reply;
	struct raw raw;

	connect_raw(&raw, f);
	put(&raw, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 24);
	put_frame(&raw, SETTINGS, 0, 0, "\0\4\0\0\0\0", 6); /* INITIAL_WINDOW_SIZE 0 */
	put_request(&raw, 1, "/t.T/Flood");
	put_frame(&raw, DATA, END_STREAM, 1, "\0\0\0\0\0", 5);
	flush_raw(&raw);
	wait_for_handlers(f, 1);
	wait_for_handlers(f, 0);
	assert_int_equal(atomic_load(&f->last_result), CAIRN_CANCELLED);
	shutdown(raw.fd, SHUT_WR);
	read_reply(&raw, &reply, UINT32_MAX);
	assert_int_equal(reply.resets, 1);
	close(raw.fd);
	others_are_served(f);
}

static void an_oversized_message_is_refused_before_it_comes(void **state)
{
	size_t before = resident();
	struct reply reply;
	struct raw raw;

	greet(&raw, *state);
	put_request(&raw, 1, "/t.T/Echo");
	put_frame(&raw, DATA, 0, 1, "\0\xff\xff\xff\xff", 5);
	read_reply(&raw, &reply, 1);
	assert_false(reply.closed);
	assert_true(resident() < before + MEMORY_BYTES);
	close(raw.fd);
	others_are_served(*state);
}

static void garbage_before_the_preface_ends_the_connection(void **state)
{
	static const char *const greetings[] = {"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
						"PRI * HTTP/2.0\r\n\r\nXX\r\n\r\n",
						"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"};

	for (size_t i = 0; i < ARRAY_LEN(greetings); i++) {
		struct reply reply;
		struct raw raw;

		connect_raw(&raw, *state);
		put(&raw, greetings[i], strlen(greetings[i]) + (i == 2 ? 1 : 0));
		read_reply(&raw, &reply, UINT32_MAX);
		assert_true(reply.closed);
		close(raw.fd);
	}
	others_are_served(*state);
}

static void silence_is_not_waited_for(void **state)
{
	uint8_t block[512];
	size_t n = request_block(block, "/t.T/Echo");

	for (int i = 0; i < 4; i++) {
		struct reply reply;
		struct raw raw;

		if (i == 0) { /* no preface at all */
			connect_raw(&raw, *state);
		} else if (i == 1) { /* half of it */
			connect_raw(&raw, *state);
			put(&raw, "PRI * HTTP", 10);
		} else if (i == 2) { /* a header block that does not end */
			greet(&raw, *state);
			put_frame(&raw, HEADERS, 0, 1, block, (uint32_t)n);
		} else { /* no call, and no answer to our pings */
			greet(&raw, *state);
		}
		read_reply(&raw, &reply, UINT32_MAX);
		assert_true(reply.closed);
		close(raw.fd);
	}
	others_are_served(*state);
}

static void a_request_that_does_not_end_is_not_waited_for(void **state)
{
	struct reply reply;
	struct raw raw;

	greet(&raw, *state);
	put_request(&raw, 1, "/t.T/Echo");
	put_frame(&raw, DATA, 0, 1, "\0\0\0\0\5he", 7);
	read_reply(&raw, &reply, 1);
	assert_false(reply.closed);
	close(raw.fd);
}

static void too_many_connections_are_refused_and_idle_ones_end(void **state)
{
	struct grpc_fixture *f = *state;
	struct rlimit limit;
	static int fds[10000];
	struct net_server_stats stats;
	size_t before = resident(), n = ARRAY_LEN(fds);

	getrlimit(RLIMIT_NOFILE, &limit);
	limit.rlim_cur = limit.rlim_max;
	setrlimit(RLIMIT_NOFILE, &limit);
	if (limit.rlim_cur < n + 500)
		n = limit.rlim_cur - 500;
	for (size_t i = 0; i < n; i++) {
		struct raw raw;

		connect_raw(&raw, f);
		fds[i] = raw.fd;
	}
	others_are_served(f); /* over a connection from before */
	net_server_stats(f->server, &stats);
	assert_true(stats.connections_open <= 200);
	assert_true(stats.connections_refused > 0);
	assert_true(resident() < before + MEMORY_BYTES);
	for (size_t i = 0; i < n; i++) {
		struct raw raw = {.fd = fds[i]};
		struct reply reply;

		read_reply(&raw, &reply, UINT32_MAX);
		assert_true(reply.closed);
		close(fds[i]);
	}
	others_are_served(f);
}

static void more_streams_than_allowed_are_refused(void **state)
{
	struct grpc_fixture *f = *state;
	struct reply reply;
	struct raw raw;

	greet(&raw, f);
	for (uint32_t i = 0; i < 300; i++)
		put_request(&raw, 1 + i * 2, "/t.T/Chat");
	flush_raw(&raw);
	shutdown(raw.fd, SHUT_WR);
	read_reply(&raw, &reply, UINT32_MAX);
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
		assert_false(read_all(fd, &byte, 1));
		close(fd);
	}
	others_are_served(&f);
	grpc_fixture_stop(&f);
}

static int start(void **state)
{
	static struct grpc_fixture f;

	grpc_fixture_start(&f, &(struct grpc_setup){.limits = {.connections = 200,
							       .streams = 200,
							       .header_bytes = 8192,
							       .workers = 500,
							       .handshake_ms = SHORT_MS,
							       .header_ms = SHORT_MS,
							       .request_ms = SHORT_MS,
							       .stall_ms = SHORT_MS,
							       .keepalive_ms = SHORT_MS,
							       .keepalive_wait_ms = SHORT_MS}});
	others_are_served(&f);
	*state = &f;
	return 0;
}

static int stop(void **state)
{
	grpc_fixture_stop(*state);
	return 0;
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
	};

	return cmocka_run_group_tests_name("net/grpc attacks", tests, start, stop);
}
