/* SPDX-License-Identifier: Apache-2.0 */

/* Ends connections that last too long or cost too much. */

#include <nghttp2/nghttp2.h>
#include <string.h>

#include "base/clock.h"
#include "base/lock.h"
#include "net/conn.h"
#include "net/limit_events.h"
#include "net/peer.h"
#include "net/stream.h"
#include "net/tls/tls_settings.h"

#define STRANGER_COST   8   /* tokens that an event of an unauthenticated peer costs */
#define DRAIN_NOTICE_MS 200 /* between the two GOAWAYs, for streams opened meanwhile */

static bool conn_watch_longer(uint64_t now_ns, uint64_t since_ns, uint64_t ms)
{
	return now_ns > since_ns && now_ns - since_ns > ms * CAIRN_NS_PER_MS;
}

bool net_conn_is_stranger(const struct net_conn *conn)
{
	return conn->peer && !net_slot_is_known(&conn->peer->slot);
}

bool net_conn_spend(struct net_conn *conn, struct net_bucket *bucket, const char *what)
{
	uint64_t now = cairn_monotonic_ns();
	uint64_t more = (now - bucket->last_ns) / bucket->refill_ns;
	uint32_t cost = bucket != &conn->pings && net_conn_is_stranger(conn) ? STRANGER_COST : 1;

	if (more > 0) {
		bucket->last_ns += more * bucket->refill_ns;
		bucket->level = more > bucket->burst - bucket->level
					? bucket->burst
					: bucket->level + (uint32_t)more;
	}
	if (bucket->level >= cost) {
		bucket->level -= cost;
		return true;
	}
	net_conn_calm(conn, what);
	return false;
}

void net_conn_calm(struct net_conn *conn, const char *what)
{
	/* gRPC clients know this text and ping less often from then on. */
	const char *said = strcmp(what, "pings") == 0 ? "too_many_pings" : what;

	nghttp2_submit_goaway(conn->session, NGHTTP2_FLAG_NONE,
			      nghttp2_session_get_last_proc_stream_id(conn->session),
			      NGHTTP2_ENHANCE_YOUR_CALM, (const uint8_t *)said, strlen(said));
	net_conn_want_flush(conn);
	net_conn_fail(conn, CAIRN_NO_SPACE, "too many %s", what);
}

void net_conn_drain(struct net_conn *conn, uint64_t now_ns)
{
	if (!conn->session || conn->gone_away)
		return;
	if (!conn->going) {
		conn->going = true;
		conn->going_ns = now_ns;
		nghttp2_submit_shutdown_notice(conn->session);
	} else if (conn_watch_longer(now_ns, conn->going_ns, DRAIN_NOTICE_MS)) {
		conn->gone_away = true;
		nghttp2_submit_goaway(conn->session, NGHTTP2_FLAG_NONE,
				      nghttp2_session_get_last_proc_stream_id(conn->session),
				      NGHTTP2_NO_ERROR, NULL, 0);
	}
	net_conn_want_flush(conn);
}

static void check_keepalive(struct net_conn *conn, uint64_t now_ns)
{
	const struct net_limits *l = conn->limits;

	if (conn->pinged) {
		if (conn->heard_ns > conn->pinged_ns)
			conn->pinged = false;
		else if (conn_watch_longer(now_ns, conn->pinged_ns, l->keepalive_wait_ms))
			net_conn_fail(conn, CAIRN_UNAVAILABLE, "the peer answers no ping");
		return;
	}
	if (!conn_watch_longer(now_ns, conn->heard_ns, l->keepalive_ms))
		return;
	/* A client does not ping on an idle connection, because servers count such pings. */
	if (!conn->hooks->is_server && conn->n_streams == 0)
		return;
	if (nghttp2_submit_ping(conn->session, NGHTTP2_FLAG_NONE, NULL) == 0) {
		conn->pinged = true;
		conn->pinged_ns = now_ns;
		net_conn_want_flush(conn);
	}
}

