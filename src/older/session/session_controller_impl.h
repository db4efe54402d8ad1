/* SPDX-License-Identifier: Apache-2.0 */

/* The parts of the session controller: controller.c has threads and events, request.c and
 * data.c process one object. */
#ifndef CAIRN_SESSION_CONTROLLER_IMPL_H
#define CAIRN_SESSION_CONTROLLER_IMPL_H

#include <jansson.h>
#include <stdatomic.h>

#include "kube/controller.h"
#include "kube/kube_client.h"
#include "older/session/session_controller.h"

/* Label of a SnapshotSessionData: uid of its request. */
#define SESSION_UID_LABEL "cbt.storage.k8s.io/session-request-uid"

/* Indexes of the informers. */
#define SESSION_BY_UID     "uid"     /* requests, by their uid */
#define SESSION_BY_REQUEST "request" /* data, by the label above */

struct session_controller {
	struct session_controller_options options;
	char *ns;
	char *config_map;
	struct kube_informer *requests;
	struct kube_informer *data;
	struct kube_informer *configurations;
	struct kube_informer *settings_map;
	struct kube_controller *common;
	_Atomic uint64_t expiry_ms;
	_Atomic uint64_t ready;
	_Atomic uint64_t failed;
	_Atomic uint64_t expired;
	_Atomic uint64_t errors;
};

/* *ret_again_ms is the delay before the next look; UINT64_MAX is never, 0 the backoff. */
int session_request_look(struct session_controller *c, const json_t *request,
			 uint64_t *ret_again_ms, struct cairn_err *err);
int session_data_look(struct session_controller *c, const json_t *data, uint64_t *ret_again_ms,
		      struct cairn_err *err);

/* Milliseconds until the time in `text`; 0 if it has passed. UINT64_MAX if the text is not
 * a time. */
uint64_t session_time_left(const char *text);

#endif
