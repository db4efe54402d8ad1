/* SPDX-License-Identifier: Apache-2.0 */

/* Compares records with each other: predecessors, heads, names, and
 * contradictions within a record. */

#include "pool/check/pool_check.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "pool/catalogue/ids.h"
#include "pool/check/inventory.h"
#include "pool/pool_impl.h"

static int check_lineage_mend_snapshot(struct check *check, const struct record_snapshot *old,
				       const struct record_snapshot *now, const char *text,
				       struct cairn_err *err)
{
	struct cairn_err why = {0};
	int rc;

	if (!check->spec->repair) {
		pool_check_fault(check, POOL_FAULT_FOUND, "%s", text);
		return 0;
	}
	rc = pool_check_change_snapshot(check, old, now, &why);
	return pool_check_outcome(check, rc, &why, POOL_FAULT_REPAIRED, text, err);
}

/* Without its predecessor a snapshot becomes the first of a new line, because
 * the base of its set is unknown. */
static int check_lineage_cut_line(struct check *check, const struct record_snapshot *old,
				  const char *reason, struct cairn_err *err)
{
	struct record_snapshot now = *old;
	char id[POOL_ID_MAX + 1];
	char text[240];

	now.parent = now.parent_volume = 0;
	now.set = POOL_SET_NONE;
	now.set_generation++;
	now.set_extents = now.set_changed_bytes = now.set_zero_bytes = 0;
	pool_ids_format_snapshot(old->volume, old->number, id);
	snprintf(text, sizeof(text), "the predecessor of %s, number %" PRIu64 ", %s%s", id,
		 old->parent, reason, check->spec->repair ? ": it starts a new line" : "");
	return check_lineage_mend_snapshot(check, old, &now, text, err);
}

/* The index of another predecessor lists it, and that of its own does not: one
 * of the two is damaged, and the set may belong to either. */
static bool index_contradicts(const struct inventory *inv, const struct record_snapshot *snapshot)
{
	const struct inventory_entry *entry = NULL;

	if (pool_inventory_has_pair(inv, 'c', snapshot->parent, snapshot->number))
		return false;
	while ((entry = pool_inventory_entry_of(inv, 'c', snapshot->number, entry)))
		if (entry->a != snapshot->parent)
			return true;
	return false;
}

static int check_parent(struct check *check, const struct record_snapshot *snapshot, const char *id,
			struct cairn_err *err)
{
	const struct inventory_snapshot *found =
		pool_inventory_find_snapshot(check->inv, snapshot->parent);
	const struct record_snapshot *parent = found ? &found->record : NULL;
	char text[200];

	if (!found)
		return check_lineage_cut_line(check, snapshot, "has no record", err);
	if (found->state != INVENTORY_GOOD)
		return 0; /* already reported, and repaired or left alone */
	if (parent->number >= snapshot->number)
		return check_lineage_cut_line(check, snapshot, "is newer than itself", err);
	if (snapshot->set == POOL_SET_READY && index_contradicts(check->inv, snapshot))
		return pool_check_remake_set(check, snapshot, "an index names another predecessor",
					     err);
	if (parent->volume != snapshot->parent_volume) {
		struct record_snapshot now = *snapshot;

		now.parent_volume = parent->volume;
		snprintf(text, sizeof(text), "the predecessor of %s is of another volume", id);
		return check_lineage_mend_snapshot(check, snapshot, &now, text, err);
	}
	if (snapshot->set == POOL_SET_NONE)
		return pool_check_remake_set(check, snapshot,
					     "its record says that it has no change set", err);
	if (snapshot->set == POOL_SET_PENDING && (!parent->has_data || !snapshot->has_data))
		return pool_check_remake_set(check, snapshot, "it can not be made any more", err);
	return 0;
}

