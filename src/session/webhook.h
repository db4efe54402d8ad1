/* SPDX-License-Identifier: Apache-2.0 */

/* The validating webhook of SnapshotSessionRequests: whoever creates one must be
 * allowed to `get` the VolumeSnapshots that it names, because the session will
 * answer for them. What can not be found out is refused. */
#ifndef CAIRN_SESSION_WEBHOOK_H
#define CAIRN_SESSION_WEBHOOK_H

#include <stdint.h>

#include "base/cleanup.h"

struct cairn_err;
struct kube_client;
struct net_http_server;
struct net_metrics;
struct session_webhook;

#define SESSION_WEBHOOK_PATH "/validate-snapshotsessionrequest"

/* Adds its route to `http`, before that starts; everything is borrowed. Freed
 * after `http`. `metrics` may be NULL. */
int session_webhook_new(struct kube_client *client, struct net_metrics *metrics,
			struct net_http_server *http, struct session_webhook **ret,
			struct cairn_err *err);
void session_webhook_free(struct session_webhook *webhook); /* accepts NULL */
CAIRN_DEFINE_CLEANUP(struct session_webhook, session_webhook_free);

#endif
