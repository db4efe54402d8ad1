/* SPDX-License-Identifier: Apache-2.0 */

/* The aggregated API server: requests in, objects and Status out. */
#ifndef CAIRN_AGGAPI_SERVER_H
#define CAIRN_AGGAPI_SERVER_H

#include <stdint.h>

#include "base/cleanup.h"

struct aggapi_remote;
struct aggapi_server;
struct aggapi_trust;
struct cairn_err;
struct kube_client;
struct kube_authz_cache;
struct kube_informer;
struct net_http_server;
struct net_metrics;

/* Time limit of the API server queries for one request. */
#define AGGAPI_ASK_MS 15000U

struct aggapi_server_options {
	struct kube_client *client;
	struct kube_client *pass_client; /* for kinds that are passed on; HTTP/1.1, see pass.h */
	struct kube_authz_cache *guard;
	struct aggapi_trust *trust;
	struct kube_informer *discoveries;
	struct aggapi_remote *remote;
	struct net_metrics *metrics;
	uint64_t page_limit;
	uint64_t watch_ms; /* of a watch that is passed on: its user is authorized again after it */
	uint64_t user_rate;
	uint64_t user_burst;
	uint64_t cache_ms;
};

/* Adds its route to `http` before that starts; everything is borrowed. */
int aggapi_server_new(const struct aggapi_server_options *options, struct net_http_server *http,
		      struct aggapi_server **ret, struct cairn_err *err);

/* Ends watches, which would last longer than any other request; before the drain. */
void aggapi_server_stop(struct aggapi_server *server);
void aggapi_server_free(struct aggapi_server *server);
CAIRN_DEFINE_CLEANUP(struct aggapi_server, aggapi_server_free);

#endif