/* For a record that says both "live" and "no data", the store decides. */
static int check_own_data(struct check *check, const struct record_snapshot *snapshot,
			  const char *id, struct cairn_err *err)
{
	struct record_snapshot now = *snapshot;
	char text[200];

	const struct inventory_entry *expiry =
		pool_inventory_entry_of(check->inv, 't', snapshot->number, NULL);

	if (pool_check_is_stored_snapshot(check, snapshot->number)) {
		now.has_data = true;
		snprintf(text, sizeof(text), "%s has data, its record denies it", id);
	} else if (expiry) {
		now.deleted = true;
		now.expires_ns = expiry->a;
		snprintf(text, sizeof(text), "%s is deleted, its record denies it", id);
	} else {
		return 0; /* pool_check_data() reports it */
	}
	return check_lineage_mend_snapshot(check, snapshot, &now, text, err);
}

/* A repair must not cause anything to expire at once. */
static int check_expiry(struct check *check, const struct record_snapshot *snapshot, const char *id,
			struct cairn_err *err)
{
	const struct record_volume *volume =
		pool_inventory_good_volume(check->inv, snapshot->volume);
	struct record_snapshot now = *snapshot;
	char text[200];
	uint64_t expires;

	if (!volume ||
	    pool_inventory_has_pair(check->inv, 't', snapshot->expires_ns, snapshot->number))
		return 0;
	expires = pool_impl_expiry_ns(check->pool, volume);
	if (expires > now.expires_ns)
		now.expires_ns = expires;
	snprintf(text, sizeof(text), "%s is deleted and not in the index of deleted snapshots", id);
	return check_lineage_mend_snapshot(check, snapshot, &now, text, err);
}

/* Two live snapshots of a volume have the same name: the index refers to the
 * other one. */
static int check_lineage_check_name(struct check *check, const struct record_snapshot *snapshot,
				    const char *id, struct cairn_err *err)
{
	const struct inventory_entry *entry =
		pool_inventory_find_name(check->inv, 'm', snapshot->volume, snapshot->name);
	const struct record_snapshot *other =
		entry && entry->b != snapshot->number
			? pool_inventory_good_snapshot(check->inv, entry->b)
			: NULL;
	struct record_snapshot now = *snapshot;
	char text[400];

	if (snapshot->name[0] && (!other || other->deleted || other->volume != snapshot->volume ||
				  strcmp(other->name, snapshot->name) != 0))
		return 0;
	snprintf(now.name, sizeof(now.name), "recovered-%" PRIu64, snapshot->number);
	snprintf(text, sizeof(text), "%s has the name '%s' of another%s%s", id, snapshot->name,
		 check->spec->repair ? ": it is called " : "", check->spec->repair ? now.name : "");
	return check_lineage_mend_snapshot(check, snapshot, &now, text, err);
}

static int check_lineage_check_snapshot(struct check *check, const struct record_snapshot *snapshot,
					struct cairn_err *err)
{
	char id[POOL_ID_MAX + 1];

	pool_ids_format_snapshot(snapshot->volume, snapshot->number, id);
	if (!snapshot->deleted && !snapshot->has_data)
		return check_own_data(check, snapshot, id, err);
	if (snapshot->parent == 0 && snapshot->set != POOL_SET_NONE)
		return check_lineage_cut_line(check, snapshot, "is needed for its change set", err);
	if (snapshot->parent) {
		uint64_t found = check->result.found;
		int rc = check_parent(check, snapshot, id, err);

		if (rc || check->result.found != found || check->again)
			return rc; /* one change of a record at a time */
	}
	return snapshot->deleted ? check_expiry(check, snapshot, id, err)
				 : check_lineage_check_name(check, snapshot, id, err);
}

static int check_lineage_mend_volume(struct check *check, const struct record_volume *old,
				     const struct record_volume *now, enum pool_fault_state state,
				     const char *text, struct cairn_err *err)
{
	struct cairn_err why = {0};
	int rc;

	if (!check->spec->repair) {
		pool_check_fault(check, POOL_FAULT_FOUND, "%s", text);
		return 0;
	}
	rc = pool_check_change_volume(check, old, now, &why);
	return pool_check_outcome(check, rc, &why, state, text, err);
}

