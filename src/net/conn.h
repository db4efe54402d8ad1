/* SPDX-License-Identifier: Apache-2.0 */

/* One HTTP/2 connection on one loop: socket, nghttp2 session, its streams, and
 * the timeouts and flood limits that end it. Hooks implement the differences
 * between server and client.
 *
 * Everything here is for the loop's thread. A failed connection is destroyed at
 * the end of the loop's turn, never inside a callback.
 */
#ifndef CAIRN_NET_CONN_H
#define CAIRN_NET_CONN_H

#include <event2/event_struct.h>
#include <nghttp2/nghttp2.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "net/crowd.h"
#include "net/frames.h"
#include "net/limits.h"
#include "net/loop.h"
#include "net/recent_streams.h"
#include "net/tls/tls_socket.h"

struct net_account;
struct net_conn;
struct net_shared_peer;
struct net_stream;
struct net_tls;

struct net_conn_hooks {
	bool is_server;
	/* A request begins: a new stream, or NULL to refuse it. Servers only. */
	struct net_stream *(*new_stream)(struct net_conn *conn);
	/* The peer's SETTINGS arrived: the connection works. May be NULL. */
	void (*ready)(struct net_conn *conn);
	/* The peer accepts no more streams, or must get no more. May be NULL. */
	void (*goaway)(struct net_conn *conn);
	/* A stream closed; the connection may be idle now. May be NULL. */
	void (*stream_closed)(struct net_conn *conn);
	/* The connection has ended and its streams were closed; last use of
	 * `owner`. */
	void (*gone)(struct net_conn *conn);
};

/* Token bucket: allows a burst, and one more each `refill_ns`. */
struct net_bucket {
	uint32_t level, burst;
	uint64_t refill_ns, last_ns;
};

struct net_conn {
	const struct net_conn_hooks *hooks;
	void *owner;
	struct net_loop *loop;
	const struct net_limits *limits;
	struct net_conn *prev, *next; /* for the owner */

	struct net_tls_socket wire;
	struct event readable, writable;
	nghttp2_session *session;
	struct net_task turn_end;
	bool turn_end_asked;
	bool want_flush;
	bool dead;
	bool ready;           /* the peer's SETTINGS arrived */
	bool pinged;          /* our ping was not answered yet */
	bool going;           /* the first GOAWAY of a drain was sent */
	bool gone_away;       /* the final one was sent */
	bool peer_going;      /* the peer sent GOAWAY, or is not trusted any more */
	struct cairn_err why; /* reason of the end */

	struct net_stream *streams;
	uint32_t n_streams;
	size_t fields_counted; /* of all calls, while the peer is a stranger */
	uint64_t fields_ns;    /* when that count was last reduced */
	size_t write_batch;    /* bytes collected for one write */

	uint64_t opened_ns, heard_ns, pinged_ns, headers_ns, busy_ns, going_ns;
	struct net_frames frames;
	uint64_t blocks_seen; /* header blocks that had begun when headers_ns was set */
	struct net_bucket pings, oddities, resets;
	bool reading;                     /* the socket is being watched for input */
	struct net_crowd *crowd;          /* servers only: of its loop */
	struct net_crowd_entry entry;     /* in it */
	struct net_recent_streams recent; /* servers only */
	struct net_shared_peer *peer;     /* servers only */
	struct net_tls *tls;              /* NULL without TLS */
	uint64_t tls_seen;                /* for net_tls_trusts() */
};

/* Takes over `fd`, `ssl` and the reference `peer`, which only servers have. On
 * failure all of them are released. */
int net_conn_new(const struct net_conn_hooks *hooks, void *owner, struct net_loop *loop,
		 const struct net_limits *limits, int fd, struct ssl_st *ssl,
		 struct net_shared_peer *peer, struct net_conn **ret, struct cairn_err *err);

/* Reads and answers; for connections in a crowd. */
void net_conn_work(struct net_crowd_entry *entry);

/* Ends the connection at the end of this turn; the first reason is kept. */
__attribute__((format(printf, 3, 4))) void net_conn_fail(struct net_conn *conn, int code,
							 const char *fmt, ...);

/* Sends pending output and destroys the connection at once; must not be called
 * inside one of its own callbacks. */
void net_conn_abandon(struct net_conn *conn);

/* Schedules pending frames to be sent at the end of this turn. */
void net_conn_want_flush(struct net_conn *conn);

/* Checks the timeouts: handshake, headers, idle, keepalive, stalled streams. */
void net_conn_tick(struct net_conn *conn, uint64_t now_ns);

/* Adds and removes a stream; the connection holds a reference. */
void net_conn_add_stream(struct net_conn *conn, struct net_stream *stream);
void net_conn_remove_stream(struct net_conn *conn, struct net_stream *stream);

/* The peer did something that costs us unproductive work. False when the bucket
 * is empty; the connection then ends with ENHANCE_YOUR_CALM. */
bool net_conn_spend(struct net_conn *conn, struct net_bucket *bucket, const char *what);

/* True for a server's peer that has not authenticated. */
bool net_conn_is_stranger(const struct net_conn *conn);

/* Ends the connection with ENHANCE_YOUR_CALM. */
void net_conn_calm(struct net_conn *conn, const char *what);

/* Starts or continues a graceful end (two GOAWAY frames). */
void net_conn_drain(struct net_conn *conn, uint64_t now_ns);

/* session_events.c: nghttp2's callbacks; NULL when memory is short. */
nghttp2_session_callbacks *net_session_callbacks(void);

/* session.c: the HTTP/2 half. */
int net_session_start(struct net_conn *conn, struct cairn_err *err);
/* Serializes frames into the scratch buffer, up to about conn->write_batch. */
int net_session_collect(struct net_conn *conn, struct cairn_err *err);
void net_session_resume(struct net_stream *stream);
/* Returns flow-control window for received bytes, as far as the queue
 * allows. */
void net_session_credit(struct net_stream *stream);
void net_session_reset(struct net_stream *stream, uint32_t h2_error);
/* nghttp2's data source of every stream; source->ptr is the stream. */
ssize_t net_session_read(nghttp2_session *session, int32_t id, uint8_t *buf, size_t n,
			 uint32_t *flags, nghttp2_data_source *source, void *arg);

#endif
