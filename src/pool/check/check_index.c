/* SPDX-License-Identifier: Apache-2.0 */

/* Compares indexes with records in both directions: an entry without a record
 * is removed, and a missing one is added. Each commit expects the record on
 * which it was decided. */

#include "pool/check/pool_check.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "pool/catalogue/catalogue.h"
#include "pool/catalogue/records.h"
#include "pool/check/inventory.h"
#include "pool/check/quarantine.h"
#include "pool/pool_impl.h"

static bool check_index_is_of_volume(const struct inventory_entry *entry)
{
	return entry->kind == 'w' || entry->kind == 'h';
}

static bool volume_makes(const struct record_volume *volume, const struct inventory_entry *entry)
{
	if (entry->kind == 'h')
		return volume->head == entry->a;
	return !volume->deleted && strcmp(volume->name, entry->name) == 0;
}

static bool snapshot_makes(const struct record_snapshot *snapshot,
			   const struct inventory_entry *entry)
{
	switch (entry->kind) {
	case 'l':
		return snapshot->volume == entry->a;
	case 'c':
		return snapshot->parent == entry->a;
	case 't':
		return snapshot->deleted && snapshot->expires_ns == entry->a;
	default:
		return snapshot->volume == entry->a && strcmp(snapshot->name, entry->name) == 0;
	}
}

/* An entry is also kept if its record cannot be read, or is missing while the
 * data exists: the record is rebuilt from it. */
static bool entry_stays(const struct check *check, const struct inventory_entry *entry)
{
	if (entry->kind == '?')
		return false;
	if (check_index_is_of_volume(entry)) {
		const struct inventory_volume *volume =
			pool_inventory_find_volume(check->inv, entry->b);

		if (!volume)
			return pool_check_is_stored_volume(check, entry->b);
		return volume->state != INVENTORY_GOOD || volume_makes(&volume->record, entry);
	}
	const struct inventory_snapshot *snapshot =
		pool_inventory_find_snapshot(check->inv, entry->b);

	if (!snapshot)
		return pool_check_is_stored_snapshot(check, entry->b);
	return snapshot->state != INVENTORY_GOOD || snapshot_makes(&snapshot->record, entry);
}

static int remove_entry(struct check *check, const struct inventory_entry *entry,
			struct cairn_err *err)
{
	cairn_cleanup(pool_catalogue_batch_freep) struct catalogue_batch *batch = NULL;
	struct catalogue_bytes key = {entry->key, entry->key_len};
	const struct record_volume *volume = pool_inventory_good_volume(check->inv, entry->b);
	const struct record_snapshot *snapshot = pool_inventory_good_snapshot(check->inv, entry->b);
	int rc = pool_catalogue_batch_new(check->pool->cat, &batch, err);

	if (!rc)
		rc = pool_quarantine_keep_value(check->pool->cat, batch, key, err);
	if (rc)
		return rc;
	if (entry->kind == '?')
		; /* whatever it was: records make their entries again */
	else if (check_index_is_of_volume(entry) && volume)
		pool_records_volume_expect(batch, volume);
	else if (check_index_is_of_volume(entry))
		pool_records_expect_none(batch, 'v', entry->b);
	else if (snapshot)
		pool_records_snapshot_expect(batch, snapshot);
	else
		pool_records_expect_none(batch, 's', entry->b);
	pool_catalogue_delete(batch, key);
	return pool_catalogue_commit(batch, CATALOGUE_DURABLE, err);
}

static int check_entry(struct check *check, const struct inventory_entry *entry,
		       struct cairn_err *err)
{
	struct cairn_err why = {0};
	char text[200];
	int rc;

	if (entry_stays(check, entry))
		return 0;
	snprintf(text, sizeof(text), "an index entry (%.100s) fits no record",
		 (const char *)entry->key);
	if (!check->spec->repair) {
		pool_check_fault(check, POOL_FAULT_FOUND, "%s", text);
		return 0;
	}
	rc = remove_entry(check, entry, &why);
	return pool_check_outcome(check, rc, &why, POOL_FAULT_REPAIRED, text, err);
}

