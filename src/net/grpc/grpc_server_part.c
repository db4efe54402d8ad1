/* SPDX-License-Identifier: Apache-2.0 */

/* The connections of one loop of a server: adopting, sweeping and ending them. */

#include <malloc.h>
#include <openssl/ssl.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "net/grpc/grpc_server_impl.h"
#include "net/peer.h"
#include "net/tls/tls_settings.h"

#define MANY_CONNS    16 /* above it each gets the smaller write batch */
#define BATCH_CROWDED (64U << 10)

#define GIVE_BACK_BYTES (4U << 20)  /* unneeded memory that is worth returning to the system */
#define SWEEP_AFTER     16          /* new connections of a loop between two sweeps, at least */
#define CONN_BYTES      (32U << 10) /* approximate memory of a connection */

/* The number of connections at which displaced ones are looked for. */
static uint32_t next_sweep(const struct net_part *part)
{
	return part->n_conns + part->n_conns / 16 + SWEEP_AFTER;
}

static void server_part_conn_gone(struct net_conn *conn)
{
	struct net_part *part = conn->owner;
	struct net_server *server = part->server;

	if (conn->prev)
		conn->prev->next = conn->next;
	else
		part->conns = conn->next;
	if (conn->next)
		conn->next->prev = conn->prev;
	if (conn->why.code == CAIRN_NO_SPACE)
		net_shares_count_calm(server->shares);
	part->n_conns--;
	/* A crowd that comes after many known peers have left must not get their room. */
	if (next_sweep(part) < part->sweep_at)
		part->sweep_at = next_sweep(part);
	atomic_fetch_sub(&server->conns_open, 1);
	cairn_log(CAIRN_LOG_DEBUG, "connection closed", CAIRN_STR("reason", conn->why.msg));
	net_server_went_quiet(server);
}

static void stream_closed(struct net_conn *conn)
{
	struct net_part *part = conn->owner;

	if (atomic_load(&part->server->draining))
		net_conn_want_flush(conn);
}

static void server_part_conn_ready(struct net_conn *conn)
{
	const struct net_part *part = conn->owner;

	if (!part->server->authenticates)
		net_slot_trust(part->server->shares, &conn->peer->slot, NET_SLOT_KNOWN);
}

static const struct net_conn_hooks server_hooks = {
	.is_server = true,
	.ready = server_part_conn_ready,
	.new_stream = net_call_new_stream,
	.stream_closed = stream_closed,
	.gone = server_part_conn_gone,
};

static void server_part_give_up(struct net_server *server, int fd, struct net_shared_peer *peer)
{
	net_peer_leave(peer);
	net_peer_unref(peer);
	close(fd);
	atomic_fetch_sub(&server->conns_open, 1);
}

/* Closes displaced connections. They have no slot but keep their memory until their loop
 * sees that the socket has ended, and an overloaded loop would accept many new connections
 * before that. The sweep bounds the connections without a slot to a sixteenth of all, plus
 * SWEEP_AFTER. */
static void sweep_displaced(struct net_part *part)
{
	struct net_conn *next;

	if (part->n_conns < part->sweep_at)
		return;
	for (struct net_conn *conn = part->conns; conn; conn = next) {
		next = conn->next;
		if (!atomic_load(&conn->peer->slot.displaced))
			continue;
		cairn_err_set(&conn->why, CAIRN_UNAVAILABLE, "displaced by another connection");
		net_conn_abandon(conn);
	}
	part->sweep_at = next_sweep(part);
}

/* A session takes tens of kilobytes, so the loop that will use it allocates it, and only if
 * the connection was not displaced on its way there. */
static void server_part_adopt(struct net_part *part, int fd, struct net_tls *tls,
			      struct net_shared_peer *peer)
{
	struct net_server *server = part->server;
	struct cairn_err err = {0};
	struct ssl_st *ssl = NULL;
	struct net_conn *conn;

