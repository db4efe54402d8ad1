/* SPDX-License-Identifier: Apache-2.0 */

/* One run of a backup or a restore: its connection, its lease, its objects and
 * what is left of earlier runs. Inside of cluster.h. */
#ifndef CAIRN_BACKUP_CLUSTER_RUN_H
#define CAIRN_BACKUP_CLUSTER_RUN_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "backup/cluster_objects.h"

struct cairn_err;
struct cluster_options;
struct kube_call;
struct kube_client;
struct kube_leader;
struct kube_ref;
struct kube_resource;

/* The API server may be away so long: one that is rolled out is back by then. */
#define CLUSTER_OUTAGE_MS 120000U

/* What a Job leaves for so long, for who asks why, and for who was killed. */
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
	json_t *job;                     /* as it was made; owns the rest */
	char job_name[CLUSTER_NAME_MAX]; /* set before one is asked for; "" when there is none */
	bool has_snapshot;               /* of the run's name */
	bool has_claim;                  /* of the run's name */
	const char *made;   /* claim of another name that goes with a failure; or NULL */
	uint64_t outage_ns; /* when the API server last did not answer; 0: it always did */
};

/* Connects and names the run; the lease is taken with cluster_run_lock(). */
int cluster_run_begin(struct cluster_run *run, const struct cluster_options *options,
		      const char *role, struct cairn_err *err);

/* CAIRN_ABORTED  another run has it */
int cluster_run_lock(struct cluster_run *run, struct cairn_err *err);

/* Takes away what was made and not given up by then: gives the lease back. Says
 * what could not be taken away. */
void cluster_run_end(struct cluster_run *run);

/* CAIRN_CANCELLED when the user wants the end, CAIRN_ABORTED when another run has
 * taken the lease. */
int cluster_run_check(struct cluster_run *run, struct cairn_err *err);

/* Waits a little, then as the check. */
int cluster_run_pause(struct cluster_run *run, uint64_t ms, struct cairn_err *err);

/* Calls that hold out while the API server is away. *ret may be NULL for the
 * second; an object of that name that was made by this run is as good as new. */
int cluster_get(struct cluster_run *run, const struct kube_ref *ref, json_t **ret,
		struct cairn_err *err);
int cluster_make(struct cluster_run *run, const struct kube_resource *resource,
		 const json_t *object, json_t **ret, struct cairn_err *err);
int cluster_patch(struct cluster_run *run, const struct kube_ref *ref, json_t *patch,
		  struct cairn_err *err);
int cluster_list(struct cluster_run *run, const struct kube_resource *resource,
		 const char *selector, json_t **ret, struct cairn_err *err);

/* True for what passes when one waits. An API server that has just come back knows
 * neither rights nor the kinds of others for a while, and says so as if there were
 * none. */
bool cluster_passes(struct cluster_run *run, int rc);

/* Deletes it, whatever the user wants; not being there is fine. */
int cluster_remove(struct cluster_run *run, const struct kube_resource *resource, const char *name,
		   struct cairn_err *err);

/* Makes the run's Job. With `anchor` it is the one that owns the rest, and the lease
 * goes with it. */
int cluster_run_job(struct cluster_run *run, const struct cluster_job_spec *spec, bool anchor,
		    struct cairn_err *err);

/* Takes the run's Job away, and what it owns. */
int cluster_run_drop_job(struct cluster_run *run, struct cairn_err *err);

/* Takes away what earlier runs for the claim left. Where one of them made its
 * backup and was killed before it could say so, its snapshot becomes a base if
 * `keep` and `source`, its claim, are given. */
int cluster_run_sweep(struct cluster_run *run, const json_t *source, bool keep,
		      struct cairn_err *err);

/* The snapshot stays, as a base; it belongs to `source`. */
int cluster_keep_base(struct cluster_run *run, const char *snapshot, const json_t *source,
		      struct cairn_err *err);

/* Takes away the bases of the claim and the repository but `except` (or NULL). */
int cluster_drop_bases(struct cluster_run *run, const char *except, struct cairn_err *err);

#endif
