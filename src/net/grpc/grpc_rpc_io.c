/* SPDX-License-Identifier: Apache-2.0 */

/* A client's call on its loop: the request to frames, the response to messages
 * and a status. */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/lock.h"
#include "base/mem.h"
#include "net/grpc/channel.h"
#include "net/grpc/grpc_status.h"
#include "net/grpc/grpc_text.h"
#include "net/nv.h"

#define RETRIES_MAX 4

static void grpc_rpc_io_end(struct net_rpc *rpc, int code, const char *text, bool drop)
{
	net_timer_done(&rpc->timer);
	net_stream_set_over(&rpc->s, code, text, drop);
}

void net_rpc_fail(struct net_rpc *rpc, const struct cairn_err *why)
{
	grpc_rpc_io_end(rpc, why->code, why->msg, true);
}

/* Ends the call from our side, whether it still waits for a connection or is on one. */
static void grpc_rpc_io_give_up(struct net_rpc *rpc, int code, const char *text, bool drop)
{
	net_channel_unwait(rpc->channel, rpc);
	grpc_rpc_io_end(rpc, code, text, drop);
	net_session_reset(&rpc->s, NGHTTP2_CANCEL);
}

static void grpc_rpc_io_broken(struct net_stream *stream, int code, const char *text)
{
	grpc_rpc_io_give_up(net_rpc_of(stream), code, text, true);
}

static void grpc_rpc_io_deadline_passed(void *arg)
{
	struct net_rpc *rpc = arg;

	/* The caller may free the call as soon as it is notified. */
	net_stream_ref(&rpc->s);
	grpc_rpc_io_give_up(rpc, CAIRN_DEADLINE, "the deadline passed", true);
	net_stream_unref(&rpc->s);
}

/* --- the request --- */

/* Rounds up to three digits, so that calls with the same timeout send the same text, which
 * HPACK then sends as an index. The exact deadline is enforced on this side. */
static uint64_t three_digits(uint64_t ns)
{
	uint64_t unit = 1;

	while (ns / unit >= 1000)
		unit *= 10;
	if (__builtin_add_overflow(ns, (unit - ns % unit) % unit, &ns))
		return UINT64_MAX;
	return ns;
}

static void add_timeout(struct net_nv *nv, const struct net_rpc *rpc,
			char text[GRPC_TIMEOUT_TEXT_MAX])
{
	uint64_t now = cairn_monotonic_ns();

	if (rpc->deadline_ns == UINT64_MAX)
		return;
	grpc_timeout_format(rpc->deadline_ns > now ? three_digits(rpc->deadline_ns - now) : 1,
			    text);
	net_nv_add(nv, "grpc-timeout", text);
}

void net_rpc_submit(struct net_rpc *rpc, struct net_conn *conn)
{
	nghttp2_data_provider source = {.source.ptr = &rpc->s, .read_callback = net_session_read};
	char timeout[GRPC_TIMEOUT_TEXT_MAX];
	struct cairn_err err = {0};
	struct net_nv nv;
	int32_t id = -1;

	net_nv_init(&nv, &rpc->request, NULL, 0);
	net_nv_add(&nv, ":method", "POST");
	net_nv_add(&nv, ":scheme", conn->wire.ssl ? "https" : "http");
	net_nv_add(&nv, ":path", rpc->path);
	net_nv_add(&nv, ":authority", rpc->channel->authority);
	net_nv_add(&nv, "te", "trailers");
	net_nv_add(&nv, "content-type", "application/grpc");
	net_nv_add(&nv, "user-agent", "grpc-c-cairn/1");
	if (!rpc->identity_only)
		net_nv_add(&nv, "grpc-accept-encoding", "identity,gzip");
	add_timeout(&nv, rpc, timeout);
	net_nv_add_fields(&nv, &rpc->request);
	if (!nv.failed)
		id = nghttp2_submit_request(conn->session, NULL, nv.v, nv.n, &source, &rpc->s);
	net_nv_done(&nv);
	if (id < 0) {
		cairn_err_set(&err, CAIRN_UNAVAILABLE, "the request cannot be sent");
		net_rpc_fail(rpc, &err);
		return;
	}
	rpc->s.id = id;
	rpc->s.deferred = false;
	net_conn_add_stream(conn, &rpc->s);
	net_conn_want_flush(conn);
}

