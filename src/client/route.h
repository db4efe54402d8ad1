/* SPDX-License-Identifier: Apache-2.0 */

/* Finds the service for a listing: driver, address, CA, audience and the base's handle.
 * Values in the options are used as they are; only missing ones are read from Kubernetes. */
#ifndef CAIRN_CLIENT_ROUTE_H
#define CAIRN_CLIENT_ROUTE_H

#include <stdbool.h>

#include "client/client_link.h"
#include "client/discover.h"

struct cairn_client;
struct cairn_err;
struct cairn_listing_query;
struct kube_call;

struct client_route {
	char *driver;
	char *base_id;      /* if the query has a name */
	char *service_host; /* host of the address in the object */
	struct client_service service;
};

void client_route_done(struct client_route *route);

/* Finds the missing values; the base's handle only `with_base`. The service's object is
 * read again each time, because a service that does not answer may have moved; if that
 * fails, the earlier values are used.
 *
 * CAIRN_INVALID  the base's name cannot be resolved
 * or the codes of client/discover.h
 */
int client_route_find(struct client_route *route, const struct cairn_client *client,
		      const struct cairn_listing_query *query, bool with_base,
		      const struct kube_call *how, struct cairn_err *err);

/* The address of the service; borrowed from both. */
struct client_place client_route_place(const struct client_route *route,
				       const struct cairn_client *client);

/* NULL if not known. */
const char *client_route_audience(const struct client_route *route,
				  const struct cairn_client *client);

#endif
