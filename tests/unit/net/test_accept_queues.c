/* SPDX-License-Identifier: Apache-2.0 */

/* Queues of connections by the peer's address. */

#include "cairntest.h"

#include <arpa/inet.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "net/accept_floods.h"
#include "net/accept_queues.h"
#include "net/address.h"
#include "overload.h"

#define CALLERS      32
#define FIRST_CALLER 6
#define FLOOD        200
#define ATTACKERS    4
#define WAIT_MS      60000
#define MANY         4096 /* callers, each from an address of its own */

struct queues {
	int fds[NET_ACCEPT_QUEUES];
	int n;
	uint16_t port;
	struct net_accept_floods *floods;
};

static int open_queues(struct queues *q, const char *text, struct cairn_err *err)
{
	struct net_address address;

	assert_ok(net_address_parse(text, &address, err), err);
	q->n = net_accept_queues_open(&address, text, q->fds, &q->floods, &q->port, err);
	return q->n;
}

static void close_queues(const struct queues *q)
{
	for (int i = 0; i < q->n; i++)
		close(q->fds[i]);
	net_accept_floods_free(q->floods);
}

/* The address of the next connection in the queue, as in 127.0.0.HOST; 0 if it is empty. */
static unsigned accept_host(int listening)
{
	struct sockaddr_in peer;
	socklen_t n = sizeof(peer);
	int fd = accept4(listening, (struct sockaddr *)&peer, &n, SOCK_CLOEXEC);

	if (fd < 0)
		return 0;
	close(fd);
	return ntohl(peer.sin_addr.s_addr) & 0xff;
}

static void a_flood_delays_only_its_own_queue(void **state)
{
	static int fds[FLOOD + CALLERS];
	struct queues q;
	struct cairn_err err = {0};
	unsigned early = 0;

	(void)state;
	assert_int_equal(open_queues(&q, "127.0.0.1:0", &err), NET_ACCEPT_QUEUES);
	for (int i = 0; i < FLOOD + CALLERS; i++)
		fds[i] =
			overload_dial(i < FLOOD ? 2 : FIRST_CALLER + (unsigned)(i - FLOOD), q.port);
	/* One connection from each queue, a few times. */
	for (unsigned turn = 0; turn < 8; turn++)
		for (int i = 0; i < q.n; i++)
			early += accept_host(q.fds[i]) >= FIRST_CALLER;
	/* A few callers may share the queue of the flood, or many one queue. */
	assert_in_range(early, CALLERS / 2, CALLERS);
	for (int i = 0; i < FLOOD + CALLERS; i++)
		close(fds[i]);
	close_queues(&q);
}

/* --- floods --- */

static void wait_for_any(const struct queues *q, unsigned first, unsigned end)
{
	struct pollfd fds[NET_ACCEPT_QUEUES];

	for (unsigned i = first; i < end; i++)
		fds[i - first] = (struct pollfd){.fd = q->fds[i], .events = POLLIN};
	assert_true(poll(fds, end - first, WAIT_MS) > 0);
}

/* Accepts `n` connections, and reports them if `report`. Returns how many were in the queues for
 * floods. */
static unsigned drain(const struct queues *q, unsigned n, bool report, uint64_t now_ns)
{
	unsigned floods = 0;

	for (int i = 0; n > 0; i = (i + 1) % q->n) {
		struct sockaddr_storage peer;
		socklen_t len = sizeof(peer);
		int fd;

		wait_for_any(q, 0, (unsigned)q->n);
		fd = accept4(q->fds[i], (struct sockaddr *)&peer, &len, SOCK_CLOEXEC);
		if (fd < 0)
			continue;
		if (report)
			assert_true(net_accept_floods_report(q->floods, q->fds[i], &peer, now_ns));
		floods += i >= (int)NET_ACCEPT_QUEUES_CALM;
		n--;
		net_accept_refuse(fd);
	}
	return floods;
}

static void flood(const struct queues *q, unsigned host, unsigned n, int *fds)
{
	for (unsigned i = 0; i < n; i++)
		fds[i] = overload_dial(host, q->port);
}

static void hang_up(const int *fds, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		net_accept_refuse(fds[i]);
}

/* From NET_FLOOD_AFTER reports on. */
static void begin_floods(const struct queues *q, uint64_t now_ns)
{
	int fds[NET_FLOOD_AFTER];

	for (unsigned host = 2; host < 2 + ATTACKERS; host++) {
		flood(q, host, NET_FLOOD_AFTER, fds);
		assert_int_equal(drain(q, NET_FLOOD_AFTER, true, now_ns), 0);
		hang_up(fds, NET_FLOOD_AFTER);
	}
}

