/* SPDX-License-Identifier: Apache-2.0 */

/* Backups of all claims of a namespace that a label selector chooses, a limited number of them at
 * a time. Each claim is a run of its own (cluster.h), and the failure of one leaves the others
 * alone. The limits hold for one call; two calls at the same time exclude each other per claim.
 */
#ifndef CAIRN_BACKUP_CLUSTER_MANY_H
#define CAIRN_BACKUP_CLUSTER_MANY_H

#include <stddef.h>
#include <stdint.h>

#include "base/thread_group.h"

struct cairn_err;
struct cluster_options;
struct cluster_result;

#define CLUSTER_JOBS_MAX CAIRN_THREAD_GROUP_MAX

/* A claim, and what came of it: exactly one of the last three is given. */
struct cluster_outcome {
	const char *claim;
	const char *node;                    /* NULL: the volume is not on one node */
	const struct cluster_result *result; /* of a backup that is made */
	const struct cairn_err *failure;
	const char *skipped; /* why there was nothing to back up */
	uint64_t elapsed_ns;
};

/* The callbacks run on any thread, one at a time. */
struct cluster_many {
	const char *selector;
	size_t jobs;          /* at a time, 1 to CLUSTER_JOBS_MAX */
	size_t jobs_per_node; /* at a time, above 0 */
	void (*on_begin)(void *arg, const char *claim, const char *node);
	void (*on_remark)(void *arg, const char *claim, const char *text);
	void (*on_end)(void *arg, const struct cluster_outcome *outcome);
	void *arg;
};

struct cluster_many_sums {
	size_t made;
	size_t failed;
	size_t skipped;
};

/* `options` are those of each backup, without a claim; its talk is not used, and of its progress
 * only the cancellation, which may be asked from several threads at once. *ret is set in any case.
 *
 * CAIRN_NOT_FOUND  the selector chooses no claim, or all of them were skipped
 * CAIRN_INVALID    the selector is malformed
 * and the first failure of a claim, after all of them were tried
 */
int backup_cluster_backup_many(const struct cluster_options *options,
			       const struct cluster_many *many, struct cluster_many_sums *ret,
			       struct cairn_err *err);

#endif
