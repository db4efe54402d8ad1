/* SPDX-License-Identifier: Apache-2.0 */

#include "net/grpc/relay.h"

#include <pthread.h>
#include <string.h>

#include "base/err.h"
#include "base/lock.h"
#include "net/conn.h"
#include "net/grpc/call_impl.h"
#include "net/grpc/channel.h"
#include "net/grpc/grpc_text.h"
#include "net/grpc/relay_impl.h"

#define MESSAGE_MAX (4U << 20)

/* Lives on the stack of net_relay_run(); the streams point to it only between
 * attach and detach, which run on their loops. */
struct net_relay {
	struct net_stream *up, *down;
	const struct net_relay_options *options;

	/* Only on upstream's loop. */
	uint8_t *at; /* room in the downstream queue for the message that comes in */
	size_t have;
	bool flows; /* has the larger window */
	struct net_relay_result result;

	pthread_mutex_t lock;
	pthread_cond_t changed;
	/* Guarded by the lock. */
	bool poked;
	bool stopped; /* by the scan; `why` says so */
	struct cairn_err why;
};

void net_relay_poke(struct net_relay *relay)
{
	cairn_scoped_lock(&relay->lock);
	relay->poked = true;
	pthread_cond_signal(&relay->changed);
}

/* --- on upstream's loop --- */

static bool relay_reserve(struct net_relay *relay, size_t n)
{
	cairn_scoped_lock(&relay->down->lock);
	uint8_t *at = net_outq_reserve(&relay->down->out, n + GRPC_PREFIX_BYTES);

	relay->at = at ? at + GRPC_PREFIX_BYTES : NULL;
	relay->have = 0;
	return at != NULL;
}

static void relay_release(struct net_relay *relay)
{
	if (!relay->at)
		return;
	net_stream_commit_none(relay->down);
	relay->at = NULL;
}

static void relay_stop(struct net_relay *relay, const struct cairn_err *why)
{
	relay_release(relay);
	cairn_scoped_lock(&relay->lock);
	relay->stopped = relay->poked = true;
	relay->why = *why;
	pthread_cond_signal(&relay->changed);
}

static bool relay_is_stopped(struct net_relay *relay)
{
	cairn_scoped_lock(&relay->lock);
	return relay->stopped;
}

/* Passes a complete message on, after the scan has seen it. */
static bool relay_pass(struct net_relay *relay)
{
	struct cairn_err err = {0};
	size_t n = relay->have;

	if (relay->options->scan) {
		int rc = relay->options->scan(relay->options->arg, relay->at, n, &err);

		if (rc != 0) {
			err.code = rc;
			relay_stop(relay, &err);
			return false;
		}
	}
	relay->at = NULL;
	net_stream_commit(relay->down, n, false);
	relay->result.messages++;
	relay->result.bytes += n;
	return true;
}

static bool relay_begin(struct net_relay *relay, size_t n, bool compressed)
{
	struct cairn_err err = {0};

	if (compressed) {
		cairn_err_set(&err, CAIRN_INTERNAL, "upstream sent a compressed message unasked");
		relay_stop(relay, &err);
		return false;
	}
	if (relay_reserve(relay, n))
		return true;
	cairn_err_nomem(&err, "relayed message");
	relay_stop(relay, &err);
	return false;
}

static void relay_add(struct net_relay *relay, const uint8_t *data, size_t n)
{
	if (!relay->at)
		return;
	memcpy(relay->at + relay->have, data, n);
	relay->have += n;
}

static void relay_refuse(struct net_relay *relay, int code, const char *text)
{
	struct cairn_err err = {0};

	cairn_err_set(&err, code, "%s", text);
	relay_stop(relay, &err);
}

/* Gives a relay that has passed much the larger window, if it is one of few. */
static void relay_widen(struct net_relay *relay)
{
	_Atomic unsigned *flows = relay->options->flows;
	struct net_stream *up = relay->up;

	if (!flows || relay->flows || relay->result.bytes < NET_RELAY_FLOWS_BYTES || !up->conn)
		return;
	if (atomic_fetch_add(flows, 1) >= NET_RELAY_FLOWS) {
		atomic_fetch_sub(flows, 1);
		return;
	}
	relay->flows = true;
	(void)nghttp2_session_set_local_window_size(up->conn->session, NGHTTP2_FLAG_NONE, up->id,
						    NET_RELAY_FLOW_WINDOW);
	net_conn_want_flush(up->conn);
}

void net_relay_data(struct net_relay *relay, const uint8_t *data, size_t n)
{
	struct grpc_deframer *deframer = &relay->up->deframer;
	const uint8_t *body;
	size_t body_n;

	if (relay_is_stopped(relay))
		return;
	relay_widen(relay);
	for (;;) {
		switch (grpc_deframe(deframer, &data, &n, &body, &body_n)) {
		case GRPC_MORE:
			return;
		case GRPC_BEGIN:
			if (!relay_begin(relay, deframer->length, deframer->compressed))
				return;
			break;
		case GRPC_BODY:
			relay_add(relay, body, body_n);
			break;
		case GRPC_END:
			if (!relay_pass(relay))
				return;
			break;
		case GRPC_BAD_FLAG:
			relay_refuse(relay, CAIRN_INTERNAL,
				     "upstream sent bytes that are not a message");
			return;
		case GRPC_TOO_LARGE:
			relay_refuse(relay, CAIRN_NO_SPACE,
				     "upstream's message is larger than the limit");
			return;
		}
	}
}

