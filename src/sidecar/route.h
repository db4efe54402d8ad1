/* SPDX-License-Identifier: Apache-2.0 */

/* Streams to the sidecars of other nodes.
 *
 * Where every node has a driver with volumes of its own, only the driver of a snapshot's
 * node can list its blocks. The sidecar that was called checks the caller, finds the node,
 * and passes the driver's request to that node's sidecar, which passes it to its driver
 * (routed_stream.c). Both ends authenticate with certificates of the route's own authority;
 * a node's certificate has the name NODE.cairn-route, so that no node can answer for
 * another one.
 *
 * A peer is the sidecar of one node at one address; it holds a connection for each loop of
 * the server, made on first use. A peer that moved to another address is replaced, and the
 * old one lives until its last stream has released it.
 *
 * Thread-safe, except that one thread creates and frees it.
 */
#ifndef CAIRN_SIDECAR_ROUTE_H
#define CAIRN_SIDECAR_ROUTE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"

struct cairn_err;
struct net_loop;
struct net_rpc;
struct net_server;
struct sidecar_route;
struct sidecar_route_peer;

/* Methods between sidecars; their requests and responses are those of the driver. */
#define SIDECAR_ROUTE_ALLOCATED "/cairn.route.v1.SnapshotMetadata/GetMetadataAllocated"
#define SIDECAR_ROUTE_DELTA     "/cairn.route.v1.SnapshotMetadata/GetMetadataDelta"

/* Trailer of an UNAVAILABLE that comes from the sidecar of the node, not from its driver. */
#define SIDECAR_ROUTE_NOT_READY "cairn-route-not-ready"

#define SIDECAR_ROUTE_ADDRESS_MAX 72 /* "[IPv6 address]:port" */

/* Where the sidecars of nodes are. */
struct sidecar_route_map {
	/* Writes the address of the sidecar on `node`.
	 *
	 * CAIRN_UNAVAILABLE  there is none, or it is not known at present
	 */
	int (*find)(void *self, const char *node, char ret[SIDECAR_ROUTE_ADDRESS_MAX],
		    struct cairn_err *err);
	void *self;
};

struct sidecar_route_options {
	struct sidecar_route_map map; /* must outlive the route */
	const char *node;             /* the sidecar's own */
	const char *listen;           /* "host:port" for the sidecars of other nodes */
	const char *cert_file, *key_file, *ca_file;
	struct net_server *server; /* listens there too, and its loops run the connections */
	size_t message_max;
};

/* Listens, before the server is started. Strings are borrowed. */
int sidecar_route_new(const struct sidecar_route_options *options, struct sidecar_route **ret,
		      struct cairn_err *err);

/* Closes the connections to peers: after the server was drained and before it is freed.
 * Accepts NULL. */
void sidecar_route_close(struct sidecar_route *route);

/* After the server was freed. Accepts NULL. */
void sidecar_route_free(struct sidecar_route *route);
CAIRN_DEFINE_CLEANUP(struct sidecar_route, sidecar_route_free);

/* The port for the sidecars of other nodes. */
uint16_t sidecar_route_port(const struct sidecar_route *route);

/* True if a stream for `node` has to leave this one. NULL is no particular node, and the
 * driver here can answer. Accepts a NULL route. */
bool sidecar_route_is_remote(const struct sidecar_route *route, const char *node);

/* The sidecar of a node; released by the caller, after its last stream was freed.
 *
 * CAIRN_UNAVAILABLE  it is not known where that is
 */
int sidecar_route_acquire(struct sidecar_route *route, const char *node,
			  struct sidecar_route_peer **ret, struct cairn_err *err);
void sidecar_route_release(struct sidecar_route_peer *peer); /* accepts NULL */

/* Starts a stream with one request, on the connection of that loop. `timeout_ms` 0 means no
 * limit. */
int sidecar_route_stream(struct sidecar_route_peer *peer, const struct net_loop *loop,
			 const char *path, const void *request, size_t n, uint64_t timeout_ms,
			 struct net_rpc **ret, struct cairn_err *err);

/* Forgets peers without streams whose node has another address by now, or none. */
void sidecar_route_sweep(struct sidecar_route *route);

/* Number of peers in use or kept for later. */
unsigned sidecar_route_peers(struct sidecar_route *route);

#endif
