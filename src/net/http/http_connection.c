/* SPDX-License-Identifier: Apache-2.0 */

/* A connection, from its slot to the end of its thread. */

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdlib.h>
#include <unistd.h>

#include <openssl/ssl.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/lock.h"
#include "base/mem.h"
#include "base/thread.h"
#include "base/wait.h"
#include "net/http/http_impl.h"
#include "net/http/http_server_impl.h"
#include "net/limit_events.h"
#include "net/tls/tls_settings.h"

#define CROWD 64 /* connections whose memory is worth returning */

/* Limits of threads, as multiples of the limit of connections: the threads of displaced
 * connections take a moment to end. Connections of crowds wait for them only
 * THREADS_WAIT_MS, because others are queued behind them. */
#define THREADS_SLACK       3
#define THREADS_SLACK_CROWD 2
#define THREADS_WAIT_MS     20

/* A request begins or ends; false when the server wants no further one. */
static bool set_busy(struct net_http_connection *connection, bool busy)
{
	cairn_scoped_lock(&connection->server->lock);
	connection->busy = busy;
	return !connection->server->stopping;
}

/* A certificate counts only as long as its authority does. */
static void identify(struct net_http_connection *connection, struct net_http *http)
{
	struct ssl_st *ssl = connection->stream.ssl;

	if (!net_tls_trusts(connection->tls, ssl, &connection->tls_seen)) {
		net_limit_count(NET_LIMIT_CERTIFICATE);
		http->close = true;
		return;
	}
	if (net_tls_peer_subject(ssl, http->subject, sizeof(http->subject)))
		net_http_trust(http, NET_SLOT_KNOWN);
	(void)net_tls_peer_name(ssl, http->name, sizeof(http->name));
}

/* Serves the next request; false when it was the last. */
static bool serve_one(struct net_http_connection *connection, struct cairn_buf *in, bool last)
{
	struct net_http_server *server = connection->server;
	struct net_http http = {.limits = &server->limits,
				.stopping = &server->cut,
				.stream = &connection->stream,
				.shares = server->shares,
				.slot = &connection->slot,
				.in = in,
				.close = last};
	bool more;

	if (last)
		net_limit_count(NET_LIMIT_REQUESTS);
	cairn_buf_init(&http.fields, NET_HTTP_REPLY_FIELDS_MAX);
	if (connection->stream.ssl)
		identify(connection, &http);
	more = net_http_serve(&http, server->routes, server->n_routes);
	cairn_buf_done(&http.fields);
	cairn_buf_done(&http.body);
	net_http_uncharge(&http);
	return more;
}

/* Waits for the first byte of a request without being busy. */
static bool wait_request(struct net_http_connection *connection, const struct cairn_buf *in,
			 bool first)
{
	struct pollfd fd = {.fd = connection->stream.fd, .events = POLLIN};
	const struct net_http_limits *l = &connection->server->limits;
	uint64_t idle_ms = first ? l->first_ms : l->idle_ms;

	if (in->len > 0 || (connection->stream.ssl && SSL_has_pending(connection->stream.ssl)))
		return true;
	if (poll(&fd, 1, idle_ms > INT32_MAX ? INT32_MAX : (int)idle_ms) > 0)
		return true;
	net_limit_count(first ? NET_LIMIT_FIRST_BYTE_TIME : NET_LIMIT_IDLE_TIME);
	return false;
}

/* Delays unauthenticated peers that send many requests. False if the connection was
 * displaced in the meantime. */
static bool http_connection_wait_turn(struct net_http_connection *connection)
{
	struct pollfd fd = {.fd = connection->stream.fd};
	uint64_t ms = net_slot_pace(connection->server->shares, &connection->slot);

	if (ms == 0)
		return true;
	net_limit_count(NET_LIMIT_REQUEST_RATE);
	return poll(&fd, 1, (int)ms) <= 0;
}

static int http_connection_shake_hands(struct net_http_connection *connection, uint64_t until)
{
	struct net_http_server *server = connection->server;
	const struct net_slot *slot = &connection->slot;
	int rc;

	do {
		bool turn = connection->stream.ssl && net_slot_can_wait(slot);

		if (turn && !net_turns_take(&server->turns, slot->lane, &slot->displaced))
			return CAIRN_CANCELLED;
		rc = net_http_stream_accept(&connection->stream);
		if (turn)
			net_turns_give(&server->turns);
		if (rc == CAIRN_CANCELLED)
			net_http_stream_drop(&connection->stream);
		if (rc <= 0)
			return rc;
		rc = net_http_stream_wait(&connection->stream, until);
	} while (rc == 0);
	if (rc == CAIRN_DEADLINE)
		net_limit_count(NET_LIMIT_HANDSHAKE_TIME);
	return rc;
}

static void serve_all(struct net_http_connection *connection)
{
	struct net_http_server *server = connection->server;
	cairn_auto_buf struct cairn_buf in = CAIRN_BUF_INIT(server->limits.header_bytes + 16384);
	uint64_t until = cairn_after_ms(server->limits.header_ms);

	if (http_connection_shake_hands(connection, until) < 0)
		return;
	for (uint32_t left = server->limits.requests; left > 0; left--) {
		bool first = left == server->limits.requests;

		if (!wait_request(connection, &in, first) ||
		    !http_connection_wait_turn(connection) || !set_busy(connection, true) ||
		    !serve_one(connection, &in, left == 1) || !set_busy(connection, false))
			return;
		net_slot_set(&connection->slot, NET_SLOT_IDLE);
	}
}

