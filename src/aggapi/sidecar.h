/* SPDX-License-Identifier: Apache-2.0 */

/* The HTTPS sidecar beside a driver (`cairn cbt-http`): wire.h in, CSI out.
 *
 * Pages are for the aggregated API server only, which shows a certificate of
 * the authority it was told of, or sends a token whose owner may `post` to the
 * path /v1/deltas (RBAC: nonResourceURLs). Data is for the user that a data token was made
 * for (holder.h): they show a token of their own, and the right to `get` the
 * VolumeSnapshots is asked for again.
 */
#ifndef CAIRN_AGGAPI_SIDECAR_H
#define CAIRN_AGGAPI_SIDECAR_H

#include <stdbool.h>

#include "base/cleanup.h"

struct aggapi_csi;
struct aggapi_sidecar;
struct cairn_err;
struct kube_guard;
struct net_http_server;
struct net_metrics;

struct aggapi_sidecar_options {
	struct aggapi_csi *csi;
	struct kube_guard *guard;
	struct net_metrics *metrics;
	const char *audience;    /* of tokens */
	bool certificates;       /* one of the right authority is enough */
	const char *client_name; /* and this name, unless NULL */

	/* Whether this instance serves; when not, why. */
	bool (*serves)(void *arg);
	void *arg;
};

/* Adds its routes before `http` starts; everything is borrowed. */
int aggapi_sidecar_new(const struct aggapi_sidecar_options *options, struct net_http_server *http,
		       struct aggapi_sidecar **ret, struct cairn_err *err);
void aggapi_sidecar_free(struct aggapi_sidecar *sidecar);
CAIRN_DEFINE_CLEANUP(struct aggapi_sidecar, aggapi_sidecar_free);

#endif
