/* SPDX-License-Identifier: Apache-2.0 */

/* From the names in a VolumeSnapshotDelta to what a driver's sidecar is asked. */
#ifndef CAIRN_AGGAPI_FIND_H
#define CAIRN_AGGAPI_FIND_H

#include <jansson.h>

#include "kube/driver_endpoint.h"
#include "kube/snapshot.h"

struct aggapi_delta;
struct aggapi_refusal;
struct kube_client;
struct kube_guard;
struct kube_informer;
struct kube_user;
struct kube_wait;

/* Who is asked, and where things stand. */
struct aggapi_finder {
	struct kube_client *client;
	struct kube_guard *guard;
	struct kube_informer *discoveries;
};

struct aggapi_found {
	struct kube_snapshot base, target; /* base.handle is NULL where there is none */
	struct kube_driver_endpoint endpoint;
	json_t *secrets;         /* NULL: none */
	char secret_version[64]; /* changes with the Secret; "" where there is none */
};

/* Finds all of it for `user`, who must be allowed to `get` both VolumeSnapshots and
 * the Secret that the request names: we read them with our own rights. Fails with a
 * refusal. */
int aggapi_find(const struct aggapi_finder *finder, const struct aggapi_delta *delta,
		const struct kube_user *user, const struct kube_wait *wait,
		struct aggapi_found *ret, struct aggapi_refusal *refusal);
void aggapi_found_done(struct aggapi_found *found);

#endif
