/* SPDX-License-Identifier: Apache-2.0 */

#include "net/http/http_server.h"

#include <errno.h>
#include <malloc.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <openssl/ssl.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/lock.h"
#include "base/mem.h"
#include "net/address.h"
#include "net/http/http_impl.h"
#include "net/loop.h"
#include "net/tls/tls_settings.h"
#include "net/turns.h"

#define LISTENERS_MAX  4
#define LISTEN_BACKLOG SOMAXCONN /* a dropped SYN costs an honest peer a second */
#define NAME_MAX_BYTES 8
#define CROWD          64 /* connections whose memory is worth returning */

/* Limits of threads, as multiples of the limit of connections: the threads of displaced
 * connections take a moment to end. Connections of crowds wait for them only
 * THREADS_WAIT_MS, because others are queued behind them. */
#define THREADS_SLACK       3
#define THREADS_SLACK_CROWD 2
#define THREADS_WAIT_MS     20

/* An open connection. Its thread removes it from the list. A connection of a crowd is in
 * the list `waiting` until it gets a thread. */
struct connection {
	struct connection *prev, *next;
	struct net_http_server *server;
	struct net_tls *tls;
	struct net_http_stream stream;
	struct net_slot slot;
	bool busy; /* between the first byte of a request and the end of its reply */
};

struct listener {
	int fd;
	struct net_tls *tls;
};

struct net_http_server {
	/* Constant after the start. */
	char name[NAME_MAX_BYTES + 1];
	struct net_http_limits limits;
	struct net_http_route routes[NET_HTTP_ROUTES_MAX];
	size_t n_routes;
	struct listener listeners[LISTENERS_MAX];
	size_t n_listeners;
	struct net_shares *shares;
	struct net_turns turns; /* handshakes of crowds take turns */
	int stop_fd;
	pthread_t acceptor;
	pthread_t starter; /* starts the threads of crowds' connections */
	bool started, starter_runs;

	atomic_bool stopping; /* no further request */
	atomic_bool cut;      /* no further byte */

	pthread_mutex_t lock; /* guards what follows */
	pthread_cond_t ended;
	pthread_cond_t crowded; /* a connection waits, or the server stops */
	struct connection *waiting, **waiting_tail;
	bool starter_ends;
	struct connection *connections;
	uint32_t n_connections; /* counts threads: those of displaced connections may still run */
	uint32_t peak;          /* since memory was last returned to the system */
};

static void set_defaults(struct net_http_limits *l)
{
	l->connections = l->connections ? l->connections : 256;
	if (!l->connections_each)
		l->connections_each = l->connections > 4 ? l->connections / 4 : 1;
	l->handshakes_burst = l->handshakes_burst ? l->handshakes_burst : 512;
	l->handshakes_per_second = l->handshakes_per_second ? l->handshakes_per_second : 64;
	l->requests_burst = l->requests_burst ? l->requests_burst : 1000;
	l->requests_per_second = l->requests_per_second ? l->requests_per_second : 200;
	l->key_updates = l->key_updates ? l->key_updates : 100;
	l->requests = l->requests ? l->requests : 10000;
	l->header_bytes = l->header_bytes ? l->header_bytes : 16U << 10;
	l->body_bytes = l->body_bytes ? l->body_bytes : 1U << 20;
	l->header_ms = l->header_ms ? l->header_ms : 10000;
	l->body_ms = l->body_ms ? l->body_ms : 60000;
	l->idle_ms = l->idle_ms ? l->idle_ms : 120000;
	if (!l->first_ms)
		l->first_ms = l->idle_ms < 5000 ? l->idle_ms : 5000;
	l->stall_ms = l->stall_ms ? l->stall_ms : 30000;
}

static int http_server_make_shares(struct net_http_server *server, struct cairn_err *err)
{
	const struct net_http_limits *l = &server->limits;
	/* Few peers of this server ever authenticate, so strangers have no lower
	 * limit. */
	const struct net_shares_limits limits = {
		.connections = l->connections,
		.connections_each = l->connections_each,
		.strangers = l->connections,
		.strangers_each = l->connections_each,
		.handshakes_burst = l->handshakes_burst,
		.handshakes_per_second = l->handshakes_per_second,
		.requests_burst = l->requests_burst,
		.requests_per_second = l->requests_per_second,
	};

	return net_shares_new(&limits, &server->shares, err);
}

int net_http_server_new(const struct net_http_options *options, struct net_http_server **ret,
			struct cairn_err *err)
{
	struct net_http_server *server = cairn_calloc(1, sizeof(*server));
	pthread_condattr_t attr;
	int rc;

