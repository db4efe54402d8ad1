/* SPDX-License-Identifier: Apache-2.0 */

/* Records and their indexes in the catalogue: the one place that knows the
 * keys of record.h, so an index can not be forgotten when a record changes.
 *
 * A change names the record as it was read and as it shall be. The batch then
 * expects the old one still to be there, so two processes that change one
 * record at once can not overwrite each other: the second commit ends with
 * CAIRN_ABORTED and is tried again by its caller.
 */
#ifndef CAIRN_POOL_LEDGER_H
#define CAIRN_POOL_LEDGER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "pool/record.h"

struct cairn_err;
struct catalogue;
struct catalogue_batch;

/* CAIRN_NOT_FOUND when there is no such record. */
int ledger_volume_get(struct catalogue *cat, uint64_t volume, struct record_volume *ret,
		      struct cairn_err *err);
int ledger_volume_by_name(struct catalogue *cat, const char *name, struct record_volume *ret,
			  struct cairn_err *err);
int ledger_snapshot_get(struct catalogue *cat, uint64_t number, struct record_snapshot *ret,
			struct cairn_err *err);
/* The live holder of a name, else its newest tombstone. */
int ledger_snapshot_by_name(struct catalogue *cat, uint64_t volume, const char *name,
			    struct record_snapshot *ret, struct cairn_err *err);

/* `old` NULL makes the record (a taken name fails the commit), `now` NULL
 * removes it. */
void ledger_volume_change(struct catalogue_batch *batch, const struct record_volume *old,
			  const struct record_volume *now);

/* The same. Removing needs the catalogue to see whether the name is still
 * this snapshot's. */
int ledger_snapshot_change(struct catalogue *cat, struct catalogue_batch *batch,
			   const struct record_snapshot *old, const struct record_snapshot *now,
			   struct cairn_err *err);

/* The same as a change of a live record to another name. A commit is CAIRN_ABORTED where
 * another volume has the new name; a snapshot takes it from whoever had it when this was
 * called. */
void ledger_volume_rename(struct catalogue_batch *batch, const struct record_volume *old,
			  const struct record_volume *now);
int ledger_snapshot_rename(struct catalogue *cat, struct catalogue_batch *batch,
			   const struct record_snapshot *old, const struct record_snapshot *now,
			   struct cairn_err *err);

/* These run inside the commit (catalogue_batch_late()), so that commits that
 * count up the same number, or come to depend on the same snapshot, do not fail.
 *
 * Gives `n` numbers from *ret_first on. */
int ledger_take_numbers(struct catalogue_batch *batch, size_t n, uint64_t *ret_first,
			struct cairn_err *err);
/* This number and those below are not given any more. One that is so far ahead that it
 * is never reached, and so was not given by us, changes nothing. */
int ledger_pass_number(struct catalogue_batch *batch, uint64_t number, struct cairn_err *err);
/* Changes the revision of a snapshot that has data. CAIRN_ABORTED when it has none,
 * or is gone: what the caller read has changed. */
int ledger_snapshot_touch(struct catalogue_batch *batch, uint64_t number, struct cairn_err *err);
/* For repairs: the number that counts as given last. */
void ledger_set_last_number(struct catalogue_batch *batch, uint64_t number);
/* The last number given so far. */
int ledger_last_number(struct catalogue *cat, uint64_t *ret, struct cairn_err *err);

enum ledger_index {
	LEDGER_SNAPSHOTS = 'l', /* of a volume: numbers */
	LEDGER_CHILDREN = 'c',  /* of a snapshot: numbers */
	LEDGER_HEADS = 'h',     /* of a snapshot: volumes */
};

/* Everything listed under `key` in that index, ascending; owned by the caller. */
int ledger_collect(struct catalogue *cat, enum ledger_index index, uint64_t key, uint64_t **ret,
		   size_t *ret_n, struct cairn_err *err);

/* Numbers of tombstones that expire at or before `now_ns`, the first `skip` of
 * them left out, at most `max`. */
int ledger_expired(struct catalogue *cat, uint64_t now_ns, size_t skip, size_t max, uint64_t *ret,
		   size_t *ret_n, struct cairn_err *err);

/* Every volume whose bits are above *after (NULL: all), or every snapshot whose
 * number is. A positive return of `fn` ends the walk. With `fault` given, a
 * record that cannot be read is reported to it and skipped, else it ends the
 * walk with CAIRN_DATA_LOSS. */
struct ledger_walk {
	const uint64_t *after;
	int (*volume)(void *arg, const struct record_volume *volume, struct cairn_err *err);
	int (*snapshot)(void *arg, const struct record_snapshot *snapshot, struct cairn_err *err);
	void (*fault)(void *arg, char kind, uint64_t key, const char *reason);
	void *arg;
};

int ledger_walk_volumes(struct catalogue *cat, const struct ledger_walk *walk,
			struct cairn_err *err);
int ledger_walk_snapshots(struct catalogue *cat, const struct ledger_walk *walk,
			  struct cairn_err *err);

/* Objects to look at again; `id` is one of ours. Each addition has a stamp of its
 * own, so that one can be taken off only as it was seen. */
#define LEDGER_STAMP_MAX 17U

struct ledger_leftover {
	char stamp[LEDGER_STAMP_MAX];
	size_t n;
	bool frozen; /* by ledger_leftover_add_frozen() */
};

void ledger_leftover_add(struct catalogue_batch *batch, const char *id);
/* The same for a snapshot whose volume's filesystems are about to be frozen. */
void ledger_leftover_add_frozen(struct catalogue_batch *batch, const char *id);
/* CAIRN_NOT_FOUND when it is not listed. */
int ledger_leftover_get(struct catalogue *cat, const char *id, struct ledger_leftover *ret,
			struct cairn_err *err);
/* Takes it off, unless it was added again since: then the commit is CAIRN_ABORTED. */
void ledger_leftover_clear_seen(struct catalogue_batch *batch, const char *id,
				const struct ledger_leftover *seen);
void ledger_leftover_clear(struct catalogue_batch *batch, const char *id);
int ledger_leftover_listed(struct catalogue *cat, const char *id, bool *ret, struct cairn_err *err);
/* Fills `out` with the ids after `after` ("" for the first), at most `max`. */
int ledger_leftovers(struct catalogue *cat, const char *after, char (*out)[POOL_ID_MAX + 1],
		     size_t max, size_t *ret_n, struct cairn_err *err);

/* For repairs: puts the record with its index entries, whatever is there. */
void ledger_volume_put(struct catalogue_batch *batch, const struct record_volume *volume);
void ledger_snapshot_put(struct catalogue_batch *batch, const struct record_snapshot *snapshot);
/* For repairs: makes the snapshot the holder of its name. */
void ledger_snapshot_put_name(struct catalogue_batch *batch,
			      const struct record_snapshot *snapshot);
/* For checks: puts the index entries of a record, whatever is there; of a
 * snapshot's name only when asked to, since a newer one may hold it. */
void ledger_volume_reindex(struct catalogue_batch *batch, const struct record_volume *volume);
void ledger_snapshot_reindex(struct catalogue_batch *batch, const struct record_snapshot *snapshot,
			     bool with_name);
/* For checks: expects the record to be as it was read, and that there is none. */
void ledger_volume_expect(struct catalogue_batch *batch, const struct record_volume *volume);
void ledger_snapshot_expect(struct catalogue_batch *batch, const struct record_snapshot *snapshot);
void ledger_expect_none(struct catalogue_batch *batch, char kind, uint64_t number);

#endif
