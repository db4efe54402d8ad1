/* SPDX-License-Identifier: Apache-2.0 */

/* Decides about a pending SnapshotSessionRequest: the driver of its snapshots, and the
 * address of that driver's service. */
#ifndef CAIRN_SESSION_JUDGE_H
#define CAIRN_SESSION_JUDGE_H

#include <jansson.h>
#include <stdbool.h>

#include "base/err.h"
#include "older/session/settings.h"

struct kube_call;
struct kube_client;
struct kube_informer;

enum session_state {
	SESSION_PENDING,
	SESSION_READY,
	SESSION_FAILED,
};

struct session_verdict {
	enum session_state state;
	struct cairn_err why;  /* set unless it is ready */
	json_t *configuration; /* the driver's; the caller's reference */
	char driver_namespace[SESSION_NAMESPACE_MAX + 1];
};

#define SESSION_DRIVER_INDEX "driver"

/* How long a new request waits for its driver's configuration before it fails: that of a
 * driver that has just started, or that was deleted and is being put back. */
#define SESSION_CONFIGURATION_WAIT_MS 10000U

struct session_validation {
	struct kube_client *client;
	struct kube_informer *configurations; /* with an index SESSION_DRIVER_INDEX */
	const char *ns;                       /* of a driver whose configuration does not say it */
};

/* Fails if the API server cannot be reached; everything else is a verdict. */
int session_request_validate(const struct session_validation *with, const json_t *request,
			     const struct kube_call *how, struct session_verdict *ret,
			     struct cairn_err *err);

#endif
