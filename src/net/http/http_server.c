/* SPDX-License-Identifier: Apache-2.0 */

#include "net/http/http_server.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/lock.h"
#include "base/mem.h"
#include "base/wait.h"
#include "net/address.h"
#include "net/http/http_acceptor.h"
#include "net/http/http_impl.h"
#include "net/http/http_lobby.h"
#include "net/http/http_server_impl.h"

static void set_defaults(struct net_http_limits *l)
{
	l->connections = l->connections ? l->connections : 256;
	if (!l->connections_each)
		l->connections_each = l->connections > 4 ? l->connections / 4 : 1;
	l->handshakes_burst = l->handshakes_burst ? l->handshakes_burst : 512;
	l->handshakes_per_second = l->handshakes_per_second ? l->handshakes_per_second : 64;
	l->requests_burst = l->requests_burst ? l->requests_burst : 256;
	l->requests_per_second = l->requests_per_second ? l->requests_per_second : 64;
	l->key_updates = l->key_updates ? l->key_updates : 32;
	l->requests = l->requests ? l->requests : 10000;
	l->header_bytes = l->header_bytes ? l->header_bytes : 16U << 10;
	l->body_bytes = l->body_bytes ? l->body_bytes : 1U << 20;
	l->request_bytes = l->request_bytes ? l->request_bytes : 32U << 20;
	if (!l->request_bytes_each)
		l->request_bytes_each = l->request_bytes / 4;
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
		.request_bytes = l->request_bytes,
		.request_bytes_each = l->request_bytes_each,
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
	if (!net_http_acceptor_init(&server->acceptor)) {
		rc = cairn_err_sys(err, errno, "HTTP server");
		net_http_acceptor_done(&server->acceptor);
		free(server);
		return rc;
	}
	snprintf(server->name, sizeof(server->name), "%s", options->name ? options->name : "http");
	server->limits = options->limits;
	set_defaults(&server->limits);
	net_turns_init(&server->turns);
	pthread_mutex_init(&server->lock, NULL);
	cairn_cond_init(&server->ended);
	rc = http_server_make_shares(server, err);
	if (rc == 0)
		rc = net_http_lobby_new(server, &server->lobby, err);
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

int net_http_server_listen(struct net_http_server *server, const char *address, struct net_tls *tls,
			   uint16_t *ret_port, struct cairn_err *err)
{
	struct net_address at;
	int rc = net_address_parse(address, &at, err);

	if (rc < 0)
		return rc;
	return net_http_acceptor_listen(&server->acceptor, &at, address, tls, ret_port, err);
}

void net_http_server_trim(struct net_http_server *server)
{
	atomic_store(&server->trim, true);
	net_http_acceptor_wake(&server->acceptor);
}

int net_http_server_start(struct net_http_server *server, struct cairn_err *err)
{
	if (!net_http_lobby_start(server->lobby, server->name) || !net_http_acceptor_start(server))
		return cairn_err_sys(err, EAGAIN, "start HTTP server");
	return 0;
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

	net_http_acceptor_stop(&server->acceptor);
	server->stopping = true;
	net_http_lobby_stop(server->lobby);
	net_http_acceptor_close(&server->acceptor);
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
	net_http_acceptor_done(&server->acceptor);
	pthread_mutex_destroy(&server->lock);
	pthread_cond_destroy(&server->ended);
	net_http_lobby_free(server->lobby);
	free(server);
}
