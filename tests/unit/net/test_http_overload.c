/* SPDX-License-Identifier: Apache-2.0 */

/* More connections than the HTTP/1.1 server has room for. */

#include "cairntest.h"

#include <dirent.h>
#include <malloc.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "net/http/http_server.h"
#include "net/http/http_standard.h"
#include "net/shares.h"
#include "overload.h"

#define HOST         "Host: h\r\n"
#define PROBE        "GET /healthz HTTP/1.1\r\n" HOST "Connection: close\r\n\r\n"
#define MEMORY_BYTES (48U << 20)

struct world {
	struct net_http_server *server;
	struct net_http_standard standard;
	uint16_t port;
};

static _Atomic size_t flooded; /* bytes that the kernel took */

/* Writes until nobody wants it. */
static int flood_counted(struct net_http *http, void *arg, struct cairn_err *err)
{
	static char piece[4096];
	int rc = net_http_begin(http, 200, "text/plain", err);

	if (arg)
		net_http_trust(http, NET_SLOT_KNOWN);
	while (rc == 0) {
		rc = net_http_write(http, piece, sizeof(piece), err);
		flooded += sizeof(piece);
	}
	return rc;
}

static _Atomic int priority; /* of the thread that served /priority last */

static int look(struct net_http *http, void *arg, struct cairn_err *err)
{
	(void)arg;
	priority = getpriority(PRIO_PROCESS, 0);
	return net_http_reply(http, 200, "text/plain", "", 0, err);
}

static void start(struct world *w, struct net_http_limits limits)
{
	static const struct net_http_route routes[] = {
		{.method = "GET", .path = "/flood", .handler = flood_counted},
		{.method = "GET", .path = "/known", .handler = flood_counted, .arg = &flooded},
		{.method = "POST", .path = "/body", .handler = look},
		{.method = "GET", .path = "/priority", .handler = look}};
	struct net_http_options options = {.limits = limits};
	struct cairn_err err = {0};

	*w = (struct world){0};
	assert_ok(net_http_server_new(&options, &w->server, &err), &err);
	assert_ok(net_http_server_add(w->server, routes, ARRAY_LEN(routes), &err), &err);
	assert_ok(net_http_add_standard(w->server, &w->standard, &err), &err);
	assert_ok(net_http_server_listen(w->server, "127.0.0.1:0", NULL, &w->port, &err), &err);
	assert_ok(net_http_server_start(w->server, &err), &err);
}

static bool ask(const struct world *w, unsigned host, const char *request)
{
	int fd = overload_dial(host, w->port);
	char reply[1024] = "";
	size_t n = 0;
	ssize_t got;

	(void)!send(fd, request, strlen(request), MSG_NOSIGNAL);
	while (n < sizeof(reply) - 1 && (got = read(fd, reply + n, sizeof(reply) - 1 - n)) > 0)
		n += (size_t)got;
	close(fd);
	return strncmp(reply, "HTTP/1.1 200 ", 13) == 0;
}

static bool probe(const struct world *w, unsigned host)
{
	return ask(w, host, PROBE);
}

/* An address whose requests are all being answered is refused until one of them has ended, which
 * takes longer on a busy machine. */
static bool probe_at_last(const struct world *w, unsigned host)
{
	for (int i = 0; i < 600; i++) {
		if (probe(w, host))
			return true;
		cairn_sleep_ms(100);
	}
	return false;
}

/* Connections that say `text` and then nothing, spread over `hosts` addresses
 * from 127.0.0.2 on. */
static void crowd(const struct world *w, int *fds, size_t n, unsigned hosts, const char *text)
{
	for (size_t i = 0; i < n; i++) {
		fds[i] = overload_dial(2 + (unsigned)(i % hosts), w->port);
		(void)!send(fds[i], text, strlen(text), MSG_NOSIGNAL);
	}
}

static void close_all(const int *fds, size_t n)
{
	for (size_t i = 0; i < n; i++)
		close(fds[i]);
}

static void connections_that_say_too_little_lock_nobody_out(void **state)
{
	static const char *const texts[] = {"", "G", "GET /healthz HTTP/1.1\r\n" HOST,
					    "POST /healthz HTTP/1.1\r\n" HOST
					    "Content-Length: 100\r\n\r\n",
					    "GET /healthz HTTP/1.1\r\n" HOST "\r\n"};
	static int fds[600];
	size_t before = overload_resident();

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
		struct world w;

		start(&w, (struct net_http_limits){0});
		crowd(&w, fds, ARRAY_LEN(fds), 4, texts[i]);
		assert_true(probe(&w, 6));
		/* A probe from the address of the attack, too. */
		if (i != 3)
			assert_true(probe_at_last(&w, 2));
		overload_assert_memory(before, MEMORY_BYTES);
		close_all(fds, ARRAY_LEN(fds));
		net_http_server_free(w.server);
	}
}

