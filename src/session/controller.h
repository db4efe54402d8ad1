/* SPDX-License-Identifier: Apache-2.0 */

/* The controller of snapshot sessions.
 *
 * A new SnapshotSessionRequest becomes Pending, with the time it will end at. A
 * pending one becomes Ready, when all its snapshots are of one driver that has a
 * SnapshotServicesConfiguration; else Failed, with the reason. For a ready one
 * there is a SnapshotSessionData in the driver's namespace: its name, 256 random
 * bits, is the token. Requests and data are deleted when their time is over, and
 * data also when its request goes.
 *
 * Data carries its request's uid as a label: after a crash between the two writes
 * the same token is used again, so that no session is left that nobody knows.
 *
 * Only the leader works. What is to be done is in the objects: whoever leads next
 * looks at all of them.
 */
#ifndef CAIRN_SESSION_CONTROLLER_H
#define CAIRN_SESSION_CONTROLLER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/cleanup.h"

struct cairn_err;
struct kube_client;
struct kube_leader;
struct kube_recorder;
struct session_controller;

struct session_controller_options {
	struct kube_client *client;
	struct kube_recorder *recorder; /* may be NULL */
	const char *ns;                 /* of the ConfigMap; copied */
	const char *config_map;         /* its name; copied */
};

int session_controller_new(const struct session_controller_options *options,
			   struct session_controller **ret, struct cairn_err *err);

/* Ends the workers; nothing is written after it returns. The object stays valid, so
 * that an election may still report to it. Idempotent. */
void session_controller_stop(struct session_controller *controller);

/* Stops and frees. Accepts NULL. */
void session_controller_free(struct session_controller *controller);
CAIRN_DEFINE_CLEANUP(struct session_controller, session_controller_free);

/* Whether we lead; from any thread. Who begins to lead looks at everything. */
void session_controller_lead(struct session_controller *controller, bool leads);

/* All objects are known. */
bool session_controller_is_ready(struct session_controller *controller);

struct session_controller_stats {
	uint64_t ready; /* sessions made, failed and ended by us */
	uint64_t failed;
	uint64_t expired;
	uint64_t errors; /* tries that could not be finished */
	uint64_t waiting;
};

void session_controller_stats(struct session_controller *controller,
			      struct session_controller_stats *ret);

#endif
