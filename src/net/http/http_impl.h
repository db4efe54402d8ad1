/* SPDX-License-Identifier: Apache-2.0 */

/* Internal header of the HTTP/1.1 server: http.c (listeners and connections),
 * http_request.c (one request), http_reply.c (its answer). */
#ifndef CAIRN_NET_HTTP_IMPL_H
#define CAIRN_NET_HTTP_IMPL_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "net/http/http_head.h"
#include "net/http/http_server.h"
#include "net/http/http_stream.h"

#define NET_HTTP_ROUTES_MAX 64

/* Fields that a handler adds to one reply, in bytes. */
#define NET_HTTP_REPLY_FIELDS_MAX 8192

/* One request on its connection. */
struct net_http {
	const struct net_http_limits *limits;
	const atomic_bool *stopping;
	struct net_http_stream *stream;
	struct net_shares *shares;
	struct net_slot *slot; /* of the connection */
	struct cairn_buf *in;  /* received bytes; the head is parsed in place */
	struct net_http_head head;
	struct cairn_buf body;
	struct net_share *share; /* that `charged` bytes of the body were charged to */
	size_t charged;
	char peer[64];     /* its address; "" until first requested */
	char subject[256]; /* "" without a certificate */
	char name[256];    /* the subject's common name, or "" */

	struct cairn_buf fields; /* of the reply */
	bool begun;              /* the reply's head was sent */
	bool streaming, chunked; /* how its body is sent */
	bool close;              /* the connection ends after it */
	int broken;              /* a code once writing has failed */
};

/* Serves one request that begins in `http->in` or is yet to arrive. True when
 * the connection may continue with the next. */
bool net_http_serve(struct net_http *http, const struct net_http_route *routes, size_t n_routes);

/* Releases what the request's body was charged. */
void net_http_uncharge(struct net_http *http);

/* Answers a request that never reached a handler, and requests that the
 * connection be closed. */
void net_http_refuse(struct net_http *http, int status, const char *text);

/* Ends a streamed body. */
int net_http_finish(struct net_http *http);

#endif
