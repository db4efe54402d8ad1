/* SPDX-License-Identifier: Apache-2.0 */

#include "net/grpc/channel.h"

#include <stdlib.h>
#include <string.h>

#include "base/lock.h"
#include "base/mem.h"
#include "base/wait.h"

#define BUFFERED_MAX (256U << 20) /* of all calls of a channel */

static uint64_t or_default(uint64_t value, uint64_t otherwise)
{
	return value ? value : otherwise;
}

static void channel_set_options(struct net_channel *ch, const struct net_channel_options *o)
{
	struct net_limits limits = {
		.message_bytes = o->message_max,
		.stream_window = o->stream_window,
		.connection_window = o->connection_window,
		.stream_recv_bytes = o->recv_bytes,
		.stream_send_bytes = o->send_bytes,
		.handshake_ms = o->connect_ms ? o->connect_ms : 20 * 1000,
		.keepalive_ms = o->keepalive_ms,
		.keepalive_wait_ms = o->keepalive_wait_ms,
		.buffered_bytes = BUFFERED_MAX,
		.stall_ms = UINT32_MAX, /* calls are bounded by their deadlines instead */
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
	int rc = net_connector_new(o->target, ch->loop, net_channel_connected, ch, &ch->connector,
				   err);

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

	net_timer_init(&ch->retry, ch->loop, net_channel_retry, ch);
	net_timer_init(&ch->tick, ch->loop, net_channel_tick, ch);
	net_channel_tick(ch);
}

static int channel_set_up(struct net_channel *ch, const struct net_channel_options *o,
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
	int rc;

	if (!ch)
		return cairn_err_nomem(err, "channel");
	atomic_init(&ch->refs, 1);
	ch->waiting_tail = &ch->waiting;
	pthread_mutex_init(&ch->lock, NULL);
	cairn_cond_init(&ch->changed);
	channel_set_options(ch, options);
	rc = channel_set_up(ch, options, err);
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
	net_channel_fail_waiting(ch, &why, true);
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
		net_channel_connect_now(ch);
}

int net_channel_connect(struct net_channel *ch, uint64_t wait_ms, struct cairn_err *err)
{
	uint64_t end = cairn_after_ms(wait_ms);
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
		if (!cairn_cond_wait_until(&ch->changed, &ch->lock, end))
			return cairn_err_set(err, CAIRN_DEADLINE, "not connected in time");
	}
	return 0;
}
