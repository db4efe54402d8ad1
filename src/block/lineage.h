/* SPDX-License-Identifier: Apache-2.0 */

/* Which change sets lie between two snapshots.
 *
 * Snapshots form a forest: each has at most one predecessor, and a volume made
 * from a snapshot continues that snapshot's line, so lines cross volumes. What
 * differs between two snapshots is covered by the sets on the way from their
 * nearest common ancestor to each of them.
 *
 * Pure: records come from a callback.
 */
#ifndef CAIRN_BLOCK_LINEAGE_H
#define CAIRN_BLOCK_LINEAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"

struct cairn_err;

/* Longest way between two snapshots that is followed: bounds the memory that
 * records from outside can take. */
#define BLOCK_LINEAGE_STEPS_MAX 1000000U

/* A snapshot is known here by its number: unique in the pool, never re-used,
 * and larger than its predecessor's. */
struct block_lineage_source {
	/* The predecessor's number of `number`; 0 when it has none.
	 * CAIRN_NOT_FOUND when there is no such snapshot. */
	int (*parent)(void *arg, uint64_t number, uint64_t *ret_parent, struct cairn_err *err);
	void *arg;
};

struct block_lineage_step {
	uint64_t number;   /* the snapshot whose set (against its predecessor) is meant */
	bool on_base_side; /* of a fork: changed on the way to the base, not to the target */
};

/* Finds the sets that cover what differs between `base` and `target`, in the
 * order in which a union wants them: base side first, then oldest to newest up
 * to the target. The same snapshot twice gives no steps.
 *
 * CAIRN_INVALID    `base` is a descendant of `target`, or they have no common
 *                  ancestor, or one is 0
 * CAIRN_NOT_FOUND  there is no `base` or no `target`
 * CAIRN_DATA_LOSS  the records contradict themselves (a predecessor with a
 *                  larger number, a missing one)
 * CAIRN_NO_SPACE   more than BLOCK_LINEAGE_STEPS_MAX steps, or out of memory
 */
int block_lineage_path(struct block_lineage_source source, uint64_t base, uint64_t target,
		       struct block_lineage_step **ret_steps, size_t *ret_n, struct cairn_err *err);

#endif
