/* SPDX-License-Identifier: Apache-2.0 */

/* HTTP/1.1 server: health, metrics, webhooks and REST.
 *
 * A connection has a thread while it is open and its handlers are sequential
 * code that may block; a slow peer slows down only its own handler. The
 * requests served this way are few (probes, scrapes, an API server's webhooks),
 * so threads cost less than a second kind of event code would, and each limit
 * below can be enforced exactly: libevent's HTTP server can neither bound the
 * time of a whole request head nor count connections.
 *
 * A server is created, given its routes and listeners, started, drained and
 * freed, all from one thread. `struct net_http` is one request and belongs to
 * its handler.
 */
#ifndef CAIRN_NET_HTTP_H
#define CAIRN_NET_HTTP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"
#include "net/shares.h"

struct cairn_err;
struct net_http;
struct net_http_server;
struct net_tls;

/* A field left 0 takes its default; times are milliseconds. */
struct net_http_limits {
	uint32_t connections;      /* open at once; net/shares.h says which one a further one
	                          displaces. Idle connections, threads. 256 */
	uint32_t connections_each; /* of one peer address (IPv6: /64). One address locking the
	                          others out. A quarter of the above */
	uint32_t handshakes_burst; /* new connections of one peer address at once; more are closed
	                          on accept. Private key operations, threads. 512 */
	uint32_t handshakes_per_second; /* and how fast that refills. 64 */
	uint32_t requests_burst;        /* of the strangers of one address at once; more are put
	                          off. Cheap requests in large numbers. 256 */
	uint32_t requests_per_second;   /* and how fast that refills. 64 */
	uint32_t key_updates;           /* TLS key updates of one connection. 32 */
	uint32_t requests;     /* on one connection; the last reply says that it closes. One peer
	                          keeping its place for ever. 10000 */
	uint32_t header_bytes; /* of a request's head. Header bomb. 16 KiB */
	size_t body_bytes;     /* of a request's body, unless its route says more. 1 MiB */
	size_t request_bytes;  /* bodies of all requests beyond their first 16 KiB; more are
	                          refused with 503. Strangers get three quarters. Bodies on many
	                          connections. 32 MiB */
	size_t request_bytes_each; /* the same, of one peer address. 8 MiB */
	uint64_t header_ms;        /* from accept to the end of the TLS handshake; from the first
	                          byte of a head to its last. Slow headers. 10 s */
	uint64_t first_ms;         /* from the handshake or accept to the first byte of a request.
	                          Silent connections. 5 s */
	uint64_t body_ms;          /* for a whole body. Slow body. 60 s */
	uint64_t idle_ms;          /* between requests. Idle connections. Longer than the 90 s of
	                          Go's clients, API servers among them: who closes second never
	                          closes under a request that is on its way. 120 s */
	uint64_t stall_ms;         /* a peer that takes nothing of a reply. Slow reader. 30 s */
};

/* Answers with one of the net_http_reply functions and returns 0. If it returns a
 * negative code without having answered, the peer gets the HTTP status of that
 * code with err->msg. If it has begun to stream, the connection is aborted, so
 * that the peer cannot mistake a part for the whole. */
typedef int (*net_http_handler)(struct net_http *http, void *arg, struct cairn_err *err);

struct net_http_route {
	const char *method; /* "GET" also serves HEAD; NULL is any */
	const char *path;   /* "/healthz"; with a trailing "/" also everything below it */
	net_http_handler handler;
	void *arg;
	size_t body_max; /* 0 takes limits.body_bytes */
};

struct net_http_options {
	const char *name; /* of the threads, at most 8 bytes; NULL is "http" */
	struct net_http_limits limits;
};

int net_http_server_new(const struct net_http_options *options, struct net_http_server **ret,
			struct cairn_err *err);

/* Aborts all connections and frees the server; waits for running handlers,
 * whose next write fails. Accepts NULL. */
void net_http_server_free(struct net_http_server *server);
CAIRN_DEFINE_CLEANUP(struct net_http_server, net_http_server_free);

/* Call before the start. Strings are borrowed for the server's life. A request
 * goes to the route with the longest matching path. */
int net_http_server_add(struct net_http_server *server, const struct net_http_route *routes,
			size_t n, struct cairn_err *err);

/* Listens on "host:port" with a literal host, or an empty one for all
 * addresses; port 0 picks a free one. `tls` (with http1 set) is borrowed for
 * the server's life; NULL is plain HTTP, which for probes and scrapes is
 * allowed on every address. */
int net_http_server_listen(struct net_http_server *server, const char *address, struct net_tls *tls,
			   uint16_t *ret_port, struct cairn_err *err);

int net_http_server_start(struct net_http_server *server, struct cairn_err *err);

/* From any thread; for metrics. */
void net_http_server_stats(struct net_http_server *server, struct net_shares_stats *ret);

/* Stops listening, closes idle connections, waits up to `grace_ms` for requests
 * to end, then aborts the remaining ones and returns their number. */
unsigned net_http_server_drain(struct net_http_server *server, uint64_t grace_ms);

/* The request; texts are borrowed until the handler returns. */
const char *net_http_method(const struct net_http *http);
const char *net_http_path(const struct net_http *http);  /* decoded */
const char *net_http_query(const struct net_http *http); /* as it was sent */

/* A field by its lower-case name; NULL when absent. */
const char *net_http_field(const struct net_http *http, const char *name);

/* The i-th field of the request, in the order sent, the name in lower case;
 * false when there are no more. For fields that may occur several times. */
bool net_http_field_at(const struct net_http *http, size_t i, const char **ret_name,
		       const char **ret_value);
const void *net_http_body(const struct net_http *http, size_t *ret_len);

/* Address of the peer: "10.0.0.7:5123", "[fd00::7]:5123"; "" when the peer has
 * disconnected. */
const char *net_http_peer(struct net_http *http);

/* Declares that the peer has authenticated, or is a probe, which decides
 * whether its connection is displaced when there are too many (net/shares.h). A
 * verified certificate is recognised without this call. */
void net_http_trust(struct net_http *http, enum net_slot_trust trust);

/* The certificate's common name; NULL without one, or when it has several. */
const char *net_http_tls_name(const struct net_http *http);

/* True if the peer's certificate is signed by one of these authorities (PEM) now:
 * they may have changed since the connection was established. */
bool net_http_tls_verify(const struct net_http *http, const char *ca_pem);

/* Adds a field to the reply, before it is sent.
 *
 * CAIRN_INVALID       not a legal name or value
 * CAIRN_PRECONDITION  the reply has begun
 */
int net_http_add_field(struct net_http *http, const char *name, const char *value,
		       struct cairn_err *err);

/* Sends a whole reply. */
int net_http_reply(struct net_http *http, int status, const char *type, const void *body, size_t n,
		   struct cairn_err *err);
int net_http_reply_text(struct net_http *http, int status, const char *text, struct cairn_err *err);

/* Sends the head of a reply of unknown length, then pieces of it; each blocks
 * until the peer has taken enough. The reply ends when the handler returns 0.
 *
 * CAIRN_CANCELLED  the peer has disconnected or the server stops
 * CAIRN_DEADLINE   the peer accepted no bytes for stall_ms
 */
int net_http_begin(struct net_http *http, int status, const char *type, struct cairn_err *err);
int net_http_write(struct net_http *http, const void *data, size_t n, struct cairn_err *err);

/* 0 while the peer still waits for the reply, else CAIRN_CANCELLED. */
int net_http_check(struct net_http *http);

/* The HTTP status for a negative code. */
int net_http_status_of(int code);

#endif
