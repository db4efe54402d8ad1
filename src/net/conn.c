/* SPDX-License-Identifier: Apache-2.0 */

#include "net/conn.h"

#include <event2/event.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <openssl/ssl.h>

#include "base/clock.h"
#include "base/mem.h"
#include "net/limit_events.h"
#include "net/peer.h"
#include "net/scratch.h"
#include "net/stream.h"

#define READS_PER_TURN 4           /* then the other connections get a turn */
#define STRANGER_BYTES (16U << 10) /* read from an unauthenticated peer in a turn */
#define PREFACE_BYTES  24

/* A server whose peer reads nothing keeps reading while less than this is
 * queued because of its input: otherwise two ends that each wait for the other
 * to read first would deadlock. */
#define BLOCKED_FRAMES 32
#define BLOCKED_BYTES  4096

static void end_turn(struct net_task *task);

static void ask_turn_end(struct net_conn *conn)
{
	if (conn->turn_end_asked)
		return;
	conn->turn_end_asked = true;
	net_loop_late(conn->loop, &conn->turn_end);
}

void net_conn_want_flush(struct net_conn *conn)
{
	conn->want_flush = true;
	ask_turn_end(conn);
}

void net_conn_fail(struct net_conn *conn, int code, const char *fmt, ...)
{
	char text[sizeof(conn->why.msg)];
	va_list args;

	/* The first failure is the cause. The connection is taken apart at the end of the turn,
	 * because the callers of this still use it. */
	if (!conn->dead) {
		va_start(args, fmt);
		vsnprintf(text, sizeof(text), fmt, args);
		va_end(args);
		cairn_err_set(&conn->why, code, "%s", text);
		conn->dead = true;
	}
	ask_turn_end(conn);
}

static void fail_with(struct net_conn *conn, const struct cairn_err *err)
{
	net_conn_fail(conn, err->code, "%s", err->msg);
}

/* Measures how long the peer takes for a header block, even for one that nghttp2 ignores. */
static void time_headers(struct net_conn *conn, const uint8_t *data, size_t n)
{
	struct net_frames *frames = &conn->frames;

	net_frames_feed(frames, data, n);
	if (!frames->in_block)
		conn->headers_ns = 0;
	else if (conn->headers_ns == 0 || conn->blocks_seen != frames->blocks)
		conn->headers_ns = cairn_monotonic_ns();
	conn->blocks_seen = frames->blocks;
}

static bool spend_key_updates(struct net_conn *conn)
{
	while (conn->wire.key_updates > 0) {
		conn->wire.key_updates--;
		if (conn->hooks->is_server &&
		    !net_conn_spend(conn, &conn->oddities, "TLS key updates"))
			return false;
	}
	return true;
}

/* Hands everything that one read(2) brought to nghttp2. */
static int conn_digest(struct net_conn *conn, struct cairn_err *err)
{
	for (;;) {
		const uint8_t *data;
		size_t n;
		ssize_t used;
		int rc = net_tls_socket_next(&conn->wire, &data, &n, err);

		if (!spend_key_updates(conn))
			return cairn_err_set(err, CAIRN_NO_SPACE, "too many TLS key updates");
		if (rc != 1)
			return rc;
		time_headers(conn, data, n);
		used = nghttp2_session_mem_recv(conn->session, data, n);
		if (used < 0 && conn->hooks->is_server)
			net_limit_count(NET_LIMIT_PROTOCOL);
		if (used < 0)
			return cairn_err_set(err, CAIRN_UNAVAILABLE, "HTTP/2: %s",
					     nghttp2_strerror((int)used));
	}
}

static int conn_shake_hands(struct net_conn *conn, struct cairn_err *err)
{
	int rc = net_tls_socket_handshake(&conn->wire, err);

	if (rc != 1)
		return rc;
	if (conn->peer)
		net_peer_add_tls(conn->peer, conn->wire.ssl);
	return net_session_start(conn, err);
}

/* False while the peer does not read the replies that its input caused. */
static bool may_read(const struct net_conn *conn)
{
	if (!conn->hooks->is_server || !net_tls_socket_blocked(&conn->wire))
		return true;
	return conn->wire.kept_blocked < BLOCKED_BYTES &&
	       (!conn->session ||
		nghttp2_session_get_outbound_queue_size(conn->session) < BLOCKED_FRAMES);
}

