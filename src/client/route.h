/* SPDX-License-Identifier: Apache-2.0 */

/* The way from a question to the service that answers it: driver, address,
 * authorities, audience and the base's handle. What the options give is taken;
 * only the rest is asked of Kubernetes. */
#ifndef CAIRN_CLIENT_ROUTE_H
#define CAIRN_CLIENT_ROUTE_H

#include <stdbool.h>

#include "client/discover.h"
#include "client/link.h"

struct cairn_client;
struct cairn_err;
struct cairn_listing_query;
struct kube_call;

struct client_route {
	char *driver;
	char *base_id;      /* where the query has a name */
	char *service_host; /* of the object's address */
	struct client_service service;
};

void client_route_done(struct client_route *route);

/* Finds what is not known yet, the base's handle only `with_base`. The service's object is read again each time,
 * because a service that does not answer may have moved; when that fails, what
 * was found earlier holds.
 *
 * CAIRN_INVALID  the base's name can not be looked up
 * and those of client/discover.h
 */
int client_route_find(struct client_route *route, const struct cairn_client *client,
		      const struct cairn_listing_query *query, bool with_base,
		      const struct kube_call *how, struct cairn_err *err);

/* Where the service is; borrowed from both. */
struct client_place client_route_place(const struct client_route *route,
				       const struct cairn_client *client);

/* NULL when none is known. */
const char *client_route_audience(const struct client_route *route,
				  const struct cairn_client *client);

#endif
