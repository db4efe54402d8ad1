/* SPDX-License-Identifier: Apache-2.0 */

/* The HTTP/2 half of a connection: making a session, and what we ask of it. */

#include <string.h>

#include "base/lock.h"
#include "net/conn.h"
#include "net/grpc/relay_impl.h"
#include "net/scratch.h"
#include "net/stream.h"

static void h2_session_set_options(nghttp2_option *option, const struct net_limits *limits)
{
	/* net_session_credit() opens a stream's window when its data was taken: a slow reader
	 * then slows its peer down instead of filling our memory. */
	nghttp2_option_set_no_auto_window_update(option, 1);
	nghttp2_option_set_max_reserved_remote_streams(option, 0);
	/* Go servers send status messages that end with a space as they are; gRPC
	 * does not forbid it. */
	nghttp2_option_set_no_rfc9113_leading_and_trailing_ws_validation(option, 1);
#ifdef HAVE_NGHTTP2_RESET_RATE_LIMIT
	nghttp2_option_set_stream_reset_rate_limit(option, limits->reset_burst,
						   limits->reset_per_second);
#endif
#ifdef HAVE_NGHTTP2_MAX_CONTINUATIONS
	nghttp2_option_set_max_continuations(option, limits->continuations);
#endif
	(void)limits;
}

static int h2_session_make_session(struct net_conn *conn)
{
	nghttp2_mem *mem = &net_loop_scratch(conn->loop)->recycle.mem;
	nghttp2_option *option;
	int rc = nghttp2_option_new(&option);

	if (rc != 0)
		return rc;
	h2_session_set_options(option, conn->limits);
	if (conn->hooks->is_server)
		rc = nghttp2_session_server_new3(&conn->session, net_session_callbacks(), conn,
						 option, mem);
	else
		rc = nghttp2_session_client_new3(&conn->session, net_session_callbacks(), conn,
						 option, mem);
	nghttp2_option_del(option);
	return rc;
}

static int send_settings(struct net_conn *conn)
{
	const struct net_limits *l = conn->limits;
	nghttp2_settings_entry server[] = {
		{NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, l->streams},
		{NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, l->stream_window},
		{NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, l->header_bytes},
	};
	nghttp2_settings_entry client[] = {
		{NGHTTP2_SETTINGS_ENABLE_PUSH, 0},
		{NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, l->stream_window},
		{NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, l->header_bytes},
		{NGHTTP2_SETTINGS_MAX_FRAME_SIZE, NET_FRAME_BYTES_MAX},
	};
	int rc;

	if (conn->hooks->is_server)
		rc = nghttp2_submit_settings(conn->session, NGHTTP2_FLAG_NONE, server,
					     sizeof(server) / sizeof(server[0]));
	else
		rc = nghttp2_submit_settings(conn->session, NGHTTP2_FLAG_NONE, client,
					     sizeof(client) / sizeof(client[0]));
	if (rc == 0)
		rc = nghttp2_session_set_local_window_size(conn->session, NGHTTP2_FLAG_NONE, 0,
							   (int32_t)l->connection_window);
	return rc;
}

int net_session_start(struct net_conn *conn, struct cairn_err *err)
{
	int rc = net_session_callbacks() ? h2_session_make_session(conn) : NGHTTP2_ERR_NOMEM;

	if (rc == 0)
		rc = send_settings(conn);
	if (rc != 0)
		return cairn_err_set(err, CAIRN_NO_SPACE, "HTTP/2 session: %s",
				     nghttp2_strerror(rc));
	net_conn_want_flush(conn);
	return 0;
}

int net_session_collect(struct net_conn *conn, struct cairn_err *err)
{
	struct net_scratch *scratch = net_loop_scratch(conn->loop);

	scratch->frames_len = 0;
	while (scratch->frames_len < conn->write_batch) {
		const uint8_t *data;
		ssize_t n = nghttp2_session_mem_send(conn->session, &data);

		if (n < 0)
			return cairn_err_set(err, CAIRN_UNAVAILABLE, "HTTP/2: %s",
					     nghttp2_strerror((int)n));
		/* 0 also when a DATA frame filled the batch; the caller comes again. */
		if (n == 0)
			break;
		memcpy(scratch->frames + scratch->frames_len, data, (size_t)n);
		scratch->frames_len += (size_t)n;
	}
	return 0;
}

void net_session_resume(struct net_stream *stream)
{
	if (!stream->conn || !stream->deferred)
		return;
	stream->deferred = false;
	nghttp2_session_resume_data(stream->conn->session, stream->id);
	net_conn_want_flush(stream->conn);
}

void net_session_credit(struct net_stream *stream)
{
	size_t give = 0;

	if (!stream->conn || (stream->relay_in && !net_relay_has_room(stream->relay_in)))
		return;
	pthread_mutex_lock(&stream->lock);
	if (stream->in_bytes < stream->recv_max || stream->over) {
		give = stream->uncredited;
		stream->uncredited = 0;
	}
	pthread_mutex_unlock(&stream->lock);
	if (give == 0)
		return;
	nghttp2_session_consume_stream(stream->conn->session, stream->id, give);
	net_conn_want_flush(stream->conn);
}

void net_session_reset(struct net_stream *stream, uint32_t h2_error)
{
	if (!stream->conn)
		return;
	nghttp2_submit_rst_stream(stream->conn->session, NGHTTP2_FLAG_NONE, stream->id, h2_error);
	net_conn_want_flush(stream->conn);
}

ssize_t net_session_read(nghttp2_session *session, int32_t id, uint8_t *buf, size_t n,
			 uint32_t *flags, nghttp2_data_source *source, void *arg)
{
	struct net_stream *stream = source->ptr;
	bool end = false;
	size_t part = net_stream_sendable(stream, n, &end);

	(void)session;
	(void)id;
	(void)buf;
	(void)arg;
	/* nghttp2 asks again after net_session_resume(). */
	if (part == 0 && !end) {
		stream->deferred = true;
		return NGHTTP2_ERR_DEFERRED;
	}
	/* on_send_data() copies the bytes, once, from the queue to the batch of frames. */
	*flags |= NGHTTP2_DATA_FLAG_NO_COPY;
	if (end) {
		*flags |= NGHTTP2_DATA_FLAG_EOF;
		stream->hooks->sent_all(stream, flags);
	}
	return (ssize_t)part;
}
