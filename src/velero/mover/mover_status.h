/* SPDX-License-Identifier: Apache-2.0 */

/* What a Job reports, and the status of a request. Pure. */
#ifndef CAIRN_VELERO_MOVER_STATUS_H
#define CAIRN_VELERO_MOVER_STATUS_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "backup/cluster/cluster_log.h"
#include "backup/cluster/cluster_watch.h"

struct cairn_err;

/* A Job as it is now. */
struct mover_work {
	enum backup_cluster_job_state state;
	const char *why;      /* of a failed Job; borrowed */
	bool started;         /* its container runs or ran */
	bool hopeless;        /* its container cannot start */
	char node[256];       /* "" */
	char reason[320];     /* why its pod does not run, or how it ended; "" */
	uint64_t done, total; /* bytes of its last step; 0 where it said nothing */
	bool heard;           /* its log could be read */
	struct cluster_log log;
};

/* Also a cleanup function. */
void mover_work_done(struct mover_work *work);

/* Bytes of a volume that need no more work: what is not to be read counts as done, so that
 * the last value is the volume's size. */
uint64_t mover_bytes_done(uint64_t size, uint64_t done, uint64_t total);

/* In all of these *ret is a merge patch that the caller owns, with the resource version of the
 * object where another writer must not have changed it meanwhile. */
int mover_status_accepted(const json_t *object, uint64_t now_ns, json_t **ret,
			  struct cairn_err *err);
int mover_status_phase(const json_t *object, const char *phase, json_t **ret,
		       struct cairn_err *err);

/* Ended: Completed, Failed or Canceled; `message` may be NULL. */
int mover_status_ended(const json_t *object, const char *phase, const char *message,
		       uint64_t now_ns, json_t **ret, struct cairn_err *err);

/* *ret is NULL when nothing changed. `size` is that of the volume. */
int mover_status_progress(const json_t *object, const struct mover_work *work, uint64_t size,
			  uint64_t now_ns, json_t **ret, struct cairn_err *err);

/* Adds the result of a completed upload to a patch of mover_status_ended().
 *
 * CAIRN_INTERNAL  the result has no id of a backup
 */
int mover_status_uploaded(json_t *patch, const struct mover_work *work, struct cairn_err *err);

/* Removes our finalizer. */
int mover_status_released(const json_t *object, json_t **ret, struct cairn_err *err);

#endif
