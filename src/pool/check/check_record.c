/* SPDX-License-Identifier: Apache-2.0 */

/* Checks for records that cannot be read, records of a newer version, and
 * records that are missing although other records, or an index and the data,
 * refer to them. */

#include "pool/check/pool_check.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/err.h"
#include "pool/catalogue/ids.h"
#include "pool/check/inventory.h"
#include "pool/check/record_rebuild.h"

static void name_snapshot(const struct check *check, uint64_t number, char *out, size_t n)
{
	char id[POOL_ID_MAX + 1];
	uint64_t volume;

	if (pool_rebuild_volume_of(check->pool, check->inv, number, &volume)) {
		pool_ids_format_snapshot(volume, number, id);
		snprintf(out, n, "%s", id);
	} else {
		snprintf(out, n, "snapshot number %" PRIu64, number);
	}
}

static int report_rebuilt(struct check *check, int rc, const struct rebuild_result *result,
			  const struct cairn_err *why, const char *fault, struct cairn_err *err)
{
	char text[480];

	if (rc == 0 && result->outcome == REBUILD_NOTHING)
		return 0; /* good in the meantime */
	if (rc)
		return pool_check_outcome(check, rc, why, POOL_FAULT_FOUND, fault, err);
	if (result->outcome == REBUILD_DROPPED) {
		snprintf(text, sizeof(text), "%s; nothing else is left of it", fault);
		return pool_check_outcome(check, 0, why, POOL_FAULT_LOST, text, err);
	}
	snprintf(text, sizeof(text), "%s; it was made again: %s", fault, result->text);
	return pool_check_outcome(check, 0, why, POOL_FAULT_REPAIRED, text, err);
}

static int check_record_mend_volume(struct check *check, uint64_t bits, const char *fault,
				    struct cairn_err *err)
{
	struct rebuild_result result = {.outcome = REBUILD_NOTHING};
	struct cairn_err why = {0};
	int rc;

	if (!check->spec->repair) {
		pool_check_fault(check, POOL_FAULT_FOUND, "%s", fault);
		return 0;
	}
	rc = pool_rebuild_volume(check->pool, bits, false, &result, &why);
	return report_rebuilt(check, rc, &result, &why, fault, err);
}

static int check_record_mend_snapshot(struct check *check, uint64_t number, bool doubted,
				      const char *fault, struct cairn_err *err)
{
	struct rebuild_result result = {.outcome = REBUILD_NOTHING};
	struct rebuild_result ignored;
	struct cairn_err why = {0};
	uint64_t volume;
	int rc = 0;

	if (!check->spec->repair) {
		pool_check_fault(check, POOL_FAULT_FOUND, "%s", fault);
		return 0;
	}
	if (pool_rebuild_volume_of(check->pool, check->inv, number, &volume) &&
	    !pool_inventory_find_volume(check->inv, volume))
		rc = pool_rebuild_volume(check->pool, volume, true, &ignored, &why);
	if (!rc)
		rc = pool_rebuild_snapshot(check->pool, number, doubted, &result, &why);
	return report_rebuilt(check, rc, &result, &why, fault, err);
}

static int check_volume_records(struct check *check, struct cairn_err *err)
{
	const struct inventory *inv = check->inv;
	int rc = 0;

	for (size_t i = 0; i < inv->n_volumes && !rc; i++) {
		const struct inventory_volume *volume = &inv->volumes[i];
		char id[POOL_ID_MAX + 1];
		char text[200];

		pool_ids_format_volume(volume->bits, id);
		if (volume->state == INVENTORY_NEWER) {
			pool_check_fault(
				check, POOL_FAULT_FOUND,
				"the record of %s is of a newer version of cairn and is left "
				"alone",
				id);
		} else if (volume->state == INVENTORY_DAMAGED) {
			snprintf(text, sizeof(text), "the record of %s can not be read: %s", id,
				 volume->reason);
			rc = check_record_mend_volume(check, volume->bits, text, err);
		}
	}
	return rc;
}

static int check_snapshot_records(struct check *check, struct cairn_err *err)
{
	const struct inventory *inv = check->inv;
	int rc = 0;

	for (size_t i = 0; i < inv->n_snapshots && !rc; i++) {
		const struct inventory_snapshot *snapshot = &inv->snapshots[i];
		char name[POOL_ID_MAX + 1];
		char text[200];

		if (snapshot->state == INVENTORY_GOOD)
			continue;
		name_snapshot(check, snapshot->number, name, sizeof(name));
		if (snapshot->state == INVENTORY_NEWER) {
			pool_check_fault(
				check, POOL_FAULT_FOUND,
				"the record of %s is of a newer version of cairn and is left "
				"alone",
				name);
			continue;
		}
		snprintf(text, sizeof(text), "the record of %s can not be read: %s", name,
			 snapshot->reason);
		rc = check_record_mend_snapshot(check, snapshot->number, false, text, err);
	}
	return rc;
}