static void grpc_rpc_io_begin(struct net_rpc *rpc)
{
	uint64_t now = cairn_monotonic_ns(), ns;

	rpc->begun = true;
	if (rpc->deadline_ns != UINT64_MAX) {
		ns = rpc->deadline_ns > now ? rpc->deadline_ns - now : 0;
		if (__builtin_add_overflow(ns, rpc->grace_ns, &ns))
			ns = UINT64_MAX;
		net_timer_init(&rpc->timer, rpc->s.loop, grpc_rpc_io_deadline_passed, rpc);
		net_timer_set(&rpc->timer, ns / CAIRN_NS_PER_MS + (ns % CAIRN_NS_PER_MS != 0));
	}
	net_channel_route(rpc->channel, rpc);
}

static void grpc_rpc_io_service(struct net_stream *stream)
{
	struct net_rpc *rpc = net_rpc_of(stream);
	bool cancel, over;

	pthread_mutex_lock(&stream->lock);
	cancel = rpc->cancel;
	over = stream->over;
	pthread_mutex_unlock(&stream->lock);
	if (cancel && !over) {
		grpc_rpc_io_give_up(rpc, CAIRN_CANCELLED, "the call was cancelled", true);
		return;
	}
	if (!rpc->begun && !over) {
		grpc_rpc_io_begin(rpc);
		return;
	}
	net_session_credit(stream);
	net_session_resume(stream);
}

static void grpc_rpc_io_sent_all(struct net_stream *stream, uint32_t *flags)
{
	(void)stream;
	(void)flags; /* nghttp2 sets END_STREAM itself */
}

/* --- the response --- */

/* The status in a block of trailers. */
static void end_with_status(struct net_rpc *rpc, const struct net_fields *fields)
{
	size_t n = 0;
	const char *value = net_fields_get(fields, "grpc-status", &n);
	cairn_auto_free char *text = NULL;
	bool said_all;
	int code;

	if (!value || !grpc_status_parse(value, n, &code)) {
		grpc_rpc_io_give_up(rpc, CAIRN_UNKNOWN, "the server sent no status", false);
		return;
	}
	/* Only a response with an error may end within a message. */
	if (code == 0 && !rpc->s.discard && !grpc_deframer_idle(&rpc->s.deframer)) {
		grpc_rpc_io_give_up(rpc, CAIRN_INTERNAL, "the response ends within a message",
				    false);
		return;
	}
	value = net_fields_get(fields, "grpc-message", &n);
	if (value) {
		text = cairn_strndup(value, n);
		if (text)
			text[grpc_percent_decode(text, n, text)] = '\0';
	}
	pthread_mutex_lock(&rpc->s.lock);
	said_all = rpc->s.out_end && rpc->s.out.bytes == 0;
	pthread_mutex_unlock(&rpc->s.lock);
	grpc_rpc_io_end(rpc, code, text, false);
	if (!said_all) /* the server does not read the rest of the request */
		net_session_reset(&rpc->s, NGHTTP2_CANCEL);
}

static void keep_trailers(struct net_rpc *rpc)
{
	cairn_scoped_lock(&rpc->s.lock);
	rpc->trailers = rpc->s.fields;
	net_fields_init(&rpc->s.fields);
}

static void keep_headers(struct net_rpc *rpc)
{
	const char *encoding = net_fields_get(&rpc->s.fields, "grpc-encoding", NULL);

	cairn_scoped_lock(&rpc->s.lock);
	rpc->gzip = encoding && strcmp(encoding, "gzip") == 0;
	rpc->headers = rpc->s.fields;
	rpc->headers_here = true;
	net_outq_forget(&rpc->s.out);
	net_fields_init(&rpc->s.fields);
	pthread_cond_broadcast(&rpc->s.changed);
}

/* Ends the call with a code made from the HTTP status if the response is not a gRPC one. */
static bool refuse_http(struct net_rpc *rpc, unsigned http)
{
	size_t n = 0;
	const char *type = net_fields_get(&rpc->s.fields, "content-type", &n);
	bool grpc = type && grpc_content_type_valid(type, n);
	char text[80];

	if (http == 200 && grpc)
		return false;
	if (net_fields_get(&rpc->s.fields, "grpc-status", NULL))
		return false;
	snprintf(text, sizeof(text), "the server answered HTTP status %u%s", http,
		 grpc ? "" : " without gRPC");
	grpc_rpc_io_give_up(rpc, grpc_code_of_http(http), text, true);
	return true;
}

