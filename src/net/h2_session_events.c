/* SPDX-License-Identifier: Apache-2.0 */

/* nghttp2's callbacks for reading and writing frames. */

#include <pthread.h>
#include <string.h>

#include "base/clock.h"
#include "base/lock.h"
#include "net/conn.h"
#include "net/limit_events.h"
#include "net/peer.h"
#include "net/scratch.h"
#include "net/stream.h"

#define FIELD_OVERHEAD       32 /* what HTTP/2 adds for each field to the size of its text */
#define STRANGER_FORGIVEN_MS 16000

#define FIELDS_HARD_MORE 16 /* multiple of the limit at which a header bomb ends the connection */

static struct net_stream *stream_of(nghttp2_session *session, int32_t id)
{
	return nghttp2_session_get_stream_user_data(session, id);
}

/* --- receiving --- */

/* Finds frames for streams that are over, which nghttp2 would ignore. */
static int on_begin_frame(nghttp2_session *session, const nghttp2_frame_hd *hd, void *arg)
{
	struct net_conn *conn = arg;
	bool is_headers = hd->type == NGHTTP2_HEADERS;
	uint32_t error;

	/* Each stream may have a reply and a reset queued. */
	if (conn->hooks->is_server &&
	    nghttp2_session_get_outbound_queue_size(session) >
		    conn->limits->control_frames + (size_t)conn->n_streams * 2) {
		net_conn_calm(conn, "frames that nobody reads");
		return NGHTTP2_ERR_CALLBACK_FAILURE;
	}
	if (!conn->hooks->is_server || (!is_headers && hd->type != NGHTTP2_DATA) ||
	    hd->stream_id % 2 == 0)
		return 0;
	if (hd->stream_id > conn->recent.last) {
		if (is_headers)
			net_recent_streams_open(&conn->recent, hd->stream_id);
		return 0;
	}
	if (nghttp2_session_find_stream(session, hd->stream_id))
		return 0;
	error = net_recent_streams_error(&conn->recent, hd->stream_id, is_headers);
	if (error == 0)
		return 0;
	nghttp2_session_terminate_session(session, error);
	net_conn_want_flush(conn);
	net_conn_fail(conn, CAIRN_INTERNAL, "a frame for a stream that is over");
	return 0;
}

static int on_begin_headers(nghttp2_session *session, const nghttp2_frame *frame, void *arg)
{
	struct net_conn *conn = arg;
	struct net_stream *stream;

	if (!conn->hooks->is_server || frame->headers.cat != NGHTTP2_HCAT_REQUEST)
		return 0;
	stream = conn->hooks->new_stream(conn);
	if (!stream) {
		/* REFUSED_STREAM tells the peer that nothing was done, so that it may retry. */
		nghttp2_submit_rst_stream(session, NGHTTP2_FLAG_NONE, frame->hd.stream_id,
					  NGHTTP2_REFUSED_STREAM);
		return 0;
	}
	stream->id = frame->hd.stream_id;
	nghttp2_session_set_stream_user_data(session, stream->id, stream);
	net_conn_add_stream(conn, stream);
	net_stream_unref(stream);
	return 0;
}

static void keep_field(struct net_stream *stream, const char *name, size_t name_len,
		       const char *value, size_t value_len)
{
	size_t held;

	if (!net_fields_add_wire(&stream->fields, name, name_len, value, value_len))
		stream->fields_bad = true;
	held = net_fields_held(&stream->fields);
	if (held <= stream->fields_held)
		return;
	if (stream->hooks->fields_grew &&
	    !stream->hooks->fields_grew(stream, held - stream->fields_held)) {
		stream->fields_refused = true;
		net_fields_done(&stream->fields);
		held = 0;
	}
	stream->fields_held = held;
}

/* Counts the bytes of fields against the limit, which refills evenly over STRANGER_FORGIVEN_MS. */
static bool count_stranger(struct net_conn *conn, size_t n)
{
	uint64_t max = conn->limits->stranger_header_bytes, now, ms, forgiven;

	conn->fields_counted += n;
	if (conn->fields_counted <= max)
		return true;
	now = cairn_monotonic_ns();
	ms = (now - (conn->fields_ns ? conn->fields_ns : conn->opened_ns)) / CAIRN_NS_PER_MS;
	forgiven = ms >= STRANGER_FORGIVEN_MS ? max : max * ms / STRANGER_FORGIVEN_MS;
	conn->fields_ns = now;
	conn->fields_counted -= forgiven < conn->fields_counted ? forgiven : conn->fields_counted;
	return conn->fields_counted <= max;
}

static int end_bomb(struct net_conn *conn)
{
	nghttp2_session_terminate_session(conn->session, NGHTTP2_ENHANCE_YOUR_CALM);
	net_conn_want_flush(conn);
	net_conn_fail(conn, CAIRN_NO_SPACE, "header bomb");
	return NGHTTP2_ERR_CALLBACK_FAILURE;
}

