/* SPDX-License-Identifier: Apache-2.0 */

/* Finds the change sets between two snapshots.
 *
 * Snapshots form a forest: each has at most one predecessor, and a volume made from a
 * snapshot continues that snapshot's lineage, so lineages cross volumes. The sets on the
 * paths from the nearest common ancestor to each of two snapshots cover all differences
 * between them.
 *
 * No I/O: records come from a callback.
 */
#ifndef CAIRN_BLOCK_LINEAGE_H
#define CAIRN_BLOCK_LINEAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"

struct cairn_err;

/* Limit of the path between two snapshots, which bounds the memory that stored records can
 * take. */
#define BLOCK_LINEAGE_STEPS_MAX 1000000U

/* A snapshot is identified by its number: unique in the pool, never reused, and larger
 * than its predecessor's. */
struct block_lineage_source {
	/* Returns the predecessor's number of `number`; 0 if it has none. CAIRN_NOT_FOUND if there
	 * is no such snapshot. */
	int (*parent)(void *arg, uint64_t number, uint64_t *ret_parent, struct cairn_err *err);
	void *arg;
};

struct block_lineage_step {
	uint64_t number;   /* the snapshot whose set (against its predecessor) is used */
	bool on_base_side; /* of a fork: changed on the path to the base, not to the target */
};

/* Finds the sets that cover the differences between `base` and `target`, in the order that
 * a union requires: base side first, then oldest to newest up to the target. There are no
 * steps if both are the same snapshot.
 *
 * CAIRN_INVALID    `base` is a descendant of `target`, or they have no common
 *                  ancestor, or one is 0
 * CAIRN_NOT_FOUND  there is no `base` or no `target`
 * CAIRN_DATA_LOSS  the records are inconsistent (a predecessor with a
 *                  larger number, a missing one)
 * CAIRN_NO_SPACE   more than BLOCK_LINEAGE_STEPS_MAX steps, or out of memory
 */
int block_lineage_path(struct block_lineage_source source, uint64_t base, uint64_t target,
		       struct block_lineage_step **ret_steps, size_t *ret_n, struct cairn_err *err);

#endif
