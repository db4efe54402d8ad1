/* SPDX-License-Identifier: Apache-2.0 */

/* Who sends a bearer token, and whether they may: TokenReview and
 * SubjectAccessReview, believed for a short while.
 *
 * Whoever reads in pages comes with the same token and the same wish a thousand
 * times. Answers are kept by a salted hash, never the token itself; in a fixed
 * number of places, so that guesses only push out one another. A right that was
 * taken away is gone after `keep_ms`.
 *
 * Thread-safe.
 */
#ifndef CAIRN_KUBE_GUARD_H
#define CAIRN_KUBE_GUARD_H

#include <jansson.h>
#include <stdint.h>

#include "base/cleanup.h"

struct cairn_err;
struct kube_access;
struct kube_call;
struct kube_client;
struct kube_guard;

/* Answers of each kind that are remembered. */
#define KUBE_GUARD_PLACES 4096U

/* A token longer than this is none of Kubernetes. */
#define KUBE_GUARD_TOKEN_MAX 16384U

struct kube_guard_options {
	const char *audience; /* NULL or "": those of the API server; copied */
	uint64_t keep_ms;     /* 0 is 10 s */
	uint64_t refusal_ms;  /* an answer that says no; 0 is 2 s */
};

/* The client is borrowed. */
int kube_guard_new(struct kube_client *client, const struct kube_guard_options *options,
		   struct kube_guard **ret, struct cairn_err *err);
void kube_guard_free(struct kube_guard *guard); /* accepts NULL */
CAIRN_DEFINE_CLEANUP(struct kube_guard, kube_guard_free);

/* The UserInfo of the token's owner, the caller's reference.
 *
 * CAIRN_UNAUTHENTICATED  no token, or it is no good here
 * CAIRN_UNAVAILABLE and others of kube/client.h: the API server could not be asked
 */
int kube_guard_user(struct kube_guard *guard, const char *token, const struct kube_call *how,
		    json_t **ret_user, struct cairn_err *err);

/* 0 when the user may.
 *
 * CAIRN_DENIED  they may not; the text says what
 * others as above
 */
int kube_guard_access(struct kube_guard *guard, const json_t *user, const struct kube_access *what,
		      const struct kube_call *how, struct cairn_err *err);

/* The token of an Authorization field, or NULL: "Bearer TOKEN". Borrowed. */
const char *kube_bearer_token(const char *authorization);

#endif