/* Requests that are being answered are not displaced by their own address, so
 * that newcomers from there are refused. */
static void peers_that_do_not_read_lock_only_their_own_address_out(void **state)
{
	static int fds[80];
	struct net_shares_stats stats = {0};
	struct world w;

	(void)state;
	start(&w, (struct net_http_limits){.connections = 40});
	crowd(&w, fds, ARRAY_LEN(fds), 1, "GET /flood HTTP/1.1\r\n" HOST "\r\n");
	assert_true(probe(&w, 6));
	for (int i = 0; i < 6000 && stats.displaced + stats.refused < 70; i++) {
		net_http_server_stats(w.server, &stats);
		cairn_sleep_ms(10);
	}
	assert_true(stats.connections <= 11);
	assert_true(stats.displaced + stats.refused >= 70);
	close_all(fds, ARRAY_LEN(fds));
	net_http_server_free(w.server);
}

/* How much of a reply that is not read leaves the handler: more than `least`, and until no more
 * of it goes. */
static size_t unread_bytes(const struct world *w, const char *request, size_t least)
{
	int fd = overload_dial(6, w->port);
	size_t before;

	flooded = 0;
	(void)!send(fd, request, strlen(request), MSG_NOSIGNAL);
	for (int i = 0; i < 6000 && flooded <= least; i++)
		cairn_sleep_ms(10);
	do {
		before = flooded;
		cairn_sleep_ms(300);
	} while (before != flooded);
	close(fd);
	return before;
}

static void only_known_peers_that_do_not_read_have_large_buffers(void **state)
{
	struct world w;
	size_t unread;

	(void)state;
	start(&w, (struct net_http_limits){0});
	unread = unread_bytes(&w, "GET /flood HTTP/1.1\r\n" HOST "\r\n", 0);
	assert_in_range(unread, 1, 400U << 10); /* the peer's own buffer is in it */
	assert_true(unread_bytes(&w, "GET /known HTTP/1.1\r\n" HOST "\r\n", unread) > unread);
	net_http_server_free(w.server);
}

/* Bodies that lack their last byte, to a route that takes them. */
static void bodies_have_a_share_of_memory(void **state)
{
	static const char head[] = "POST /body HTTP/1.1\r\n" HOST "Content-Length: 1000000\r\n\r\n";
	static char body[999999];
	size_t before = overload_resident();
	struct net_shares_stats stats = {0};
	static int fds[160];
	struct world w;

	(void)state;
	start(&w, (struct net_http_limits){0});
	for (size_t i = 0; i < ARRAY_LEN(fds); i++) {
		fds[i] = overload_dial(2 + (unsigned)(i % 4), w.port);
		(void)!send(fds[i], head, sizeof(head) - 1, MSG_NOSIGNAL);
		(void)!send(fds[i], body, sizeof(body), MSG_NOSIGNAL);
	}
	for (int i = 0; i < 6000 && stats.requests_refused == 0; i++) {
		net_http_server_stats(w.server, &stats);
		cairn_sleep_ms(10);
	}
	assert_true(stats.requests_refused > 0);
	assert_in_range(stats.request_bytes, 1, 24U << 20);
	overload_assert_memory(before, MEMORY_BYTES);
	assert_true(probe(&w, 6));
	close_all(fds, ARRAY_LEN(fds));
	for (int i = 0; i < 6000 && stats.request_bytes > 0; i++) {
		net_http_server_stats(w.server, &stats);
		cairn_sleep_ms(10);
	}
	assert_int_equal(stats.request_bytes, 0);
	net_http_server_free(w.server);
}

static void silence_is_not_waited_for(void **state)
{
	struct world w;
	char byte;
	int fd;

	(void)state;
	start(&w, (struct net_http_limits){.first_ms = 100});
	fd = overload_dial(2, w.port);
	assert_int_equal(read(fd, &byte, 1), 0);
	close(fd);
	net_http_server_free(w.server);
}

static void many_connections_from_few_addresses_cost_little(void **state)
{
	static int fds[10000];
	size_t n = overload_descriptors(ARRAY_LEN(fds)), before = overload_resident();
	struct net_shares_stats stats;
	struct world w;

	(void)state;
	n = n > 4000 ? 4000 : n;
	start(&w, (struct net_http_limits){0});
	crowd(&w, fds, n, 4, "GET /healthz HTTP/1.1\r\n");
	assert_true(probe(&w, 6));
	net_http_server_stats(w.server, &stats);
	assert_true(stats.connections <= 257);
	overload_assert_memory(before, MEMORY_BYTES);
	close_all(fds, n);
	net_http_server_free(w.server);
}

