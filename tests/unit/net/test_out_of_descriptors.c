/* SPDX-License-Identifier: Apache-2.0 */

/* Servers in a process that has no descriptor left: they neither die nor spin,
 * serve the connections they have, and take the waiting ones when they can. */

#include "cairntest.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "grpc_fixture.h"
#include "net/http/http_server.h"

#define DESCRIPTORS 200
#define WAITING     3
#define LOOK_MS     1000
#define ANSWER_MS   60000

static int taken[DESCRIPTORS];
static size_t n_taken;

static void lower_limit(void)
{
	struct rlimit limit;

	assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
	limit.rlim_cur = DESCRIPTORS;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
}

static void take_all(void)
{
	int fd;

	while ((fd = open("/dev/null", O_RDONLY | O_CLOEXEC)) >= 0)
		taken[n_taken++] = fd;
	assert_true(n_taken > 0);
}

static void give_back(void)
{
	while (n_taken > 0)
		close(taken[--n_taken]);
}

static uint64_t cpu_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (uint64_t)t.tv_sec * CAIRN_NS_PER_SEC + (uint64_t)t.tv_nsec;
}

/* Turning in circles would take a processor. */
static void assert_at_rest(void)
{
	uint64_t before = cpu_ns();

	cairn_sleep_ms(LOOK_MS);
	assert_in_range(cpu_ns() - before, 0, LOOK_MS * CAIRN_NS_PER_MS / 5);
}

/* Connects sockets that were made while there were descriptors, and asks. */
static void ask_all(const int fds[WAITING], const struct sockaddr *addr, socklen_t addr_n,
		    const void *request, size_t n)
{
	for (int i = 0; i < WAITING; i++) {
		assert_int_equal(connect(fds[i], addr, addr_n), 0);
		assert_int_equal(send(fds[i], request, n, MSG_NOSIGNAL), n);
	}
}

static bool has_answer(int fd, int wait_ms)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};
	char bytes[4096];

	return poll(&p, 1, wait_ms) == 1 && recv(fd, bytes, sizeof(bytes), 0) > 0;
}

static void make_sockets(int domain, int fds[WAITING])
{
	for (int i = 0; i < WAITING; i++) {
		fds[i] = socket(domain, SOCK_STREAM | SOCK_CLOEXEC, 0);
		assert_true(fds[i] >= 0);
	}
}

static void assert_answered_later(const int fds[WAITING])
{
	for (int i = 0; i < WAITING; i++)
		assert_false(has_answer(fds[i], 0));
	give_back();
	for (int i = 0; i < WAITING; i++) {
		assert_true(has_answer(fds[i], ANSWER_MS));
		close(fds[i]);
	}
}

static void echo_once(struct grpc_fixture *f)
{
	struct net_rpc_options options = grpc_to("/t.T/Echo");
	cairn_auto_free uint8_t *data = NULL;
	struct cairn_err err = {0};
	size_t n;

	assert_ok(net_rpc_unary(f->channel, &options, "hi", 2, &data, &n, &err), &err);
	assert_int_equal(n, 2);
}

static void a_grpc_server_rests_and_goes_on(void **state)
{
	/* The preface of HTTP/2 and an empty SETTINGS frame; the server's come back. */
	static const char hello[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0";
	struct sockaddr_un addr = {.sun_family = AF_UNIX};
	struct grpc_fixture f;
	int fds[WAITING];

	(void)state;
	grpc_fixture_start(&f, &(struct grpc_setup){0});
	echo_once(&f);
	make_sockets(AF_UNIX, fds);
	snprintf(addr.sun_path, sizeof(addr.sun_path), "%s", f.path);
	take_all();
	ask_all(fds, (const struct sockaddr *)&addr, sizeof(addr), hello, sizeof(hello) - 1);
	assert_at_rest();
	echo_once(&f);
	assert_answered_later(fds);
	echo_once(&f);
	grpc_fixture_stop(&f);
}

static int say_hi(struct net_http *http, void *arg, struct cairn_err *err)
{
	(void)arg;
	return net_http_reply_text(http, 200, "hi", err);
}

static void an_http_server_rests_and_goes_on(void **state)
{
	static const struct net_http_route route = {
		.method = "GET", .path = "/", .handler = say_hi};
	static const char ask[] = "GET / HTTP/1.1\r\nHost: x\r\n\r\n";
	struct sockaddr_in addr = {.sin_family = AF_INET,
				   .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	cairn_cleanup(net_http_server_freep) struct net_http_server *server = NULL;
	struct net_http_options options = {0};
	struct cairn_err err = {0};
	int first[WAITING], fds[WAITING];
	uint16_t port;

	(void)state;
	assert_ok(net_http_server_new(&options, &server, &err), &err);
	assert_ok(net_http_server_add(server, &route, 1, &err), &err);
	assert_ok(net_http_server_listen(server, "127.0.0.1:0", NULL, &port, &err), &err);
	assert_ok(net_http_server_start(server, &err), &err);
	addr.sin_port = htons(port);
	make_sockets(AF_INET, first);
	ask_all(first, (const struct sockaddr *)&addr, sizeof(addr), ask, sizeof(ask) - 1);
	for (int i = 0; i < WAITING; i++)
		assert_true(has_answer(first[i], ANSWER_MS));
	while (has_answer(first[0], 300)) /* what may be left of it */
		;
	make_sockets(AF_INET, fds);
	take_all();
	ask_all(fds, (const struct sockaddr *)&addr, sizeof(addr), ask, sizeof(ask) - 1);
	assert_at_rest();
	assert_int_equal(send(first[0], ask, sizeof(ask) - 1, MSG_NOSIGNAL), sizeof(ask) - 1);
	assert_true(has_answer(first[0], ANSWER_MS));
	assert_answered_later(fds);
	for (int i = 0; i < WAITING; i++)
		close(first[i]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_grpc_server_rests_and_goes_on),
		cmocka_unit_test(an_http_server_rests_and_goes_on),
	};

	lower_limit();
	return cmocka_run_group_tests_name("net/out of descriptors", tests, NULL, NULL);
}
