/* SPDX-License-Identifier: Apache-2.0 */

/* The sidecars of all nodes, from the EndpointSlices of a headless Service.
 *
 * An endpoint names its node; the port is the one called "route". An endpoint that is not
 * ready does not count. While the watch of the slices is broken, the last known addresses
 * are used: a wrong one only fails to answer, because peers prove their node.
 *
 * Thread-safe.
 */
#ifndef CAIRN_SIDECAR_ROUTE_ENDPOINTS_H
#define CAIRN_SIDECAR_ROUTE_ENDPOINTS_H

#include "base/cleanup.h"
#include "sidecar/route.h"

struct kube_client;
struct sidecar_route_endpoints;

#define SIDECAR_ROUTE_PORT_NAME "route"

/* Watches the slices of `service` in the namespace `ns`, NULL for the client's own. */
int sidecar_route_endpoints_new(struct kube_client *client, const char *ns, const char *service,
				struct sidecar_route_endpoints **ret, struct cairn_err *err);
void sidecar_route_endpoints_free(struct sidecar_route_endpoints *endpoints); /* accepts NULL */
CAIRN_DEFINE_CLEANUP(struct sidecar_route_endpoints, sidecar_route_endpoints_free);

struct sidecar_route_map sidecar_route_endpoints_map(struct sidecar_route_endpoints *endpoints);

#endif