static bool conn_watch_stalled(struct net_stream *stream, uint64_t now_ns, uint64_t stall_ms)
{
	cairn_scoped_lock(&stream->lock);

	if (stream->out.bytes == 0 || stream->taken != stream->taken_mark ||
	    stream->taken_mark_ns == 0) {
		stream->taken_mark = stream->taken;
		stream->taken_mark_ns = now_ns;
		return false;
	}
	return conn_watch_longer(now_ns, stream->taken_mark_ns, stall_ms);
}

static void check_streams(struct net_conn *conn, uint64_t now_ns)
{
	struct net_stream *next;

	for (struct net_stream *stream = conn->streams; stream; stream = next) {
		next = stream->next;
		if (conn_watch_stalled(stream, now_ns, conn->limits->stall_ms)) {
			net_limit_count(NET_LIMIT_STALL_TIME);
			net_stream_set_over(stream, CAIRN_CANCELLED, "the peer takes no data",
					    true);
			net_session_reset(stream, NGHTTP2_CANCEL);
		} else if (stream->request_by_ns && now_ns > stream->request_by_ns) {
			stream->request_by_ns = 0;
			net_limit_count(NET_LIMIT_REQUEST_TIME);
			stream->hooks->broken(stream, CAIRN_DEADLINE, "the request is too slow");
		}
	}
}

static uint64_t idle_limit(const struct net_conn *conn)
{
	const struct net_limits *l = conn->limits;
	bool stranger = net_conn_is_stranger(conn);

	return stranger && l->stranger_idle_ms < l->idle_ms ? l->stranger_idle_ms : l->idle_ms;
}

/* A peer whose certificate expired, or whose authority was replaced, gets no new streams; those
 * that run may end. */
static bool is_distrusted(struct net_conn *conn)
{
	if (!conn->tls || net_tls_trusts(conn->tls, conn->wire.ssl, &conn->tls_seen))
		return false;
	net_limit_count(NET_LIMIT_CERTIFICATE);
	return true;
}

static bool is_idle(const struct net_conn *conn, uint64_t now_ns)
{
	if (conn->n_streams > 0 || !conn_watch_longer(now_ns, conn->busy_ns, idle_limit(conn)))
		return false;
	net_limit_count(NET_LIMIT_IDLE_TIME);
	return true;
}

/* A client sends no GOAWAY: it opens its next streams elsewhere, as if the server had sent one. */
static void watch_trust_of_server(struct net_conn *conn)
{
	if (conn->peer_going || !is_distrusted(conn))
		return;
	conn->peer_going = true;
	if (conn->hooks->goaway)
		conn->hooks->goaway(conn);
}

void net_conn_tick(struct net_conn *conn, uint64_t now_ns)
{
	const struct net_limits *l = conn->limits;

	if (conn->dead)
		return;
	if (!conn->ready) {
		if (conn_watch_longer(now_ns, conn->opened_ns, l->handshake_ms)) {
			net_limit_count(NET_LIMIT_HANDSHAKE_TIME);
			net_conn_fail(conn, CAIRN_UNAVAILABLE, "the handshake takes too long");
		}
		return;
	}
	if (conn->headers_ns && conn_watch_longer(now_ns, conn->headers_ns, l->header_ms)) {
		net_limit_count(NET_LIMIT_HEADER_TIME);
		nghttp2_session_terminate_session(conn->session, NGHTTP2_ENHANCE_YOUR_CALM);
		net_conn_want_flush(conn);
		net_conn_fail(conn, CAIRN_UNAVAILABLE, "headers take too long");
		return;
	}
	check_streams(conn, now_ns);
	check_keepalive(conn, now_ns);
	if (!conn->hooks->is_server)
		watch_trust_of_server(conn);
	else if (conn->going || is_distrusted(conn) || is_idle(conn, now_ns))
		net_conn_drain(conn, now_ns);
}
