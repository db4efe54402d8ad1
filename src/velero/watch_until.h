/* SPDX-License-Identifier: Apache-2.0 */

/* Waiting for one object by watch. */
#ifndef CAIRN_VELERO_WATCH_UNTIL_H
#define CAIRN_VELERO_WATCH_UNTIL_H

#include <jansson.h>
#include <stdint.h>

struct cairn_err;
struct kube_call;
struct kube_client;
struct kube_ref;

/* 1 when the object is as it should be, 0 when not yet, or a negative code that ends the wait.
 * `object` is NULL when it does not exist. */
typedef int velero_condition(const json_t *object, void *arg, struct cairn_err *err);

/* Returns when `holds` does; *ret (may be NULL) is the object, NULL if there is none, and the
 * caller's. A watch or a question that fails is begun again until `deadline_ns` (monotonic).
 *
 * CAIRN_DEADLINE   not in that time
 * CAIRN_DENIED, CAIRN_UNAUTHENTICATED, CAIRN_INVALID  of the API server
 * and codes of `holds` and how->check
 */
int velero_watch_until(struct kube_client *client, const struct kube_ref *ref,
		       const struct kube_call *how, uint64_t deadline_ns, velero_condition *holds,
		       void *arg, json_t **ret, struct cairn_err *err);

#endif
