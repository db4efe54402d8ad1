/* SPDX-License-Identifier: Apache-2.0 */

/* Internals of a call: call.c is the handler's side, call_io.c the loop's. */
#ifndef CAIRN_NET_CALL_IMPL_H
#define CAIRN_NET_CALL_IMPL_H

#include "net/grpc/call.h"
#include "net/grpc/grpc_server_impl.h"

struct net_call {
	struct net_stream s; /* first: a call is its stream */
	struct net_work work;
	struct net_server *server;
	const struct net_method *method;
	struct net_shared_peer *peer;
	struct net_fields request;
	size_t charged; /* to the peer, for the memory of the call and its fields */
	uint64_t started_ns, deadline_ns;
	bool gzip; /* from grpc-encoding */

	/* Written by the handler, read by the loop after it was notified. */
	struct net_fields headers, trailers;
	uint8_t *details;
	size_t details_len;
	uint64_t sent;

	/* Guarded by s.lock. */
	bool want_headers;
	bool finished;
	int status; /* negative code */
	char *message;

	/* Only on the loop's thread. */
	struct net_timer timer;
	bool have_request;
	bool dispatched;
	bool headers_sent;
	size_t refusal_sent; /* bytes sent of the response to a request that is not gRPC */
	bool answered;
};

static inline struct net_call *net_call_of(struct net_stream *stream)
{
	return (struct net_call *)stream;
}

/* call_answer.c: all on the loop's thread, with a connection. Sends everything
 * in one header block, or as trailers. The handler's own fields are left out
 * while it still runs, because it may be writing them. */
void net_call_answer_whole(struct net_call *call, int code, const char *text, bool with_fields);
void net_call_answer_trailers(struct net_call *call, int code, const char *text, bool with_fields);
/* Sends the response headers; messages follow. */
void net_call_submit_headers(struct net_call *call);
/* Answers a request that is not a gRPC call. */
void net_call_answer_http(struct net_call *call, const char *status);

/* Ends a wait of the handler: a sleep as net_call_wake() does, and a wait for a message as if
 * the peer had sent its last one. From any thread. */
void net_call_interrupt(struct net_call *call);

/* Runs the handler; on a worker thread, or the loop's for a quick method. */
void net_call_run(struct net_work *work);

#endif