	if (!server)
		return cairn_err_nomem(err, "HTTP server");
	server->stop_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (server->stop_fd < 0) {
		free(server);
		return cairn_err_sys(err, errno, "HTTP server");
	}
	snprintf(server->name, sizeof(server->name), "%s", options->name ? options->name : "http");
	server->limits = options->limits;
	set_defaults(&server->limits);
	net_turns_init(&server->turns);
	pthread_mutex_init(&server->lock, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&server->ended, &attr);
	pthread_cond_init(&server->crowded, &attr);
	pthread_condattr_destroy(&attr);
	server->waiting_tail = &server->waiting;
	rc = http_server_make_shares(server, err);
	if (rc != 0) {
		net_http_server_free(server);
		return rc;
	}
	*ret = server;
	return 0;
}

int net_http_server_add(struct net_http_server *server, const struct net_http_route *routes,
			size_t n, struct cairn_err *err)
{
	if (n > NET_HTTP_ROUTES_MAX - server->n_routes)
		return cairn_err_set(err, CAIRN_NO_SPACE, "too many HTTP routes");
	for (size_t i = 0; i < n; i++)
		if (!routes[i].path || routes[i].path[0] != '/' || !routes[i].handler)
			return cairn_err_set(err, CAIRN_INVALID, "bad HTTP route");
	memcpy(server->routes + server->n_routes, routes, n * sizeof(routes[0]));
	server->n_routes += n;
	return 0;
}

static uint16_t http_server_port_of(int fd)
{
	/* The port stands at the same place in both families. */
	union {
		struct sockaddr any;
		struct sockaddr_in v4;
		struct sockaddr_in6 v6;
	} addr = {.v6 = {0}};
	socklen_t len = sizeof(addr);

	return getsockname(fd, &addr.any, &len) < 0 ? 0 : ntohs(addr.v4.sin_port);
}

int net_http_server_listen(struct net_http_server *server, const char *address, struct net_tls *tls,
			   uint16_t *ret_port, struct cairn_err *err)
{
	cairn_auto_fd int fd = -1;
	struct net_address at;
	int one = 1, rc = net_address_parse(address, &at, err);

	if (rc < 0)
		return rc;
	if (server->n_listeners == LISTENERS_MAX)
		return cairn_err_set(err, CAIRN_NO_SPACE, "too many HTTP listeners");
	fd = socket(at.addr.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)) != 0 ||
	    bind(fd, (const struct sockaddr *)&at.addr, at.len) != 0 ||
	    listen(fd, LISTEN_BACKLOG) != 0)
		return cairn_err_sys(err, errno, "listen on %s", address);
	if (ret_port)
		*ret_port = http_server_port_of(fd);
	server->listeners[server->n_listeners++] =
		(struct listener){.fd = cairn_take_fd(&fd), .tls = tls};
	return 0;
}

/* A request begins or ends; false when the server wants no further one. */
static bool set_busy(struct connection *connection, bool busy)
{
	cairn_scoped_lock(&connection->server->lock);
	connection->busy = busy;
	return !connection->server->stopping;
}

/* Serves the next request; false when it was the last. */
static bool serve_one(struct connection *connection, struct cairn_buf *in, bool last)
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

	cairn_buf_init(&http.fields, NET_HTTP_REPLY_FIELDS_MAX);
	if (connection->stream.ssl) {
		if (net_tls_peer_subject(connection->stream.ssl, http.subject,
					 sizeof(http.subject)))
			net_http_trust(&http, NET_SLOT_KNOWN);
		(void)net_tls_peer_name(connection->stream.ssl, http.name, sizeof(http.name));
	}
	more = net_http_serve(&http, server->routes, server->n_routes);
	cairn_buf_done(&http.fields);
	cairn_buf_done(&http.body);
	return more;
}

/* Waits for the first byte of a request without being busy. */
static bool wait_request(struct connection *connection, const struct cairn_buf *in, bool first)
{
	struct pollfd fd = {.fd = connection->stream.fd, .events = POLLIN};
	const struct net_http_limits *l = &connection->server->limits;
	uint64_t idle_ms = first ? l->first_ms : l->idle_ms;

	if (in->len > 0 || (connection->stream.ssl && SSL_has_pending(connection->stream.ssl)))
		return true;
	return poll(&fd, 1, idle_ms > INT32_MAX ? INT32_MAX : (int)idle_ms) > 0;
}

/* Delays unauthenticated peers that send many requests. False if the connection was
 * displaced in the meantime. */
static bool http_server_wait_turn(struct connection *connection)
{
	struct pollfd fd = {.fd = connection->stream.fd};
	uint64_t ms = net_slot_pace(connection->server->shares, &connection->slot);

	return ms == 0 || poll(&fd, 1, (int)ms) <= 0;
}

