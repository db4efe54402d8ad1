/* SPDX-License-Identifier: Apache-2.0 */

/* gRPC server.
 *
 * I/O threads own the connections; a method's handler runs on a worker thread
 * as sequential code with the call.h interface and may block. A server is
 * created, given its methods and listeners, started, drained and freed, all
 * from one thread; handlers run on many. Methods are served by exact path.
 *
 * The handler's return value becomes the grpc-status: 0 is OK, a negative code
 * is its gRPC code with err->msg as the message.
 */
#ifndef CAIRN_NET_SERVER_H
#define CAIRN_NET_SERVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"
#include "net/limits.h"

struct cairn_err;
struct net_call;
struct net_loop;
struct net_server;
struct net_tls;

enum net_kind {
	NET_UNARY,
	NET_SERVER_STREAM,
	NET_CLIENT_STREAM,
	NET_BIDI,
};

/* Unary and server-streaming handlers start when the whole request has arrived;
 * the other two when the headers have. */
typedef int (*net_handler)(struct net_call *call, void *arg, struct cairn_err *err);

struct net_method {
	const char *path; /* "/package.Service/Method"; borrowed for the server's life */
	enum net_kind kind;
	net_handler handler;
	void *arg;
	size_t request_max; /* bytes of one message; 0 takes limits.message_bytes */
	bool quick;         /* the handler never blocks and is short: it runs on the I/O thread.
	                       Only for unary methods */
};

struct net_server_options {
	const char *name;    /* of the threads, at most 8 bytes; NULL is "grpc" */
	unsigned io_threads; /* 0 is 1; crowds have one more */
	bool authenticates;  /* handlers call net_call_trust(), and a peer is a stranger until then;
			      * otherwise it is a stranger until it speaks HTTP/2 */
	struct net_limits limits;
};

int net_server_new(const struct net_server_options *options, struct net_server **ret,
		   struct cairn_err *err);

/* Ends all calls at once (as net_server_drain() without grace) and frees the
 * server. Waits for running handlers, which see CAIRN_CANCELLED. Accepts
 * NULL. */
void net_server_free(struct net_server *server);
CAIRN_DEFINE_CLEANUP(struct net_server, net_server_free);

/* Adds `n` methods, before the start. The structs are copied.
 *
 * CAIRN_EXISTS   the path already has a handler
 * CAIRN_INVALID  not "/service/method"
 */
int net_server_add(struct net_server *server, const struct net_method *methods, size_t n,
		   struct cairn_err *err);

/* Listens on a unix socket whose file gets `mode`. A socket file without a
 * listening process is replaced; a live one, or a file of another kind, is left
 * alone.
 *
 * CAIRN_EXISTS   another process listens there, or it is not a socket
 * CAIRN_INVALID  the path is too long for a socket
 */
int net_server_listen_unix(struct net_server *server, const char *path, unsigned mode,
			   struct cairn_err *err);

/* Listens on `address`, "host:port" with a literal IPv4 or [IPv6] host or an
 * empty one for all addresses; port 0 picks a free one. `tls` is borrowed for
 * the server's life; NULL speaks cleartext HTTP/2 (prior knowledge) and is
 * allowed on loopback only. *ret_port may be NULL.
 *
 * CAIRN_INVALID  not an address of that form, or cleartext beyond loopback
 */
int net_server_listen_tcp(struct net_server *server, const char *address, struct net_tls *tls,
			  uint16_t *ret_port, struct cairn_err *err);

/* Begins to accept. Connections that arrived since the listen call wait in the
 * backlog. */
int net_server_start(struct net_server *server, struct cairn_err *err);

/* Stops listening, sends GOAWAY (twice, as HTTP/2 requires), waits up to
 * `grace_ms` for calls to end, then cancels the remaining ones with
 * UNAVAILABLE. Returns their number when every handler has returned, so objects
 * used by handlers may then be freed. The health service reports NOT_SERVING
 * from the beginning of a drain. */
unsigned net_server_drain(struct net_server *server, uint64_t grace_ms);

/* Sets the state that grpc.health.v1.Health reports for a service ("" is the
 * server itself, which is SERVING from the start). An unknown service is
 * NOT_FOUND. From any thread. Every server has the health service. */
int net_server_set_serving(struct net_server *server, const char *service, bool serving,
			   struct cairn_err *err);

/* Serves grpc.reflection.v1 (and v1alpha, for older tools) from a serialized
 * FileDescriptorSet, borrowed for the server's life. Before start. */
int net_server_add_reflection(struct net_server *server, const void *descriptor_set, size_t n,
			      struct cairn_err *err);

/* The loop that owns the i-th part of the connections; a relay is cheapest
 * when its channel lives on the same loop. There are net_server_loops() of them:
 * the last one has the connections of crowds (net/shares.h) and a lower priority. */
struct net_loop *net_server_loop(struct net_server *server, unsigned i);
unsigned net_server_loops(const struct net_server *server);

struct net_server_stats {
	uint64_t connections_open, connections_total;
	uint64_t connections_refused, connections_displaced; /* net/shares.h */
	uint64_t request_bytes, requests_refused;
	uint64_t calls_open, calls_total, calls_failed; /* failed: any status but OK */
	uint64_t bytes_buffered;
	uint64_t peers_calmed; /* connections closed with ENHANCE_YOUR_CALM */
};

/* From any thread; the values are read one by one. */
void net_server_stats(const struct net_server *server, struct net_server_stats *ret);

/* Called on a worker thread after the end of each call; for metrics and access
 * logs. `code` is the gRPC code sent, 0 and up. Set it before the start. */
void net_server_on_call_end(struct net_server *server,
			    void (*seen)(void *arg, const char *path, int code,
					 uint64_t duration_ns),
			    void *arg);

#endif
