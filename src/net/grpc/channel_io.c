/* SPDX-License-Identifier: Apache-2.0 */

/* A channel on its loop: connections, and calls that wait for one. */

#include <openssl/ssl.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/lock.h"
#include "base/random.h"
#include "net/grpc/channel.h"
#include "net/tls/tls_settings.h"

#define TICK_MAX_MS 1000
#define TICK_MIN_MS 10

/* --- what others may ask --- */

static void channel_io_publish(struct net_channel *ch, const struct cairn_err *failure)
{
	cairn_scoped_lock(&ch->lock);

	ch->is_ready = ch->state == NET_CHANNEL_READY;
	if (failure) {
		ch->attempts_failed++;
		ch->last = *failure;
	}
	pthread_cond_broadcast(&ch->changed);
}

/* --- the waiting list --- */

static void wait_for_connection(struct net_channel *ch, struct net_rpc *rpc)
{
	net_stream_ref(&rpc->s);
	rpc->is_waiting = true;
	rpc->next_waiting = NULL;
	*ch->waiting_tail = rpc;
	ch->waiting_tail = &rpc->next_waiting;
}

void net_channel_unwait(struct net_channel *ch, struct net_rpc *rpc)
{
	struct net_rpc **at = &ch->waiting;

	if (!rpc->is_waiting)
		return;
	while (*at != rpc)
		at = &(*at)->next_waiting;
	*at = rpc->next_waiting;
	if (!*at)
		ch->waiting_tail = at;
	rpc->is_waiting = false;
	net_stream_unref(&rpc->s);
}

static struct net_rpc *take_waiting(struct net_channel *ch)
{
	struct net_rpc *list = ch->waiting;

	ch->waiting = NULL;
	ch->waiting_tail = &ch->waiting;
	return list;
}

static void submit_waiting(struct net_channel *ch)
{
	struct net_rpc *rpc = take_waiting(ch); /* routing may put a call back into the list */

	while (rpc) {
		struct net_rpc *next = rpc->next_waiting;

		rpc->is_waiting = false;
		net_channel_route(ch, rpc);
		net_stream_unref(&rpc->s);
		rpc = next;
	}
}

void net_channel_fail_waiting(struct net_channel *ch, const struct cairn_err *why, bool all)
{
	struct net_rpc *rpc = take_waiting(ch);

	while (rpc) {
		struct net_rpc *next = rpc->next_waiting;

		rpc->is_waiting = false;
		if (rpc->wait_for_ready && !all)
			wait_for_connection(ch, rpc);
		else
			net_rpc_fail(rpc, why);
		net_stream_unref(&rpc->s);
		rpc = next;
	}
}

/* --- connecting --- */

/* Multiplies the delay by 1.6 for each failure and adds up to 20 % of jitter either way, so
 * that the clients of a restarted server do not reconnect at the same time. */
static uint64_t backoff_ms(const struct net_channel *ch)
{
	double ms = (double)ch->backoff_first_ms;
	uint32_t random = 0;

	for (unsigned i = 1; i < ch->failures && ms < (double)ch->backoff_max_ms; i++)
		ms *= 1.6;
	if (ms > (double)ch->backoff_max_ms)
		ms = (double)ch->backoff_max_ms;
	if (cairn_random_bytes(&random, sizeof(random), NULL) != 0)
		random = UINT32_MAX / 2;
	return (uint64_t)(ms * (0.8 + 0.4 * (double)random / UINT32_MAX));
}

void net_channel_retry(void *arg)
{
	struct net_channel *ch = arg;

	ch->state = NET_CHANNEL_IDLE;
	if (ch->waiting)
		net_channel_connect_now(ch);
}

static void attempt_failed(struct net_channel *ch, const struct cairn_err *why)
{
	ch->failures++;
	ch->state = NET_CHANNEL_PAUSED;
	channel_io_publish(ch, why);
	net_timer_set(&ch->retry, backoff_ms(ch));
	net_channel_fail_waiting(ch, why, false);
}

static void channel_io_conn_ready(struct net_conn *conn)
{
	struct net_channel *ch = conn->owner;

	if (ch->current != conn)
		return;
	ch->failures = 0;
	ch->state = NET_CHANNEL_READY;
	channel_io_publish(ch, NULL);
	submit_waiting(ch);
}

static void channel_io_leave(struct net_channel *ch, struct net_conn *conn)
{
	if (ch->current != conn)
		return;
	ch->current = NULL;
	ch->state = NET_CHANNEL_IDLE;
	channel_io_publish(ch, NULL);
}

