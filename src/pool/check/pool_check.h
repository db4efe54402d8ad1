/* SPDX-License-Identifier: Apache-2.0 */

/* The parts of pool_check(), in the order in which they run:
 *   check_record.c   records that cannot be read, or are missing
 *   check_lineage.c  records against one another
 *   check_index.c    indexes against records
 *   check_other.c    the counter, leftovers, notes
 *   check_data.c     data against records
 *   check_set.c      change sets against records
 *   check_stray.c    data and sets that no record refers to
 *
 * Contradictions within the catalogue are looked for in one consistent state of
 * it (inventory.h), so an operation in progress cannot cause them. Objects
 * outside the catalogue are checked twice: a record changes before the object
 * it names is removed, and after the object was created. So a missing object is
 * a fault only if its record is unchanged afterwards, and an unreferenced
 * object is a fault only if it is still there and unreferenced under the lock
 * of its volume.
 *
 * Repairs take that lock, and their commits expect the records on which they
 * were decided; if a commit finds others (CAIRN_ABORTED), the part runs again.
 */
#ifndef CAIRN_POOL_CHECK_H
#define CAIRN_POOL_CHECK_H

#include <stdbool.h>
#include <stdint.h>

#include "pool/pool.h"

struct cairn_err;
struct inventory;
struct record_snapshot;
struct record_volume;

/* How far the counter is advanced beyond the highest known number when it, or the end
 * of the log, is lost: a number must never be assigned twice, and no pool assigns this
 * many between two states of the log. */
#define CHECK_NUMBER_JUMP (1ULL << 32)

struct check {
	struct pool *pool;
	const struct pool_check_spec *spec;
	struct pool_check_result result;
	struct inventory *inv;
	uint64_t *stored_snapshots; /* numbers of snapshots with data in the store, ascending */
	size_t n_stored_snapshots;
	uint64_t *stored_volumes; /* ascending */
	size_t n_stored_volumes;
	bool repaired; /* this part changed something: the inventory is out of date */
	bool again;    /* another operation intervened: run this part again */
};

void pool_check_fault(struct check *check, enum pool_fault_state state, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/* Handles the result of a repair: 0 counts as repaired, CAIRN_ABORTED runs the part
 * again, an error that is not a fault of the pool (no space, cancelled) ends the
 * check, and any other failure is reported as a remaining fault. The text describes
 * the fault. */
int pool_check_outcome(struct check *check, int rc, const struct cairn_err *why,
		       enum pool_fault_state repaired, const char *text, struct cairn_err *err);

/* Changes a record under the volume's lock, provided it is still as in the
 * inventory. */
int pool_check_change_snapshot(struct check *check, const struct record_snapshot *old,
			       const struct record_snapshot *now, struct cairn_err *err);
int pool_check_change_volume(struct check *check, const struct record_volume *old,
			     const struct record_volume *now, struct cairn_err *err);

/* True if the store had data of that snapshot or volume at the last listing. */
bool pool_check_is_stored_snapshot(const struct check *check, uint64_t number);
bool pool_check_is_stored_volume(const struct check *check, uint64_t bits);

/* True if a record or an index entry refers to it. */
bool pool_check_refers_to_volume(const struct inventory *inv, uint64_t bits);
bool pool_check_refers_to_snapshot(const struct inventory *inv, uint64_t number);

/* For a change set that is damaged, or cannot be proven to belong to the two
 * snapshots: computes it again, or records it as lost. */
int pool_check_remake_set(struct check *check, const struct record_snapshot *snapshot,
			  const char *reason, struct cairn_err *err);

/* Runs before the parts: compares the catalogue's log with the mark of its last
 * sync. */
int pool_check_log(struct check *check, struct cairn_err *err);

int pool_check_records(struct check *check, struct cairn_err *err);
int pool_check_lineage(struct check *check, struct cairn_err *err);
int pool_check_indexes(struct check *check, struct cairn_err *err);
int pool_check_others(struct check *check, struct cairn_err *err);
int pool_check_data(struct check *check, struct cairn_err *err);
int pool_check_sets(struct check *check, struct cairn_err *err);
int pool_check_strays(struct check *check, struct cairn_err *err);

#endif
