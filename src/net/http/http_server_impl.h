/* SPDX-License-Identifier: Apache-2.0 */

/* Internal header of the HTTP/1.1 server's connections: http_server.c (start and end),
 * http_acceptor.c (listeners), http_lobby.c (crowds before their first byte), http_connection.c
 * (the thread of a connection). */
#ifndef CAIRN_NET_HTTP_SERVER_IMPL_H
#define CAIRN_NET_HTTP_SERVER_IMPL_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "net/http/http_acceptor.h"
#include "net/http/http_impl.h"
#include "net/shares.h"
#include "net/turns.h"

#define NET_HTTP_NAME_MAX_BYTES 8

struct net_http_lobby;
struct net_tls;

/* An open connection; in the server's list while it has a thread, which removes it, or in the
 * lobby before. */
struct net_http_connection {
	struct net_http_connection *prev, *next;
	struct net_http_server *server;
	struct net_tls *tls;
	uint64_t tls_seen; /* for net_tls_trusts() */
	struct net_http_stream stream;
	struct net_slot slot;
	uint64_t lobby_until_ns;
	bool busy; /* between the first byte of a request and the end of its reply */
};

struct net_http_server {
	/* Constant after the start. */
	char name[NET_HTTP_NAME_MAX_BYTES + 1];
	struct net_http_limits limits;
	struct net_http_route routes[NET_HTTP_ROUTES_MAX];
	size_t n_routes;
	struct net_shares *shares;
	struct net_http_lobby *lobby;
	struct net_turns turns; /* handshakes of crowds take turns */

	struct net_http_acceptor acceptor;
	atomic_bool trim;     /* for the acceptor: return memory to the system */
	atomic_bool stopping; /* no further request */
	atomic_bool cut;      /* no further byte */

	pthread_mutex_t lock; /* guards what follows */
	pthread_cond_t ended;
	struct net_http_connection *connections;
	uint32_t n_connections; /* counts threads: those of displaced connections may still run */
	uint32_t peak;          /* since memory was last returned to the system */
};

/* Gives the socket a slot; NULL when it is to be closed. */
struct net_http_connection *net_http_connection_new(struct net_http_server *server, int fd,
						    struct net_tls *tls);

/* Frees a connection that has no thread. */
void net_http_connection_drop(struct net_http_connection *connection);

/* Gives the connection a thread. Closes it if there are too many threads or memory is short. */
void net_http_connection_begin(struct net_http_connection *connection);

/* Asks the acceptor to return memory to the system. */
void net_http_server_trim(struct net_http_server *server);

/* Starts a thread with all signals blocked. */
bool net_http_start_thread(pthread_t *ret, bool detached, void *(*run)(void *), void *arg,
			   const char *name);

#endif
