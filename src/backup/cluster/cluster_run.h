/* SPDX-License-Identifier: Apache-2.0 */

/* One run of a backup or a restore: its connection, its lease, its objects and
 * the remains of earlier runs. Internal to cluster.h. */
#ifndef CAIRN_BACKUP_CLUSTER_RUN_H
#define CAIRN_BACKUP_CLUSTER_RUN_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "backup/cluster/cluster_objects.h"

struct cairn_err;
struct cluster_options;
struct kube_call;
struct kube_client;
struct kube_leader;
struct kube_ref;
struct kube_resource;

/* Maximum outage of the API server that is tolerated: a rollout takes less. */
#define CLUSTER_OUTAGE_MS 120000U

/* How long a finished Job is kept, for diagnosis and for runs that were
 * killed. */
#define CLUSTER_KEEP_S 3600U

#define CLUSTER_IMAGE_MAX 512U /* with registry, tag and digest */

struct cluster_run {
	const struct cluster_options *options;
	struct kube_client *kube;
	struct kube_leader *leader;
	char lease[CLUSTER_NAME_MAX];
	char identity[CLUSTER_NAME_MAX];
	struct cluster_names names;
	char image[CLUSTER_IMAGE_MAX];   /* of Jobs */
	json_t *job;                     /* as created; owns the other objects */
	char job_name[CLUSTER_NAME_MAX]; /* set before it is created; "" when there is none */
	bool has_snapshot;               /* of the run's name */
	bool has_claim;                  /* of the run's name */
	const char *made;   /* claim of another name to be removed on failure; or NULL */
	uint64_t outage_ns; /* when the API server last failed to answer; 0: never */
};

/* Only connects: for reading the objects of the namespace. */
int backup_cluster_run_connect(struct cluster_run *run, const struct cluster_options *options,
			       struct cairn_err *err);

/* Connects and names the run; the lease is taken with backup_cluster_run_lock(). */
int backup_cluster_run_begin(struct cluster_run *run, const struct cluster_options *options,
			     const char *role, struct cairn_err *err);

/* CAIRN_ABORTED  another run holds the lease */
int backup_cluster_run_lock(struct cluster_run *run, struct cairn_err *err);

/* Removes the objects that were created and not handed over, and releases the
 * lease. Reports objects that could not be removed. */
void backup_cluster_run_end(struct cluster_run *run);

/* CAIRN_CANCELLED when the user has cancelled, CAIRN_ABORTED when another run has
 * taken the lease. */
int backup_cluster_run_check(struct cluster_run *run, struct cairn_err *err);

/* Waits, then returns the result of backup_cluster_run_check(). */
int backup_cluster_run_pause(struct cluster_run *run, uint64_t ms, struct cairn_err *err);

/* Calls that are retried while the API server is unavailable. *ret may be NULL
 * for the second; an existing object of that name that this run created counts
 * as success. */
int backup_cluster_get(struct cluster_run *run, const struct kube_ref *ref, json_t **ret,
		       struct cairn_err *err);
int backup_cluster_make(struct cluster_run *run, const struct kube_resource *resource,
			const json_t *object, json_t **ret, struct cairn_err *err);
int backup_cluster_patch(struct cluster_run *run, const struct kube_ref *ref, json_t *patch,
			 struct cairn_err *err);
int backup_cluster_list(struct cluster_run *run, const struct kube_resource *resource,
			const char *selector, json_t **ret, struct cairn_err *err);

/* True for transient errors. An API server that has just restarted does not know
 * permissions and custom resources for a while, and answers as if there were
 * none. */
bool backup_cluster_passes(struct cluster_run *run, int rc);

/* Deletes the object, even if the user has cancelled; a missing one is not an
 * error. */
int backup_cluster_remove(struct cluster_run *run, const struct kube_resource *resource,
			  const char *name, struct cairn_err *err);

/* Creates the run's Job. With `anchor` it owns the other objects, including the
 * lease. */
int backup_cluster_run_job(struct cluster_run *run, const struct cluster_job_spec *spec,
			   bool anchor, struct cairn_err *err);

/* Removes the run's Job and the objects that it owns. */
int backup_cluster_run_drop_job(struct cluster_run *run, struct cairn_err *err);

/* Removes the objects that earlier runs for the claim left. If one of them
 * completed its backup and was killed before it could record that, its snapshot
 * becomes a base, provided `keep` and `source`, its claim, are given. */
int backup_cluster_run_sweep(struct cluster_run *run, const json_t *source, bool keep,
			     struct cairn_err *err);

/* Keeps the snapshot as a base, owned by `source`. */
int backup_cluster_keep_base(struct cluster_run *run, const char *snapshot, const json_t *source,
			     struct cairn_err *err);

/* Removes the bases of the claim and the repository except `except` (or NULL). */
int backup_cluster_drop_bases(struct cluster_run *run, const char *except, struct cairn_err *err);

#endif
