/* SPDX-License-Identifier: Apache-2.0 */

/* Records and their indexes in the catalogue: the one place that knows the keys
 * of record.h, so a changed record cannot be left with a stale index.
 *
 * A change takes the record as it was read and the new record. The batch
 * expects the old one to be unchanged, so two processes that change one record
 * at once cannot overwrite each other: the second commit fails with
 * CAIRN_ABORTED and its caller retries.
 */
#ifndef CAIRN_POOL_LEDGER_H
#define CAIRN_POOL_LEDGER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "pool/catalogue/record.h"

struct cairn_err;
struct catalogue;
struct catalogue_batch;

/* CAIRN_NOT_FOUND when there is no such record, or no such name. */
int pool_records_volume_get(struct catalogue *cat, uint64_t volume, struct record_volume *ret,
			    struct cairn_err *err);
int pool_records_volume_by_name(struct catalogue *cat, const char *name, struct record_volume *ret,
				struct cairn_err *err);
int pool_records_snapshot_get(struct catalogue *cat, uint64_t number, struct record_snapshot *ret,
			      struct cairn_err *err);
/* The live snapshot of that name, or else its newest tombstone. */
int pool_records_snapshot_by_name(struct catalogue *cat, uint64_t volume, const char *name,
				  struct record_snapshot *ret, struct cairn_err *err);

/* `old` NULL creates the record (the commit fails if the name is taken), `now`
 * NULL removes it. */
void pool_records_volume_change(struct catalogue_batch *batch, const struct record_volume *old,
				const struct record_volume *now);

/* The same. Removing reads the catalogue to see whether the name still refers
 * to this snapshot. */
int pool_records_snapshot_change(struct catalogue *cat, struct catalogue_batch *batch,
				 const struct record_snapshot *old,
				 const struct record_snapshot *now, struct cairn_err *err);

/* Changes the name of a live record. The commit fails with CAIRN_ABORTED if another
 * volume has the new name; a snapshot takes it from the snapshot that held it when this
 * was called. */
void pool_records_volume_rename(struct catalogue_batch *batch, const struct record_volume *old,
				const struct record_volume *now);
int pool_records_snapshot_rename(struct catalogue *cat, struct catalogue_batch *batch,
				 const struct record_snapshot *old,
				 const struct record_snapshot *now, struct cairn_err *err);

/* These run inside the commit (pool_catalogue_batch_late()), so that commits that
 * increment the same counter, or begin to depend on the same snapshot, do not
 * make each other fail.
 *
 * Assigns `n` numbers from *ret_first on. */
int pool_records_take_numbers(struct catalogue_batch *batch, size_t n, uint64_t *ret_first,
			      struct cairn_err *err);
/* Ensures that this number and all below are not assigned again. A number so high that
 * it is never reached, and so was not assigned by us, is ignored. */
int pool_records_pass_number(struct catalogue_batch *batch, uint64_t number, struct cairn_err *err);
/* Changes the revision of a snapshot that has data. CAIRN_ABORTED when it has none
 * or was removed, because the state that the caller read has changed. */
int pool_records_snapshot_touch(struct catalogue_batch *batch, uint64_t number,
				struct cairn_err *err);
/* For repairs: sets the number that counts as last assigned. */
void pool_records_set_last_number(struct catalogue_batch *batch, uint64_t number);
/* The last number assigned so far. */
int pool_records_last_number(struct catalogue *cat, uint64_t *ret, struct cairn_err *err);

enum ledger_index {
	LEDGER_SNAPSHOTS = 'l', /* of a volume: numbers */
	LEDGER_CHILDREN = 'c',  /* of a snapshot: numbers */
	LEDGER_HEADS = 'h',     /* of a snapshot: volumes */
};

/* Everything listed under `key` in that index, ascending; owned by the caller. */
int pool_records_collect(struct catalogue *cat, enum ledger_index index, uint64_t key,
			 uint64_t **ret, size_t *ret_n, struct cairn_err *err);

