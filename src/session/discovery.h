/* SPDX-License-Identifier: Apache-2.0 */

/* The controller of DriverDiscovery: is the endpoint there, and is it who it
 * should be?
 *
 * Each object is looked at when its spec changes and every DISCOVERY_PROBE_MS: the
 * name of the driver as its own, exactly one of url and service, https only, a CA
 * bundle that holds certificates, and an endpoint that answers with a certificate of
 * that bundle, whatever it answers. The status says whether it is reachable, or why not. Only
 * the leader works.
 */
#ifndef CAIRN_SESSION_DISCOVERY_H
#define CAIRN_SESSION_DISCOVERY_H

#include <stdbool.h>

#include "base/cleanup.h"

struct cairn_err;
struct discovery_controller;
struct kube_client;
struct kube_recorder;

#define DISCOVERY_PROBE_MS 60000U

/* `recorder` may be NULL; both are borrowed. */
int discovery_controller_new(struct kube_client *client, struct kube_recorder *recorder,
			     struct discovery_controller **ret, struct cairn_err *err);

/* Ends the workers; nothing is written after it returns. The object stays valid, so
 * that an election may still report to it. Idempotent. */
void discovery_controller_stop(struct discovery_controller *controller);
void discovery_controller_free(struct discovery_controller *controller); /* accepts NULL */
CAIRN_DEFINE_CLEANUP(struct discovery_controller, discovery_controller_free);

/* All objects have been read once. */
bool discovery_controller_is_ready(struct discovery_controller *controller);

/* Whether we lead; from any thread. */
void discovery_controller_lead(struct discovery_controller *controller, bool leads);

#endif
