/* SPDX-License-Identifier: Apache-2.0 */

/* Who calls, and whether they may.
 *
 * A call is let in when its token is good for our audience (TokenReview) and its
 * user may `get` the very VolumeSnapshot it names (SubjectAccessReview). Answers
 * are believed for a while, by hash of the token and of the user:
 *
 *   good token          keep_ms, never past the token's own expiry
 *   right               keep_ms
 *   our audience        keep_ms
 *   bad token, no right refusal_ms
 *
 * so a right that is taken away is gone after at most keep_ms, for calls that
 * begin then. Tokens themselves are not kept.
 *
 * Thread-safe.
 */
#ifndef CAIRN_SIDECAR_ACCESS_H
#define CAIRN_SIDECAR_ACCESS_H

#include <stdint.h>

#include "base/cleanup.h"
#include "sidecar/cache.h"
#include "sidecar/kube.h"

struct cairn_err;
struct sidecar_access;
struct sidecar_user;
struct sidecar_wait;

/* Entries a cache may have: tokens and users in use within its time. */
#define SIDECAR_ACCESS_ENTRIES_MAX 8192U

struct sidecar_access_options {
	struct sidecar_kube kube;
	const char *audience; /* NULL or "": from the SnapshotMetadataService; copied */
	uint64_t keep_ms;
	uint64_t refusal_ms;
};

int sidecar_access_new(const struct sidecar_access_options *options, struct sidecar_access **ret,
		       struct cairn_err *err);
void sidecar_access_free(struct sidecar_access *access); /* accepts NULL */
CAIRN_DEFINE_CLEANUP(struct sidecar_access, sidecar_access_free);

/* Who the token belongs to; *ret is the caller's reference. `driver` is the name
 * of the SnapshotMetadataService.
 *
 * CAIRN_UNAUTHENTICATED  the token is not good for our audience
 * CAIRN_UNAVAILABLE      the API server can not be asked
 * CAIRN_INTERNAL         there is no SnapshotMetadataService, or the answer is none
 */
int sidecar_access_user(struct sidecar_access *access, const char *driver, const char *token,
			const struct sidecar_wait *wait, struct sidecar_user **ret,
			struct cairn_err *err);

/* May the user read this VolumeSnapshot?
 *
 * CAIRN_DENIED       no
 * CAIRN_UNAVAILABLE, CAIRN_INTERNAL  as above
 */
int sidecar_access_check(struct sidecar_access *access, const struct sidecar_user *user,
			 const char *ns, const char *snapshot, const struct sidecar_wait *wait,
			 struct cairn_err *err);

void sidecar_access_sweep(struct sidecar_access *access);
void sidecar_access_stats(struct sidecar_access *access, struct sidecar_cache_stats *ret_tokens,
			  struct sidecar_cache_stats *ret_rights);

#endif
