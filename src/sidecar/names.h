/* SPDX-License-Identifier: Apache-2.0 */

/* From names in Kubernetes to handles of the driver.
 *
 * A VolumeSnapshot is followed to its VolumeSnapshotContent and back: only a
 * content that refers to this very snapshot, belongs to our driver and is ready
 * has a handle for us. The secret that the driver wants is that of the snapshot's
 * class; a class that names none, or that there is none, is fine.
 *
 * What was found is believed for keep_ms, what is missing for refusal_ms, what
 * is not yet ready not at all. Secrets are wiped when they are dropped.
 *
 * Thread-safe.
 */
#ifndef CAIRN_SIDECAR_NAMES_H
#define CAIRN_SIDECAR_NAMES_H

#include <stdint.h>

#include "base/cleanup.h"
#include "kube/cache.h"
#include "kube/value.h"
#include "sidecar/kube.h"

struct cairn_err;
struct sidecar_access;
struct sidecar_names;
struct sidecar_secret;
struct kube_user;
struct kube_wait;

#define SIDECAR_NAMES_ENTRIES_MAX 8192U

/* What is known of a snapshot. */
struct sidecar_snapshot {
	struct kube_value value;
	char *ns;
	char *name;
	char *content;
	char *handle;
	char *volume;                  /* handle of its volume; NULL when Kubernetes has none */
	char *class_name;              /* NULL when it has none */
	char *used_secret;             /* that the controller noted for deletion, and its */
	char *used_secret_ns;          /* namespace; NULL when there is none */
	struct sidecar_secret *secret; /* NULL: the driver wants none */
};

struct sidecar_names_options {
	struct sidecar_kube kube;
	uint64_t keep_ms;
	uint64_t refusal_ms;
};

int sidecar_names_new(const struct sidecar_names_options *options, struct sidecar_names **ret,
		      struct cairn_err *err);
void sidecar_names_free(struct sidecar_names *names); /* accepts NULL */
CAIRN_DEFINE_CLEANUP(struct sidecar_names, sidecar_names_free);

/* The snapshot, ready and bound; *ret is the caller's reference.
 *
 * CAIRN_NOT_FOUND     it, or its content, is not there
 * CAIRN_UNAVAILABLE   not ready or not bound yet; or the API server can not be asked
 * CAIRN_INVALID       of another driver
 * CAIRN_PRECONDITION  its content refers to another snapshot
 * CAIRN_INTERNAL      the sidecar may not read it; the secret can not be had
 */
int sidecar_names_find(struct sidecar_names *names, const char *driver, const char *ns,
		       const char *name, const struct kube_wait *wait,
		       struct sidecar_snapshot **ret, struct cairn_err *err);

struct sidecar_base {
	const char *driver;
	const char *id; /* a handle, as the caller gave it */
	const struct sidecar_snapshot *target;
	const struct kube_user *user;
	struct sidecar_access *access;
	bool owned; /* refuse what Kubernetes does not know */
};

/* May this be the base of a delta? What Kubernetes knows under the handle must be
 * in the target's namespace, of its volume, and readable for the user; of what it
 * does not know only the driver can tell.
 *
 * CAIRN_DENIED     of another namespace, or not readable
 * CAIRN_INVALID    of another volume
 * CAIRN_NOT_FOUND  `owned`, and not known
 */
int sidecar_names_check_base(struct sidecar_names *names, const struct sidecar_base *base,
			     const struct kube_wait *wait, struct cairn_err *err);

void sidecar_names_sweep(struct sidecar_names *names);
void sidecar_names_stats(struct sidecar_names *names, struct kube_cache_stats *ret);

#endif
