/* SPDX-License-Identifier: Apache-2.0 */

#include "cairntest.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "net/shares.h"
#include "overload.h"

/* A connection of a peer at 127.0.0.`host`, as its server sees it. */
struct peer {
	int fd, far;
	struct net_slot slot;
};

struct world {
	struct net_shares *shares;
	int listener;
	uint16_t port;
};

static void start(struct world *w, const struct net_shares_limits *limits)
{
	struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	struct cairn_err err = {0};
	socklen_t n = sizeof(at);

	assert_ok(net_shares_new(limits, &w->shares, &err), &err);
	w->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(bind(w->listener, (struct sockaddr *)&at, n), 0);
	assert_int_equal(listen(w->listener, 64), 0);
	assert_int_equal(getsockname(w->listener, (struct sockaddr *)&at, &n), 0);
	w->port = ntohs(at.sin_port);
}

static void stop(struct world *w)
{
	net_shares_free(w->shares);
	close(w->listener);
}

static bool come(struct world *w, struct peer *peer, unsigned host)
{
	*peer = (struct peer){.far = overload_dial(host, w->port)};
	peer->fd = accept(w->listener, NULL, NULL);
	assert_true(peer->fd >= 0);
	return net_shares_admit(w->shares, &peer->slot, peer->fd, false);
}

static void go(struct world *w, struct peer *peer)
{
	net_slot_leave(w->shares, &peer->slot);
	close(peer->fd);
	close(peer->far);
}

/* Displaced: its socket was shut down. */
static bool is_out(const struct peer *peer)
{
	char byte;

	return atomic_load(&peer->slot.displaced) && recv(peer->far, &byte, 1, MSG_DONTWAIT) == 0;
}

static const struct net_shares_limits small = {.connections = 8,
					       .connections_each = 4,
					       .strangers = 8,
					       .strangers_each = 4,
					       .handshakes_burst = 3,
					       .handshakes_per_second = 1,
					       .request_bytes = 2000,
					       .request_bytes_each = 400};

static void an_address_displaces_only_itself(void **state)
{
	struct peer other, peers[4], more;
	struct world w;

	(void)state;
	start(&w, &small);
	assert_true(come(&w, &other, 2));
	for (unsigned i = 0; i < 4; i++)
		assert_true(come(&w, &peers[i], 3));
	net_slot_set(&peers[0].slot, NET_SLOT_BUSY);
	net_slot_set(&peers[1].slot, NET_SLOT_IDLE);
	/* The longest silent goes, not the one that came first. */
	assert_true(come(&w, &more, 3));
	assert_true(is_out(&peers[2]));
	assert_false(is_out(&peers[0]) || is_out(&peers[1]) || is_out(&peers[3]) || is_out(&other));
	go(&w, &more);
	go(&w, &other);
	for (unsigned i = 0; i < 4; i++)
		go(&w, &peers[i]);
	stop(&w);
}

static void a_busy_or_known_peer_is_not_displaced_by_its_own_address(void **state)
{
	struct peer peers[4], more;
	struct net_shares_stats stats;
	struct world w;

	(void)state;
	start(&w, &small);
	for (unsigned i = 0; i < 4; i++) {
		assert_true(come(&w, &peers[i], 3));
		if (i < 2)
			net_slot_trust(w.shares, &peers[i].slot, NET_SLOT_PINNED);
		net_slot_set(&peers[i].slot, NET_SLOT_BUSY);
	}
	/* Somebody was known here, so its next connections use the reserve. */
	for (unsigned i = 0; i < NET_SHARES_RESERVE_EACH; i++) {
		assert_true(come(&w, &more, 3));
		net_slot_set(&more.slot, NET_SLOT_BUSY);
		go(&w, &more);
	}
	go(&w, &peers[0]);
	go(&w, &peers[1]);
	for (unsigned i = 0; i < 2; i++) {
		assert_true(come(&w, &peers[i], 3));
		net_slot_set(&peers[i].slot, NET_SLOT_BUSY);
	}
	net_shares_stats(w.shares, &stats);
	assert_int_equal(stats.connections, 4);
	assert_int_equal(stats.strangers, 4);
	assert_int_equal(stats.displaced, 0);
	for (unsigned i = 0; i < 4; i++)
		go(&w, &peers[i]);
	stop(&w);
}

