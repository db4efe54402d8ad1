/* SPDX-License-Identifier: Apache-2.0 */

/* Runs the work of a run: in its Job, or here on a device that the driver
 * publishes. Internal to cluster.h. */
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
	json_t *summary;      /* result of the Job; NULL if the work was done here */
};

/* For arguments of a command. */
#define CLUSTER_ARGS_MAX 256U
struct cluster_args {
	const char *at[CLUSTER_ARGS_MAX];
	unsigned n;
};

/* Adds each of the NULL-terminated list. An overflow is a bug, which is reported as
 * CAIRN_INTERNAL when the Job is created. */
void backup_cluster_args_add(struct cluster_args *args, const char *const more[]);

/* The parts of a Job that come from the options. */
struct cluster_job_spec backup_cluster_job_of(const struct cluster_run *run,
					      const struct cluster_args *args);

/* Does the work on the claim, which must exist, and waits for its end. The Job
 * belongs to the run. */
int backup_cluster_work_do(struct cluster_run *run, struct cluster_driver *driver,
			   struct cluster_work *work, struct cairn_err *err);

/* Follows a Job and prints its messages. *ret is its result. */
int backup_cluster_follow_job(struct cluster_run *run, const char *job, const char *claim,
			      json_t **ret, struct cairn_err *err);

/* Allows a change of volume mode between Filesystem and Block for claims made
 * from the snapshot. */
int backup_cluster_allow_mode_change(struct cluster_run *run, const json_t *snapshot,
				     struct cairn_err *err);

/* The driver's class if the options do not name one; *ret is owned by the
 * caller. */
int backup_cluster_find_snapshot_class(struct cluster_run *run, const char *driver, char **ret,
				       struct cairn_err *err);

#endif
