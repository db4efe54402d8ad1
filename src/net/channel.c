/* SPDX-License-Identifier: Apache-2.0 */

#include "net/channel.h"

#include <openssl/ssl.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/lock.h"
#include "base/mem.h"
#include "base/random.h"
#include "net/tls.h"

#define BUFFERED_MAX (256U << 20) /* of all calls of a channel */
#define TICK_MAX_MS  1000
#define TICK_MIN_MS  10

static void connect_now(struct net_channel *ch);

/* --- what others may ask --- */

static void publish(struct net_channel *ch, const struct cairn_err *failure)
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
	struct net_rpc *rpc = take_waiting(ch);

	while (rpc) {
		struct net_rpc *next = rpc->next_waiting;

		rpc->is_waiting = false;
		net_channel_route(ch, rpc);
		net_stream_unref(&rpc->s);
		rpc = next;
	}
}

static void fail_waiting(struct net_channel *ch, const struct cairn_err *why, bool all)
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

/* 1.6 times longer each time, a fifth more or less so that many clients of a
 * server that comes back do not come at once. */
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

static void retry(void *arg)
{
	struct net_channel *ch = arg;

	ch->state = NET_CHANNEL_IDLE;
	if (ch->waiting)
		connect_now(ch);
}

static void attempt_failed(struct net_channel *ch, const struct cairn_err *why)
{
	ch->failures++;
	ch->state = NET_CHANNEL_PAUSED;
	publish(ch, why);
	net_timer_set(&ch->retry, backoff_ms(ch));
	fail_waiting(ch, why, false);
}

static void conn_ready(struct net_conn *conn)
{
	struct net_channel *ch = conn->owner;

	if (ch->current != conn)
		return;
	ch->failures = 0;
	ch->state = NET_CHANNEL_READY;
	publish(ch, NULL);
	submit_waiting(ch);
}

static void leave(struct net_channel *ch, struct net_conn *conn)
{
	if (ch->current != conn)
		return;
	ch->current = NULL;
	ch->state = NET_CHANNEL_IDLE;
	publish(ch, NULL);
}

static void conn_goaway(struct net_conn *conn)
{
	struct net_channel *ch = conn->owner;

	leave(ch, conn);
	if (conn->n_streams == 0)
		net_conn_fail(conn, CAIRN_UNAVAILABLE, "the server sent GOAWAY");
	if (ch->waiting && ch->state == NET_CHANNEL_IDLE)
		connect_now(ch);
}

static void conn_stream_closed(struct net_conn *conn)
{
	if (conn->peer_going && conn->n_streams == 0)
		net_conn_fail(conn, CAIRN_UNAVAILABLE, "the server sent GOAWAY");
}

static void conn_gone(struct net_conn *conn)
{
	struct net_channel *ch = conn->owner;
	bool was_current = ch->current == conn;

	if (conn->prev)
		conn->prev->next = conn->next;
	else
		ch->conns = conn->next;
	if (conn->next)
		conn->next->prev = conn->prev;
	leave(ch, conn);
	if (was_current && !conn->ready && !ch->closing)
		attempt_failed(ch, &conn->why);
	else if (ch->waiting && ch->state == NET_CHANNEL_IDLE && !ch->closing)
		connect_now(ch);
}

static const struct net_conn_hooks client_hooks = {
	.ready = conn_ready,
	.goaway = conn_goaway,
	.stream_closed = conn_stream_closed,
	.gone = conn_gone,
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

static void connected(void *arg, int fd, const struct cairn_err *why)
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
		rc = net_conn_new(&client_hooks, ch, ch->loop, &ch->limits, fd, ssl, &conn, &err);
	if (rc != 0) {
		attempt_failed(ch, &err);
		return;
	}
	conn->next = ch->conns;
	if (conn->next)
		conn->next->prev = conn;
	ch->conns = ch->current = conn;
}

static void connect_now(struct net_channel *ch)
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
	if (ch->state == NET_CHANNEL_PAUSED && !rpc->wait_for_ready) {
		pthread_mutex_lock(&ch->lock);
		err = ch->last;
		pthread_mutex_unlock(&ch->lock);
		net_rpc_fail(rpc, &err);
		return;
	}
	wait_for_connection(ch, rpc);
	if (ch->state == NET_CHANNEL_IDLE)
		connect_now(ch);
}

static void tick(void *arg)
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

/* --- making and freeing --- */

static uint64_t or_default(uint64_t value, uint64_t otherwise)
{
	return value ? value : otherwise;
}

static void set_options(struct net_channel *ch, const struct net_channel_options *o)
{
	struct net_limits limits = {
		.message_bytes = o->message_max,
		.stream_window = o->stream_window,
		.connection_window = o->connection_window,
		.stream_send_bytes = o->send_bytes,
		.handshake_ms = o->connect_ms ? o->connect_ms : 20 * 1000,
		.keepalive_ms = o->keepalive_ms,
		.keepalive_wait_ms = o->keepalive_wait_ms,
		.buffered_bytes = BUFFERED_MAX,
		.stall_ms = UINT32_MAX, /* a caller has its deadline */
		.ping_burst = 1000,     /* servers measure bandwidth with pings */
		.ping_refill_ms = 10,
	};

	ch->limits = net_limits_defaulted(&limits);
	ch->account.max = BUFFERED_MAX;
	ch->connect_ms = ch->limits.handshake_ms;
	ch->backoff_first_ms = or_default(o->backoff_first_ms, 1000);
	ch->backoff_max_ms = or_default(o->backoff_max_ms, 120 * 1000);
	ch->tls = o->tls;
}

