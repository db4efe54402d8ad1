/* SPDX-License-Identifier: Apache-2.0 */

/* The kinds of the group that are CRDs. They are stored at another version than the one
 * that this server has, and are served at this one by passing requests on.
 *
 * An APIService sends the whole of a version to one server, so a CRD of the group cannot be
 * had at v1alpha1 beside VolumeSnapshotDelta in any other way. */
#ifndef CAIRN_AGGAPI_PASSED_KINDS_H
#define CAIRN_AGGAPI_PASSED_KINDS_H

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"
#include "kube/kube_resource.h"

struct aggapi_kinds;
struct cairn_err;
struct kube_client;
struct kube_wait;

/* How long it may take until a CRD that was installed or removed is noticed. */
#define AGGAPI_KINDS_KEEP_MS 2000U

/* The kind with that plural; NULL if it is not one of them. */
const struct kube_resource *aggapi_passed_kind(const char *plural);

/* The client is borrowed. */
int aggapi_kinds_new(struct kube_client *client, struct aggapi_kinds **ret, struct cairn_err *err);
void aggapi_kinds_free(struct aggapi_kinds *kinds);
CAIRN_DEFINE_CLEANUP(struct aggapi_kinds, aggapi_kinds_free);

/* Returns the entries (of an APIResourceList) of those kinds whose CRD is installed now, as
 * an array that the caller owns. Fails if the API server cannot be asked. */
int aggapi_kinds_list(struct aggapi_kinds *kinds, const struct kube_wait *wait, json_t **ret,
		      struct cairn_err *err);

/* Returns the OpenAPI document (version 3) of those kinds as a thread last read it, renamed
 * to the version of this server: {"paths": …, "components": {"schemas": …}}. NULL before
 * that; otherwise the caller's reference. */
json_t *aggapi_kinds_openapi(struct aggapi_kinds *kinds);

#endif