bool net_relay_has_room(struct net_relay *relay)
{
	struct net_stream *down = relay->down;
	size_t limit;

	cairn_scoped_lock(&down->lock);
	limit = net_stream_send_limit(down);
	if (relay->flows && limit == down->send_max && limit < NET_RELAY_FLOW_AHEAD)
		limit = NET_RELAY_FLOW_AHEAD;
	return down->over || down->out.bytes < limit;
}

/* Relays the data that arrived before the relay was attached: complete messages, and
 * possibly part of one. */
static void relay_take_over(struct net_relay *relay)
{
	struct net_stream *up = relay->up;
	struct net_msg *msg;

	up->deframer.max = relay->options->message_max ? relay->options->message_max : MESSAGE_MAX;
	while ((msg = net_stream_pop(up))) {
		if (!relay_is_stopped(relay) && relay_begin(relay, msg->len, msg->compressed)) {
			relay_add(relay, msg->data, msg->len);
			relay_pass(relay);
		}
		net_stream_free_msg(up, msg);
	}
	msg = up->building;
	up->building = NULL;
	if (!msg)
		return;
	if (!relay_is_stopped(relay) && relay_begin(relay, up->deframer.length, msg->compressed))
		relay_add(relay, msg->data, msg->len);
	net_stream_free_msg(up, msg);
}

static void attach_up(void *arg)
{
	struct net_relay *relay = arg;
	struct net_stream *up = relay->up;

	pthread_mutex_lock(&up->lock);
	up->relay_in = relay;
	if (up->over)
		net_relay_poke(relay);
	pthread_mutex_unlock(&up->lock);
	relay_take_over(relay);
	net_session_credit(up);
}

static void detach_up(void *arg)
{
	struct net_relay *relay = arg;

	relay_release(relay);
	relay->up->discard = true; /* the deframer may be in the middle of a message */
	pthread_mutex_lock(&relay->up->lock);
	relay->up->relay_in = NULL;
	pthread_mutex_unlock(&relay->up->lock);
}

/* --- on downstream's loop --- */

void net_relay_drained(struct net_relay *relay)
{
	if (net_loop_is_current(relay->up->loop)) {
		net_session_credit(relay->up);
		return;
	}
	cairn_scoped_lock(&relay->up->lock);
	if (relay->up->uncredited > 0)
		net_stream_kick(relay->up);
}

static void attach_down(void *arg)
{
	struct net_relay *relay = arg;

	cairn_scoped_lock(&relay->down->lock);
	relay->down->relay_out = relay;
	if (relay->down->over)
		net_relay_poke(relay);
}

static void detach_down(void *arg)
{
	struct net_relay *relay = arg;

	cairn_scoped_lock(&relay->down->lock);
	relay->down->relay_out = NULL;
}

/* --- on the handler's thread --- */

static bool is_over(struct net_stream *stream)
{
	cairn_scoped_lock(&stream->lock);
	return stream->over;
}

static void relay_wait_for_end(struct net_relay *relay)
{
	for (;;) {
		pthread_mutex_lock(&relay->lock);
		while (!relay->poked)
			pthread_cond_wait(&relay->changed, &relay->lock);
		relay->poked = false;
		pthread_mutex_unlock(&relay->lock);
		if (relay_is_stopped(relay) || is_over(relay->up) || is_over(relay->down))
			return;
	}
}

static int copy_trailers(struct net_call *call, struct net_rpc *rpc, struct cairn_err *err)
{
	for (size_t i = 0; i < rpc->trailers.n; i++) {
		const struct net_field *field = net_fields_at(&rpc->trailers, i);
		const char *name = net_field_name(&rpc->trailers, field);
		const char *value = net_field_value(&rpc->trailers, field);
		int rc = 0;

		if (strcmp(name, "grpc-status-details-bin") == 0)
			rc = net_call_set_details(call, value, field->value_len, err);
		else if (!grpc_name_reserved(name, field->name_len))
			rc = net_call_add_trailer(call, name, value, field->value_len, err);
		if (rc != 0)
			return rc;
	}
	return 0;
}

static int relay_outcome(struct net_relay *relay, struct net_call *call, struct net_rpc *upstream,
			 struct cairn_err *err)
{
	int code, rc;

	rc = net_call_check(call);
	if (rc != 0)
		return cairn_err_set(err, rc, "the caller is gone");
	if (relay->stopped) {
		if (err)
			*err = relay->why;
		return relay->why.code;
	}
	rc = copy_trailers(call, upstream, err);
	if (rc != 0)
		return rc;
	cairn_scoped_lock(&upstream->s.lock);
	code = upstream->s.code;
	return code == 0 ? 0 : net_stream_over_code(&upstream->s, err);
}

int net_relay_run(struct net_call *call, struct net_rpc *upstream,
		  const struct net_relay_options *options, struct net_relay_result *ret,
		  struct cairn_err *err)
{
	struct net_relay relay = {
		.up = &upstream->s,
		.down = &call->s,
		.options = options,
		.lock = PTHREAD_MUTEX_INITIALIZER,
		.changed = PTHREAD_COND_INITIALIZER,
	};
	int rc;

	net_loop_call(relay.down->loop, attach_down, &relay);
	net_loop_call(relay.up->loop, attach_up, &relay);
	relay_wait_for_end(&relay);
	net_loop_call(relay.up->loop, detach_up, &relay);
	net_loop_call(relay.down->loop, detach_down, &relay);
	if (relay.flows)
		atomic_fetch_sub(options->flows, 1);
	rc = relay_outcome(&relay, call, upstream, err);
	if (rc != 0)
		net_rpc_cancel(upstream);
	if (ret)
		*ret = relay.result;
	return rc;
}
