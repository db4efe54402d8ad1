/* SPDX-License-Identifier: Apache-2.0 */

/* Authentication and authorization of callers: kube/authz_cache.h with the audience of the
 * driver's SnapshotMetadataService, which is cached for keep_ms too, and with the error
 * texts of the upstream sidecar.
 *
 * Thread-safe.
 */
#ifndef CAIRN_SIDECAR_ACCESS_H
#define CAIRN_SIDECAR_ACCESS_H

#include <stdint.h>

#include "base/cleanup.h"
#include "kube/kube_cache.h"
#include "sidecar/kube.h"

struct cairn_err;
struct sidecar_access;
struct kube_user;
struct kube_wait;

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

/* Returns the user of the token; *ret is the caller's reference. `driver` is the name of
 * the SnapshotMetadataService.
 *
 * CAIRN_UNAUTHENTICATED  the token is not valid for our audience
 * CAIRN_UNAVAILABLE      the API server cannot be reached
 * CAIRN_INTERNAL         there is no SnapshotMetadataService, or the answer is malformed
 */
int sidecar_access_user(struct sidecar_access *access, const char *driver, const char *token,
			const struct kube_wait *wait, struct kube_user **ret,
			struct cairn_err *err);

/* Checks that the user may read this VolumeSnapshot.
 *
 * CAIRN_DENIED       not allowed
 * CAIRN_UNAVAILABLE, CAIRN_INTERNAL  as above
 */
int sidecar_access_check(struct sidecar_access *access, const struct kube_user *user,
			 const char *ns, const char *snapshot, const struct kube_wait *wait,
			 struct cairn_err *err);

void sidecar_access_sweep(struct sidecar_access *access);
void sidecar_access_stats(struct sidecar_access *access, struct kube_cache_stats *ret_tokens,
			  struct kube_cache_stats *ret_rights);

#endif