static int check_lineage_check_head(struct check *check, const struct record_volume *volume,
				    struct cairn_err *err)
{
	const struct inventory_snapshot *head =
		pool_inventory_find_snapshot(check->inv, volume->head);
	struct record_volume now = *volume;
	char text[320];

	if (head && head->state != INVENTORY_GOOD)
		return 0;
	if (head && head->record.has_data && !volume->deleted)
		return 0;
	now.head = 0;
	snprintf(text, sizeof(text),
		 "the last snapshot of volume '%s' is gone: its next one starts a new line",
		 volume->name);
	return check_lineage_mend_volume(check, volume, &now, POOL_FAULT_LOST, text, err);
}

/* If both the index of names and the store disagree with the record on whether
 * the volume exists, the record is wrong. */
static int check_life(struct check *check, const struct record_volume *volume,
		      struct cairn_err *err)
{
	const struct inventory_entry *entry =
		pool_inventory_find_name(check->inv, 'w', 0, volume->name);
	bool named = entry && entry->b == volume->volume;
	bool stored = pool_check_is_stored_volume(check, volume->volume);
	struct record_volume now = *volume;
	char id[POOL_ID_MAX + 1];
	char text[200];

	if (named != stored || named == !volume->deleted)
		return 0;
	now.deleted = !stored;
	now.head = now.deleted ? 0 : now.head;
	pool_ids_format_volume(volume->volume, id);
	snprintf(text, sizeof(text), "%s is %s, its record denies it", id,
		 now.deleted ? "deleted" : "not deleted");
	return check_lineage_mend_volume(check, volume, &now, POOL_FAULT_REPAIRED, text, err);
}

static int check_volume_name(struct check *check, const struct record_volume *volume,
			     struct cairn_err *err)
{
	const struct inventory_entry *entry =
		pool_inventory_find_name(check->inv, 'w', 0, volume->name);
	const struct record_volume *other =
		entry && entry->b != volume->volume
			? pool_inventory_good_volume(check->inv, entry->b)
			: NULL;
	struct record_volume now = *volume;
	char id[POOL_ID_MAX + 1];
	char text[400];

	if (volume->name[0] && (!other || other->deleted || strcmp(other->name, volume->name) != 0))
		return 0;
	pool_ids_format_volume(volume->volume, id);
	snprintf(now.name, sizeof(now.name), "recovered-%016" PRIx64, volume->volume);
	snprintf(text, sizeof(text), "%s has the name '%s' of another volume%s%s", id, volume->name,
		 check->spec->repair ? ": it is called " : "", check->spec->repair ? now.name : "");
	return check_lineage_mend_volume(check, volume, &now, POOL_FAULT_REPAIRED, text, err);
}

int pool_check_lineage(struct check *check, struct cairn_err *err)
{
	const struct inventory *inv = check->inv;
	int rc = 0;

	for (size_t i = 0; i < inv->n_snapshots && !rc; i++)
		if (inv->snapshots[i].state == INVENTORY_GOOD)
			rc = check_lineage_check_snapshot(check, &inv->snapshots[i].record, err);
	for (size_t i = 0; i < inv->n_volumes && !rc; i++) {
		const struct record_volume *volume = &inv->volumes[i].record;

		uint64_t found = check->result.found;

		if (inv->volumes[i].state != INVENTORY_GOOD)
			continue;
		rc = check_life(check, volume, err);
		if (!rc && volume->head && check->result.found == found)
			rc = check_lineage_check_head(check, volume, err);
		if (!rc && !volume->deleted && check->result.found == found)
			rc = check_volume_name(check, volume, err);
	}
	if (check->repaired)
		check->again = true; /* a record may have two faults */
	return rc;
}
