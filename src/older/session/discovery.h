/* SPDX-License-Identifier: Apache-2.0 */

/* Controller of DriverDiscovery: checks that the endpoint is reachable and has the right
 * certificate.
 *
 * Each object is checked when its spec changes and every DISCOVERY_PROBE_MS: it must be
 * named after the driver, have exactly one of url and service, https only, a CA bundle
 * that contains certificates, and an endpoint that answers, with any status, and shows a
 * certificate of that CA. The status says whether it is reachable, or why not. Only the
 * leader works.
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
int session_discovery_controller_new(struct kube_client *client, struct kube_recorder *recorder,
				     struct discovery_controller **ret, struct cairn_err *err);

/* Ends the workers; nothing is written after it returns. The controller stays valid, so
 * that an election may still report to it. Idempotent. */
void session_discovery_controller_stop(struct discovery_controller *controller);
void session_discovery_controller_free(struct discovery_controller *controller); /* accepts NULL */
CAIRN_DEFINE_CLEANUP(struct discovery_controller, session_discovery_controller_free);

/* True once all objects have been read. */
bool session_discovery_controller_is_ready(struct discovery_controller *controller);

/* Sets whether this process leads; from any thread. */
void session_discovery_controller_lead(struct discovery_controller *controller, bool leads);

#endif