static void only_crowds_have_a_lower_priority(void **state)
{
	static const char request[] = "GET /priority HTTP/1.1\r\n" HOST "Connection: close\r\n\r\n";
	int usual = getpriority(PRIO_PROCESS, 0), fds[NET_CROWD_STRANGERS];
	struct world w;

	(void)state;
	start(&w, (struct net_http_limits){0});
	crowd(&w, fds, ARRAY_LEN(fds), 1, "");
	assert_true(ask(&w, 2, request));
	if (usual < 19)
		assert_true(priority > usual);
	assert_true(ask(&w, 6, request));
	assert_int_equal(priority, usual);
	close_all(fds, ARRAY_LEN(fds));
	net_http_server_free(w.server);
}

static unsigned threads(void)
{
	DIR *dir = opendir("/proc/self/task");
	unsigned n = 0;

	assert_non_null(dir);
	while (readdir(dir))
		n++;
	closedir(dir);
	return n;
}

/* Connections that never say anything, or not enough, have no thread, but for the first ones of
 * an address. */
static void assert_no_threads(const char *said)
{
	int fds[120];
	struct net_shares_stats stats = {0};
	unsigned before;
	struct world w;

	/* None of them may leave before the last one is there. */
	start(&w, (struct net_http_limits){.header_ms = 600000, .first_ms = 600000});
	assert_true(probe(&w, 6));
	before = threads();
	crowd(&w, fds, ARRAY_LEN(fds), 2, said);
	for (int i = 0; i < 6000 && stats.connections < ARRAY_LEN(fds); i++) {
		net_http_server_stats(w.server, &stats);
		cairn_sleep_ms(10);
	}
	assert_int_equal(stats.connections, ARRAY_LEN(fds));
	assert_in_range(threads(), 1, before + 2 * NET_CROWD_STRANGERS);
	/* One of them speaks after all. */
	(void)!send(fds[119], &PROBE[strlen(said)], strlen(PROBE) - strlen(said), MSG_NOSIGNAL);
	assert_int_equal(read(fds[119], &(char){0}, 1), 1);
	close_all(fds, ARRAY_LEN(fds));
	net_http_server_free(w.server);
}

static void crowds_that_say_too_little_have_no_threads(void **state)
{
	(void)state;
	assert_no_threads("");
	assert_no_threads("GET /healthz");
}

static void a_silent_crowd_is_not_waited_for(void **state)
{
	int fds[20];
	struct world w;
	char byte;

	(void)state;
	start(&w, (struct net_http_limits){.first_ms = 100});
	crowd(&w, fds, ARRAY_LEN(fds), 1, "");
	for (size_t i = 0; i < ARRAY_LEN(fds); i++)
		assert_int_equal(read(fds[i], &byte, 1), 0);
	close_all(fds, ARRAY_LEN(fds));
	net_http_server_free(w.server);
}

/* A server that stops does not wait for a crowd. */
static void a_server_ends_beside_a_silent_crowd(void **state)
{
	int fds[60];
	struct world w;

	(void)state;
	start(&w, (struct net_http_limits){0});
	crowd(&w, fds, ARRAY_LEN(fds), 2, "");
	assert_true(probe(&w, 6));
	assert_int_equal(net_http_server_drain(w.server, 60000), 0);
	close_all(fds, ARRAY_LEN(fds));
	net_http_server_free(w.server);
}

/* Trimming holds the locks of the allocator, for which all threads wait. */
static void memory_is_returned_at_normal_priority(void **state)
{
	int usual = getpriority(PRIO_PROCESS, 0), fds[200];
	struct world w;

	(void)state;
	overload_trims = 0;
	start(&w, (struct net_http_limits){.header_ms = 60000});
	crowd(&w, fds, ARRAY_LEN(fds), 4, "GET /healthz HTTP/1.1\r\n");
	for (int i = 0; i < 6000 && threads() < ARRAY_LEN(fds) / 2; i++)
		cairn_sleep_ms(10);
	close_all(fds, ARRAY_LEN(fds));
	for (int i = 0; i < 6000 && overload_trims == 0; i++)
		cairn_sleep_ms(10);
	assert_true(overload_trims > 0);
	assert_int_equal(overload_trim_priority, usual);
	net_http_server_free(w.server);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(connections_that_say_too_little_lock_nobody_out),
		cmocka_unit_test(peers_that_do_not_read_lock_only_their_own_address_out),
		cmocka_unit_test(only_known_peers_that_do_not_read_have_large_buffers),
		cmocka_unit_test(bodies_have_a_share_of_memory),
		cmocka_unit_test(silence_is_not_waited_for),
		cmocka_unit_test(many_connections_from_few_addresses_cost_little),
		cmocka_unit_test(only_crowds_have_a_lower_priority),
		cmocka_unit_test(crowds_that_say_too_little_have_no_threads),
		cmocka_unit_test(a_silent_crowd_is_not_waited_for),
		cmocka_unit_test(a_server_ends_beside_a_silent_crowd),
		cmocka_unit_test(memory_is_returned_at_normal_priority),
	};

	return cmocka_run_group_tests_name("net/http overload", tests, NULL, NULL);
}
