/* SPDX-License-Identifier: Apache-2.0 */

/* The checks that precede every answer, the same for all flavours of the API: the caller's
 * identity, its permissions, and the consistency of a snapshot with its content.
 *
 * A caller is admitted if its token is valid for our audience (TokenReview) and its user
 * is allowed to do exactly what it asks for (SubjectAccessReview). Answers are cached
 * under a hash of the token or the user; the token itself is not stored:
 *
 *   valid token          keep_ms, never past the token's own expiry
 *   permission           keep_ms
 *   rejection            refusal_ms
 *
 * so a revoked permission ends after at most keep_ms. A failed review is not cached.
 * Concurrent callers with the same question share one review. Reviews for callers with an
 * origin (kube_wait) are queued fairly by origin, so that a peer that floods us with bad
 * tokens does not use up the API server for all others.
 *
 * Thread-safe.
 */
#ifndef CAIRN_KUBE_GUARD_H
#define CAIRN_KUBE_GUARD_H

#include <stdbool.h>
#include <stdint.h>

#include "base/cleanup.h"
#include "kube/reviewer.h"

struct cairn_err;
struct kube_access;
struct kube_cache_stats;
struct kube_client;
struct kube_authz_cache;
struct kube_snapshot;
struct kube_user;
struct kube_wait;

/* Limit of cached answers of each kind: tokens and permissions in use within keep_ms. The
 * oldest are evicted. */
#define KUBE_GUARD_ENTRIES_MAX 8192U

/* Kubernetes issues no longer tokens; longer ones are rejected without a review. */
#define KUBE_GUARD_TOKEN_MAX 16384U

struct kube_authz_cache_options {
	struct kube_reviewer reviewer;
	struct kube_client *client; /* for reading snapshots; NULL if not needed; borrowed */
	uint64_t keep_ms;           /* 0 disables caching */
	uint64_t refusal_ms;        /* for a negative answer */
	bool turns;                 /* queue reviews fairly; false if the reviewer does */
};

/* Defaults for roles that query the API server themselves: 10 s, and 2 s for a rejection. */
struct kube_authz_cache_options kube_authz_cache_defaults(struct kube_client *client);

int kube_authz_cache_new(const struct kube_authz_cache_options *options,
			 struct kube_authz_cache **ret, struct cairn_err *err);
void kube_authz_cache_free(struct kube_authz_cache *guard); /* accepts NULL */
CAIRN_DEFINE_CLEANUP(struct kube_authz_cache, kube_authz_cache_free);

/* Returns the user of the token, which must be valid for the audience (NULL: the API
 * server's). *ret is the caller's reference.
 *
 * CAIRN_UNAUTHENTICATED  no token, or it was rejected
 * CAIRN_NO_SPACE         too many callers wait for a review
 * CAIRN_UNAVAILABLE, CAIRN_CANCELLED, CAIRN_DEADLINE  the review failed; retry
 * CAIRN_INTERNAL         the API server rejects our own credentials, or its answer is malformed
 */
int kube_authz_cache_user(struct kube_authz_cache *guard, const char *token, const char *audience,
			  const struct kube_wait *wait, struct kube_user **ret,
			  struct cairn_err *err);

/* Returns 0 if the user is allowed to.
 *
 * CAIRN_DENIED  not allowed; the text says what, or the authorizer's reason
 * other codes as above
 */
int kube_authz_cache_access(struct kube_authz_cache *guard, const struct kube_user *user,
			    const struct kube_access *what, const struct kube_wait *wait,
			    struct cairn_err *err);

/* Checks that the user may `get` this VolumeSnapshot. Codes as above. */
int kube_authz_cache_may_read(struct kube_authz_cache *guard, const struct kube_user *user,
			      const char *ns, const char *name, const struct kube_wait *wait,
			      struct cairn_err *err);

/* Returns the VolumeSnapshot if the user may `get` it. Otherwise nothing about the
 * snapshot is revealed, not even whether it exists. Codes as above, and those of
 * kube_snapshot_get(). */
int kube_authz_cache_snapshot(struct kube_authz_cache *guard, const struct kube_user *user,
			      const char *ns, const char *name, const struct kube_wait *wait,
			      struct kube_snapshot *ret, struct cairn_err *err);

/* Drops expired answers. */
void kube_authz_cache_sweep(struct kube_authz_cache *guard);
void kube_authz_cache_stats(struct kube_authz_cache *guard, struct kube_cache_stats *ret_tokens,
			    struct kube_cache_stats *ret_rights);

/* Maps the error of a review that failed to the code that the caller receives: a retry
 * helps if the API server cannot be reached, but not if it rejects our credentials. */
int kube_authz_cache_could_not_ask(int rc, struct cairn_err *err);

/* Returns the token of an Authorization field, "Bearer TOKEN", or NULL. Borrowed. */
const char *kube_bearer_token(const char *authorization);

#endif
