/* SPDX-License-Identifier: Apache-2.0 */

/* The REST server of DifferentialSnapshots; query.h describes the requests.
 *
 * Every request needs a bearer token whose user may `get` the requested
 * DifferentialSnapshot, if it names one, and in any case the VolumeSnapshots that the
 * blocks belong to. Other users do not learn whether an object exists. Tokens are accepted
 * only in the header, so that they do not end up in the logs of a proxy.
 */
#ifndef CAIRN_DIFFSNAP_SERVER_H
#define CAIRN_DIFFSNAP_SERVER_H

#include <stdint.h>

#include "base/cleanup.h"

struct cairn_err;
struct diffsnap_controller;
struct diffsnap_driver;
struct diffsnap_server;
struct diffsnap_table;
struct kube_client;
struct kube_authz_cache;
struct net_http_server;
struct net_metrics;

/* Entries of a page if the client sets no limit. */
#define DIFFSNAP_PAGE_DEFAULT 10000U

struct diffsnap_server_options {
	struct kube_client *client;
	struct kube_authz_cache *guard;
	const char *audience; /* of tokens; NULL: the API server's */
	struct diffsnap_driver *driver;
	struct diffsnap_table *table;
	struct diffsnap_controller *controller;
	struct net_metrics *metrics; /* may be NULL */
};

/* Adds its routes to `http`, before that starts; everything is borrowed. Free it after
 * `http`. */
int diffsnap_server_new(const struct diffsnap_server_options *options, struct net_http_server *http,
			struct diffsnap_server **ret, struct cairn_err *err);
void diffsnap_server_free(struct diffsnap_server *server); /* accepts NULL */
CAIRN_DEFINE_CLEANUP(struct diffsnap_server, diffsnap_server_free);

#endif