static void a_full_server_takes_from_the_largest_address(void **state)
{
	struct peer peers[8], more[3];
	struct world w;

	(void)state;
	start(&w, &small);
	for (unsigned i = 0; i < 8; i++) {
		assert_true(come(&w, &peers[i], i < 4 ? 2 : i < 7 ? 3 : 4));
		net_slot_set(&peers[i].slot, NET_SLOT_BUSY);
	}
	assert_true(come(&w, &more[0], 5));
	assert_true(is_out(&peers[0]));
	net_slot_set(&more[0].slot, NET_SLOT_BUSY);
	/* Both have three now. */
	assert_true(come(&w, &more[1], 5));
	net_slot_set(&more[1].slot, NET_SLOT_BUSY);
	assert_true(peers[1].slot.displaced != peers[4].slot.displaced);
	assert_false(is_out(&peers[7]));
	/* With two like everybody it would only take from its equals. */
	assert_true(come(&w, &more[2], 5));
	assert_false(more[0].slot.displaced || more[1].slot.displaced);
	for (unsigned i = 0; i < 8; i++)
		go(&w, &peers[i]);
	for (unsigned i = 0; i < 3; i++)
		go(&w, &more[i]);
	stop(&w);
}

static void known_peers_that_work_are_never_displaced(void **state)
{
	struct peer peers[8], more;
	struct world w;

	(void)state;
	start(&w, &small);
	for (unsigned i = 0; i < 8; i++) {
		assert_true(come(&w, &peers[i], i < 4 ? 2 : 3));
		net_slot_trust(w.shares, &peers[i].slot, NET_SLOT_KNOWN);
		net_slot_set(&peers[i].slot, NET_SLOT_BUSY);
	}
	assert_false(come(&w, &more, 5));
	go(&w, &more);
	net_slot_set(&peers[6].slot, NET_SLOT_IDLE);
	assert_true(come(&w, &more, 5));
	assert_true(is_out(&peers[6]));
	go(&w, &more);
	for (unsigned i = 0; i < 8; i++)
		go(&w, &peers[i]);
	stop(&w);
}

static void handshakes_have_a_rate_for_each_address(void **state)
{
	struct net_shares_stats stats;
	struct peer peer;
	struct world w;

	(void)state;
	start(&w, &small);
	for (unsigned i = 0; i < 20; i++) {
		(void)come(&w, &peer, 2);
		net_slot_leave(w.shares, &peer.slot);
		(void)net_shares_admit(w.shares, &peer.slot, peer.fd, true);
		go(&w, &peer);
	}
	net_shares_stats(w.shares, &stats);
	assert_true(stats.handshakes_refused > 0);
	(void)come(&w, &peer, 3);
	net_slot_leave(w.shares, &peer.slot);
	assert_true(net_shares_admit(w.shares, &peer.slot, peer.fd, true));
	go(&w, &peer);
	stop(&w);
}

static void requests_are_charged_to_their_address(void **state)
{
	struct peer one, two;
	struct net_share *first, *second;
	struct net_shares_stats stats;
	struct world w;

	(void)state;
	start(&w, &small);
	assert_true(come(&w, &one, 2));
	assert_true(come(&w, &two, 3));
	first = net_slot_share(w.shares, &one.slot);
	second = net_slot_share(w.shares, &two.slot);
	assert_true(net_share_charge(w.shares, first, 300, false));
	assert_false(net_share_charge(w.shares, first, 1, false));
	assert_true(net_share_charge(w.shares, first, 100, true));
	assert_true(net_share_charge(w.shares, second, 300, false));
	go(&w, &one);
	go(&w, &two);
	net_share_uncharge(w.shares, first, 400);
	net_share_uncharge(w.shares, second, 300);
	net_share_unref(w.shares, first);
	net_share_unref(w.shares, second);
	net_shares_stats(w.shares, &stats);
	assert_int_equal(stats.request_bytes, 0);
	assert_int_equal(stats.requests_refused, 1);
	stop(&w);
}

