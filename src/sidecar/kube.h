/* SPDX-License-Identifier: Apache-2.0 */

/* The sidecar's interface to Kubernetes.
 *
 * A table, so that every decision can be tested without an API server; kube_client.h
 * implements it with src/kube. The slots are called from many threads. Failures have the
 * codes of kube/kube_client.h.
 */
#ifndef CAIRN_SIDECAR_KUBE_H
#define CAIRN_SIDECAR_KUBE_H

#include <jansson.h>
#include <stdbool.h>

struct cairn_err;
struct kube_access;
struct kube_access_answer;
struct kube_ref;
struct kube_resource;
struct kube_wait;

struct sidecar_kube_ops {
	/* Checks that the token is valid for this audience. Returns its UserInfo, owned by the
	 * caller.
	 *
	 * CAIRN_UNAUTHENTICATED  it is not valid; never because of our own credentials
	 */
	int (*review_token)(void *self, const char *token, const char *audience,
			    const struct kube_wait *wait, json_t **ret_user, struct cairn_err *err);

	/* Checks whether the user may do `what`. A refusal is a result, not an error. */
	int (*review_access)(void *self, const json_t *user, const struct kube_access *what,
			     const struct kube_wait *wait, struct kube_access_answer *ret,
			     struct cairn_err *err);

	int (*get)(void *self, const struct kube_ref *ref, const struct kube_wait *wait,
		   json_t **ret, struct cairn_err *err);

	/* Returns all objects of a cluster-scoped kind, as a list object. */
	int (*list)(void *self, const struct kube_resource *resource, const struct kube_wait *wait,
		    json_t **ret, struct cairn_err *err);

	/* Returns the driver's VolumeSnapshotContents with that snapshot handle, as an array that
	 * may be empty; with `sure` the result is no older than the call.
	 *
	 * CAIRN_DENIED  the sidecar may not list contents
	 */
	int (*contents_of)(void *self, const char *driver, const char *handle, bool sure,
			   const struct kube_wait *wait, json_t **ret, struct cairn_err *err);
};

struct sidecar_kube {
	const struct sidecar_kube_ops *ops;
	void *self;
};

#endif
