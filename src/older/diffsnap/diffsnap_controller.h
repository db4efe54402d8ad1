/* SPDX-License-Identifier: Apache-2.0 */

/* The controller of DifferentialSnapshots.
 *
 * Every DifferentialSnapshot whose target belongs to our driver is processed: its
 * VolumeSnapshots and their contents must exist and refer to each other, the driver must
 * offer the service, and return a first page. Then a resource is added to the table and
 * the status becomes Success with the address to read from; otherwise Failure with the
 * reason. An object that is not ready yet stays Pending and is processed again.
 *
 * The status keeps the base's handle: if the VolumeSnapshot of the base is deleted later,
 * even while this process does not run, the driver can still be queried. The target must
 * exist: if its VolumeSnapshot is deleted later, the state becomes Failure.
 *
 * All state is in the objects: after a restart all of them are processed again.
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
	const char *address;   /* host:port for clients; copied */
	uint64_t unclaimed_ms; /* for objects of other drivers, as in unclaimed.h */
};

/* Starts immediately; everything is borrowed. */
int diffsnap_controller_new(const struct diffsnap_controller_options *options,
			    struct diffsnap_controller **ret, struct cairn_err *err);

/* Ends its threads. Accepts NULL. */
void diffsnap_controller_free(struct diffsnap_controller *controller);
CAIRN_DEFINE_CLEANUP(struct diffsnap_controller, diffsnap_controller_free);

/* True once all objects that existed at the start were processed; it stays true. */
bool diffsnap_controller_is_ready(struct diffsnap_controller *controller);

#endif
