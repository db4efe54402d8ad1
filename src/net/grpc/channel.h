/* SPDX-License-Identifier: Apache-2.0 */

/* Internals of a channel; client.h is the public interface.
 *
 * On its loop a channel is in one of four states. Calls started while there is
 * no connection wait in a list; a call whose connection ended before the server
 * saw it returns to that list.
 */
#ifndef CAIRN_NET_CHANNEL_H
#define CAIRN_NET_CHANNEL_H

#include <pthread.h>
#include <stdatomic.h>

#include "net/conn.h"
#include "net/connector.h"
#include "net/grpc/grpc_client.h"
#include "net/stream.h"

enum net_channel_state {
	NET_CHANNEL_IDLE,
	NET_CHANNEL_CONNECTING, /* until the server's SETTINGS arrive */
	NET_CHANNEL_READY,
	NET_CHANNEL_PAUSED, /* after a failure, until the back-off has passed */
};

struct net_channel {
	_Atomic unsigned refs;
	struct net_loop *loop;
	bool own_loop;
	struct net_tls *tls;
	char *server_name; /* for TLS, or NULL */
	char *authority;
	struct net_limits limits;
	struct net_account account;
	uint64_t backoff_first_ms, backoff_max_ms, connect_ms;

	/* Only on the loop's thread. */
	enum net_channel_state state;
	struct net_connector *connector;
	struct net_conn *current; /* new calls go here */
	struct net_conn *conns;   /* `current`, and those that only finish their calls */
	struct net_rpc *waiting, **waiting_tail;
	struct net_timer retry, tick;
	unsigned failures; /* in a row */
	bool closing;

	pthread_mutex_t lock;
	pthread_cond_t changed;
	/* Guarded by the lock. */
	struct net_rpc *rpcs; /* all that are not freed */
	uint64_t attempts_failed;
	bool is_ready;
	struct cairn_err last; /* why the last attempt failed */
};

/* A client's call. */
struct net_rpc {
	struct net_stream s; /* first: a call is its stream */
	struct net_channel *channel;
	struct net_rpc *all_prev, *all_next;

	struct net_fields request;
	uint64_t deadline_ns;
	uint64_t grace_ns; /* after the deadline */
	bool wait_for_ready;
	bool identity_only;

	/* Only on the loop's thread. */
	struct net_rpc *next_waiting;
	struct net_timer timer;
	bool begun;
	bool is_waiting;
	bool have_headers;
	unsigned retries;

	/* Guarded by s.lock. */
	bool headers_here;
	bool cancel;
	bool pushed;
	bool gzip;
	struct net_fields headers, trailers;

	char path[];
};

static inline struct net_rpc *net_rpc_of(struct net_stream *stream)
{
	return (struct net_rpc *)stream;
}

void net_channel_unref(struct net_channel *channel);

/* channel_io.c: all on the loop's thread. */
void net_channel_connect_now(struct net_channel *channel);
void net_channel_connected(void *arg, int fd, const struct cairn_err *why);
void net_channel_retry(void *arg);
void net_channel_tick(void *arg);
/* Ends the waiting calls; those with wait_for_ready only with `all`. */
void net_channel_fail_waiting(struct net_channel *channel, const struct cairn_err *why, bool all);
/* Sends the call on the connection, or queues it until there is one. */
void net_channel_route(struct net_channel *channel, struct net_rpc *rpc);
void net_channel_unwait(struct net_channel *channel, struct net_rpc *rpc);

/* rpc_io.c */
extern const struct net_stream_hooks net_rpc_hooks;
void net_rpc_submit(struct net_rpc *rpc, struct net_conn *conn);
/* Ends a call that has no stream. */
void net_rpc_fail(struct net_rpc *rpc, const struct cairn_err *why);

#endif