	sweep_displaced(part);
	if (atomic_load(&peer->slot.displaced) ||
	    (tls && net_tls_session(tls, NULL, &ssl, &err) != 0)) {
		cairn_log(CAIRN_LOG_DEBUG, "connection dropped", CAIRN_STR("reason", err.msg));
		server_part_give_up(server, fd, peer);
		return;
	}
	if (ssl)
		SSL_set_accept_state(ssl);
	if (net_conn_new(&server_hooks, part, part->loop, &server->limits, fd, ssl, peer, &conn,
			 &err) != 0) {
		cairn_log(CAIRN_LOG_DEBUG, "connection refused", CAIRN_STR("reason", err.msg));
		atomic_fetch_sub(&server->conns_open, 1);
		return;
	}
	if (atomic_load(&server->conns_open) > MANY_CONNS)
		conn->write_batch = BATCH_CROWDED;
	conn->tls = tls;
	conn->crowd = &part->crowd;
	conn->next = part->conns;
	if (conn->next)
		conn->next->prev = conn;
	part->conns = conn;
	part->n_conns++;
}

struct handover {
	struct net_task task;
	struct net_part *part;
	int fd;
	struct net_tls *tls;
	struct net_shared_peer *peer;
};

static void run_handover(struct net_task *task)
{
	struct handover *h = (struct handover *)task;

	server_part_adopt(h->part, h->fd, h->tls, h->peer);
	free(h);
}

void net_server_take(struct net_server *server, int fd, struct net_tls *tls,
		     struct net_shared_peer *peer)
{
	unsigned crowd = server->n_parts - 1;
	unsigned i = peer->slot.crowd ? crowd : atomic_fetch_add(&server->next_part, 1) % crowd;
	struct net_part *part = &server->parts[i];
	struct handover *h;

	atomic_fetch_add(&server->conns_open, 1);
	atomic_fetch_add(&server->conns_total, 1);
	if (net_loop_is_current(part->loop)) {
		server_part_adopt(part, fd, tls, peer);
		return;
	}
	h = cairn_alloc(sizeof(*h));
	if (!h) {
		server_part_give_up(server, fd, peer);
		return;
	}
	*h = (struct handover){
		.task.run = run_handover, .part = part, .fd = fd, .tls = tls, .peer = peer};
	net_loop_post(part->loop, &h->task);
}

static void server_part_trim(struct net_work *work)
{
	struct net_server *server =
		(struct net_server *)(void *)((char *)work - offsetof(struct net_server, trim));

	malloc_trim(0);
	atomic_store(&server->trimming, false);
}

/* Returns memory to the system after a large peak: the allocator would keep it. Trimming takes
 * milliseconds, so it is not done on a loop; and it takes the locks of the allocator, so it is
 * done by a thread of normal priority: others would wait while a slower one is preempted. */
static void server_part_give_back(struct net_server *server)
{
	struct net_shares_stats stats;
	uint64_t held = atomic_load(&server->account.bytes), peak;
	uint32_t connections;

	net_shares_stats(server->shares, &stats);
	peak = held + net_shares_take_peak(server->shares, &connections);
	peak += (uint64_t)connections * CONN_BYTES;
	held += stats.request_bytes + stats.connections * CONN_BYTES;
	if (peak > server->held_peak)
		server->held_peak = peak;
	if (server->held_peak < held + GIVE_BACK_BYTES || atomic_load(&server->trimming))
		return;
	server->trim = (struct net_work){.run = server_part_trim};
	atomic_store(&server->trimming, true);
	if (net_workers_submit(server->workers, &server->trim))
		atomic_store(&server->trimming, false);
	else
		server->held_peak = held;
}

void net_part_tick(void *arg)
{
	struct net_part *part = arg;
	uint64_t now = cairn_monotonic_ns();

	if (part == part->server->parts)
		server_part_give_back(part->server);
	for (struct net_conn *conn = part->conns; conn; conn = conn->next)
		net_conn_tick(conn, now);
	net_timer_set(&part->tick, part->tick_ms);
}