static void conn_goaway(struct net_conn *conn)
{
	struct net_channel *ch = conn->owner;

	/* Its streams may still end; new calls go to another connection. */
	channel_io_leave(ch, conn);
	if (conn->n_streams == 0)
		net_conn_fail(conn, CAIRN_UNAVAILABLE, "the server sent GOAWAY");
	if (ch->waiting && ch->state == NET_CHANNEL_IDLE)
		net_channel_connect_now(ch);
}

static void conn_stream_closed(struct net_conn *conn)
{
	if (conn->peer_going && conn->n_streams == 0)
		net_conn_fail(conn, CAIRN_UNAVAILABLE, "the server sent GOAWAY");
}

static void channel_io_conn_gone(struct net_conn *conn)
{
	struct net_channel *ch = conn->owner;
	bool was_current = ch->current == conn;

	if (conn->prev)
		conn->prev->next = conn->next;
	else
		ch->conns = conn->next;
	if (conn->next)
		conn->next->prev = conn->prev;
	channel_io_leave(ch, conn);
	if (was_current && !conn->ready && !ch->closing)
		attempt_failed(ch, &conn->why);
	else if (ch->waiting && ch->state == NET_CHANNEL_IDLE && !ch->closing)
		net_channel_connect_now(ch);
}

static const struct net_conn_hooks client_hooks = {
	.ready = channel_io_conn_ready,
	.goaway = conn_goaway,
	.stream_closed = conn_stream_closed,
	.gone = channel_io_conn_gone,
};

static int make_ssl(struct net_channel *ch, SSL **ret, struct cairn_err *err)
{
	int rc;

	if (!ch->tls)
		return 0;
	rc = net_tls_session(ch->tls, ch->server_name, ret, err);
	if (rc == 0)
		SSL_set_connect_state(*ret);
	return rc;
}

void net_channel_connected(void *arg, int fd, const struct cairn_err *why)
{
	struct net_channel *ch = arg;
	struct net_conn *conn = NULL;
	struct cairn_err err = {0};
	SSL *ssl = NULL;
	int rc;

	if (fd < 0) {
		attempt_failed(ch, why);
		return;
	}
	rc = make_ssl(ch, &ssl, &err);
	if (rc != 0)
		close(fd);
	else
		rc = net_conn_new(&client_hooks, ch, ch->loop, &ch->limits, fd, ssl, NULL, &conn,
				  &err);
	if (rc != 0) {
		attempt_failed(ch, &err);
		return;
	}
	conn->tls = ch->tls;
	conn->next = ch->conns;
	if (conn->next)
		conn->next->prev = conn;
	ch->conns = ch->current = conn;
}

void net_channel_connect_now(struct net_channel *ch)
{
	ch->state = NET_CHANNEL_CONNECTING;
	net_connector_start(ch->connector, ch->connect_ms);
}

void net_channel_route(struct net_channel *ch, struct net_rpc *rpc)
{
	struct cairn_err err = {0};

	if (ch->closing) {
		cairn_err_set(&err, CAIRN_CANCELLED, "the channel is closed");
		net_rpc_fail(rpc, &err);
		return;
	}
	if (ch->state == NET_CHANNEL_READY && !ch->current->dead) {
		net_rpc_submit(rpc, ch->current);
		return;
	}
	/* Fail now with the reason of the last attempt, as gRPC does by default: the next one
	 * may be two minutes away. */
	if (ch->state == NET_CHANNEL_PAUSED && !rpc->wait_for_ready) {
		pthread_mutex_lock(&ch->lock);
		err = ch->last;
		pthread_mutex_unlock(&ch->lock);
		net_rpc_fail(rpc, &err);
		return;
	}
	wait_for_connection(ch, rpc);
	if (ch->state == NET_CHANNEL_IDLE)
		net_channel_connect_now(ch);
}

void net_channel_tick(void *arg)
{
	struct net_channel *ch = arg;
	uint64_t now = cairn_monotonic_ns();
	uint64_t ms = ch->limits.keepalive_ms / 4;

	if (ms > ch->limits.keepalive_wait_ms / 4)
		ms = ch->limits.keepalive_wait_ms / 4;
	if (ms > ch->limits.handshake_ms / 4)
		ms = ch->limits.handshake_ms / 4;
	if (ms > TICK_MAX_MS)
		ms = TICK_MAX_MS;
	for (struct net_conn *conn = ch->conns; conn; conn = conn->next)
		net_conn_tick(conn, now);
	net_timer_set(&ch->tick, ms < TICK_MIN_MS ? TICK_MIN_MS : ms);
}
