/* SPDX-License-Identifier: Apache-2.0 */

/* Indexes against records, both ways: an entry that no record makes is removed,
 * and one that is missing is put.
 *
 * To see what is missing, the entries are counted against what the records
 * would make; only when the counts differ is every record's index written
 * anew, so a healthy pool is never written to.
 */

#include "pool/check.h"

#include <inttypes.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "pool/catalogue.h"
#include "pool/handle.h"
#include "pool/ledger.h"

struct counting {
	struct check *check;
	uint64_t entries;
	uint64_t wanted;
	struct catalogue_batch *batch; /* when reindexing */
};

static bool volume_entry_fits(struct pool *pool, const struct ledger_entry *entry)
{
	struct record_volume volume;
	struct cairn_err ignored;

	if (ledger_volume_get(pool->cat, entry->b, &volume, &ignored) != 0)
		return false;
	if (entry->kind == 'h')
		return volume.head == entry->a;
	return !volume.deleted && strcmp(volume.name, entry->name) == 0;
}

static bool snapshot_entry_fits(struct pool *pool, const struct ledger_entry *entry)
{
	struct record_snapshot snapshot;
	struct cairn_err ignored;

	if (ledger_snapshot_get(pool->cat, entry->b, &snapshot, &ignored) != 0)
		return false;
	switch (entry->kind) {
	case 'l':
		return snapshot.volume == entry->a;
	case 'c':
		return snapshot.parent == entry->a;
	case 't':
		return snapshot.deleted && snapshot.expires_ns == entry->a;
	case 'm':
		return snapshot.volume == entry->a && strcmp(snapshot.name, entry->name) == 0;
	default:
		return false;
	}
}

static int check_entry(void *arg, const struct ledger_entry *entry, struct cairn_err *err)
{
	struct counting *counting = arg;
	struct check *check = counting->check;
	cairn_cleanup(catalogue_batch_freep) struct catalogue_batch *batch = NULL;
	bool of_volume = entry->kind == 'w' || entry->kind == 'h';
	int rc = 0;

	if (entry->kind != 'm')
		counting->entries++;
	if (of_volume ? volume_entry_fits(check->pool, entry)
		      : snapshot_entry_fits(check->pool, entry))
		return 0;
	if (entry->kind != 'm')
		counting->entries--;
	if (check->spec->repair) {
		rc = catalogue_batch_new(check->pool->cat, &batch, err);
		if (rc)
			return rc;
		ledger_entry_remove(batch, entry);
		rc = catalogue_commit(batch, CATALOGUE_DURABLE, err);
	}
	if (!rc)
		check_fault(check, check->spec->repair ? POOL_FAULT_REPAIRED : POOL_FAULT_FOUND,
			    "an index entry (%c) fits no record", entry->kind);
	return rc;
}

static int want_volume(void *arg, const struct record_volume *volume, struct cairn_err *err)
{
	struct counting *counting = arg;

	(void)err;
	counting->wanted += (volume->deleted ? 0 : 1) + (volume->head ? 1 : 0);
	if (counting->batch)
		ledger_volume_reindex(counting->batch, volume);
	return 0;
}

static bool name_is_indexed(struct pool *pool, const struct record_snapshot *snapshot)
{
	struct record_snapshot holder;
	struct cairn_err ignored;

	return !snapshot->name[0] ||
	       ledger_snapshot_by_name(pool->cat, snapshot->volume, snapshot->name, &holder,
				       &ignored) == 0;
}

/* Names are counted by look-up: of several holders only the newest has one. */
static int want_snapshot(void *arg, const struct record_snapshot *snapshot, struct cairn_err *err)
{
	struct counting *counting = arg;

	(void)err;
	counting->wanted += 1 + (snapshot->parent ? 1 : 0) + (snapshot->deleted ? 1 : 0);
	if (!name_is_indexed(counting->check->pool, snapshot))
		counting->wanted++;
	if (counting->batch)
		ledger_snapshot_reindex(counting->batch, snapshot);
	return 0;
}

static int walk_records(struct counting *counting, struct cairn_err *err)
{
	struct ledger_walk walk = {
		.volume = want_volume,
		.snapshot = want_snapshot,
		.fault = check_ignore_fault,
		.arg = counting,
	};
	struct catalogue *cat = counting->check->pool->cat;
	int rc = ledger_walk_volumes(cat, &walk, err);

	return rc ? rc : ledger_walk_snapshots(cat, &walk, err);
}

static int reindex(struct counting *counting, struct cairn_err *err)
{
	cairn_cleanup(catalogue_batch_freep) struct catalogue_batch *batch = NULL;
	int rc = catalogue_batch_new(counting->check->pool->cat, &batch, err);

	counting->batch = batch;
	if (!rc)
		rc = walk_records(counting, err);
	counting->batch = NULL;
	return rc ? rc : catalogue_commit(batch, CATALOGUE_DURABLE, err);
}

int check_indexes(struct check *check, struct cairn_err *err)
{
	struct counting counting = {.check = check};
	uint64_t missing;
	int rc = ledger_entries(check->pool->cat, check_entry, &counting, err);

	if (!rc)
		rc = walk_records(&counting, err);
	if (rc || counting.wanted <= counting.entries)
		return rc;
	missing = counting.wanted - counting.entries;
	if (check->spec->repair)
		rc = reindex(&counting, err);
	if (!rc)
		check_fault(check, check->spec->repair ? POOL_FAULT_REPAIRED : POOL_FAULT_FOUND,
			    "%" PRIu64 " index entries are missing", missing);
	return rc;
}