static int read_turn(struct net_conn *conn, struct cairn_err *err)
{
	bool stranger = net_conn_is_stranger(conn);
	int reads = stranger ? 1 : READS_PER_TURN;

	conn->wire.whole_only = stranger;
	for (int i = 0; i < reads && !conn->dead && may_read(conn); i++) {
		int rc = net_tls_socket_fill(&conn->wire,
					     stranger ? STRANGER_BYTES : NET_READ_BYTES, err);

		if (rc != 1)
			return rc;
		conn->heard_ns = cairn_monotonic_ns();
		if (!conn->session)
			rc = conn_shake_hands(conn, err);
		if (rc >= 0 && conn->session)
			rc = conn_digest(conn, err);
		if (rc < 0)
			return rc;
		/* A short read emptied the socket. If it did not, libevent calls us again. */
		if (!net_tls_socket_was_full(&conn->wire))
			break;
	}
	return 0;
}

static void watch_socket(struct net_conn *conn)
{
	bool reading = may_read(conn);

	if (net_tls_socket_blocked(&conn->wire))
		event_add(&conn->writable, NULL);
	if (reading == conn->reading)
		return;
	conn->reading = reading;
	if (reading) {
		event_add(&conn->readable, NULL);
	} else {
		net_limit_count(NET_LIMIT_UNREAD_ANSWERS);
		event_del(&conn->readable);
	}
}

static void read_and_answer(struct net_conn *conn)
{
	struct cairn_err err = {0};

	if (read_turn(conn, &err) < 0)
		fail_with(conn, &err);
	net_conn_want_flush(conn);
}

void net_conn_work(struct net_crowd_entry *entry)
{
	read_and_answer(
		(struct net_conn *)(void *)((char *)entry - offsetof(struct net_conn, entry)));
}

static void on_readable(evutil_socket_t fd, short what, void *arg)
{
	struct net_conn *conn = arg;

	(void)fd;
	(void)what;
	if (conn->dead)
		return;
	if (conn->crowd && net_slot_can_wait(&conn->peer->slot))
		net_crowd_add(conn->crowd, &conn->entry, conn->peer->slot.lane);
	else
		read_and_answer(conn);
}

static void conn_on_writable(evutil_socket_t fd, short what, void *arg)
{
	struct net_conn *conn = arg;
	struct cairn_err err = {0};

	(void)fd;
	(void)what;
	if (net_tls_socket_flush(&conn->wire, &err) < 0)
		fail_with(conn, &err);
	net_conn_want_flush(conn);
}

static int conn_flush(struct net_conn *conn, struct cairn_err *err)
{
	struct net_scratch *scratch = net_loop_scratch(conn->loop);

	while (!net_tls_socket_blocked(&conn->wire)) {
		int rc = net_session_collect(conn, err);

		if (rc == 0 && scratch->frames_len == 0)
			return 0;
		if (rc == 0)
			rc = net_tls_socket_write(&conn->wire, scratch->frames, scratch->frames_len,
						  err);
		if (rc != 0)
			return rc;
	}
	return 0;
}

static void take_apart(struct net_conn *conn)
{
	if (conn->crowd)
		net_crowd_remove(conn->crowd, &conn->entry);
	event_del(&conn->readable);
	event_del(&conn->writable);
	net_tls_socket_close_notify(&conn->wire);
	/* nghttp2_session_del() reports no stream as closed. */
	while (conn->streams) {
		struct net_stream *stream = conn->streams;

		net_stream_ref(stream);
		net_conn_remove_stream(conn, stream);
		stream->hooks->closed(stream, NGHTTP2_INTERNAL_ERROR, &conn->why);
		net_stream_unref(stream);
	}
	nghttp2_session_del(conn->session);
	net_peer_leave(conn->peer);
	net_tls_socket_done(&conn->wire);
	conn->hooks->gone(conn);
	/* The events may have requested another turn in the meantime. */
	if (conn->turn_end_asked)
		net_loop_drop_late(conn->loop, &conn->turn_end);
	net_peer_unref(conn->peer);
	free(conn);
}

static void end_turn(struct net_task *task)
{
	struct net_conn *conn =
		(struct net_conn *)(void *)((char *)task - offsetof(struct net_conn, turn_end));
	struct cairn_err err = {0};

	conn->turn_end_asked = false;
	/* Also when it is dead: GOAWAY and the last answers are sent before it closes. */
	if (conn->want_flush && conn->session && !conn->wire.failed) {
		conn->want_flush = false;
		if (conn_flush(conn, &err) < 0)
			fail_with(conn, &err);
		else if (!nghttp2_session_want_read(conn->session) &&
			 !nghttp2_session_want_write(conn->session) &&
			 !net_tls_socket_blocked(&conn->wire))
			net_conn_fail(conn, CAIRN_UNAVAILABLE, "HTTP/2: the session ended");
	}
	if (conn->dead) {
		take_apart(conn);
		return;
	}
	watch_socket(conn);
}

