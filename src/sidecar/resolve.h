/* SPDX-License-Identifier: Apache-2.0 */

/* Resolves names in Kubernetes to handles of the driver.
 *
 * A VolumeSnapshot is followed to its VolumeSnapshotContent and back: only a content that
 * refers to this snapshot, belongs to our driver and is ready supplies a handle. The
 * secret for the driver is that of the snapshot's class; a class without a secret, or no
 * class, is not an error.
 *
 * Results are cached for keep_ms, missing objects for refusal_ms; objects that are not
 * ready are not cached. Secrets are wiped when they are dropped.
 *
 * Thread-safe.
 */
#ifndef CAIRN_SIDECAR_NAMES_H
#define CAIRN_SIDECAR_NAMES_H

#include <stdbool.h>
#include <stdint.h>

#include "base/cleanup.h"
#include "kube/kube_cache.h"
#include "kube/value.h"
#include "sidecar/kube.h"

struct cairn_err;
struct sidecar_access;
struct sidecar_resolve;
struct sidecar_secret;
struct kube_user;
struct kube_wait;

#define SIDECAR_NAMES_ENTRIES_MAX 8192U

/* A resolved snapshot. */
struct sidecar_snapshot {
	struct kube_value value;
	char *ns;
	char *name;
	char *content;
	char *handle;
	char *volume;                  /* handle of its volume; NULL if Kubernetes has none */
	char *node;                    /* whose driver has it; NULL: any, or not looked for */
	char *class_name;              /* NULL when it has none */
	char *used_secret;             /* from the deletion annotations, and its */
	char *used_secret_ns;          /* namespace; NULL if there is none */
	struct sidecar_secret *secret; /* NULL: the driver needs none */
};

struct sidecar_resolve_options {
	struct sidecar_kube kube;
	uint64_t keep_ms;
	uint64_t refusal_ms;
	bool nodes; /* find the node of each snapshot */
};

int sidecar_resolve_new(const struct sidecar_resolve_options *options, struct sidecar_resolve **ret,
			struct cairn_err *err);
void sidecar_resolve_free(struct sidecar_resolve *names); /* accepts NULL */
CAIRN_DEFINE_CLEANUP(struct sidecar_resolve, sidecar_resolve_free);

/* Returns the snapshot if it is ready and bound; *ret is the caller's reference.
 *
 * CAIRN_NOT_FOUND     it or its content does not exist
 * CAIRN_UNAVAILABLE   not ready or not bound yet; or the API server cannot be reached
 * CAIRN_INVALID       it belongs to another driver
 * CAIRN_PRECONDITION  its content refers to another snapshot
 * CAIRN_INTERNAL      the sidecar may not read it, or cannot get the secret
 */
int sidecar_resolve_find(struct sidecar_resolve *names, const char *driver, const char *ns,
			 const char *name, const struct kube_wait *wait,
			 struct sidecar_snapshot **ret, struct cairn_err *err);

struct sidecar_base {
	const char *driver;
	const char *id; /* a handle, from the caller */
	const struct sidecar_snapshot *target;
	const struct kube_user *user;
	struct sidecar_access *access;
	bool owned; /* reject a handle that Kubernetes does not know */
};

/* Checks that a handle may be the base of a delta. If Kubernetes knows the handle, its
 * snapshot must be in the target's namespace, of the same volume, and readable by the
 * user; otherwise the driver must decide.
 *
 * CAIRN_DENIED     in another namespace, or not readable
 * CAIRN_INVALID    of another volume
 * CAIRN_NOT_FOUND  `owned` is set and Kubernetes does not know the handle
 */
int sidecar_resolve_check_base(struct sidecar_resolve *names, const struct sidecar_base *base,
			       const struct kube_wait *wait, struct cairn_err *err);

void sidecar_resolve_sweep(struct sidecar_resolve *names);
void sidecar_resolve_stats(struct sidecar_resolve *names, struct kube_cache_stats *ret);

#endif
