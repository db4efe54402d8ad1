/* SPDX-License-Identifier: Apache-2.0 */

#include "client/route.h"

#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/mem.h"
#include "client/handle.h"
#include "kube/kube_snapshot.h"

void client_route_done(struct client_route *route)
{
	free(route->driver);
	free(route->base_id);
	free(route->service_host);
	client_service_done(&route->service);
	*route = (struct client_route){0};
}

static bool has_token(const struct cairn_client_options *o)
{
	return o->token_fn || o->token_file || o->token;
}

static bool is_unix(const char *address)
{
	return strncmp(address, "unix:", 5) == 0;
}

/* Whether the service's object must be read. */
static bool needs_service(const struct cairn_client *client)
{
	const struct cairn_client_options *o = &client->options;
	bool trusted = o->ca_file || o->ca_pem || (o->address && is_unix(o->address));

	return client->kube && (!o->address || !trusted || !(o->audience || has_token(o)));
}

static int find_driver(struct client_route *route, const struct cairn_client *client,
		       const struct cairn_listing_query *query, const struct kube_call *how,
		       struct cairn_err *err)
{
	cairn_cleanup(kube_snapshot_done) struct kube_snapshot snapshot = {0};
	int rc = 0;

	if (route->driver)
		return 0;
	if (client->options.driver) {
		route->driver = cairn_strdup(client->options.driver);
		return route->driver ? 0 : cairn_err_nomem(err, "driver");
	}
	rc = kube_snapshot_get(client->kube, query->namespace_name, query->snapshot, how, &snapshot,
			       err);
	if (rc)
		return rc;
	route->driver = cairn_strdup(snapshot.driver);
	return route->driver ? 0 : cairn_err_nomem(err, "driver");
}

static int route_find_base(struct client_route *route, const struct cairn_client *client,
			   const struct cairn_listing_query *query, const struct kube_call *how,
			   struct cairn_err *err)
{
	cairn_cleanup(kube_snapshot_done) struct kube_snapshot snapshot = {0};
	int rc;

	if (route->base_id || query->base_id || !query->base_snapshot)
		return 0;
	if (!client->kube)
		return cairn_err_set(err, CAIRN_INVALID,
				     "the name of the base can not be looked up without "
				     "Kubernetes; give its id");
	rc = kube_snapshot_get(client->kube, query->namespace_name, query->base_snapshot, how,
			       &snapshot, err);
	if (rc)
		return cairn_err_wrap(err, "base snapshot");
	route->base_id = cairn_strdup(snapshot.handle);
	return route->base_id ? 0 : cairn_err_nomem(err, "base snapshot");
}

/* Strips the port and brackets from "host:port". */
static char *route_host_of(const char *address)
{
	const char *colon = strrchr(address, ':');
	size_t n = colon ? (size_t)(colon - address) : strlen(address);

	if (n >= 2 && address[0] == '[' && address[n - 1] == ']')
		return cairn_strndup(address + 1, n - 2);
	return cairn_strndup(address, n);
}

static int find_service(struct client_route *route, const struct cairn_client *client,
			const struct kube_call *how, struct cairn_err *err)
{
	struct client_service service = {0};
	char *host;
	int rc = client_discover_service(client->kube, how, route->driver, &service, err);

	if (rc)
		return route->service.address && rc != CAIRN_NOT_FOUND ? 0 : rc;
	host = route_host_of(service.address);
	if (!host) {
		client_service_done(&service);
		return cairn_err_nomem(err, "service");
	}
	client_service_done(&route->service);
	free(route->service_host);
	route->service = service;
	route->service_host = host;
	return 0;
}

int client_route_find(struct client_route *route, const struct cairn_client *client,
		      const struct cairn_listing_query *query, bool with_base,
		      const struct kube_call *how, struct cairn_err *err)
{
	int rc = 0;

	if (needs_service(client)) {
		rc = find_driver(route, client, query, how, err);
		if (!rc)
			rc = find_service(route, client, how, err);
	}
	return rc || !with_base ? rc : route_find_base(route, client, query, how, err);
}

struct client_place client_route_place(const struct client_route *route,
				       const struct cairn_client *client)
{
	const struct cairn_client_options *o = &client->options;
	struct client_place place = {
		.address = o->address ? o->address : route->service.address,
		.ca_file = o->ca_file,
		.ca_pem = o->ca_file || o->ca_pem ? o->ca_pem : route->service.ca_pem,
		.server_name = o->server_name,
	};

	/* A configured address is another way to the same service (such as a forwarded port), so
	 * its certificate has the name in the object. */
	if (!place.server_name && o->address && !is_unix(o->address))
		place.server_name = route->service_host;
	return place;
}

const char *client_route_audience(const struct client_route *route,
				  const struct cairn_client *client)
{
	return client->options.audience ? client->options.audience : route->service.audience;
}
