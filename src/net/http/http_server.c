/* SPDX-License-Identifier: Apache-2.0 */

#include "net/http/http_server.h"

#include <errno.h>
#include <malloc.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/lock.h"
#include "base/mem.h"
#include "base/wait.h"
#include "net/address.h"
#include "net/http/http_impl.h"
#include "net/http/http_lobby.h"
#include "net/http/http_server_impl.h"

#define LISTEN_BACKLOG SOMAXCONN /* a dropped SYN costs an honest peer a second */

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
	int rc;

	if (!server)
		return cairn_err_nomem(err, "HTTP server");
	server->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (server->wake_fd < 0) {
		free(server);
		return cairn_err_sys(err, errno, "HTTP server");
	}
	snprintf(server->name, sizeof(server->name), "%s", options->name ? options->name : "http");
	server->limits = options->limits;
	set_defaults(&server->limits);
	net_turns_init(&server->turns);
	pthread_mutex_init(&server->lock, NULL);
	cairn_cond_init(&server->ended);
	rc = http_server_make_shares(server, err);
	if (rc == 0)
		rc = net_http_lobby_new(&server->lobby, err);
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
	if (server->n_listeners == NET_HTTP_LISTENERS_MAX)
		return cairn_err_set(err, CAIRN_NO_SPACE, "too many HTTP listeners");
	fd = socket(at.addr.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)) != 0 ||
	    bind(fd, (const struct sockaddr *)&at.addr, at.len) != 0 ||
	    listen(fd, LISTEN_BACKLOG) != 0)
		return cairn_err_sys(err, errno, "listen on %s", address);
	if (ret_port)
		*ret_port = http_server_port_of(fd);
	server->listeners[server->n_listeners++] =
		(struct net_http_listener){.fd = cairn_take_fd(&fd), .tls = tls};
	return 0;
}

/* Takes ownership of `fd`. Closes it above the limit or if memory is short. */
static void http_server_adopt(struct net_http_server *server, int fd, struct net_tls *tls)
{
	struct net_http_connection *connection = net_http_connection_new(server, fd, tls);

	if (!connection)
		close(fd);
	else if (connection->slot.crowd)
		net_http_lobby_add(server->lobby, connection);
	else
		net_http_connection_begin(connection);
}

static void accept_all(struct net_http_server *server, const struct net_http_listener *listener)
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

/* Called when the wake_fd is readable. Trimming takes the locks of the allocator, so it is
 * done by a thread of normal priority: others would wait while a slower one is preempted. */
static void http_server_wake(struct net_http_server *server)
{
	eventfd_t n;

	(void)eventfd_read(server->wake_fd, &n);
	if (atomic_exchange(&server->trim, false))
		malloc_trim(0);
}

static void *acceptor_run(void *arg)
{
	struct net_http_server *server = arg;
	struct pollfd fds[NET_HTTP_LISTENERS_MAX + 1];

	for (size_t i = 0; i < server->n_listeners; i++)
		fds[i] = (struct pollfd){.fd = server->listeners[i].fd, .events = POLLIN};
	fds[server->n_listeners] = (struct pollfd){.fd = server->wake_fd, .events = POLLIN};
	while (!atomic_load(&server->closing)) {
		if (poll(fds, server->n_listeners + 1, -1) < 0)
			continue;
		for (size_t i = 0; i < server->n_listeners; i++)
			if (fds[i].revents)
				accept_all(server, &server->listeners[i]);
		if (fds[server->n_listeners].revents)
			http_server_wake(server);
	}
	return NULL;
}

void net_http_server_trim(struct net_http_server *server)
{
	atomic_store(&server->trim, true);
	(void)eventfd_write(server->wake_fd, 1);
}

int net_http_server_start(struct net_http_server *server, struct cairn_err *err)
{
	if (!net_http_lobby_start(server->lobby, server->name) ||
	    !net_http_start_thread(&server->acceptor, false, acceptor_run, server, server->name))
		return cairn_err_sys(err, EAGAIN, "start HTTP server");
	server->started = true;
	return 0;
}

static void stop_listening(struct net_http_server *server)
{
	if (server->started) {
		atomic_store(&server->closing, true);
		(void)eventfd_write(server->wake_fd, 1);
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

	for (struct net_http_connection *c = server->connections; c; c = c->next) {
		if (!c->busy || all)
			(void)shutdown(c->stream.fd, SHUT_RDWR);
		n += c->busy;
	}
	return n;
}

unsigned net_http_server_drain(struct net_http_server *server, uint64_t grace_ms)
{
	uint64_t until = cairn_after_ms(grace_ms);
	unsigned cut = 0;

	stop_listening(server);
	server->stopping = true;
	net_http_lobby_stop(server->lobby);
	cairn_scoped_lock(&server->lock);
	http_server_shut(server, false);
	while (server->n_connections > 0)
		if (!cairn_cond_wait_until(&server->ended, &server->lock, until))
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
	cairn_closep(&server->wake_fd);
	pthread_mutex_destroy(&server->lock);
	pthread_cond_destroy(&server->ended);
	net_http_lobby_free(server->lobby);
	free(server);
}
