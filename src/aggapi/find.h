/* SPDX-License-Identifier: Apache-2.0 */

/* From the names in a VolumeSnapshotDelta to what a driver's sidecar is asked. */
#ifndef CAIRN_AGGAPI_FIND_H
#define CAIRN_AGGAPI_FIND_H

#include <jansson.h>

#include "aggapi/endpoint.h"
#include "kube/snapshot.h"

struct aggapi_delta;
struct aggapi_refusal;
struct kube_call;
struct kube_client;
struct kube_guard;
struct kube_informer;

/* Who is asked, and where things stand. */
struct aggapi_finder {
	struct kube_client *client;
	struct kube_guard *guard;
	struct kube_informer *discoveries; /* with the index below */
};

#define AGGAPI_INDEX_DRIVER "driver"
void aggapi_index_driver(const json_t *object, void (*emit)(void *to, const char *text), void *to);

struct aggapi_found {
	struct kube_snapshot base, target; /* base.handle is NULL where there is none */
	struct aggapi_endpoint endpoint;
	json_t *secrets;         /* NULL: none */
	char secret_version[64]; /* changes with the Secret; "" where there is none */
};

/* Finds all of it for `user`, who must be allowed to read the Secret that the
 * request names. Fails with a refusal. */
int aggapi_find(const struct aggapi_finder *finder, const struct aggapi_delta *delta,
		const json_t *user, const struct kube_call *how, struct aggapi_found *ret,
		struct aggapi_refusal *refusal);
void aggapi_found_done(struct aggapi_found *found);

#endif
