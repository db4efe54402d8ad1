/* SPDX-License-Identifier: Apache-2.0 */

/* Fails DifferentialSnapshots that no controller has answered.
 *
 * Each driver has a controller of its own, and an object of a driver without one would stay
 * without a status for ever: the driver does not offer DIFFERENTIAL_SNAPSHOT_SERVICE, or no
 * controller runs beside it. Such an object becomes a Failure with that reason once it is
 * older than a time limit, and the controller has answered no other object in that time: one
 * that is busy gets to it. A controller that starts later processes it again.
 */
#ifndef CAIRN_DIFFSNAP_UNCLAIMED_H
#define CAIRN_DIFFSNAP_UNCLAIMED_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/cleanup.h"

struct cairn_err;
struct diffsnap_live_drivers;
struct diffsnap_unclaimed;
struct kube_call;
struct kube_client;
struct kube_recorder;

struct diffsnap_unclaimed_options {
	struct kube_client *client;
	struct kube_recorder *recorder; /* may be NULL */
	uint64_t after_ms;              /* age of an object without a state; UINT64_MAX: any */

	/* For diffsnap_unclaimed_look() only; the controller below has its own. */
	struct diffsnap_live_drivers *live;
};

/* Processes one object of any driver; one that has a state is left alone. *ret_again_ms is
 * the delay before the next look, as in kube/controller.h. */
int diffsnap_unclaimed_look(const struct diffsnap_unclaimed_options *options, const json_t *object,
			    const struct kube_call *how, uint64_t *ret_again_ms,
			    struct cairn_err *err);

/* A controller that does this for all objects, for a process that serves no driver. Only the
 * leader works. The CRD need not be installed. */
int diffsnap_unclaimed_new(const struct diffsnap_unclaimed_options *options,
			   struct diffsnap_unclaimed **ret, struct cairn_err *err);

/* Ends the workers; nothing is written after it returns. Idempotent. */
void diffsnap_unclaimed_stop(struct diffsnap_unclaimed *unclaimed);
void diffsnap_unclaimed_free(struct diffsnap_unclaimed *unclaimed); /* accepts NULL */
CAIRN_DEFINE_CLEANUP(struct diffsnap_unclaimed, diffsnap_unclaimed_free);

/* Sets whether this process leads; from any thread. */
void diffsnap_unclaimed_lead(struct diffsnap_unclaimed *unclaimed, bool leads);

#endif
