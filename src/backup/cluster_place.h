/* SPDX-License-Identifier: Apache-2.0 */

/* Where the work of a run is done: in its Job, or here, on a device that the
 * driver publishes. Inside of cluster.h. */
#ifndef CAIRN_BACKUP_CLUSTER_PLACE_H
#define CAIRN_BACKUP_CLUSTER_PLACE_H

#include <jansson.h>

struct cairn_err;
struct cluster_driver;
struct cluster_job_spec;
struct cluster_run;

struct cluster_work {
	const char *claim;    /* Block mode */
	const char *snapshot; /* that the claim is made from; NULL for a restore */
	const char *objects;  /* or NULL */
	json_t *summary;      /* what the Job said; NULL where the work was done here */
};

/* For arguments of a command. */
#define CLUSTER_ARGS_MAX 256U
struct cluster_args {
	const char *at[CLUSTER_ARGS_MAX];
	unsigned n;
};

/* Adds each of the NULL-terminated list; what does not fit is a mistake of ours and
 * shows as CAIRN_INTERNAL from the Job's making. */
void cluster_args_add(struct cluster_args *args, const char *const more[]);

/* The parts of a Job that the options give. */
struct cluster_job_spec cluster_job_of(const struct cluster_run *run,
				       const struct cluster_args *args);

/* Does the work on the claim, which is there, and waits for its end. The Job is
 * the run's. */
int cluster_work_do(struct cluster_run *run, struct cluster_driver *driver,
		    struct cluster_work *work, struct cairn_err *err);

/* Follows a Job with what it says for people. *ret is what it said at last. */
int cluster_follow_job(struct cluster_run *run, const char *job, const char *claim, json_t **ret,
		       struct cairn_err *err);

/* Lets the snapshot of a claim in Filesystem mode become a Block-mode one, and
 * the other way round. */
int cluster_allow_mode_change(struct cluster_run *run, const json_t *snapshot,
			      struct cairn_err *err);

/* The driver's class where the options name none; *ret is the caller's. */
int cluster_find_snapshot_class(struct cluster_run *run, const char *driver, char **ret,
				struct cairn_err *err);

#endif
