/* SPDX-License-Identifier: Apache-2.0 */

/* The credentials of a client at one moment, as a connection and a request need them.
 *
 * An identity is immutable; a changed token or certificate makes a new one. Requests in
 * flight keep the one they started with. The secrets are wiped when the last reference is
 * released.
 */
#ifndef CAIRN_KUBE_IDENTITY_H
#define CAIRN_KUBE_IDENTITY_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/cleanup.h"

struct curl_slist;

struct kube_identity {
	atomic_uint refs;
	uint64_t generation;

	/* PEM; NULL if not set */
	char *ca;
	char *cert;
	char *key;

	char *token; /* the bearer token; NULL if not set */

	/* Authorization and Impersonate header fields of every request */
	struct curl_slist *fields;
};

/* Zeroed, with one reference; NULL when memory is short. */
struct kube_identity *kube_identity_new(void);
struct kube_identity *kube_identity_ref(struct kube_identity *identity);

/* Accepts NULL. */
void kube_identity_unref(struct kube_identity *identity);
CAIRN_DEFINE_CLEANUP(struct kube_identity, kube_identity_unref);

/* True if both are the same to a server. */
bool kube_identity_equal(const struct kube_identity *a, const struct kube_identity *b);

/* Appends "name: value". Returns false when memory is short, or if the value contains a
 * character that would end the header field. */
bool kube_identity_add(struct kube_identity *identity, const char *name, const char *value);

#endif
