/* SPDX-License-Identifier: Apache-2.0 */

/* Resolves the names in a VolumeSnapshotDelta to the query for a driver's sidecar. */
#ifndef CAIRN_AGGAPI_FIND_H
#define CAIRN_AGGAPI_FIND_H

#include <jansson.h>

#include "kube/driver_endpoint.h"
#include "kube/kube_snapshot.h"

struct aggapi_delta;
struct aggapi_refusal;
struct kube_client;
struct kube_authz_cache;
struct kube_informer;
struct kube_user;
struct kube_wait;

/* The sources of the lookups. */
struct aggapi_finder {
	struct kube_client *client;
	struct kube_authz_cache *guard;
	struct kube_informer *discoveries;
};

struct aggapi_found {
	struct kube_snapshot base, target; /* base.handle is NULL if there is no base */
	struct kube_driver_endpoint endpoint;
	json_t *secrets;         /* NULL: none */
	char secret_version[64]; /* changes with the Secret; "" if there is none */
};

/* Resolves all of it for `user`, who must be allowed to `get` both VolumeSnapshots and the
 * Secret that the request names, because we read them with our own permissions. Fails with
 * a refusal. */
int aggapi_resolve(const struct aggapi_finder *finder, const struct aggapi_delta *delta,
		   const struct kube_user *user, const struct kube_wait *wait,
		   struct aggapi_found *ret, struct aggapi_refusal *refusal);
void aggapi_found_done(struct aggapi_found *found);

#endif