static int on_header(nghttp2_session *session, const nghttp2_frame *frame, const uint8_t *name,
		     size_t name_len, const uint8_t *value, size_t value_len, uint8_t flags,
		     void *arg)
{
	struct net_conn *conn = arg;
	struct net_stream *stream = stream_of(session, frame->hd.stream_id);

	(void)flags;
	if (net_conn_is_stranger(conn) &&
	    !count_stranger(conn, name_len + value_len + FIELD_OVERHEAD))
		return end_bomb(conn);
	if (!stream)
		return 0;
	stream->fields_counted += name_len + value_len + FIELD_OVERHEAD;
	if (stream->fields_counted / FIELDS_HARD_MORE > conn->limits->header_bytes)
		return end_bomb(conn);
	if (stream->fields_counted > conn->limits->header_bytes)
		stream->fields_over = true;
	else if (!stream->fields_refused)
		keep_field(stream, (const char *)name, name_len, (const char *)value, value_len);
	return 0;
}

static int h2_session_events_on_data(nghttp2_session *session, uint8_t flags, int32_t id,
				     const uint8_t *data, size_t n, void *arg)
{
	struct net_conn *conn = arg;
	struct net_stream *stream = stream_of(session, id);

	(void)flags;
	/* Open the connection's window at once, so that one slow stream does not block the
	 * others. */
	nghttp2_session_consume_connection(session, n);
	if (!stream)
		return 0;
	net_stream_ref(stream);
	pthread_mutex_lock(&stream->lock);
	stream->uncredited += n;
	pthread_mutex_unlock(&stream->lock);
	net_stream_data(stream, data, n);
	net_session_credit(stream);
	net_stream_unref(stream);
	return conn->dead ? NGHTTP2_ERR_CALLBACK_FAILURE : 0;
}

static void got_settings(struct net_conn *conn, const nghttp2_frame *frame)
{
	if (frame->hd.flags & NGHTTP2_FLAG_ACK)
		return;
	if (!conn->ready) {
		conn->ready = true;
		if (conn->peer)
			net_slot_set(&conn->peer->slot, NET_SLOT_IDLE);
		if (conn->hooks->ready)
			conn->hooks->ready(conn);
	} else {
		net_conn_spend(conn, &conn->oddities, "SETTINGS");
	}
}

static void h2_session_events_got_headers(struct net_stream *stream, const nghttp2_frame *frame)
{
	bool end = frame->hd.flags & NGHTTP2_FLAG_END_STREAM;

	if (!stream)
		return;
	net_stream_ref(stream);
	stream->peer_ended |= end;
	stream->hooks->headers(stream, end);
	net_stream_unref(stream);
}

static void got_data(struct net_conn *conn, struct net_stream *stream, const nghttp2_frame *frame)
{
	bool end = frame->hd.flags & NGHTTP2_FLAG_END_STREAM;

	if (frame->hd.length == 0 && !end)
		net_conn_spend(conn, &conn->oddities, "empty DATA frames");
	if (!end || !stream)
		return;
	net_stream_ref(stream);
	stream->peer_ended = true;
	stream->hooks->peer_end(stream);
	net_stream_unref(stream);
}

static int on_frame(nghttp2_session *session, const nghttp2_frame *frame, void *arg)
{
	struct net_conn *conn = arg;
	struct net_stream *stream =
		frame->hd.stream_id ? stream_of(session, frame->hd.stream_id) : NULL;

	switch (frame->hd.type) {
	case NGHTTP2_HEADERS:
		h2_session_events_got_headers(stream, frame);
		break;
	case NGHTTP2_DATA:
		got_data(conn, stream, frame);
		break;
	case NGHTTP2_SETTINGS:
		got_settings(conn, frame);
		break;
	case NGHTTP2_PING:
		if (!(frame->hd.flags & NGHTTP2_FLAG_ACK))
			net_conn_spend(conn, &conn->pings, "pings");
		break;
	case NGHTTP2_PRIORITY:
		net_conn_spend(conn, &conn->oddities, "PRIORITY frames");
		break;
	case NGHTTP2_GOAWAY:
		conn->peer_going = true;
		if (conn->hooks->goaway)
			conn->hooks->goaway(conn);
		break;
	default:
		break;
	}
	return conn->dead ? NGHTTP2_ERR_CALLBACK_FAILURE : 0;
}

static int on_stream_close(nghttp2_session *session, int32_t id, uint32_t h2_error, void *arg)
{
	struct net_conn *conn = arg;
	struct net_stream *stream = stream_of(session, id);

	if (!stream)
		return 0;
	net_stream_ref(stream);
	net_recent_streams_close(&conn->recent, id, stream->reset_sent);
	nghttp2_session_set_stream_user_data(session, id, NULL);
	net_conn_remove_stream(conn, stream);
	stream->hooks->closed(stream, h2_error, NULL);
	net_stream_unref(stream);
	if (conn->hooks->stream_closed)
		conn->hooks->stream_closed(conn);
	return 0;
}

