/* SPDX-License-Identifier: Apache-2.0 */

/* Interprets the state of a run's objects, and waits for it. The first half is
 * pure. */
#ifndef CAIRN_BACKUP_CLUSTER_WATCH_H
#define CAIRN_BACKUP_CLUSTER_WATCH_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

struct cairn_err;
struct cluster_log;
struct cluster_run;

enum backup_cluster_job_state {
	CLUSTER_JOB_RUNNING,
	CLUSTER_JOB_COMPLETE,
	CLUSTER_JOB_FAILED,
};

/* *ret_why (may be NULL) is borrowed; "" if no reason is given. */
enum backup_cluster_job_state backup_cluster_job_state(const json_t *job, const char **ret_why);

/* A pod with one container. Texts are borrowed from it. */
struct cluster_pod {
	bool started;       /* its container runs or ran */
	bool hopeless;      /* it cannot start */
	const char *reason; /* why it does not run, or how it ended; "" */
	const char *message;
};

struct cluster_pod backup_cluster_pod_look(const json_t *pod);

/* The newest pod of a list; NULL when there is none. */
const json_t *backup_cluster_newest(const json_t *list);

/* Waits until the snapshot is ready.
 *
 * CAIRN_DEADLINE  timeout; the text includes the controller's message
 */
int backup_cluster_wait_snapshot(struct cluster_run *run, const char *name, json_t **ret,
				 struct cairn_err *err);

/* Waits until the claim has a volume; *ret is that volume.
 *
 * CAIRN_DEADLINE  timeout; the text includes the last warning event
 */
int backup_cluster_wait_volume(struct cluster_run *run, const char *claim, json_t **ret,
			       struct cairn_err *err);

/* The error of a pod that does not start; `claim` (or NULL) may be the
 * reason. */
int backup_cluster_not_started(struct cluster_run *run, const char *job, const char *claim,
			       const struct cluster_pod *pod, struct cairn_err *err);

/* Follows the Job and the log of its container to the end. `claim` (or NULL) is
 * the one that its pod waits for.
 *
 * CAIRN_DEADLINE      its pod does not start in time
 * CAIRN_PRECONDITION  its pod cannot start: a secret or an image is missing
 * CAIRN_ABORTED       the Job was deleted
 * and the error of its container
 */
int backup_cluster_follow(struct cluster_run *run, const char *job, const char *claim,
			  struct cluster_log *log, struct cairn_err *err);

#endif