/* Four addresses have a quarter each. */
static void greedy_addresses_leave_something_for_another(void **state)
{
	struct net_shares_limits limits = small;
	struct peer peers[5];
	struct net_share *shares[5];
	size_t charged[5] = {0};
	struct world w;

	(void)state;
	limits.request_bytes_each = limits.request_bytes / 4;
	start(&w, &limits);
	for (unsigned i = 0; i < 5; i++) {
		assert_true(come(&w, &peers[i], 2 + i));
		shares[i] = net_slot_share(w.shares, &peers[i].slot);
		while (net_share_charge(w.shares, shares[i], 10, false))
			charged[i] += 10;
	}
	assert_true(charged[4] >= 50);
	for (unsigned i = 0; i < 5; i++) {
		net_share_uncharge(w.shares, shares[i], charged[i]);
		net_share_unref(w.shares, shares[i]);
		go(&w, &peers[i]);
	}
	stop(&w);
}

static void strangers_of_one_address_are_put_off(void **state)
{
	struct net_shares_limits limits = small;
	struct peer one, known, other;
	struct world w;

	(void)state;
	limits.requests_burst = 3;
	limits.requests_per_second = 1;
	start(&w, &limits);
	assert_true(come(&w, &one, 2));
	assert_true(come(&w, &known, 2));
	assert_true(come(&w, &other, 3));
	net_slot_trust(w.shares, &known.slot, NET_SLOT_KNOWN);
	for (unsigned i = 0; i < 3; i++)
		assert_int_equal(net_slot_pace(w.shares, &one.slot), 0);
	/* Each is put off for longer; a machine may stop for a while meanwhile. */
	for (unsigned i = 0; i < 1000; i++)
		(void)net_slot_pace(w.shares, &one.slot);
	assert_true(net_slot_pace(w.shares, &one.slot) > 100000);
	assert_int_equal(net_slot_pace(w.shares, &known.slot), 0);
	assert_int_equal(net_slot_pace(w.shares, &other.slot), 0);
	go(&w, &one);
	go(&w, &known);
	go(&w, &other);
	stop(&w);
}

static void the_first_connections_of_an_address_are_no_crowd(void **state)
{
	struct net_shares_limits limits = small;
	struct peer peers[NET_CROWD_STRANGERS + 1], other;
	struct world w;

	(void)state;
	limits.connections = limits.strangers = 64;
	limits.connections_each = limits.strangers_each = 32;
	start(&w, &limits);
	for (unsigned i = 0; i <= NET_CROWD_STRANGERS; i++) {
		assert_true(come(&w, &peers[i], 2));
		assert_int_equal(net_slot_can_wait(&peers[i].slot), i == NET_CROWD_STRANGERS);
	}
	assert_true(come(&w, &other, 3));
	assert_false(net_slot_can_wait(&other.slot));
	net_slot_trust(w.shares, &peers[NET_CROWD_STRANGERS].slot, NET_SLOT_KNOWN);
	assert_false(net_slot_can_wait(&peers[NET_CROWD_STRANGERS].slot));
	go(&w, &other);
	for (unsigned i = 0; i <= NET_CROWD_STRANGERS; i++)
		go(&w, &peers[i]);
	stop(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_address_displaces_only_itself),
		cmocka_unit_test(a_busy_or_known_peer_is_not_displaced_by_its_own_address),
		cmocka_unit_test(a_full_server_takes_from_the_largest_address),
		cmocka_unit_test(known_peers_that_work_are_never_displaced),
		cmocka_unit_test(handshakes_have_a_rate_for_each_address),
		cmocka_unit_test(requests_are_charged_to_their_address),
		cmocka_unit_test(greedy_addresses_leave_something_for_another),
		cmocka_unit_test(strangers_of_one_address_are_put_off),
		cmocka_unit_test(the_first_connections_of_an_address_are_no_crowd),
	};

	return cmocka_run_group_tests_name("net/shares", tests, NULL, NULL);
}