/* --- sending --- */

static int on_frame_sent(nghttp2_session *session, const nghttp2_frame *frame, void *arg)
{
	struct net_conn *conn = arg;
	struct net_stream *stream;

	/* A client sends pings to measure the bandwidth of what we send, so each frame with
	 * headers or data allows a new burst of pings. */
	if (frame->hd.type == NGHTTP2_HEADERS || frame->hd.type == NGHTTP2_DATA)
		conn->pings.level = conn->pings.burst;
	if (frame->hd.type == NGHTTP2_RST_STREAM) {
		stream = stream_of(session, frame->hd.stream_id);
		if (stream)
			stream->reset_sent = true;
		if (conn->hooks->is_server &&
		    frame->rst_stream.error_code == NGHTTP2_REFUSED_STREAM)
			net_limit_count(NET_LIMIT_STREAMS);
		if (conn->hooks->is_server && frame->rst_stream.error_code != NGHTTP2_NO_ERROR)
			net_conn_spend(conn, &conn->resets, "resets");
	}
	if (!conn->hooks->is_server || frame->hd.type != NGHTTP2_HEADERS ||
	    !(frame->hd.flags & NGHTTP2_FLAG_END_STREAM))
		return 0;
	stream = stream_of(session, frame->hd.stream_id);
	/* The reply is complete, so further input from the client is useless. */
	if (stream && !stream->peer_ended)
		nghttp2_submit_rst_stream(session, NGHTTP2_FLAG_NONE, frame->hd.stream_id,
					  NGHTTP2_NO_ERROR);
	return 0;
}

/* A request that could not be sent: the peer never saw its stream. */
static int on_frame_not_sent(nghttp2_session *session, const nghttp2_frame *frame, int lib_error,
			     void *arg)
{
	struct net_conn *conn = arg;
	struct net_stream *stream;

	(void)lib_error;
	if (conn->hooks->is_server || frame->hd.type != NGHTTP2_HEADERS ||
	    frame->headers.cat != NGHTTP2_HCAT_REQUEST)
		return 0;
	stream = stream_of(session, frame->hd.stream_id);
	if (!stream)
		return 0;
	net_stream_ref(stream);
	nghttp2_session_set_stream_user_data(session, frame->hd.stream_id, NULL);
	net_conn_remove_stream(conn, stream);
	stream->hooks->closed(stream, NGHTTP2_REFUSED_STREAM, NULL);
	net_stream_unref(stream);
	return 0;
}

static int on_send_data(nghttp2_session *session, nghttp2_frame *frame, const uint8_t *head,
			size_t n, nghttp2_data_source *source, void *arg)
{
	struct net_conn *conn = arg;
	struct net_scratch *scratch = net_loop_scratch(conn->loop);
	uint8_t *at = scratch->frames + scratch->frames_len;

	(void)session;
	(void)frame; /* we ask for no padding */
	memcpy(at, head, 9);
	net_stream_take(source->ptr, at + 9, n);
	scratch->frames_len += 9 + n;
	return scratch->frames_len >= conn->write_batch ? NGHTTP2_ERR_PAUSE : 0;
}

static ssize_t frame_length(nghttp2_session *session, uint8_t type, int32_t id,
			    int32_t session_window, int32_t stream_window, uint32_t frame_max,
			    void *arg)
{
	int64_t n = NET_FRAME_BYTES_MAX;

	(void)session;
	(void)type;
	(void)id;
	(void)arg;
	if (n > session_window)
		n = session_window;
	if (n > stream_window)
		n = stream_window;
	if (n > frame_max)
		n = frame_max;
	return n;
}

/* --- the table --- */

static nghttp2_session_callbacks *callbacks;

static void make_callbacks(void)
{
	if (nghttp2_session_callbacks_new(&callbacks) != 0)
		return;
	nghttp2_session_callbacks_set_on_begin_frame_callback(callbacks, on_begin_frame);
	nghttp2_session_callbacks_set_on_begin_headers_callback(callbacks, on_begin_headers);
	nghttp2_session_callbacks_set_on_header_callback(callbacks, on_header);
	nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks,
								  h2_session_events_on_data);
	nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, on_frame);
	nghttp2_session_callbacks_set_on_frame_send_callback(callbacks, on_frame_sent);
	nghttp2_session_callbacks_set_on_frame_not_send_callback(callbacks, on_frame_not_sent);
	nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, on_stream_close);
	nghttp2_session_callbacks_set_send_data_callback(callbacks, on_send_data);
	nghttp2_session_callbacks_set_data_source_read_length_callback(callbacks, frame_length);
}

nghttp2_session_callbacks *net_session_callbacks(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, make_callbacks);
	return callbacks;
}