static unsigned http_status(const struct net_fields *fields)
{
	const char *text = net_fields_get(fields, ":status", NULL);

	return text && strlen(text) == 3
		       ? (unsigned)((text[0] - '0') * 100 + (text[1] - '0') * 10 + (text[2] - '0'))
		       : 0;
}

static void grpc_rpc_io_got_headers(struct net_stream *stream, bool is_end)
{
	struct net_rpc *rpc = net_rpc_of(stream);
	unsigned http;

	if (stream->fields_over || stream->fields_bad) {
		grpc_rpc_io_give_up(rpc, stream->fields_over ? CAIRN_NO_SPACE : CAIRN_INTERNAL,
				    stream->fields_over ? "the response's metadata is too large"
							: "metadata that is not base64",
				    true);
		return;
	}
	if (!rpc->have_headers) {
		http = http_status(&stream->fields);
		if (http >= 100 && http < 200) {
			net_fields_done(&stream->fields);
			return;
		}
		rpc->have_headers = true;
		if (refuse_http(rpc, http))
			return;
		if (!is_end) {
			keep_headers(rpc);
			return;
		}
	} else if (!is_end) {
		grpc_rpc_io_give_up(rpc, CAIRN_INTERNAL, "headers in the middle of a response",
				    true);
		return;
	}
	keep_trailers(rpc);
	end_with_status(rpc, &rpc->trailers);
}

static void peer_end(struct net_stream *stream)
{
	grpc_rpc_io_give_up(net_rpc_of(stream), CAIRN_UNKNOWN, "the server sent no status", false);
}

static bool try_again(struct net_rpc *rpc)
{
	bool ok;

	if (rpc->have_headers || rpc->retries >= RETRIES_MAX || rpc->channel->closing)
		return false;
	pthread_mutex_lock(&rpc->s.lock);
	ok = !rpc->s.over && net_stream_rewind(&rpc->s);
	pthread_mutex_unlock(&rpc->s.lock);
	if (!ok)
		return false;
	rpc->retries++;
	net_channel_route(rpc->channel, rpc);
	return true;
}

static void grpc_rpc_io_closed(struct net_stream *stream, uint32_t h2_error,
			       const struct cairn_err *why)
{
	struct net_rpc *rpc = net_rpc_of(stream);
	char text[80];

	if (h2_error == NGHTTP2_REFUSED_STREAM && try_again(rpc))
		return;
	if (why) {
		grpc_rpc_io_end(rpc,
				why->code == CAIRN_CANCELLED ? CAIRN_CANCELLED : CAIRN_UNAVAILABLE,
				why->msg, false);
		return;
	}
	/* A server whose clock notices the deadline first may reset the stream this way. */
	if (h2_error == NGHTTP2_CANCEL && cairn_monotonic_ns() >= rpc->deadline_ns) {
		grpc_rpc_io_end(rpc, CAIRN_DEADLINE, "the deadline passed", false);
		return;
	}
	snprintf(text, sizeof(text), "the server reset the call: %s",
		 nghttp2_http2_strerror(h2_error));
	grpc_rpc_io_end(rpc, grpc_code_of_h2_error(h2_error), text, false);
}

static void grpc_rpc_io_destroy(struct net_stream *stream)
{
	struct net_rpc *rpc = net_rpc_of(stream);
	struct net_channel *ch = rpc->channel;

	pthread_mutex_lock(&ch->lock);
	if (rpc->all_prev)
		rpc->all_prev->all_next = rpc->all_next;
	else
		ch->rpcs = rpc->all_next;
	if (rpc->all_next)
		rpc->all_next->all_prev = rpc->all_prev;
	pthread_mutex_unlock(&ch->lock);
	net_fields_done(&rpc->request);
	net_fields_done(&rpc->headers);
	net_fields_done(&rpc->trailers);
	net_stream_done(stream);
	free(rpc);
	net_channel_unref(ch);
}

const struct net_stream_hooks net_rpc_hooks = {
	.headers = grpc_rpc_io_got_headers,
	.peer_end = peer_end,
	.broken = grpc_rpc_io_broken,
	.service = grpc_rpc_io_service,
	.sent_all = grpc_rpc_io_sent_all,
	.closed = grpc_rpc_io_closed,
	.destroy = grpc_rpc_io_destroy,
};