/* Whatever its address: a caller is the first in its queue, although four floods wait. */
static void no_caller_waits_behind_a_flood(void **state)
{
	static int fds[ATTACKERS][FLOOD];
	struct queues q;
	struct cairn_err err = {0};

	(void)state;
	assert_int_equal(open_queues(&q, "127.0.0.1:0", &err), NET_ACCEPT_QUEUES);
	begin_floods(&q, 1);
	for (unsigned i = 0; i < ATTACKERS; i++)
		flood(&q, 2 + i, FLOOD, fds[i]);
	for (unsigned i = 0; i < MANY; i++) {
		unsigned host = FIRST_CALLER + i * 4093;
		int caller = overload_dial(host, q.port), found = 0;

		wait_for_any(&q, 0, NET_ACCEPT_QUEUES_CALM);
		for (unsigned k = 0; k < NET_ACCEPT_QUEUES_CALM; k++) {
			struct sockaddr_in peer;
			socklen_t len = sizeof(peer);
			int fd = accept4(q.fds[k], (struct sockaddr *)&peer, &len, SOCK_CLOEXEC);

			if (fd < 0)
				continue;
			found++;
			assert_int_equal(ntohl(peer.sin_addr.s_addr), 0x7f000000U + host);
			net_accept_refuse(fd);
		}
		assert_int_equal(found, 1);
		close(caller);
	}
	assert_int_equal(drain(&q, ATTACKERS * FLOOD, false, 1), ATTACKERS * FLOOD);
	for (unsigned i = 0; i < ATTACKERS; i++)
		hang_up(fds[i], FLOOD);
	close_queues(&q);
}

static void a_few_connections_or_slow_ones_are_no_flood(void **state)
{
	int fds[NET_FLOOD_AFTER];
	struct queues q;
	struct cairn_err err = {0};

	(void)state;
	assert_int_equal(open_queues(&q, "127.0.0.1:0", &err), NET_ACCEPT_QUEUES);
	for (uint64_t second = 1; second < 10; second++) {
		flood(&q, 2, NET_FLOOD_AFTER - 1, fds);
		assert_int_equal(
			drain(&q, NET_FLOOD_AFTER - 1, true, second * 2 * CAIRN_NS_PER_SEC), 0);
		hang_up(fds, NET_FLOOD_AFTER - 1);
	}
	close_queues(&q);
}

static void a_flood_that_is_over_is_forgotten(void **state)
{
	const uint64_t later = (NET_FLOOD_FORGET_MS + 1) * CAIRN_NS_PER_MS;
	struct queues q;
	struct cairn_err err = {0};
	int fds[2];

	(void)state;
	assert_int_equal(open_queues(&q, "127.0.0.1:0", &err), NET_ACCEPT_QUEUES);
	begin_floods(&q, 1);
	flood(&q, 2, 1, fds);
	assert_int_equal(drain(&q, 1, false, 1), 1);
	/* Another address is reported. */
	flood(&q, FIRST_CALLER, 1, fds + 1);
	assert_int_equal(drain(&q, 1, true, later), 0);
	hang_up(fds, 2);
	flood(&q, 2, 1, fds);
	assert_int_equal(drain(&q, 1, false, later), 0);
	hang_up(fds, 1);
	close_queues(&q);
}

/* Memory is bounded: further floods are refused for lack of room, and those that are known
 * stay so, also if very many addresses are reported once. */
static void floods_are_bounded_and_do_not_displace_each_other(void **state)
{
	struct sockaddr_in peer = {.sin_family = AF_INET};
	struct sockaddr_storage from = {0};
	struct queues q;
	struct cairn_err err = {0};
	int fds[1];

	(void)state;
	assert_int_equal(open_queues(&q, "127.0.0.1:0", &err), NET_ACCEPT_QUEUES);
	for (uint32_t host = 2; host < 2 + NET_FLOODS_MAX + 100000; host++) {
		bool fits = host < 2 + NET_FLOODS_MAX;

		peer.sin_addr.s_addr = htonl(0x7f000000U + host);
		memcpy(&from, &peer, sizeof(peer));
		for (unsigned i = 0; i < (fits ? NET_FLOOD_AFTER : 1); i++)
			assert_int_equal(net_accept_floods_report(q.floods, q.fds[0], &from, 1),
					 fits);
	}
	for (unsigned host = 2; host < 2 + NET_FLOODS_MAX; host++) {
		flood(&q, host, 1, fds);
		assert_int_equal(drain(&q, 1, false, 1), 1);
		hang_up(fds, 1);
	}
	close_queues(&q);
}

