/* SPDX-License-Identifier: Apache-2.0 */

/* Who we are to the server at one moment: what a connection and a request need.
 *
 * An identity never changes; when a token or certificate does, there is a new
 * one. Requests under way keep the one they began with. The texts are wiped
 * when the last holder lets go.
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

	/* PEM; NULL where there is none */
	char *ca;
	char *cert;
	char *key;

	char *token; /* the bearer token; NULL where there is none */

	/* Authorization and Impersonate fields for every request */
	struct curl_slist *fields;
};

/* Zeroed, held once; NULL when memory is short. */
struct kube_identity *kube_identity_new(void);
struct kube_identity *kube_identity_ref(struct kube_identity *identity);

/* Accepts NULL. */
void kube_identity_unref(struct kube_identity *identity);
CAIRN_DEFINE_CLEANUP(struct kube_identity, kube_identity_unref);

/* Wipes the texts, then frees the list; accepts NULL. */
void kube_fields_free(struct curl_slist *fields);

/* True when both say the same to a server. */
bool kube_identity_equal(const struct kube_identity *a, const struct kube_identity *b);

/* Appends "name: value"; false when memory is short, or the value has a
 * character that would end the field. */
bool kube_identity_add(struct kube_identity *identity, const char *name, const char *value);

#endif
