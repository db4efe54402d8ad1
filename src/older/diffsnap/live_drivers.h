/* SPDX-License-Identifier: Apache-2.0 */

/* Drivers whose controller has answered a DifferentialSnapshot lately.
 *
 * A controller with hundreds of objects in its queue needs longer for the last one than an
 * object may be without an answer. It is distinguished from one that does not run by the other
 * objects of the driver that got an answer meanwhile. The driver of an object is known from
 * its target only, so the last answered objects are remembered, and looked up when the
 * driver of an unanswered one is to be judged.
 *
 * Thread-safe.
 */
#ifndef CAIRN_DIFFSNAP_LIVE_DRIVERS_H
#define CAIRN_DIFFSNAP_LIVE_DRIVERS_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

struct cairn_err;
struct diffsnap_live_drivers;
struct kube_call;
struct kube_client;

/* First words of the error that unclaimed.h writes, which is not an answer. */
#define DIFFSNAP_UNCLAIMED_ERROR "no controller of the CSI driver"

int diffsnap_live_drivers_new(struct diffsnap_live_drivers **ret, struct cairn_err *err);
void diffsnap_live_drivers_free(struct diffsnap_live_drivers *live); /* accepts NULL */

/* For the handler of an informer of DifferentialSnapshots: remembers `now` if it has just
 * got its answer. */
void diffsnap_live_drivers_note(struct diffsnap_live_drivers *live, const json_t *old,
				const json_t *now);

/* Sets *ret to whether an object of this driver was answered in the last `within_ms`.
 * Objects whose target cannot be found any more do not count. Fails with the codes of
 * kube_snapshot_get() that are about the API server. */
int diffsnap_live_drivers_find(struct diffsnap_live_drivers *live, struct kube_client *client,
			       const struct kube_call *how, const char *driver, uint64_t within_ms,
			       bool *ret, struct cairn_err *err);

#endif
