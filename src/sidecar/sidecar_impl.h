/* SPDX-License-Identifier: Apache-2.0 */

/* The parts of the sidecar. */
#ifndef CAIRN_SIDECAR_SIDECAR_IMPL_H
#define CAIRN_SIDECAR_SIDECAR_IMPL_H

#include <stdatomic.h>
#include <stdint.h>

#include "sidecar/kube_gate.h"
#include "sidecar/sidecar.h"

struct net_call;
struct net_server;
struct net_tls;
struct net_tls_watch;
struct sidecar_access;
struct sidecar_driver;
struct kube_fair_queue;
struct sidecar_http;
struct sidecar_metrics;
struct sidecar_resolve;
struct sidecar_route;

/* The flavour of SnapshotMetadata that the driver implements. */
enum sidecar_speaks {
	SIDECAR_SPEAKS_UNKNOWN,
	SIDECAR_SPEAKS_SHIPPED, /* not the session flavour: calls are translated */
};

struct sidecar {
	_Atomic bool draining;
	_Atomic unsigned flows; /* relays with a large window */
	struct sidecar_options options;
	struct net_tls *tls, *http_tls;
	struct net_tls_watch *tls_watch, *http_tls_watch;
	struct net_server *server;
	uint16_t port;
	struct sidecar_metrics *metrics;
	struct sidecar_access *access;
	struct sidecar_resolve *names;
	struct kube_fair_queue *checks;  /* queries to the API server, by peer address */
	struct kube_fair_queue *streams; /* by user */
	struct kube_fair_queue *routed;  /* to and from other nodes, by node; NULL: no route */
	struct sidecar_kube_gate kube;
	struct sidecar_driver *driver;
	struct sidecar_route *route;            /* NULL: every snapshot is the driver's */
	_Atomic uint64_t routed_out, routed_in; /* streams so far */
	_Atomic uint64_t warned_ns;             /* of a failure that a stranger met */
	struct sidecar_http *http;
	_Atomic int session_flavour; /* of enum sidecar_speaks */
};

/* sidecar_server.c: makes the server, and the route unless there is none. */
int sidecar_make_server(struct sidecar *s, struct cairn_err *err);
int sidecar_make_route(struct sidecar *s, struct cairn_err *err);

/* sidecar_stream.c: the two methods. `arg` is the sidecar. */
int sidecar_allocated(struct net_call *call, void *arg, struct cairn_err *err);
int sidecar_delta(struct net_call *call, void *arg, struct cairn_err *err);

/* routed_stream.c: the same for the sidecars of other nodes, which have checked the caller. */
int sidecar_routed_allocated(struct net_call *call, void *arg, struct cairn_err *err);
int sidecar_routed_delta(struct net_call *call, void *arg, struct cairn_err *err);

/* session_stream.c: those of the session flavour. */
int sidecar_session_allocated(struct net_call *call, void *arg, struct cairn_err *err);
int sidecar_session_delta(struct net_call *call, void *arg, struct cairn_err *err);

#endif