static int http_server_shake_hands(struct connection *connection, uint64_t until)
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
	return rc;
}

static void serve_all(struct connection *connection)
{
	struct net_http_server *server = connection->server;
	cairn_auto_buf struct cairn_buf in = CAIRN_BUF_INIT(server->limits.header_bytes + 16384);
	uint64_t until = cairn_monotonic_ns() + server->limits.header_ms * CAIRN_NS_PER_MS;

	if (http_server_shake_hands(connection, until) < 0)
		return;
	for (uint32_t left = server->limits.requests; left > 0; left--) {
		bool first = left == server->limits.requests;

		if (!wait_request(connection, &in, first) || !http_server_wait_turn(connection) ||
		    !set_busy(connection, true) || !serve_one(connection, &in, left == 1) ||
		    !set_busy(connection, false))
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
static bool http_server_leave(struct connection *connection)
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
static void *connection_run(void *arg)
{
	struct connection *connection = arg;
	struct net_http_server *server = connection->server;
	bool trim;

	serve_all(connection);
	trim = http_server_leave(connection);
	net_http_stream_close(&connection->stream, true);
	free(connection);
	if (trim)
		malloc_trim(0);
	/* Free OpenSSL's per-thread data before the program may exit. */
	OPENSSL_thread_stop();
	count_end(server);
	return NULL;
}

static bool http_server_start_thread(pthread_t *ret, bool detached, void *(*run)(void *), void *arg,
				     const char *name)
{
	pthread_attr_t attr;
	sigset_t all, old;
	int rc;

	pthread_attr_init(&attr);
	if (detached)
		pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	/* Signals are for the main thread. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	rc = pthread_create(ret, &attr, run, arg);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	pthread_attr_destroy(&attr);
	if (rc == 0 && !detached)
		pthread_setname_np(*ret, name);
	return rc == 0;
}

/* NULL when it is to be closed. */
static struct connection *connection_new(struct net_http_server *server, int fd,
					 struct net_tls *tls)
{
	struct connection *connection = cairn_calloc(1, sizeof(*connection));
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
	return connection;
}

/* Frees a connection that has no thread. */
static void connection_drop(struct connection *connection)
{
	net_slot_leave(connection->server->shares, &connection->slot);
	SSL_free(connection->stream.ssl);
	close(connection->stream.fd);
	free(connection);
}

static bool http_server_make_session(struct connection *connection)
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
	uint64_t until = cairn_monotonic_ns() + THREADS_WAIT_MS * CAIRN_NS_PER_MS;
	struct timespec at = {.tv_sec = (time_t)(until / CAIRN_NS_PER_SEC),
			      .tv_nsec = (long)(until % CAIRN_NS_PER_SEC)};

	while (server->n_connections / slack > server->limits.connections)
		if (!crowd ||
		    pthread_cond_timedwait(&server->ended, &server->lock, &at) == ETIMEDOUT)
			return false;
	return true;
}

static bool http_server_enlist(struct connection *connection)
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

/* Gives the connection a thread. Closes it if there are too many threads or memory is short. */
static void http_server_begin(struct connection *connection)
{
	struct net_http_server *server = connection->server;
	pthread_t thread;

	if (!http_server_make_session(connection) || !http_server_enlist(connection)) {
		connection_drop(connection);
		return;
	}
	if (http_server_start_thread(&thread, true, connection_run, connection, server->name))
		return;
	(void)http_server_leave(connection);
	connection_drop(connection);
	count_end(server);
}

/* Takes ownership of `fd`. Closes it above the limit or if memory is short. */
static void http_server_adopt(struct net_http_server *server, int fd, struct net_tls *tls)
{
	struct connection *connection = connection_new(server, fd, tls);

	if (!connection) {
		close(fd);
		return;
	}
	if (!connection->slot.crowd) {
		http_server_begin(connection);
		return;
	}
	cairn_scoped_lock(&server->lock);
	*server->waiting_tail = connection;
	server->waiting_tail = &connection->next;
	pthread_cond_signal(&server->crowded);
}

/* Waits for the next connection of a crowd; NULL if the thread shall end. */
static struct connection *next_waiting(struct net_http_server *server)
{
	struct connection *connection;

	cairn_scoped_lock(&server->lock);
	while (!server->waiting && !server->starter_ends)
		pthread_cond_wait(&server->crowded, &server->lock);
	connection = server->waiting;
	if (!connection)
		return NULL;
	server->waiting = connection->next;
	if (!server->waiting)
		server->waiting_tail = &server->waiting;
	connection->next = NULL;
	return connection;
}

/* Starts threads for connections of crowds, so that the acceptor need not wait for them. */
static void *starter_run(void *arg)
{
	struct net_http_server *server = arg;
	struct connection *connection;

	net_loop_yield_to_others(NULL); /* threads of connections inherit the low priority */
	while ((connection = next_waiting(server))) {
		if (atomic_load(&connection->slot.displaced))
			connection_drop(connection);
		else
			http_server_begin(connection);
	}
	return NULL;
}

static void accept_all(struct net_http_server *server, const struct listener *listener)
{
	for (;;) {
		int fd = accept4(listener->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

		if (fd >= 0) {
			http_server_adopt(server, fd, listener->tls);
			continue;
		}
		/* Out of descriptors or memory: the connection stays in the backlog, so
		 * wait a little instead of spinning. */
		if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM)
			cairn_sleep_ms(50);
		if (errno != EINTR && errno != ECONNABORTED)
			return;
	}
}

static void *acceptor_run(void *arg)
{
	struct net_http_server *server = arg;
	struct pollfd fds[LISTENERS_MAX + 1];

	for (size_t i = 0; i < server->n_listeners; i++)
		fds[i] = (struct pollfd){.fd = server->listeners[i].fd, .events = POLLIN};
	fds[server->n_listeners] = (struct pollfd){.fd = server->stop_fd, .events = POLLIN};
	while (!fds[server->n_listeners].revents) {
		if (poll(fds, server->n_listeners + 1, -1) < 0)
			continue;
		for (size_t i = 0; i < server->n_listeners; i++)
			if (fds[i].revents)
				accept_all(server, &server->listeners[i]);
	}
	return NULL;
}

int net_http_server_start(struct net_http_server *server, struct cairn_err *err)
{
	server->starter_runs = http_server_start_thread(&server->starter, false, starter_run,
							server, server->name);
	if (!server->starter_runs ||
	    !http_server_start_thread(&server->acceptor, false, acceptor_run, server, server->name))
		return cairn_err_sys(err, EAGAIN, "start HTTP server");
	server->started = true;
	return 0;
}

/* Stops the starter. It closes the remaining connections if the server stops, and starts
 * them otherwise. */
static void end_starter(struct net_http_server *server)
{
	if (!server->starter_runs)
		return;
	{
		cairn_scoped_lock(&server->lock);
		server->starter_ends = true;
		pthread_cond_signal(&server->crowded);
	}
	pthread_join(server->starter, NULL);
	server->starter_runs = false;
}

static void stop_listening(struct net_http_server *server)
{
	if (server->started) {
		eventfd_write(server->stop_fd, 1);
		pthread_join(server->acceptor, NULL);
		server->started = false;
	}
	for (size_t i = 0; i < server->n_listeners; i++)
		cairn_closep(&server->listeners[i].fd);
	server->n_listeners = 0;
}

/* Shuts down connections that wait for a request, or all. Called with the lock held. */
static unsigned http_server_shut(struct net_http_server *server, bool all)
{
	unsigned n = 0;

	for (struct connection *c = server->connections; c; c = c->next) {
		if (!c->busy || all)
			(void)shutdown(c->stream.fd, SHUT_RDWR);
		n += c->busy;
	}
	return n;
}

unsigned net_http_server_drain(struct net_http_server *server, uint64_t grace_ms)
{
	uint64_t until = cairn_monotonic_ns() + grace_ms * CAIRN_NS_PER_MS;
	struct timespec at = {.tv_sec = (time_t)(until / CAIRN_NS_PER_SEC),
			      .tv_nsec = (long)(until % CAIRN_NS_PER_SEC)};
	unsigned cut = 0;

	stop_listening(server);
	server->stopping = true;
	end_starter(server);
	cairn_scoped_lock(&server->lock);
	http_server_shut(server, false);
	while (server->n_connections > 0)
		if (pthread_cond_timedwait(&server->ended, &server->lock, &at) == ETIMEDOUT)
			break;
	if (server->n_connections > 0) {
		server->cut = true;
		cut = http_server_shut(server, true);
	}
	while (server->n_connections > 0)
		pthread_cond_wait(&server->ended, &server->lock);
	return cut;
}

void net_http_server_stats(struct net_http_server *server, struct net_shares_stats *ret)
{
	net_shares_stats(server->shares, ret);
}

void net_http_server_free(struct net_http_server *server)
{
	if (!server)
		return;
	(void)net_http_server_drain(server, 0);
	net_shares_free(server->shares);
	net_turns_done(&server->turns);
	cairn_closep(&server->stop_fd);
	pthread_mutex_destroy(&server->lock);
	pthread_cond_destroy(&server->ended);
	pthread_cond_destroy(&server->crowded);
	free(server);
}