static int conn_set_up(struct net_conn *conn, int fd, struct ssl_st *ssl, struct cairn_err *err)
{
	int rc = net_tls_socket_init(&conn->wire, fd, ssl, net_loop_scratch(conn->loop), err);

	if (rc != 0)
		return rc;
	event_assign(&conn->readable, net_loop_base(conn->loop), fd, EV_READ | EV_PERSIST,
		     on_readable, conn);
	event_assign(&conn->writable, net_loop_base(conn->loop), fd, EV_WRITE, conn_on_writable,
		     conn);
	if (event_add(&conn->readable, NULL) < 0)
		return cairn_err_nomem(err, "connection");
	conn->reading = true;
	if (!ssl)
		return net_session_start(conn, err);
	/* In HTTP/2 the client speaks first. */
	rc = conn->hooks->is_server ? 0 : net_tls_socket_handshake(&conn->wire, err);
	watch_socket(conn);
	return rc < 0 ? rc : 0;
}

static void init_buckets(struct net_conn *conn)
{
	const struct net_limits *l = conn->limits;

	conn->pings = (struct net_bucket){.level = l->ping_burst,
					  .burst = l->ping_burst,
					  .refill_ns = l->ping_refill_ms * CAIRN_NS_PER_MS,
					  .last_ns = conn->opened_ns};
	conn->oddities = (struct net_bucket){.level = l->settings_burst,
					     .burst = l->settings_burst,
					     .refill_ns = 100 * CAIRN_NS_PER_MS,
					     .last_ns = conn->opened_ns};
	conn->resets = (struct net_bucket){.level = l->reset_burst,
					   .burst = l->reset_burst,
					   .refill_ns = CAIRN_NS_PER_SEC / l->reset_per_second,
					   .last_ns = conn->opened_ns};
}

int net_conn_new(const struct net_conn_hooks *hooks, void *owner, struct net_loop *loop,
		 const struct net_limits *limits, int fd, struct ssl_st *ssl,
		 struct net_shared_peer *peer, struct net_conn **ret, struct cairn_err *err)
{
	struct net_conn *conn = cairn_calloc(1, sizeof(*conn));
	int rc;

	if (!conn) {
		net_peer_leave(peer);
		net_peer_unref(peer);
		SSL_free(ssl);
		close(fd);
		return cairn_err_nomem(err, "connection");
	}
	conn->hooks = hooks;
	conn->owner = owner;
	conn->loop = loop;
	conn->limits = limits;
	conn->turn_end.run = end_turn;
	conn->write_batch = NET_WRITE_BYTES;
	conn->opened_ns = conn->heard_ns = conn->busy_ns = cairn_monotonic_ns();
	conn->peer = peer;
	init_buckets(conn);
	net_frames_init(&conn->frames, hooks->is_server ? PREFACE_BYTES : 0);
	rc = conn_set_up(conn, fd, ssl, err);
	if (rc != 0) {
		if (event_initialized(&conn->readable))
			event_del(&conn->readable);
		if (conn->turn_end_asked)
			net_loop_drop_late(loop, &conn->turn_end);
		nghttp2_session_del(conn->session);
		net_peer_leave(peer);
		net_tls_socket_done(&conn->wire);
		net_peer_unref(peer);
		free(conn);
		return rc;
	}
	net_conn_want_flush(conn);
	*ret = conn;
	return 0;
}

void net_conn_abandon(struct net_conn *conn)
{
	if (conn->turn_end_asked)
		net_loop_drop_late(conn->loop, &conn->turn_end);
	conn->want_flush = true;
	conn->dead = true;
	end_turn(&conn->turn_end);
}

void net_conn_add_stream(struct net_conn *conn, struct net_stream *stream)
{
	net_stream_ref(stream);
	stream->conn = conn;
	stream->prev = NULL;
	stream->next = conn->streams;
	if (stream->next)
		stream->next->prev = stream;
	conn->streams = stream;
	conn->n_streams++;
	if (conn->peer)
		net_slot_set(&conn->peer->slot, NET_SLOT_BUSY);
}

void net_conn_remove_stream(struct net_conn *conn, struct net_stream *stream)
{
	if (stream->prev)
		stream->prev->next = stream->next;
	else
		conn->streams = stream->next;
	if (stream->next)
		stream->next->prev = stream->prev;
	stream->conn = NULL;
	conn->n_streams--;
	conn->busy_ns = cairn_monotonic_ns();
	if (conn->peer && conn->n_streams == 0)
		net_slot_set(&conn->peer->slot, NET_SLOT_IDLE);
	net_stream_unref(stream);
}
