/* SPDX-License-Identifier: Apache-2.0 */

/* Which claims a backup of many takes, and which of them begins next. Pure.
 *
 * A claim whose volume is on one node counts against the limit of that node, all of them against
 * the limit in all. Claims of a node that did not become ready in time for an earlier one come
 * last, so that a node that is down delays the others as little as possible.
 */
#ifndef CAIRN_BACKUP_CLUSTER_SCHEDULE_H
#define CAIRN_BACKUP_CLUSTER_SCHEDULE_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct cairn_err;

#define CLUSTER_SCHEDULE_NONE SIZE_MAX

enum cluster_target_state {
	CLUSTER_TARGET_WAITS,
	CLUSTER_TARGET_RUNS,
	CLUSTER_TARGET_ENDED,
	CLUSTER_TARGET_SKIPPED,
};

struct cluster_target {
	char *claim;
	char *volume; /* PersistentVolume; NULL: none yet */
	size_t node;  /* of `nodes`; CLUSTER_SCHEDULE_NONE: the volume is not on one node */
	enum cluster_target_state state;
	const char *skipped; /* why; static */
};

struct cluster_schedule_node {
	char *name;
	size_t running;
	size_t timeouts; /* claims for which something did not become ready */
};

struct cluster_schedule {
	struct cluster_target *targets;
	size_t n;
	struct cluster_schedule_node *nodes; /* room for n */
	size_t n_nodes;
	size_t running;
	size_t jobs;          /* at a time; above 0 */
	size_t jobs_per_node; /* above 0 */
};

void backup_cluster_schedule_done(struct cluster_schedule *schedule);

/* Fills the targets from a list of PersistentVolumeClaims, in its order. Claims that a run of
 * `cairn backup` made for itself are left out. A claim that is being deleted, has no volume or is
 * `repository` (or NULL), the one that holds the repository, is skipped.
 */
int backup_cluster_schedule_fill(struct cluster_schedule *schedule, const json_t *claims,
				 const char *repository, struct cairn_err *err);

/* The node that has the volume; NULL if several have or can reach it: no affinity, several values,
 * or only a zone or a region. Borrowed. */
const char *backup_cluster_volume_node(const json_t *volume);

/* Says where a target's volume is; NULL: on no single node. */
int backup_cluster_schedule_place(struct cluster_schedule *schedule, size_t target,
				  const char *node, struct cairn_err *err);

/* Begins the next target that the limits allow, and returns it; CLUSTER_SCHEDULE_NONE if none can
 * begin now. */
size_t backup_cluster_schedule_begin(struct cluster_schedule *schedule);

/* `timed_out`: something did not become ready in time. */
void backup_cluster_schedule_end(struct cluster_schedule *schedule, size_t target, bool timed_out);

/* True while a target waits. */
bool backup_cluster_schedule_waits(const struct cluster_schedule *schedule);

/* NULL: on no single node. */
const char *backup_cluster_schedule_node(const struct cluster_schedule *schedule, size_t target);

#endif