bool pool_check_refers_to_volume(const struct inventory *inv, uint64_t bits)
{
	if (pool_inventory_entry_of(inv, 'w', bits, NULL) ||
	    pool_inventory_entry_of(inv, 'h', bits, NULL))
		return true;
	for (size_t i = 0; i < inv->n_entries; i++)
		if (inv->entries[i].kind == 'l' && inv->entries[i].a == bits)
			return true;
	return false;
}

static int check_missing_volumes(struct check *check, struct cairn_err *err)
{
	const struct inventory *inv = check->inv;
	uint64_t last = 0;
	int rc = 0;

	for (size_t i = 0; i < inv->n_snapshots && !rc; i++) {
		uint64_t bits = inv->snapshots[i].record.volume;
		char id[POOL_ID_MAX + 1];
		char text[160];

		if (inv->snapshots[i].state != INVENTORY_GOOD || (i > 0 && bits == last) ||
		    pool_inventory_find_volume(inv, bits))
			continue;
		last = bits;
		pool_ids_format_volume(bits, id);
		snprintf(text, sizeof(text), "%s has snapshots and no record", id);
		rc = check_record_mend_volume(check, bits, text, err);
	}
	for (size_t i = 0; i < check->n_stored_volumes && !rc; i++) {
		uint64_t bits = check->stored_volumes[i];
		char id[POOL_ID_MAX + 1];
		char text[160];

		if (pool_inventory_find_volume(inv, bits) ||
		    !pool_check_refers_to_volume(inv, bits))
			continue;
		pool_ids_format_volume(bits, id);
		snprintf(text, sizeof(text), "%s has data, is in an index and has no record", id);
		rc = check_record_mend_volume(check, bits, text, err);
	}
	return rc;
}

bool pool_check_refers_to_snapshot(const struct inventory *inv, uint64_t number)
{
	for (size_t i = 0; i < inv->n_entries; i++) {
		const struct inventory_entry *entry = &inv->entries[i];

		if (entry->kind == 'c' && (entry->a == number || entry->b == number))
			return true;
		if (entry->kind == 'h' && entry->a == number)
			return true;
		if ((entry->kind == 'l' || entry->kind == 'm' || entry->kind == 't') &&
		    entry->b == number)
			return true;
	}
	for (size_t i = 0; i < inv->n_snapshots; i++)
		if (inv->snapshots[i].state == INVENTORY_GOOD &&
		    inv->snapshots[i].record.parent == number)
			return true;
	for (size_t i = 0; i < inv->n_volumes; i++)
		if (inv->volumes[i].state == INVENTORY_GOOD &&
		    inv->volumes[i].record.head == number)
			return true;
	return false;
}

static int check_missing_snapshots(struct check *check, struct cairn_err *err)
{
	const struct inventory *inv = check->inv;
	int rc = 0;

	for (size_t i = 0; i < check->n_stored_snapshots && !rc; i++) {
		uint64_t number = check->stored_snapshots[i];
		char name[POOL_ID_MAX + 1];
		char text[160];

		if (pool_inventory_find_snapshot(inv, number) ||
		    !pool_check_refers_to_snapshot(inv, number))
			continue;
		name_snapshot(check, number, name, sizeof(name));
		snprintf(text, sizeof(text), "%s has data, is referred to and has no record", name);
		rc = check_record_mend_snapshot(check, number, false, text, err);
	}
	return rc;
}

/* The index and the data name one volume, and the record another. */
static bool is_of_another_volume(struct check *check, const struct record_snapshot *record)
{
	uint64_t volume;

	return !pool_inventory_has_pair(check->inv, 'l', record->volume, record->number) &&
	       pool_rebuild_volume_of(check->pool, check->inv, record->number, &volume) &&
	       volume != record->volume && pool_inventory_good_volume(check->inv, volume);
}

static int check_owners(struct check *check, struct cairn_err *err)
{
	const struct inventory *inv = check->inv;
	int rc = 0;

	for (size_t i = 0; i < inv->n_snapshots && !rc; i++) {
		const struct record_snapshot *record = &inv->snapshots[i].record;
		char id[POOL_ID_MAX + 1];
		char text[160];

		if (inv->snapshots[i].state != INVENTORY_GOOD ||
		    !is_of_another_volume(check, record))
			continue;
		pool_ids_format_volume(record->volume, id);
		snprintf(text, sizeof(text),
			 "the record of snapshot number %" PRIu64 " names another volume, %s",
			 record->number, id);
		rc = check_record_mend_snapshot(check, record->number, true, text, err);
	}
	if (!rc && check->repaired)
		check->again = true; /* later parts read the records as they are now */
	return rc;
}

/* Volumes first: the record of a snapshot needs that of its volume. */
int pool_check_records(struct check *check, struct cairn_err *err)
{
	int rc = check_owners(check, err);

	if (rc || check->again)
		return rc;
	rc = check_volume_records(check, err);
	if (!rc)
		rc = check_missing_volumes(check, err);
	if (!rc)
		rc = check_snapshot_records(check, err);
	return rc ? rc : check_missing_snapshots(check, err);
}
