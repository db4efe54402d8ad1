/* SPDX-License-Identifier: Apache-2.0 */

/* The Secret of a service. */
#ifndef CAIRN_CERTIFICATES_SECRET_H
#define CAIRN_CERTIFICATES_SECRET_H

#include <jansson.h>
#include <stdbool.h>

#include "certificates/certificate_pair.h"

struct cairn_err;
struct kube_client;

/* What it holds; NULL: it does not have that key. All texts are owned. */
struct certificates_secret {
	struct certificates_pair current, next;
	char *bundle;
	char *word;      /* webhook-secret */
	char *version;   /* resourceVersion; NULL: the Secret does not exist */
	bool is_foreign; /* cert-manager keeps it */
};

void certificates_secret_done(struct certificates_secret *secret); /* wipes keys */

/* A Secret that does not exist is an empty one. */
int certificates_secret_read(struct kube_client *client, const char *ns, const char *name,
			     struct certificates_secret *ret, struct cairn_err *err);

/* Writes all of it, if it has not changed since it was read, and reads its new version.
 *
 * CAIRN_ABORTED  it has changed
 */
int certificates_secret_write(struct kube_client *client, const char *ns, const char *name,
			      struct certificates_secret *secret, struct cairn_err *err);

#endif
