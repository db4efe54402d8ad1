/* SPDX-License-Identifier: Apache-2.0 */

#include "sidecar/route.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/lock.h"
#include "base/log.h"
#include "base/mem.h"
#include "net/grpc/grpc_client.h"
#include "net/grpc/grpc_server.h"
#include "net/tls/tls_settings.h"
#include "net/tls/tls_watch.h"
#include "sidecar/driver_channel.h"
#include "sidecar/sidecar.h"

#define NODE_SUFFIX ".cairn-route"

/* A node may vanish without closing its connections: it is missed after the sum of the last
 * two, and the stream continues elsewhere or ends. */
#define CONNECT_MS        5000U
#define KEEPALIVE_MS      10000U
#define KEEPALIVE_WAIT_MS 5000U
#define BACKOFF_FIRST_MS  50U
#define BACKOFF_MAX_MS    1000U

struct sidecar_route_peer {
	struct sidecar_route *route;
	struct sidecar_route_peer *next;
	char *node;
	char *server_name; /* in its certificate */
	char address[SIDECAR_ROUTE_ADDRESS_MAX];
	struct net_channel *channels[SIDECAR_LOOPS_MAX]; /* guarded by the lock until made */
	unsigned streams;                                /* guarded by the lock */
	bool replaced;                                   /* not in the list any more */
};

struct sidecar_route {
	struct sidecar_route_options options;
	struct net_tls *server_tls, *client_tls;
	struct net_tls_watch *server_watch, *client_watch;
	struct net_loop *loops[SIDECAR_LOOPS_MAX];
	unsigned n_loops;
	uint16_t port;
	pthread_mutex_t lock;
	struct sidecar_route_peer *peers; /* guarded by the lock */
};

/* --- peers; with the lock held --- */

static void route_peer_free(struct sidecar_route_peer *peer)
{
	if (!peer)
		return;
	for (unsigned i = 0; i < SIDECAR_LOOPS_MAX; i++)
		net_channel_free(peer->channels[i]);
	free(peer->server_name);
	free(peer->node);
	free(peer);
}

static struct sidecar_route_peer **route_peer_find(struct sidecar_route *route, const char *node)
{
	struct sidecar_route_peer **at = &route->peers;

	while (*at && strcmp((*at)->node, node) != 0)
		at = &(*at)->next;
	return at;
}

/* Takes a peer out of the list. Returns it if the caller has to free it, without the lock:
 * freeing waits for the loops, whose threads may wait for the lock. */
static struct sidecar_route_peer *route_peer_unlink(struct sidecar_route_peer **at)
{
	struct sidecar_route_peer *peer = *at;

	*at = peer->next;
	peer->next = NULL;
	peer->replaced = true;
	return peer->streams == 0 ? peer : NULL;
}

static int route_peer_new(struct sidecar_route *route, const char *node, const char *address,
			  struct sidecar_route_peer **ret, struct cairn_err *err)
{
	struct sidecar_route_peer *peer = cairn_calloc(1, sizeof(*peer));

	if (!peer)
		return cairn_err_nomem(err, "route");
	peer->route = route;
	peer->node = cairn_strdup(node);
	peer->server_name = cairn_printf("%s" NODE_SUFFIX, node);
	if (!peer->node || !peer->server_name) {
		route_peer_free(peer);
		return cairn_err_nomem(err, "route");
	}
	memcpy(peer->address, address, sizeof(peer->address));
	*ret = peer;
	return 0;
}

static int route_peer_take(struct sidecar_route *route, const char *node, const char *address,
			   struct sidecar_route_peer **ret, struct sidecar_route_peer **ret_dead,
			   struct cairn_err *err)
{
	struct sidecar_route_peer **at;
	int rc;

	cairn_scoped_lock(&route->lock);
	at = route_peer_find(route, node);
	if (*at && strcmp((*at)->address, address) != 0)
		*ret_dead = route_peer_unlink(at);
	at = route_peer_find(route, node);
	rc = *at ? 0 : route_peer_new(route, node, address, at, err);
	if (rc)
		return rc;
	(*at)->streams++;
	*ret = *at;
	return 0;
}

int sidecar_route_acquire(struct sidecar_route *route, const char *node,
			  struct sidecar_route_peer **ret, struct cairn_err *err)
{
	const struct sidecar_route_map *map = &route->options.map;
	char address[SIDECAR_ROUTE_ADDRESS_MAX] = "";
	struct sidecar_route_peer *dead = NULL;
	int rc = map->find(map->self, node, address, err);

	if (!rc)
		rc = route_peer_take(route, node, address, ret, &dead, err);
	route_peer_free(dead);
	return rc;
}

void sidecar_route_release(struct sidecar_route_peer *peer)
{
	struct sidecar_route *route = peer ? peer->route : NULL;
	bool last;

	if (!peer)
		return;
	pthread_mutex_lock(&route->lock);
	last = --peer->streams == 0 && peer->replaced;
	pthread_mutex_unlock(&route->lock);
	if (last)
		route_peer_free(peer);
}

/* --- streams --- */

static unsigned route_loop_index(const struct sidecar_route *route, const struct net_loop *loop)
{
	for (unsigned i = 0; i < route->n_loops; i++)
		if (route->loops[i] == loop)
			return i;
	return 0;
}

static int route_peer_channel(struct sidecar_route_peer *peer, unsigned i, struct net_channel **ret,
			      struct cairn_err *err)
{
	const struct sidecar_route *route = peer->route;
	const struct net_channel_options options = {
		.target = peer->address,
		.tls = route->client_tls,
		.server_name = peer->server_name,
		.loop = route->loops[i],
		.message_max = route->options.message_max,
		.stream_window = SIDECAR_DRIVER_WINDOW,
		.recv_bytes = SIDECAR_READ_AHEAD,
		.connect_ms = CONNECT_MS,
		.backoff_first_ms = BACKOFF_FIRST_MS,
		.backoff_max_ms = BACKOFF_MAX_MS,
		.keepalive_ms = KEEPALIVE_MS,
		.keepalive_wait_ms = KEEPALIVE_WAIT_MS,
	};
	int rc = 0;

