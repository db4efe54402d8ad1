/* SPDX-License-Identifier: Apache-2.0 */

/* More connections than the HTTP/1.1 server has room for. */

#include "cairntest.h"

#include <dirent.h>
#include <dlfcn.h>
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

/* Writes until nobody wants it. */
static int flood(struct net_http *http, void *arg, struct cairn_err *err)
{
	static char piece[65536];
	int rc = net_http_begin(http, 200, "text/plain", err);

	(void)arg;
	while (rc == 0)
		rc = net_http_write(http, piece, sizeof(piece), err);
	return rc;
}

static _Atomic int priority; /* of the thread that served /priority last */

static int look(struct net_http *http, void *arg, struct cairn_err *err)
{
	(void)arg;
	priority = getpriority(PRIO_PROCESS, 0);
	return net_http_reply(http, 200, "text/plain", "", 0, err);
}

static _Atomic int trims, trim_priority;

/* Stands before the C library's. */
int malloc_trim(size_t pad)
{
	int (*real)(size_t pad);

	*(void **)&real = dlsym(RTLD_NEXT, "malloc_trim");
	trim_priority = getpriority(PRIO_PROCESS, 0);
	trims++;
	return real(pad);
}

static void start(struct world *w, struct net_http_limits limits)
{
	static const struct net_http_route routes[] = {
		{.method = "GET", .path = "/flood", .handler = flood},
		{.method = "GET", .path = "/priority", .handler = look}};
	struct net_http_options options = {.limits = limits};
	struct cairn_err err = {0};

	*w = (struct world){0};
	assert_ok(net_http_server_new(&options, &w->server, &err), &err);
	assert_ok(net_http_server_add(w->server, routes, 2, &err), &err);
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
			assert_true(probe(&w, 2));
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
	net_http_server_stats(w.server, &stats);
	assert_true(stats.connections <= 11);
	assert_true(stats.displaced + stats.refused >= 70);
	close_all(fds, ARRAY_LEN(fds));
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
	crowd(&w, fds, n, 4, "GET /");
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

/* Connections that never say anything have no thread, but for the first ones of an address. */
static void silent_crowds_have_no_threads(void **state)
{
	int fds[120];
	struct net_shares_stats stats = {0};
	unsigned before;
	struct world w;

	(void)state;
	start(&w, (struct net_http_limits){0});
	assert_true(probe(&w, 6));
	before = threads();
	crowd(&w, fds, ARRAY_LEN(fds), 2, "");
	for (int i = 0; i < 6000 && stats.connections < ARRAY_LEN(fds); i++) {
		net_http_server_stats(w.server, &stats);
		cairn_sleep_ms(10);
	}
	assert_int_equal(stats.connections, ARRAY_LEN(fds));
	assert_in_range(threads(), before, before + 2 * NET_CROWD_STRANGERS);
	/* One of them speaks after all. */
	(void)!send(fds[119], PROBE, strlen(PROBE), MSG_NOSIGNAL);
	assert_int_equal(read(fds[119], &(char){0}, 1), 1);
	close_all(fds, ARRAY_LEN(fds));
	net_http_server_free(w.server);
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
	trims = 0;
	start(&w, (struct net_http_limits){.header_ms = 60000});
	crowd(&w, fds, ARRAY_LEN(fds), 4, "GET /");
	for (int i = 0; i < 6000 && threads() < ARRAY_LEN(fds) / 2; i++)
		cairn_sleep_ms(10);
	close_all(fds, ARRAY_LEN(fds));
	for (int i = 0; i < 6000 && trims == 0; i++)
		cairn_sleep_ms(10);
	assert_true(trims > 0);
	assert_int_equal(trim_priority, usual);
	net_http_server_free(w.server);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(connections_that_say_too_little_lock_nobody_out),
		cmocka_unit_test(peers_that_do_not_read_lock_only_their_own_address_out),
		cmocka_unit_test(silence_is_not_waited_for),
		cmocka_unit_test(many_connections_from_few_addresses_cost_little),
		cmocka_unit_test(only_crowds_have_a_lower_priority),
		cmocka_unit_test(silent_crowds_have_no_threads),
		cmocka_unit_test(a_silent_crowd_is_not_waited_for),
		cmocka_unit_test(a_server_ends_beside_a_silent_crowd),
		cmocka_unit_test(memory_is_returned_at_normal_priority),
	};

	return cmocka_run_group_tests_name("net/http overload", tests, NULL, NULL);
}
