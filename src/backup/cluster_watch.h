/* SPDX-License-Identifier: Apache-2.0 */

/* What the objects of a run say of their state, and waiting for it. The first
 * half is pure. */
#ifndef CAIRN_BACKUP_CLUSTER_WATCH_H
#define CAIRN_BACKUP_CLUSTER_WATCH_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

struct cairn_err;
struct cluster_log;
struct cluster_run;

enum cluster_job_state {
	CLUSTER_JOB_RUNNING,
	CLUSTER_JOB_COMPLETE,
	CLUSTER_JOB_FAILED,
};

/* *ret_why (may be NULL) is borrowed; "" where it says nothing. */
enum cluster_job_state cluster_job_state(const json_t *job, const char **ret_why);

/* A pod with one container. Texts are borrowed from it. */
struct cluster_pod {
	bool started;       /* its container runs or ran */
	bool hopeless;      /* it will not start as it is */
	const char *reason; /* why it does not run, or how it ended; "" */
	const char *message;
};

struct cluster_pod cluster_pod_look(const json_t *pod);

/* The newest pod of a list; NULL when there is none. */
const json_t *cluster_newest(const json_t *list);

/* Waits until the snapshot is ready.
 *
 * CAIRN_DEADLINE  it is not in time; the text has what its controller says
 */
int cluster_wait_snapshot(struct cluster_run *run, const char *name, json_t **ret,
			  struct cairn_err *err);

/* Waits until the claim has a volume; *ret is that volume.
 *
 * CAIRN_DEADLINE  it has not in time; the text has the last warning about it
 */
int cluster_wait_volume(struct cluster_run *run, const char *claim, json_t **ret,
			struct cairn_err *err);

/* The error of a pod that does not start; `claim` (or NULL) may be why. */
int cluster_not_started(struct cluster_run *run, const char *job, const char *claim,
			const struct cluster_pod *pod, struct cairn_err *err);

/* Follows the Job to its end, with what its container writes. `claim` (or NULL) is
 * the one that its pod waits for.
 *
 * CAIRN_DEADLINE      its pod does not start in time
 * CAIRN_PRECONDITION  its pod cannot start: a secret or an image is missing
 * CAIRN_ABORTED       somebody deleted it
 * and what its container failed with
 */
int cluster_follow(struct cluster_run *run, const char *job, const char *claim,
		   struct cluster_log *log, struct cairn_err *err);

#endif
