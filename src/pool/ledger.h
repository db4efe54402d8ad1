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

/* Gives `n` numbers from *ret_first on. Takes effect with the batch. */
int ledger_take_numbers(struct catalogue *cat, struct catalogue_batch *batch, size_t n,
			uint64_t *ret_first, struct cairn_err *err);
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

/* Numbers of tombstones that expire at or before `now_ns`, at most `max`. */
int ledger_expired(struct catalogue *cat, uint64_t now_ns, size_t max, uint64_t *ret, size_t *ret_n,
		   struct cairn_err *err);

/* Every volume whose bits are above *after (NULL: all), or every snapshot whose
 * number is. A positive return of `fn` ends the walk. With `fault` given, a
 * record that can not be read is told to it and passed over, else it ends the
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

/* Objects to look at again; `id` is one of ours. */
void ledger_leftover_add(struct catalogue_batch *batch, const char *id);
void ledger_leftover_clear(struct catalogue_batch *batch, const char *id);
int ledger_leftover_listed(struct catalogue *cat, const char *id, bool *ret, struct cairn_err *err);
/* Fills `out` with the ids after `after` ("" for the first), at most `max`. */
int ledger_leftovers(struct catalogue *cat, const char *after, char (*out)[POOL_ID_MAX + 1],
		     size_t max, size_t *ret_n, struct cairn_err *err);

/* For checks: puts the index entries of a record, whatever is there. */
void ledger_volume_reindex(struct catalogue_batch *batch, const struct record_volume *volume);
void ledger_snapshot_reindex(struct catalogue_batch *batch, const struct record_snapshot *snapshot);
/* For checks: calls `fn` for every index entry: its kind, its two parts (a name
 * in `name` for 'w' and 'm'), and the value as number. */
struct ledger_entry {
	char kind;
	uint64_t a;
	uint64_t b;       /* second key part, or the value for names */
	const char *name; /* for 'w' and 'm' */
};
int ledger_entries(struct catalogue *cat,
		   int (*fn)(void *arg, const struct ledger_entry *entry, struct cairn_err *err),
		   void *arg, struct cairn_err *err);
/* For checks: removes one entry. */
void ledger_entry_remove(struct catalogue_batch *batch, const struct ledger_entry *entry);

#endif