/* True if the memory of a crowd of connections is worth returning to the system, now that
 * this connection has ended too. Called with the lock held. */
static bool is_over_peak(struct net_http_server *server)
{
	uint32_t left = server->n_connections - 1;

	if (server->peak < CROWD || left > server->peak / 4)
		return false;
	server->peak = left;
	return true;
}

/* Remove it from the list, so that its descriptor is not shut down after it was
 * reused. */
static bool http_connection_leave(struct net_http_connection *connection)
{
	struct net_http_server *server = connection->server;

	cairn_scoped_lock(&server->lock);
	net_slot_leave(server->shares, &connection->slot);
	if (connection->prev)
		connection->prev->next = connection->next;
	else
		server->connections = connection->next;
	if (connection->next)
		connection->next->prev = connection->prev;
	return is_over_peak(server);
}

/* The last access to the server for a connection: the server may be freed afterwards. */
static void count_end(struct net_http_server *server)
{
	cairn_scoped_lock(&server->lock);
	server->n_connections--;
	pthread_cond_broadcast(&server->ended);
}

/* Slow work is done without the lock: a thread of a crowd has a low priority, and
 * others would wait for it. */
static void *http_connection_run(void *arg)
{
	struct net_http_connection *connection = arg;
	struct net_http_server *server = connection->server;
	bool trim;

	serve_all(connection);
	trim = http_connection_leave(connection);
	net_http_stream_close(&connection->stream, true);
	free(connection);
	if (trim)
		net_http_server_trim(server);
	/* Free OpenSSL's per-thread data before the program may exit. */
	OPENSSL_thread_stop();
	count_end(server);
	return NULL;
}

bool net_http_start_thread(pthread_t *ret, bool detached, void *(*run)(void *), void *arg,
			   const char *name)
{
	pthread_attr_t attr;
	int rc;

	pthread_attr_init(&attr);
	if (detached)
		pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	rc = cairn_thread_start(ret, &attr, detached ? NULL : name, run, arg);
	pthread_attr_destroy(&attr);
	return rc == 0;
}

struct net_http_connection *net_http_connection_new(struct net_http_server *server, int fd,
						    struct net_tls *tls)
{
	struct net_http_connection *connection = cairn_calloc(1, sizeof(*connection));
	int one = 1;

	if (!connection)
		return NULL;
	connection->server = server;
	connection->tls = tls;
	connection->stream.fd = fd;
	connection->stream.key_updates_max = server->limits.key_updates;
	if (!net_shares_admit(server->shares, &connection->slot, fd, true)) {
		free(connection);
		return NULL;
	}
	(void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	net_http_stream_limit_unsent(&connection->stream, true);
	return connection;
}

void net_http_connection_drop(struct net_http_connection *connection)
{
	net_slot_leave(connection->server->shares, &connection->slot);
	SSL_free(connection->stream.ssl);
	close(connection->stream.fd);
	free(connection);
}

static bool http_connection_make_session(struct net_http_connection *connection)
{
	if (!connection->tls)
		return true;
	if (net_tls_session(connection->tls, NULL, &connection->stream.ssl, NULL) < 0)
		return false;
	net_http_stream_limit_updates(&connection->stream);
	SSL_set_fd(connection->stream.ssl, connection->stream.fd);
	SSL_set_mode(connection->stream.ssl, SSL_MODE_ENABLE_PARTIAL_WRITE);
	return true;
}

/* False if there are too many threads. A connection of a crowd first waits a moment for
 * some of them to end. Called with the lock held. */
static bool wait_for_threads(struct net_http_server *server, bool crowd)
{
	uint32_t slack = crowd ? THREADS_SLACK_CROWD : THREADS_SLACK;
	uint64_t until = cairn_after_ms(THREADS_WAIT_MS);

	while (server->n_connections / slack > server->limits.connections)
		if (!crowd || !cairn_cond_wait_until(&server->ended, &server->lock, until)) {
			net_limit_count(NET_LIMIT_THREADS);
			return false;
		}
	return true;
}

static bool http_connection_enlist(struct net_http_connection *connection)
{
	struct net_http_server *server = connection->server;

	cairn_scoped_lock(&server->lock);
	if (server->stopping || !wait_for_threads(server, connection->slot.crowd))
		return false;
	connection->next = server->connections;
	if (server->connections)
		server->connections->prev = connection;
	server->connections = connection;
	server->n_connections++;
	if (server->n_connections > server->peak)
		server->peak = server->n_connections;
	return true;
}

void net_http_connection_begin(struct net_http_connection *connection)
{
	struct net_http_server *server = connection->server;
	pthread_t thread;

	if (!http_connection_make_session(connection) || !http_connection_enlist(connection)) {
		net_http_connection_drop(connection);
		return;
	}
	if (net_http_start_thread(&thread, true, http_connection_run, connection, server->name))
		return;
	(void)http_connection_leave(connection);
	net_http_connection_drop(connection);
	count_end(server);
}
