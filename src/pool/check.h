/* SPDX-License-Identifier: Apache-2.0 */

/* The parts of pool_check(), in the order in which they run:
 *   check_record.c   records that cannot be read, or are missing
 *   check_lineage.c  records against one another
 *   check_index.c    indexes against records
 *   check_other.c    the counter, leftovers, notes
 *   check_data.c     data against records
 *   check_set.c      change sets against records
 *   check_stray.c    data and sets that no record wants
 *
 * Contradictions within the catalogue are found in one moment of it
 * (inventory.h), so they are never an operation under way. What is outside the
 * catalogue is looked at a second time: a record changes before what it names
 * goes away, and after what it names was made, so something missing is a fault
 * if its record is unchanged afterwards; something unwanted is a fault if it is
 * still there, and unwanted, under the lock of its volume.
 *
 * Repairs take that lock, and their commits expect the records that they were
 * decided on; where a commit finds others (CAIRN_ABORTED) the part runs again.
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

/* How far the counter jumps beyond the highest number that is known when it, or the
 * end of the log, is lost: numbers that were given must not be given again, and nobody
 * ever had so many. */
#define CHECK_NUMBER_JUMP (1ULL << 32)

struct check {
	struct pool *pool;
	const struct pool_check_spec *spec;
	struct pool_check_result result;
	struct inventory *inv;
	uint64_t *stored_snapshots; /* numbers of which the store has data, ascending */
	size_t n_stored_snapshots;
	uint64_t *stored_volumes; /* ascending */
	size_t n_stored_volumes;
	bool repaired; /* this part changed something: the inventory is old */
	bool again;    /* another operation was faster: this part is to run again */
};

void check_fault(struct check *check, enum pool_fault_state state, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/* After a repair was tried: 0 counts as repaired, CAIRN_ABORTED runs the part again,
 * what is no fault of the pool (no space, cancelled) ends the check, and any other
 * failure is reported as the fault that stays. The text is of the fault. */
int check_outcome(struct check *check, int rc, const struct cairn_err *why,
		  enum pool_fault_state repaired, const char *text, struct cairn_err *err);

/* Changes a record that is as the inventory has it, under the volume's lock. */
int check_change_snapshot(struct check *check, const struct record_snapshot *old,
			  const struct record_snapshot *now, struct cairn_err *err);
int check_change_volume(struct check *check, const struct record_volume *old,
			const struct record_volume *now, struct cairn_err *err);

/* Is there data of that number, or volume, in the store? As of the last listing. */
bool check_is_stored_snapshot(const struct check *check, uint64_t number);
bool check_is_stored_volume(const struct check *check, uint64_t bits);

/* Does a record or an index entry speak of it? */
bool check_refers_to_volume(const struct inventory *inv, uint64_t bits);
bool check_refers_to_snapshot(const struct inventory *inv, uint64_t number);

/* The set of a snapshot is damaged, or cannot be proven to be that between the
 * two: it is computed again, or lost. */
int check_remake_set(struct check *check, const struct record_snapshot *snapshot,
		     const char *reason, struct cairn_err *err);

/* Before the parts: the catalogue's log against what was synced of it. */
int check_log(struct check *check, struct cairn_err *err);

int check_records(struct check *check, struct cairn_err *err);
int check_lineage(struct check *check, struct cairn_err *err);
int check_indexes(struct check *check, struct cairn_err *err);
int check_others(struct check *check, struct cairn_err *err);
int check_data(struct check *check, struct cairn_err *err);
int check_sets(struct check *check, struct cairn_err *err);
int check_strays(struct check *check, struct cairn_err *err);

#endif