/* Whether the index lists that snapshot among those of the volume. */
int pool_records_is_listed(struct catalogue *cat, uint64_t volume, uint64_t number, bool *ret,
			   struct cairn_err *err);

/* Numbers of tombstones that expire at or before `now_ns`, at most `max`,
 * without the first `skip`. */
int pool_records_expired(struct catalogue *cat, uint64_t now_ns, size_t skip, size_t max,
			 uint64_t *ret, size_t *ret_n, struct cairn_err *err);

/* Every volume whose bits are above *after (NULL: all), or every snapshot whose
 * number is. A positive return of `fn` ends the walk. With `fault`, a record
 * that cannot be read is reported to it and skipped; without, it ends the walk
 * with CAIRN_DATA_LOSS. */
struct ledger_walk {
	const uint64_t *after;
	int (*volume)(void *arg, const struct record_volume *volume, struct cairn_err *err);
	int (*snapshot)(void *arg, const struct record_snapshot *snapshot, struct cairn_err *err);
	void (*fault)(void *arg, char kind, uint64_t key, const char *reason);
	void *arg;
};

int pool_records_walk_volumes(struct catalogue *cat, const struct ledger_walk *walk,
			      struct cairn_err *err);
int pool_records_walk_snapshots(struct catalogue *cat, const struct ledger_walk *walk,
				struct cairn_err *err);

/* The list of objects to clean up; `id` is an id of this pool. Each addition has
 * a stamp of its own, so that an entry is removed only in the state in which it
 * was seen. */
#define LEDGER_STAMP_MAX 17U

struct ledger_leftover {
	char stamp[LEDGER_STAMP_MAX];
	size_t n;
	bool frozen; /* by pool_records_cleanup_add_frozen() */
};

void pool_records_cleanup_add(struct catalogue_batch *batch, const char *id);
/* The same for a snapshot whose volume's filesystems are about to be frozen. */
void pool_records_cleanup_add_frozen(struct catalogue_batch *batch, const char *id);
/* CAIRN_NOT_FOUND when it is not listed. */
int pool_records_cleanup_get(struct catalogue *cat, const char *id, struct ledger_leftover *ret,
			     struct cairn_err *err);
/* Removes the entry; the commit fails with CAIRN_ABORTED if it was added again
 * since. */
void pool_records_cleanup_clear_seen(struct catalogue_batch *batch, const char *id,
				     const struct ledger_leftover *seen);
void pool_records_cleanup_clear(struct catalogue_batch *batch, const char *id);
int pool_records_cleanup_listed(struct catalogue *cat, const char *id, bool *ret,
				struct cairn_err *err);
/* Fills `out` with the ids after `after` ("" for the first), at most `max`. */
int pool_records_leftovers(struct catalogue *cat, const char *after, char (*out)[POOL_ID_MAX + 1],
			   size_t max, size_t *ret_n, struct cairn_err *err);

/* For repairs: puts the record with its index entries, replacing any that
 * exist. */
void pool_records_volume_put(struct catalogue_batch *batch, const struct record_volume *volume);
void pool_records_snapshot_put(struct catalogue_batch *batch,
			       const struct record_snapshot *snapshot);
/* For repairs: makes the snapshot the holder of its name. */
void pool_records_snapshot_put_name(struct catalogue_batch *batch,
				    const struct record_snapshot *snapshot);
/* For checks: puts the index entries of a record, replacing any that exist; the
 * entry of a snapshot's name only on request, since a newer snapshot may hold
 * it. */
void pool_records_volume_reindex(struct catalogue_batch *batch, const struct record_volume *volume);
void pool_records_snapshot_reindex(struct catalogue_batch *batch,
				   const struct record_snapshot *snapshot, bool with_name);
/* For checks: the batch expects the record to be as it was read, or to be
 * absent. */
void pool_records_volume_expect(struct catalogue_batch *batch, const struct record_volume *volume);
void pool_records_snapshot_expect(struct catalogue_batch *batch,
				  const struct record_snapshot *snapshot);
void pool_records_expect_none(struct catalogue_batch *batch, char kind, uint64_t number);

#endif