static int set_names(struct net_channel *ch, const struct net_channel_options *o,
		     struct cairn_err *err)
{
	const char *host;
	int rc = net_connector_new(o->target, ch->loop, connected, ch, &ch->connector, err);

	if (rc != 0)
		return rc;
	if (!ch->tls && !net_connector_is_local(ch->connector))
		return cairn_err_set(err, CAIRN_INVALID, "cleartext to %s would leave the host",
				     o->target);
	host = o->server_name ? o->server_name : net_connector_host(ch->connector);
	ch->server_name = host ? cairn_strdup(host) : NULL;
	ch->authority = cairn_strdup(o->server_name ? o->server_name
						    : net_connector_authority(ch->connector));
	if ((host && !ch->server_name) || !ch->authority)
		return cairn_err_nomem(err, "channel");
	return 0;
}

static void start_timers(void *arg)
{
	struct net_channel *ch = arg;

	if (net_timer_init(&ch->retry, ch->loop, retry, ch, NULL) == 0 &&
	    net_timer_init(&ch->tick, ch->loop, tick, ch, NULL) == 0)
		tick(ch);
	else
		ch->closing = true;
}

static int set_up(struct net_channel *ch, const struct net_channel_options *o,
		  struct cairn_err *err)
{
	int rc = 0;

	ch->loop = o->loop;
	if (!ch->loop) {
		rc = net_loop_new("grpc-client", &ch->loop, err);
		ch->own_loop = rc == 0;
	}
	if (rc == 0)
		rc = set_names(ch, o, err);
	if (rc == 0)
		net_loop_call(ch->loop, start_timers, ch);
	return rc;
}

int net_channel_new(const struct net_channel_options *options, struct net_channel **ret,
		    struct cairn_err *err)
{
	struct net_channel *ch = cairn_calloc(1, sizeof(*ch));
	pthread_condattr_t attr;
	int rc;

	if (!ch)
		return cairn_err_nomem(err, "channel");
	atomic_init(&ch->refs, 1);
	ch->waiting_tail = &ch->waiting;
	pthread_mutex_init(&ch->lock, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&ch->changed, &attr);
	pthread_condattr_destroy(&attr);
	set_options(ch, options);
	rc = set_up(ch, options, err);
	if (rc != 0) {
		net_channel_free(ch);
		return rc;
	}
	*ret = ch;
	return 0;
}

static void shut_down(void *arg)
{
	struct net_channel *ch = arg;
	struct cairn_err why = {0};

	cairn_err_set(&why, CAIRN_CANCELLED, "the channel is closed");
	ch->closing = true;
	fail_waiting(ch, &why, true);
	while (ch->conns) {
		struct net_conn *conn = ch->conns;

		conn->why = why;
		net_conn_abandon(conn);
	}
	if (ch->connector)
		net_connector_stop(ch->connector);
	net_connector_free(ch->connector);
	ch->connector = NULL;
	net_timer_done(&ch->retry);
	net_timer_done(&ch->tick);
}

void net_channel_free(struct net_channel *ch)
{
	if (!ch)
		return;
	if (ch->loop)
		net_loop_call(ch->loop, shut_down, ch);
	pthread_mutex_lock(&ch->lock);
	for (struct net_rpc *rpc = ch->rpcs; rpc; rpc = rpc->all_next) {
		pthread_mutex_lock(&rpc->s.lock);
		rpc->s.detached = true;
		pthread_mutex_unlock(&rpc->s.lock);
	}
	pthread_mutex_unlock(&ch->lock);
	if (ch->own_loop)
		net_loop_free(ch->loop);
	net_channel_unref(ch);
}

void net_channel_unref(struct net_channel *ch)
{
	if (atomic_fetch_sub_explicit(&ch->refs, 1, memory_order_acq_rel) != 1)
		return;
	pthread_cond_destroy(&ch->changed);
	pthread_mutex_destroy(&ch->lock);
	free(ch->server_name);
	free(ch->authority);
	free(ch);
}

/* --- connecting on request --- */

static void ensure_connecting(void *arg)
{
	struct net_channel *ch = arg;

	if (ch->state == NET_CHANNEL_IDLE && !ch->closing)
		connect_now(ch);
}

int net_channel_connect(struct net_channel *ch, uint64_t wait_ms, struct cairn_err *err)
{
	uint64_t end = cairn_monotonic_ns() + wait_ms * CAIRN_NS_PER_MS;
	struct timespec ts = {.tv_sec = (time_t)(end / CAIRN_NS_PER_SEC),
			      .tv_nsec = (long)(end % CAIRN_NS_PER_SEC)};
	uint64_t failed_before;

	pthread_mutex_lock(&ch->lock);
	failed_before = ch->attempts_failed;
	pthread_mutex_unlock(&ch->lock);
	net_loop_call(ch->loop, ensure_connecting, ch);

	cairn_scoped_lock(&ch->lock);
	while (!ch->is_ready) {
		if (ch->attempts_failed != failed_before) {
			if (err)
				*err = ch->last;
			return ch->last.code;
		}
		if (pthread_cond_timedwait(&ch->changed, &ch->lock, &ts) != 0)
			return cairn_err_set(err, CAIRN_DEADLINE, "not connected in time");
	}
	return 0;
}