/* A socket of both families sees IPv4 addresses as mapped ones; the filter does not. */
static void a_flood_is_told_apart_on_a_socket_of_both_families(void **state)
{
	struct queues q;
	struct cairn_err err = {0};
	int fds[NET_FLOOD_AFTER];

	(void)state;
	assert_int_equal(open_queues(&q, ":0", &err), NET_ACCEPT_QUEUES);
	begin_floods(&q, 1);
	flood(&q, 2, NET_FLOOD_AFTER, fds);
	assert_int_equal(drain(&q, NET_FLOOD_AFTER, true, 1), NET_FLOOD_AFTER);
	hang_up(fds, NET_FLOOD_AFTER);
	close_queues(&q);
}

static int dial_v6(uint16_t port)
{
	struct sockaddr_in6 to = {.sin6_family = AF_INET6,
				  .sin6_port = htons(port),
				  .sin6_addr = IN6ADDR_LOOPBACK_INIT};
	int fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd >= 0 && connect(fd, (struct sockaddr *)&to, sizeof(to)) != 0) {
		close(fd);
		fd = -1;
	}
	return fd;
}

static void a_flood_of_ipv6_is_told_apart(void **state)
{
	struct queues q;
	struct cairn_err err = {0};
	int fds[NET_FLOOD_AFTER + 1];

	(void)state;
	assert_int_equal(open_queues(&q, ":0", &err), NET_ACCEPT_QUEUES);
	for (unsigned i = 0; i < NET_FLOOD_AFTER; i++) {
		fds[i] = dial_v6(q.port);
		if (fds[i] < 0) {
			close_queues(&q);
			skip(); /* a machine without IPv6 */
		}
	}
	assert_int_equal(drain(&q, NET_FLOOD_AFTER, true, 1), 0);
	fds[NET_FLOOD_AFTER] = dial_v6(q.port);
	assert_int_equal(drain(&q, 1, true, 1), 1);
	hang_up(fds, NET_FLOOD_AFTER + 1);
	close_queues(&q);
}

static void an_address_has_one_queue(void **state)
{
	struct queues q;
	struct cairn_err err = {0};

	(void)state;
	assert_int_equal(open_queues(&q, "127.0.0.1:0", &err), NET_ACCEPT_QUEUES);
	for (unsigned host = 2; host < 10; host++) {
		int used = 0, fds[8];

		for (int i = 0; i < 8; i++)
			fds[i] = overload_dial(host, q.port);
		for (int i = 0; i < q.n; i++) {
			unsigned n = 0;

			while (accept_host(q.fds[i]))
				n++;
			assert_true(n == 0 || n == 8);
			used += n > 0;
		}
		assert_int_equal(used, 1);
		for (int i = 0; i < 8; i++)
			close(fds[i]);
	}
	close_queues(&q);
}

static void a_port_has_one_owner(void **state)
{
	struct queues q, other;
	struct cairn_err err = {0};
	char text[32];

	(void)state;
	assert_true(open_queues(&q, "127.0.0.1:0", &err) > 0);
	snprintf(text, sizeof(text), "127.0.0.1:%u", q.port);
	assert_true(open_queues(&other, text, &err) < 0);
	assert_non_null(strstr(err.msg, "in use"));
	close_queues(&q);
	assert_true(open_queues(&other, text, &err) > 0);
	close_queues(&other);
}

/* All addresses of both families; every connection arrives in some queue. */
static void both_families_are_served(void **state)
{
	struct queues q;
	struct cairn_err err = {0};
	int v4, v6, found = 0;

	(void)state;
	assert_int_equal(open_queues(&q, ":0", &err), NET_ACCEPT_QUEUES);
	v4 = overload_dial(2, q.port);
	v6 = dial_v6(q.port);
	found += v6 < 0; /* a machine without IPv6 */
	for (int i = 0; i < q.n; i++) {
		int fd;

		while ((fd = accept4(q.fds[i], NULL, NULL, SOCK_CLOEXEC)) >= 0) {
			found++;
			close(fd);
		}
	}
	assert_int_equal(found, 2);
	close(v4);
	if (v6 >= 0)
		close(v6);
	close_queues(&q);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_flood_delays_only_its_own_queue),
		cmocka_unit_test(no_caller_waits_behind_a_flood),
		cmocka_unit_test(a_few_connections_or_slow_ones_are_no_flood),
		cmocka_unit_test(a_flood_that_is_over_is_forgotten),
		cmocka_unit_test(floods_are_bounded_and_do_not_displace_each_other),
		cmocka_unit_test(a_flood_is_told_apart_on_a_socket_of_both_families),
		cmocka_unit_test(a_flood_of_ipv6_is_told_apart),
		cmocka_unit_test(an_address_has_one_queue),
		cmocka_unit_test(a_port_has_one_owner),
		cmocka_unit_test(both_families_are_served),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
