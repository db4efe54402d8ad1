/* SPDX-License-Identifier: Apache-2.0 */

/* A call's answers as header blocks, on its loop. */

#include <string.h>

#include "base/base64.h"
#include "base/num.h"
#include "net/grpc/call_impl.h"
#include "net/grpc/grpc_text.h"
#include "net/nv.h"

static const char accepted_encodings[] = "identity,gzip";

static void add_status(struct net_nv *nv, int code, const char *text, char digits[24])
{
	digits[cairn_format_u64((uint64_t)-code, digits)] = '\0';
	net_nv_add(nv, "grpc-status", digits);
	if (code != 0 && text && *text)
		net_nv_add_percent(nv, "grpc-message", text);
}

/* Percent-encoding makes three characters of a byte at most. */
static size_t status_room(const struct net_call *call, const char *text)
{
	return (text ? strlen(text) * 3 : 0) + cairn_base64_length(call->details_len);
}

static void call_answer_add_details(struct net_nv *nv, const struct net_call *call, int code)
{
	if (code != 0 && call->details)
		net_nv_add_base64(nv, "grpc-status-details-bin", call->details, call->details_len);
}

/* Without this reset a client whose answer could not be made would wait for ever. */
static void call_answer_gave_up(struct net_call *call, int rc)
{
	if (rc == 0 || !call->s.conn)
		return;
	net_session_reset(&call->s, NGHTTP2_INTERNAL_ERROR);
}

/* gRPC's "Trailers-Only": one HEADERS frame is the whole response. */
void net_call_answer_whole(struct net_call *call, int code, const char *text, bool with_fields)
{
	const struct net_fields *headers = with_fields ? &call->headers : NULL;
	const struct net_fields *trailers = with_fields ? &call->trailers : NULL;
	struct net_nv nv;
	char digits[24];
	int rc = NGHTTP2_ERR_NOMEM;

	net_nv_init(&nv, headers, trailers,
		    with_fields ? status_room(call, text) : strlen(text) * 3);
	net_nv_add(&nv, ":status", "200");
	net_nv_add(&nv, "content-type", "application/grpc");
	if (code == CAIRN_UNIMPLEMENTED)
		net_nv_add(&nv, "grpc-accept-encoding", accepted_encodings);
	add_status(&nv, code, text, digits);
	if (with_fields) {
		call_answer_add_details(&nv, call, code);
		net_nv_add_fields(&nv, headers);
		net_nv_add_fields(&nv, trailers);
	}
	if (!nv.failed)
		rc = nghttp2_submit_response(call->s.conn->session, call->s.id, nv.v, nv.n, NULL);
	net_nv_done(&nv);
	call->headers_sent = call->answered = true;
	call_answer_gave_up(call, rc);
}

void net_call_answer_trailers(struct net_call *call, int code, const char *text, bool with_fields)
{
	const struct net_fields *trailers = with_fields ? &call->trailers : NULL;
	struct net_nv nv;
	char digits[24];
	int rc = NGHTTP2_ERR_NOMEM;

	net_nv_init(&nv, trailers, NULL,
		    with_fields ? status_room(call, text) : (text ? strlen(text) * 3 : 0));
	add_status(&nv, code, text, digits);
	if (with_fields) {
		call_answer_add_details(&nv, call, code);
		net_nv_add_fields(&nv, trailers);
	}
	if (!nv.failed)
		rc = nghttp2_submit_trailer(call->s.conn->session, call->s.id, nv.v, nv.n);
	net_nv_done(&nv);
	call->answered = true;
	call_answer_gave_up(call, rc);
}

static const char not_grpc[] = "this server speaks gRPC only\n";

static ssize_t read_not_grpc(nghttp2_session *session, int32_t id, uint8_t *buf, size_t n,
			     uint32_t *flags, nghttp2_data_source *source, void *arg)
{
	struct net_call *call = source->ptr;
	size_t left = sizeof(not_grpc) - 1 - call->refusal_sent;

	(void)session;
	(void)id;
	(void)arg;
	if (n > left)
		n = left;
	memcpy(buf, not_grpc + call->refusal_sent, n);
	call->refusal_sent += n;
	if (n == left)
		*flags |= NGHTTP2_DATA_FLAG_EOF;
	return (ssize_t)n;
}

/* For clients that do not speak gRPC: a status and a readable sentence. */
void net_call_answer_http(struct net_call *call, const char *status)
{
	nghttp2_data_provider source = {.source.ptr = call, .read_callback = read_not_grpc};
	struct net_nv nv;
	int rc;

	net_nv_init(&nv, NULL, NULL, 0);
	net_nv_add(&nv, ":status", status);
	net_nv_add(&nv, "content-type", "text/plain");
	rc = nghttp2_submit_response(call->s.conn->session, call->s.id, nv.v, nv.n, &source);
	net_nv_done(&nv);
	call->s.discard = true;
	call->headers_sent = call->answered = true;
	net_stream_set_over(&call->s, CAIRN_CANCELLED, "refused", true);
	atomic_fetch_add(&call->server->calls_failed, 1);
	call_answer_gave_up(call, rc);
	net_conn_want_flush(call->s.conn);
}

void net_call_submit_headers(struct net_call *call)
{
	nghttp2_data_provider source = {.source.ptr = &call->s, .read_callback = net_session_read};
	struct net_nv nv;
	int rc = NGHTTP2_ERR_NOMEM;

	net_nv_init(&nv, &call->headers, NULL, 0);
	net_nv_add(&nv, ":status", "200");
	net_nv_add(&nv, "content-type", "application/grpc");
	net_nv_add(&nv, "grpc-accept-encoding", accepted_encodings);
	net_nv_add_fields(&nv, &call->headers);
	if (!nv.failed)
		rc = nghttp2_submit_response(call->s.conn->session, call->s.id, nv.v, nv.n,
					     &source);
	net_nv_done(&nv);
	call->headers_sent = true;
	call_answer_gave_up(call, rc);
}

void net_call_abort(struct net_stream *stream, int code, const char *text)
{
	struct net_call *call = net_call_of(stream);

	net_stream_set_over(stream, code, text, true);
	if (call->answered || !stream->conn)
		return;
	if (!call->dispatched)
		atomic_fetch_add(&call->server->calls_failed, 1);
	if (call->headers_sent)
		net_call_answer_trailers(call, code, text, false);
	else
		net_call_answer_whole(call, code, text, false);
	if (stream->conn)
		net_conn_want_flush(stream->conn);
}
