/* SPDX-License-Identifier: Apache-2.0 */

/* The HTTPS sidecar of a driver (`cairn cbt-http`): wire.h in, CSI out.
 *
 * Only the aggregated API server may request pages: it shows a certificate of the
 * configured CA, or sends a token whose user may `post` to the path /v1/deltas (RBAC:
 * nonResourceURLs). Only the user that a data token was made for (holder.h) may read data:
 * the user sends a token of their own, and the permission to `get` the VolumeSnapshots is
 * checked again.
 */
#ifndef CAIRN_AGGAPI_SIDECAR_H
#define CAIRN_AGGAPI_SIDECAR_H

#include <stdbool.h>

#include "base/cleanup.h"

struct aggapi_csi;
struct aggapi_sidecar;
struct cairn_err;
struct kube_authz_cache;
struct net_http_server;
struct net_metrics;

struct aggapi_sidecar_options {
	struct aggapi_csi *csi;
	struct kube_authz_cache *guard;
	struct net_metrics *metrics;
	const char *audience;    /* of tokens */
	bool certificates;       /* a certificate of the right CA is enough */
	const char *client_name; /* required common name; NULL: any */

	/* Whether this instance serves, or why it does not. */
	bool (*serves)(void *arg);
	void *arg;
};

/* Adds its routes before `http` starts; everything is borrowed. */
int aggapi_sidecar_new(const struct aggapi_sidecar_options *options, struct net_http_server *http,
		       struct aggapi_sidecar **ret, struct cairn_err *err);
void aggapi_sidecar_free(struct aggapi_sidecar *sidecar);
CAIRN_DEFINE_CLEANUP(struct aggapi_sidecar, aggapi_sidecar_free);

#endif
