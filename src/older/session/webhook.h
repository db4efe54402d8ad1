/* SPDX-License-Identifier: Apache-2.0 */

/* Validating webhook for SnapshotSessionRequests: the creator must be allowed to `get` the
 * listed VolumeSnapshots, because the session gives access to them. If this cannot be
 * determined, the request is rejected.
 *
 * Only the API server may send reviews: otherwise any peer could query what any user may
 * do. The API server shows a certificate of a given CA, or knows the last part of the
 * path, which is stored in its ValidatingWebhookConfiguration and in a file. For all other
 * peers the path does not exist. */
#ifndef CAIRN_SESSION_WEBHOOK_H
#define CAIRN_SESSION_WEBHOOK_H

#include <stdbool.h>

#include "base/cleanup.h"

struct cairn_err;
struct kube_authz_cache;
struct net_http_server;
struct net_metrics;
struct session_webhook;

#define SESSION_WEBHOOK_PATH "/validate-snapshotsessionrequest"

/* Length of the secret part of the path, which consists of letters, digits, '-' and '_'. */
#define SESSION_SECRET_MIN 16U
#define SESSION_SECRET_MAX 128U

struct session_webhook_options {
	struct kube_authz_cache *guard;
	struct net_metrics *metrics; /* may be NULL */
	const char *secret_file;     /* read again for each review; NULL: none */
	bool certificates;           /* a verified client certificate is enough */
	const char *client_name;     /* with this common name; NULL: any */
};

/* Adds its route to `http`, before that starts; everything is borrowed. Free it after
 * `http`. At least one of `secret_file` and `certificates` must be set.
 *
 * CAIRN_INVALID  the file does not contain such a secret
 */
int session_webhook_new(const struct session_webhook_options *options, struct net_http_server *http,
			struct session_webhook **ret, struct cairn_err *err);
void session_webhook_free(struct session_webhook *webhook); /* accepts NULL */
CAIRN_DEFINE_CLEANUP(struct session_webhook, session_webhook_free);

#endif