	cairn_scoped_lock(&peer->route->lock);
	if (!peer->channels[i])
		rc = net_channel_new(&options, &peer->channels[i], err);
	*ret = peer->channels[i];
	return rc;
}

int sidecar_route_stream(struct sidecar_route_peer *peer, const struct net_loop *loop,
			 const char *path, const void *request, size_t n, uint64_t timeout_ms,
			 struct net_rpc **ret, struct cairn_err *err)
{
	const struct net_rpc_options options = {
		.path = path, .timeout_ms = timeout_ms, .identity_only = true};
	struct net_channel *channel = NULL;
	int rc = route_peer_channel(peer, route_loop_index(peer->route, loop), &channel, err);

	return rc ? rc : net_rpc_request(channel, &options, request, n, ret, err);
}

bool sidecar_route_is_remote(const struct sidecar_route *route, const char *node)
{
	return route && node && strcmp(node, route->options.node) != 0;
}

/* --- housekeeping --- */

/* An address that cannot be looked up at present does not make a peer superfluous. */
static bool route_peer_moved(const struct sidecar_route *route,
			     const struct sidecar_route_peer *peer)
{
	const struct sidecar_route_map *map = &route->options.map;
	char address[SIDECAR_ROUTE_ADDRESS_MAX] = "";
	int rc = map->find(map->self, peer->node, address, NULL);

	return rc == CAIRN_UNAVAILABLE || (rc == 0 && strcmp(address, peer->address) != 0);
}

void sidecar_route_sweep(struct sidecar_route *route)
{
	struct sidecar_route_peer *dead = NULL;
	struct sidecar_route_peer **at = &route->peers;

	pthread_mutex_lock(&route->lock);
	while (*at) {
		struct sidecar_route_peer *peer = *at;

		if (peer->streams > 0 || !route_peer_moved(route, peer)) {
			at = &peer->next;
			continue;
		}
		route_peer_unlink(at);
		peer->next = dead;
		dead = peer;
	}
	pthread_mutex_unlock(&route->lock);
	while (dead) {
		struct sidecar_route_peer *next = dead->next;

		route_peer_free(dead);
		dead = next;
	}
}

unsigned sidecar_route_peers(struct sidecar_route *route)
{
	unsigned n = 0;

	cairn_scoped_lock(&route->lock);
	for (const struct sidecar_route_peer *p = route->peers; p; p = p->next)
		n++;
	return n;
}

/* --- creation --- */

static void route_certificate_changed(void *arg, const struct cairn_err *failure)
{
	(void)arg;
	if (failure)
		cairn_log(CAIRN_LOG_ERROR, "the new certificate between nodes is not used",
			  CAIRN_STR("why", failure->msg));
	else
		cairn_log(CAIRN_LOG_INFO, "the certificate between nodes was replaced");
}

static int route_make_tls(struct sidecar_route *route, struct cairn_err *err)
{
	const struct net_tls_options tls = {
		.cert_file = route->options.cert_file,
		.key_file = route->options.key_file,
		.ca_file = route->options.ca_file,
		.min_version = "VersionTLS13",
		.h2 = true,
	};
	const struct net_tls_watch_options watch = {.changed = route_certificate_changed};
	const struct net_tls_watch_options silent = {0};
	int rc = net_tls_server_new(&tls, &route->server_tls, err);

	if (!rc)
		rc = net_tls_client_new(&tls, &route->client_tls, err);
	if (!rc)
		rc = net_tls_watch_new(route->server_tls, &watch, &route->server_watch, err);
	if (!rc)
		rc = net_tls_watch_new(route->client_tls, &silent, &route->client_watch, err);
	return rc ? cairn_err_wrap(err, "route") : 0;
}

int sidecar_route_new(const struct sidecar_route_options *options, struct sidecar_route **ret,
		      struct cairn_err *err)
{
	cairn_cleanup(sidecar_route_freep) struct sidecar_route *route =
		cairn_calloc(1, sizeof(*route));
	int rc;

	if (!route)
		return cairn_err_nomem(err, "route");
	pthread_mutex_init(&route->lock, NULL);
	route->options = *options;
	route->n_loops = net_server_loops(options->server);
	if (route->n_loops > SIDECAR_LOOPS_MAX)
		route->n_loops = SIDECAR_LOOPS_MAX;
	for (unsigned i = 0; i < route->n_loops; i++)
		route->loops[i] = net_server_loop(options->server, i);
	rc = route_make_tls(route, err);
	if (!rc)
		rc = net_server_listen_tcp(options->server, options->listen, route->server_tls,
					   &route->port, err);
	if (!rc)
		*ret = cairn_take(route);
	return rc;
}

void sidecar_route_close(struct sidecar_route *route)
{
	while (route && route->peers) {
		struct sidecar_route_peer *peer = route->peers;

		route->peers = peer->next;
		route_peer_free(peer);
	}
}

void sidecar_route_free(struct sidecar_route *route)
{
	if (!route)
		return;
	sidecar_route_close(route);
	net_tls_watch_free(route->client_watch);
	net_tls_watch_free(route->server_watch);
	net_tls_free(route->client_tls);
	net_tls_free(route->server_tls);
	pthread_mutex_destroy(&route->lock);
	free(route);
}

uint16_t sidecar_route_port(const struct sidecar_route *route)
{
	return route->port;
}
