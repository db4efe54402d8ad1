/* SPDX-License-Identifier: Apache-2.0 */

/* The validating webhook of SnapshotSessionRequests: whoever creates one must be
 * allowed to `get` the VolumeSnapshots that it names, because the session will
 * answer for them. What can not be found out is refused.
 *
 * Reviews are for the API server only: anybody else could ask what any user may do. It
 * shows a certificate of a given authority, or knows the last part of the path, which
 * stands in its ValidatingWebhookConfiguration and in a file. To others the path does
 * not exist. */
#ifndef CAIRN_SESSION_WEBHOOK_H
#define CAIRN_SESSION_WEBHOOK_H

#include <stdbool.h>

#include "base/cleanup.h"

struct cairn_err;
struct kube_guard;
struct net_http_server;
struct net_metrics;
struct session_webhook;

#define SESSION_WEBHOOK_PATH "/validate-snapshotsessionrequest"

/* Characters of the secret part of the path, which is of letters, digits, '-' and '_'. */
#define SESSION_SECRET_MIN 16U
#define SESSION_SECRET_MAX 128U

struct session_webhook_options {
	struct kube_guard *guard;
	struct net_metrics *metrics; /* may be NULL */
	const char *secret_file;     /* read again for each review; NULL: none */
	bool certificates;           /* a verified one is enough */
	const char *client_name;     /* with this common name; NULL: any */
};

/* Adds its route to `http`, before that starts; everything is borrowed. Freed
 * after `http`. One of `secret_file` and `certificates` is given.
 *
 * CAIRN_INVALID  the file holds no such secret
 */
int session_webhook_new(const struct session_webhook_options *options, struct net_http_server *http,
			struct session_webhook **ret, struct cairn_err *err);
void session_webhook_free(struct session_webhook *webhook); /* accepts NULL */
CAIRN_DEFINE_CLEANUP(struct session_webhook, session_webhook_free);

#endif