/* ---- what is missing ----------------------------------------------------- */

static unsigned missing_of_volume(const struct inventory *inv, const struct record_volume *volume)
{
	const struct inventory_entry *name =
		volume->deleted ? NULL : pool_inventory_find_name(inv, 'w', 0, volume->name);
	unsigned missing = 0;

	if (!volume->deleted && (!name || name->b != volume->volume))
		missing++;
	if (volume->head && !pool_inventory_has_pair(inv, 'h', volume->head, volume->volume))
		missing++;
	return missing;
}

/* A name must refer to its live holder. Among deleted snapshots the newest
 * holds it, and if that expires before an older one the name refers to
 * nothing. */
static bool misses_name(const struct inventory *inv, const struct record_snapshot *snapshot)
{
	const struct inventory_entry *name;

	if (snapshot->deleted || !snapshot->name[0])
		return false;
	name = pool_inventory_find_name(inv, 'm', snapshot->volume, snapshot->name);
	return !name || name->b != snapshot->number;
}

static unsigned missing_of_snapshot(const struct inventory *inv,
				    const struct record_snapshot *snapshot)
{
	uint64_t number = snapshot->number;
	unsigned missing = misses_name(inv, snapshot);

	missing += !pool_inventory_has_pair(inv, 'l', snapshot->volume, number);
	if (snapshot->parent)
		missing += !pool_inventory_has_pair(inv, 'c', snapshot->parent, number);
	if (snapshot->deleted)
		missing += !pool_inventory_has_pair(inv, 't', snapshot->expires_ns, number);
	return missing;
}

static int put_entries(struct check *check, const struct record_volume *volume,
		       const struct record_snapshot *snapshot, struct cairn_err *err)
{
	cairn_cleanup(pool_catalogue_batch_freep) struct catalogue_batch *batch = NULL;
	int rc = pool_catalogue_batch_new(check->pool->cat, &batch, err);

	if (rc)
		return rc;
	if (volume) {
		pool_records_volume_expect(batch, volume);
		pool_records_volume_reindex(batch, volume);
	} else {
		pool_records_snapshot_expect(batch, snapshot);
		pool_records_snapshot_reindex(batch, snapshot, misses_name(check->inv, snapshot));
	}
	return pool_catalogue_commit(batch, CATALOGUE_DURABLE, err);
}

static int check_missing(struct check *check, unsigned missing, const struct record_volume *volume,
			 const struct record_snapshot *snapshot, struct cairn_err *err)
{
	struct cairn_err why = {0};
	char text[320];
	int rc;

	if (!missing)
		return 0;
	if (volume)
		snprintf(text, sizeof(text), "%u index entries of volume '%s' are missing", missing,
			 volume->name);
	else
		snprintf(text, sizeof(text),
			 "%u index entries of snapshot number %" PRIu64 " ('%s') are missing",
			 missing, snapshot->number, snapshot->name);
	if (!check->spec->repair) {
		pool_check_fault(check, POOL_FAULT_FOUND, "%s", text);
		return 0;
	}
	rc = put_entries(check, volume, snapshot, &why);
	return pool_check_outcome(check, rc, &why, POOL_FAULT_REPAIRED, text, err);
}

int pool_check_indexes(struct check *check, struct cairn_err *err)
{
	const struct inventory *inv = check->inv;
	int rc = 0;

	for (size_t i = 0; i < inv->n_entries && !rc; i++)
		rc = check_entry(check, &inv->entries[i], err);
	for (size_t i = 0; i < inv->n_volumes && !rc; i++) {
		const struct record_volume *volume = &inv->volumes[i].record;

		if (inv->volumes[i].state == INVENTORY_GOOD)
			rc = check_missing(check, missing_of_volume(inv, volume), volume, NULL,
					   err);
	}
	for (size_t i = 0; i < inv->n_snapshots && !rc; i++) {
		const struct record_snapshot *snapshot = &inv->snapshots[i].record;

		if (inv->snapshots[i].state == INVENTORY_GOOD)
			rc = check_missing(check, missing_of_snapshot(inv, snapshot), NULL,
					   snapshot, err);
	}
	return rc;
}
