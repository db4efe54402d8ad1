/* SPDX-License-Identifier: Apache-2.0 */

/* The controller of snapshot sessions.
 *
 * A new SnapshotSessionRequest becomes Pending, with its expiry time. A pending request
 * becomes Ready if all its snapshots belong to one driver that has a
 * SnapshotServicesConfiguration; else Failed, with the reason. Without a configuration it
 * stays Pending for SESSION_CONFIGURATION_WAIT_MS, and a failed request is processed again
 * when a configuration changes. Each ready request has a
 * SnapshotSessionData in the driver's namespace: its name, 256 random bits, is the token.
 * Requests and data are deleted when they expire, and data also when its request is
 * deleted.
 *
 * Data carries its request's uid as a label: after a crash between the two writes the same
 * token is used again, so that no orphaned session remains.
 *
 * Only the leader works. All state is in the objects: a new leader processes all of them.
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
	const char *ns;                 /* namespace of the ConfigMap; copied */
	const char *config_map;         /* its name; copied */
};

int session_controller_new(const struct session_controller_options *options,
			   struct session_controller **ret, struct cairn_err *err);

/* Ends the workers; nothing is written after it returns. The controller stays valid, so
 * that an election may still report to it. Idempotent. */
void session_controller_stop(struct session_controller *controller);

/* Stops and frees. Accepts NULL. */
void session_controller_free(struct session_controller *controller);
CAIRN_DEFINE_CLEANUP(struct session_controller, session_controller_free);

/* Sets whether this process leads; from any thread. A new leader processes all objects. */
void session_controller_lead(struct session_controller *controller, bool leads);

/* True once all objects are known. */
bool session_controller_is_ready(struct session_controller *controller);

struct session_controller_stats {
	uint64_t ready; /* sessions that this process made, failed and ended */
	uint64_t failed;
	uint64_t expired;
	uint64_t errors; /* attempts that failed and will be retried */
	uint64_t waiting;
};

void session_controller_stats(struct session_controller *controller,
			      struct session_controller_stats *ret);

#endif
