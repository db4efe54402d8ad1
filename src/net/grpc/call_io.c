/* SPDX-License-Identifier: Apache-2.0 */

/* A call on its loop: from the request's headers to the handler, and from what
 * the handler wrote to frames. */

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/lock.h"
#include "base/mem.h"
#include "base/num.h"
#include "net/grpc/call_impl.h"
#include "net/grpc/grpc_text.h"
#include "net/limit_events.h"
#include "net/nv.h"
#include "net/peer.h"
#include "net/scratch.h"

#define STREAM_BYTES 1024 /* about what nghttp2 keeps for a stream */

/* --- the request --- */

static void call_io_deadline_passed(void *arg)
{
	struct net_call *call = arg;

	net_call_abort(&call->s, CAIRN_DEADLINE, "the deadline passed");
}

static bool set_deadline(struct net_call *call)
{
	size_t n;
	const char *text = net_fields_get(&call->request, "grpc-timeout", &n);
	uint64_t ns;

	if (!text)
		return true;
	if (!grpc_timeout_parse(text, n, &ns))
		return false;
	if (__builtin_add_overflow(call->started_ns, ns, &call->deadline_ns))
		call->deadline_ns = UINT64_MAX;
	net_timer_init(&call->timer, call->s.loop, call_io_deadline_passed, call);
	net_timer_set(&call->timer, ns / CAIRN_NS_PER_MS + (ns % CAIRN_NS_PER_MS != 0));
	return true;
}

/* Checks the request's fields: 0, or the call was aborted. */
static int check_fields(struct net_call *call)
{
	const struct net_fields *request = &call->request;
	size_t n;
	const char *value;

	if (call->s.fields_refused) {
		net_call_abort(&call->s, CAIRN_NO_SPACE, "too many requests wait here");
		return -1;
	}
	value = net_fields_get(request, ":method", &n);
	if (!value || strcmp(value, "POST") != 0) {
		net_call_answer_http(call, "405");
		return -1;
	}
	value = net_fields_get(request, "content-type", &n);
	if (!value || !grpc_content_type_valid(value, n)) {
		net_call_answer_http(call, "415");
		return -1;
	}
	if (call->s.fields_over) {
		net_limit_count(NET_LIMIT_HEADER_BYTES);
		net_call_abort(&call->s, CAIRN_NO_SPACE, "the request's metadata is too large");
		return -1;
	}
	if (call->s.fields_bad) {
		net_call_abort(&call->s, CAIRN_INTERNAL, "metadata that is not base64");
		return -1;
	}
	if (!set_deadline(call)) {
		net_call_abort(&call->s, CAIRN_INTERNAL, "grpc-timeout cannot be read");
		return -1;
	}
	if (call->deadline_ns == call->started_ns) { /* the method could beat a timer */
		call_io_deadline_passed(call);
		return -1;
	}
	return 0;
}

static int check_encoding(struct net_call *call)
{
	const char *value = net_fields_get(&call->request, "grpc-encoding", NULL);

	if (!value || strcmp(value, "identity") == 0)
		return 0;
	call->gzip = strcmp(value, "gzip") == 0;
	if (call->gzip)
		return 0;
	net_call_abort(&call->s, CAIRN_UNIMPLEMENTED, "grpc-encoding is neither identity nor gzip");
	return -1;
}

static int find_method(struct net_call *call)
{
	size_t n = 0;
	const char *path = net_fields_get(&call->request, ":path", &n);

	call->method = path ? net_methods_find(call->server->methods, path, n) : NULL;
	if (!call->method) {
		net_call_abort(&call->s, CAIRN_UNIMPLEMENTED, "there is no such method");
		return -1;
	}
	grpc_deframer_init(&call->s.deframer, call->method->request_max
						      ? call->method->request_max
						      : call->server->limits.message_bytes);
	return 0;
}

static struct net_part *part_of(struct net_task *task, size_t offset)
{
	return (struct net_part *)(void *)((char *)task - offset);
}

