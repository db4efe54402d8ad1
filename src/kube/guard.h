/* SPDX-License-Identifier: Apache-2.0 */

/* The checks before every answer, the same for all flavours of the API: the caller's
 * identity, its rights, and that a snapshot is what it claims to be.
 *
 * A caller is let in when its token is good for our audience (TokenReview) and its
 * user may do the very thing (SubjectAccessReview). Answers are believed for a
 * while, by hash of the token and of the user; the token itself is not kept:
 *
 *   good token           keep_ms, never past the token's own expiry
 *   right                keep_ms
 *   bad token, no right  refusal_ms
 *
 * so a right that is taken away is gone after at most keep_ms. What could not be
 * asked is not remembered. Of those with the same question at the same time one
 * asks. Questions of callers with an origin (kube_wait) are taken in turn from the
 * origins, so that one that floods us with bad tokens does not use up the API
 * server for all.
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
struct kube_guard;
struct kube_snapshot;
struct kube_user;
struct kube_wait;

/* Answers of each kind that are remembered: tokens and rights in use within
 * keep_ms. More push out the oldest. */
#define KUBE_GUARD_ENTRIES_MAX 8192U

/* Kubernetes makes no longer tokens; longer ones are refused without a question. */
#define KUBE_GUARD_TOKEN_MAX 16384U

struct kube_guard_options {
	struct kube_reviewer reviewer;
	struct kube_client *client; /* reads snapshots; NULL where none are read; borrowed */
	uint64_t keep_ms;           /* 0 keeps nothing */
	uint64_t refusal_ms;        /* an answer that says no */
	bool turns;                 /* take questions in turn; false where the reviewer does */
};

/* For roles that ask the API server themselves: 10 s, and 2 s for a no. */
struct kube_guard_options kube_guard_defaults(struct kube_client *client);

int kube_guard_new(const struct kube_guard_options *options, struct kube_guard **ret,
		   struct cairn_err *err);
void kube_guard_free(struct kube_guard *guard); /* accepts NULL */
CAIRN_DEFINE_CLEANUP(struct kube_guard, kube_guard_free);

/* The owner of the token, which must be good for the audience (NULL: the API
 * server's). *ret is the caller's reference.
 *
 * CAIRN_UNAUTHENTICATED  no token, or it is not good
 * CAIRN_NO_SPACE         too many wait for an answer
 * CAIRN_UNAVAILABLE, CAIRN_CANCELLED, CAIRN_DEADLINE  could not be asked; retry
 * CAIRN_INTERNAL         the API server refuses us, or its answer is broken
 */
int kube_guard_user(struct kube_guard *guard, const char *token, const char *audience,
		    const struct kube_wait *wait, struct kube_user **ret, struct cairn_err *err);

/* 0 when the user may.
 *
 * CAIRN_DENIED  they may not; the text says what, or the authorizer's reason
 * others as above
 */
int kube_guard_access(struct kube_guard *guard, const struct kube_user *user,
		      const struct kube_access *what, const struct kube_wait *wait,
		      struct cairn_err *err);

/* May the user `get` this VolumeSnapshot? Codes as above. */
int kube_guard_may_read(struct kube_guard *guard, const struct kube_user *user, const char *ns,
			const char *name, const struct kube_wait *wait, struct cairn_err *err);

/* The VolumeSnapshot, for a user who may `get` it: nothing about it is said to
 * anybody else. Codes as above, and those of kube_snapshot_get(). */
int kube_guard_snapshot(struct kube_guard *guard, const struct kube_user *user, const char *ns,
			const char *name, const struct kube_wait *wait, struct kube_snapshot *ret,
			struct cairn_err *err);

/* Drops what has expired. */
void kube_guard_sweep(struct kube_guard *guard);
void kube_guard_stats(struct kube_guard *guard, struct kube_cache_stats *ret_tokens,
		      struct kube_cache_stats *ret_rights);

/* The error of a question that could not be asked, with the code that a caller is given:
 * retrying helps when the API server is away, and does not when it refuses us. */
int kube_guard_could_not_ask(int rc, struct cairn_err *err);

/* The token of an Authorization field, or NULL: "Bearer TOKEN". Borrowed. */
const char *kube_bearer_token(const char *authorization);

#endif
