/* SPDX-License-Identifier: Apache-2.0 */

/* The controller of DifferentialSnapshots.
 *
 * Every DifferentialSnapshot whose target belongs to our driver is looked at: its
 * VolumeSnapshots and their contents must exist and belong to one another, the
 * driver must offer the service, and a first page must come back. Then a resource
 * is put into the table and the object says Success and where to read; or it says
 * Failure and why. What is not ready yet stays Pending and is looked at again.
 *
 * The status keeps the base's handle: when the VolumeSnapshot of the base is
 * deleted later, also while this process does not run, the driver can still be
 * asked about it. The target must exist.
 *
 * State is in the objects only: after a restart all of them are looked at anew.
 */
#ifndef CAIRN_DIFFSNAP_CONTROLLER_H
#define CAIRN_DIFFSNAP_CONTROLLER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/cleanup.h"

struct cairn_err;
struct diffsnap_controller;
struct diffsnap_driver;
struct diffsnap_table;
struct kube_client;
struct kube_recorder;

struct diffsnap_controller_options {
	struct kube_client *client;
	struct kube_recorder *recorder; /* may be NULL */
	struct diffsnap_driver *driver;
	struct diffsnap_table *table;
	const char *address; /* host:port for readers; copied */
};

/* Begins at once; everything is borrowed. */
int diffsnap_controller_new(const struct diffsnap_controller_options *options,
			    struct diffsnap_controller **ret, struct cairn_err *err);

/* Ends its threads. Accepts NULL. */
void diffsnap_controller_free(struct diffsnap_controller *controller);
CAIRN_DEFINE_CLEANUP(struct diffsnap_controller, diffsnap_controller_free);

/* True once everything that was there at the start was looked at; it stays true. */
bool diffsnap_controller_is_ready(struct diffsnap_controller *controller);

struct diffsnap_controller_stats {
	uint64_t successes; /* looked at, by what was found */
	uint64_t failures;
	uint64_t pending;
	uint64_t errors; /* neither: the API server or the driver could not be asked */
};

void diffsnap_controller_stats(struct diffsnap_controller *controller,
			       struct diffsnap_controller_stats *ret);

#endif