static void refuse_calls(struct net_work *list)
{
	while (list) {
		struct net_call *call =
			(struct net_call *)(void *)((char *)list - offsetof(struct net_call, work));

		list = list->next;
		net_limit_count(NET_LIMIT_QUEUED_CALLS);
		net_call_abort(&call->s, CAIRN_NO_SPACE, "too many calls wait here");
		net_stream_unref(&call->s);
	}
}

static struct net_work *take_ready(struct net_part *part)
{
	struct net_work *list = part->ready;

	part->ready = NULL;
	part->ready_tail = &part->ready;
	return list;
}

/* Submits all calls of one turn of the loop together, with one lock and at most one wake-up. */
static void call_io_hand_over(struct net_task *task)
{
	struct net_part *part = part_of(task, offsetof(struct net_part, hand_over));

	refuse_calls(net_workers_submit(part->server->workers, take_ready(part)));
}

/* --- the same by way of the first loop --- */

static void hand_over_crowd(struct net_task *task)
{
	struct net_part *part = part_of(task, offsetof(struct net_part, hand_over));

	if (part->is_passing)
		return;
	part->is_passing = true;
	part->passing = take_ready(part);
	net_loop_post(part->server->parts[0].loop, &part->pass);
}

static void call_io_pass(struct net_task *task)
{
	struct net_part *part = part_of(task, offsetof(struct net_part, pass));

	part->passing = net_workers_submit(part->server->workers, part->passing);
	net_loop_post(part->loop, &part->passed);
}

static void call_io_passed(struct net_task *task)
{
	struct net_part *part = part_of(task, offsetof(struct net_part, passed));

	part->is_passing = false;
	refuse_calls(part->passing);
	if (part->ready)
		hand_over_crowd(&part->hand_over);
}

void net_call_part_init(struct net_part *part, bool crowd)
{
	part->hand_over.run = crowd ? hand_over_crowd : call_io_hand_over;
	part->pass.run = call_io_pass;
	part->passed.run = call_io_passed;
	part->ready_tail = &part->ready;
}

static void call_io_dispatch(struct net_call *call)
{
	struct net_part *part = call->s.conn->owner;

	call->dispatched = true;
	call->s.request_by_ns = 0;
	net_stream_ref(&call->s);
	if (call->method->quick) {
		net_call_run(&call->work);
		return;
	}
	if (!part->ready)
		net_loop_late(part->loop, &part->hand_over);
	call->work.next = NULL;
	*part->ready_tail = &call->work;
	part->ready_tail = &call->work.next;
}

static bool one_request(const struct net_call *call)
{
	return call->method->kind == NET_UNARY || call->method->kind == NET_SERVER_STREAM;
}

static void request_ended(struct net_stream *stream)
{
	struct net_call *call = net_call_of(stream);
	unsigned messages = 0;

	if (call->answered || !call->method)
		return;
	if (!grpc_deframer_idle(&stream->deframer)) {
		net_call_abort(stream, CAIRN_INTERNAL, "the request ends within a message");
		return;
	}
	pthread_mutex_lock(&stream->lock);
	stream->in_end = true;
	for (struct net_msg *msg = stream->in_head; msg && messages < 2; msg = msg->next)
		messages++;
	pthread_cond_broadcast(&stream->changed);
	pthread_mutex_unlock(&stream->lock);
	if (call->dispatched)
		return;
	if (messages != 1)
		net_call_abort(stream, CAIRN_INTERNAL, "the method takes exactly one message");
	else
		call_io_dispatch(call);
}

static void got_request(struct net_stream *stream, bool end)
{
	struct net_call *call = net_call_of(stream);

	if (call->have_request) { /* trailers of a client have no meaning in gRPC */
		if (end)
			request_ended(stream);
		return;
	}
	call->have_request = true;
	call->request = stream->fields;
	net_fields_init(&stream->fields);
	stream->fields_held = 0;
	if (check_fields(call) != 0 || find_method(call) != 0 || check_encoding(call) != 0)
		return;
	if (!one_request(call))
		call_io_dispatch(call);
	else
		stream->request_by_ns =
			call->started_ns + call->server->limits.request_ms * CAIRN_NS_PER_MS;
	if (end)
		request_ended(stream);
}

/* --- the other hooks --- */

static void call_io_service(struct net_stream *stream)
{
	struct net_call *call = net_call_of(stream);
	bool finished, want_headers, have_data;

	if (!stream->conn)
		return;
	net_session_credit(stream);
	if (call->answered)
		return;
	pthread_mutex_lock(&stream->lock);
	finished = call->finished;
	want_headers = call->want_headers;
	have_data = stream->out.bytes > 0;
	pthread_mutex_unlock(&stream->lock);
	if (!call->headers_sent && finished && !want_headers && !have_data)
		net_call_answer_whole(call, call->status, call->message, true);
	else if (!call->headers_sent && (finished || want_headers || have_data))
		net_call_submit_headers(call);
	else
		net_session_resume(stream);
	if (stream->conn)
		net_conn_want_flush(stream->conn);
}

static void call_io_sent_all(struct net_stream *stream, uint32_t *flags)
{
	struct net_call *call = net_call_of(stream);

	*flags |= NGHTTP2_DATA_FLAG_NO_END_STREAM;
	if (!call->answered)
		net_call_answer_trailers(call, call->status, call->message, true);
}

static void call_io_closed(struct net_stream *stream, uint32_t h2_error,
			   const struct cairn_err *why)
{
	struct net_call *call = net_call_of(stream);

	(void)h2_error;
	(void)why;
	net_timer_done(&call->timer);
	net_stream_set_over(stream, CAIRN_CANCELLED, "the caller is gone", true);
}

static bool call_io_charge(struct net_call *call, size_t n)
{
	if (!net_peer_charge(call->peer, n))
		return false;
	call->charged += n;
	return true;
}

static bool fields_grew(struct net_stream *stream, size_t more)
{
	return call_io_charge(net_call_of(stream), more);
}

static void call_io_destroy(struct net_stream *stream)
{
	struct net_call *call = net_call_of(stream);
	struct net_server *server = call->server;

	net_peer_uncharge(call->peer, call->charged);

	net_fields_done(&call->request);
	net_fields_done(&call->headers);
	net_fields_done(&call->trailers);
	net_peer_unref(call->peer);
	free(call->details);
	free(call->message);
	net_stream_done(stream);
	free(call);
	atomic_fetch_sub(&server->calls_open, 1);
	net_server_went_quiet(server);
}

static const struct net_stream_hooks call_hooks = {
	.fields_grew = fields_grew,
	.headers = got_request,
	.peer_end = request_ended,
	.broken = net_call_abort,
	.service = call_io_service,
	.sent_all = call_io_sent_all,
	.closed = call_io_closed,
	.destroy = call_io_destroy,
};

struct net_stream *net_call_new_stream(struct net_conn *conn)
{
	struct net_part *part = conn->owner;
	struct net_server *server = part->server;
	struct net_call *call = cairn_calloc(1, sizeof(*call));

	if (!call)
		return NULL;
	net_stream_init(&call->s, &call_hooks, conn->loop, &server->account);
	call->s.recv_max = server->limits.stream_recv_bytes;
	call->s.send_max = server->limits.stream_send_bytes;
	call->server = server;
	call->peer = net_peer_ref(conn->peer);
	/* Charge the usual fields together with the call, to save a second update of the
	 * counters. */
	call->s.fields_held = NET_FIELDS_FIRST_BYTES;
	if (!call_io_charge(call, sizeof(*call) + STREAM_BYTES + NET_FIELDS_FIRST_BYTES)) {
		net_peer_unref(call->peer);
		net_stream_done(&call->s);
		free(call);
		return NULL;
	}
	call->work.run = net_call_run;
	call->started_ns = cairn_monotonic_ns();
	call->deadline_ns = UINT64_MAX;
	net_fields_init(&call->request);
	net_fields_init(&call->headers);
	net_fields_init(&call->trailers);
	atomic_fetch_add(&server->calls_open, 1);
	atomic_fetch_add(&server->calls_total, 1);
	return &call->s;
}
