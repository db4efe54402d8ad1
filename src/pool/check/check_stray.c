/* SPDX-License-Identifier: Apache-2.0 */

/* Finds data and sets that no record refers to. The only proof is a readable
 * record that says so, or the certainty that there is no record and nothing
 * refers to the object. They are moved to the quarantine, never removed, and not
 * while they are in use. */

#include "pool/check/pool_check.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "pool/catalogue/catalogue.h"
#include "pool/catalogue/ids.h"
#include "pool/catalogue/records.h"
#include "pool/check/inventory.h"
#include "pool/cleanup_queue.h"
#include "pool/device/attacher.h"
#include "pool/pool_impl.h"
#include "pool/store/blob.h"
#include "pool/store/changeset_file.h"
#include "pool/store/store.h"

struct stray {
	struct check *check;
	enum store_kind kind;
};

/* Whether the records refer to an object. */
enum wanted {
	WANTED,
	UNWANTED,     /* a readable record says so, or there certainly is none */
	WANT_UNKNOWN, /* the record cannot be read: leave the object alone */
};

static enum wanted volume_is_wanted(struct check *check, uint64_t bits)
{
	struct record_volume volume;
	int rc = pool_records_volume_get(check->pool->cat, bits, &volume, NULL);

	if (rc == 0)
		return volume.deleted ? UNWANTED : WANTED;
	return rc == CAIRN_NOT_FOUND ? UNWANTED : WANT_UNKNOWN;
}

static enum wanted snapshot_is_wanted(struct check *check, uint64_t bits, uint64_t number)
{
	struct record_snapshot snapshot;
	int rc = pool_records_snapshot_get(check->pool->cat, number, &snapshot, NULL);

	if (rc == 0 && snapshot.volume != bits)
		return UNWANTED;
	if (rc == 0)
		return snapshot.has_data || !snapshot.deleted ? WANTED : UNWANTED;
	return rc == CAIRN_NOT_FOUND ? UNWANTED : WANT_UNKNOWN;
}

/* An object is also wanted while it is on the list of leftovers. */
static enum wanted object_is_wanted(struct check *check, enum store_kind kind, const char *id)
{
	enum wanted wanted = UNWANTED;
	bool listed = true;
	uint64_t bits;
	uint64_t number;

	if (kind == STORE_VOLUME && pool_ids_parse_volume(id, &bits))
		wanted = volume_is_wanted(check, bits);
	else if (kind == STORE_SNAPSHOT && pool_ids_parse_snapshot(id, &bits, &number))
		wanted = snapshot_is_wanted(check, bits, number);
	if (wanted == UNWANTED &&
	    (pool_cleanup_is_listed(check->pool, id, &listed, NULL) != 0 || listed))
		return WANT_UNKNOWN;
	return wanted;
}

/* ---- is it unused? --------------------------------------------------------- */

struct mention {
	const char *id;
	bool found;
};

static int find_mention(void *arg, struct catalogue_bytes key, struct catalogue_bytes value,
			bool damaged, struct cairn_err *err)
{
	struct mention *mention = arg;
	size_t n = strlen(mention->id);

	(void)err;
	if (damaged || memmem(key.data, key.len, mention->id, n) ||
	    (value.len && memmem(value.data, value.len, mention->id, n)))
		mention->found = true; /* a damaged note may refer to it */
	return mention->found;
}

static int note_mentions(struct check *check, const char *id, bool *ret, struct cairn_err *err)
{
	struct mention mention = {.id = id};
	int rc = pool_catalogue_scan(check->pool->cat, (struct catalogue_bytes){"x/", 2},
				     (struct catalogue_bytes){"", 0}, find_mention, &mention, err);

	*ret = mention.found;
	return rc;
}

/* A record under an invalid key may belong to it. */
static bool has_unknown_record(const struct inventory *inv)
{
	for (size_t i = 0; i < inv->n_others; i++)
		if (inv->others[i].key[0] == 'v' || inv->others[i].key[0] == 's')
			return true;
	return false;
}

static bool inventory_refers_to(const struct inventory *inv, struct store_ref ref)
{
	uint64_t bits;
	uint64_t number;

	if (has_unknown_record(inv))
		return true;
	if (ref.kind == STORE_VOLUME && pool_ids_parse_volume(ref.id, &bits))
		return !pool_inventory_find_volume(inv, bits) &&
		       pool_check_refers_to_volume(inv, bits);
	if (ref.kind == STORE_SNAPSHOT && pool_ids_parse_snapshot(ref.id, &bits, &number)) {
		const struct inventory_volume *volume = pool_inventory_find_volume(inv, bits);

		if (volume && volume->state != INVENTORY_GOOD)
			return true;
		return !pool_inventory_find_snapshot(inv, number) &&
		       pool_check_refers_to_snapshot(inv, number);
	}
	return false;
}

/* Runs under the lock, on one consistent state: if an index, a record or a note
 * refers to the object, it is left in place. */
static int is_referred_to(struct check *check, struct store_ref ref, bool *ret,
			  struct cairn_err *err)
{
	cairn_cleanup(pool_inventory_freep) struct inventory *inv = NULL;
	int rc = pool_inventory_take(check->pool->cat, &inv, err);

	if (rc)
		return rc;
	*ret = inventory_refers_to(inv, ref);
	if (*ret)
		return 0; /* reported with the record that is missing */
	rc = note_mentions(check, ref.id, ret, err);
	if (!rc && *ret)
		pool_check_fault(check, POOL_FAULT_FOUND,
				 "'%s' is in no record and in a note; it is left where it is",
				 ref.id);
	return rc;
}

struct sighting {
	const char *id;
	bool seen;
};

static int match_id(void *arg, const char *id, struct cairn_err *err)
{
	struct sighting *sighting = arg;

	(void)err;
	sighting->seen = sighting->seen || strcmp(id, sighting->id) == 0;
	return 0;
}

static bool is_still_there(struct check *check, struct store_ref ref)
{
	struct sighting sighting = {.id = ref.id};

	return pool_store_list(check->pool->store, ref.kind, match_id, &sighting, NULL) == 0 &&
	       sighting.seen;
}

static int pass_number(void *arg, struct catalogue_batch *batch, struct cairn_err *err)
{
	return pool_records_pass_number(batch, *(const uint64_t *)arg, err);
}

/* A power cut can lose the reservation of a number and leave the snapshot that was cut
 * under it. The number must not be assigned again: the next snapshot with it would have
 * the same id, and the object in quarantine could be brought back as its data. */
static int retire_number(struct check *check, struct store_ref ref, struct cairn_err *err)
{
	cairn_cleanup(pool_catalogue_batch_freep) struct catalogue_batch *batch = NULL;
	uint64_t volume;
	uint64_t number;
	int rc;

	if (ref.kind != STORE_SNAPSHOT || !pool_ids_parse_snapshot(ref.id, &volume, &number))
		return 0;
	rc = pool_catalogue_batch_new(check->pool->cat, &batch, err);
	if (rc)
		return rc;
	pool_catalogue_batch_late(batch, pass_number, &number);
	return pool_catalogue_commit(batch, CATALOGUE_DURABLE, err);
}

/* An object under a name other than its own is half-made or half-removed. */
static int set_aside(struct check *check, struct store_ref ref, struct cairn_err *err)
{
	int rc = pool_attacher_refuse_attached(check->pool->attacher, ref, "it", err);

	if (!rc)
		rc = retire_number(check, ref, err);
	if (!rc)
		rc = pool_store_set_aside(check->pool->store, ref, err);
	if (rc == CAIRN_NOT_FOUND)
		rc = 0;
	return rc ? rc : pool_store_remove(check->pool->store, ref, err);
}

static int check_stray_lock_object(struct check *check, const char *id, int *ret_lock)
{
	uint64_t volume;
	uint64_t number;

	if (check->pool->read_only_fs)
		return 0; /* it cannot be locked, and is not being written */
	if (pool_ids_parse_volume(id, &volume) || pool_ids_parse_snapshot(id, &volume, &number))
		return pool_impl_lock_volume(check->pool, volume, check->pool->lock_wait_ms,
					     ret_lock, NULL);
	return 0;
}

/* The object may belong to an operation in progress: it is a fault only if it can
 * be locked and is then still there and unwanted. */
static int check_object(void *arg, const char *id, struct cairn_err *err)
{
	const struct stray *stray = arg;
	struct check *check = stray->check;
	struct store_ref ref = {stray->kind, id};
	cairn_auto_fd int lock = -1;
	struct cairn_err why = {0};
	bool referred = true;
	char text[160];
	int rc;

	if (object_is_wanted(check, stray->kind, id) != UNWANTED)
		return 0;
	if (check_stray_lock_object(check, id, &lock) != 0)
		return 0; /* in use */
	if (object_is_wanted(check, stray->kind, id) != UNWANTED || !is_still_there(check, ref))
		return 0;
	rc = is_referred_to(check, ref, &referred, err);
	if (rc || referred)
		return rc;
	snprintf(text, sizeof(text), "%s '%s' is in no record%s",
		 stray->kind == STORE_VOLUME ? "volume data" : "snapshot data", id,
		 check->spec->repair ? " and is moved to the quarantine" : "");
	if (!check->spec->repair) {
		pool_check_fault(check, POOL_FAULT_FOUND, "%s", text);
		return 0;
	}
	rc = set_aside(check, ref, &why);
	return pool_check_outcome(check, rc, &why, POOL_FAULT_REPAIRED, text, err);
}

/* ---- sets ---------------------------------------------------------------- */

/* If a record cannot be read, any of its sets may be wanted. The next generation
 * was written for a commit that a power cut lost, and is overwritten when the set
 * is computed or merged. */
static enum wanted set_is_wanted(struct check *check, uint64_t number, uint64_t generation,
				 const char *name)
{
	struct record_snapshot record;
	bool listed = true;
	int rc = pool_records_snapshot_get(check->pool->cat, number, &record, NULL);

	if (rc && rc != CAIRN_NOT_FOUND)
		return WANT_UNKNOWN;
	if (!rc && record.set == POOL_SET_READY && record.set_generation == generation)
		return WANTED;
	if (!rc && (record.set == POOL_SET_READY || record.set == POOL_SET_PENDING) &&
	    record.set_generation + 1 == generation)
		return WANTED;
	if (pool_cleanup_is_listed(check->pool, name, &listed, NULL) != 0 || listed)
		return WANT_UNKNOWN;
	return UNWANTED;
}

static int check_set_file(void *arg, const char *name, struct cairn_err *err)
{
	struct check *check = arg;
	cairn_auto_fd int lock = -1;
	struct cairn_err why = {0};
	char text[160];
	uint64_t number;
	uint64_t generation;
	int rc;

	if (!pool_changeset_file_parse_name(name, &number, &generation) ||
	    set_is_wanted(check, number, generation, name) != UNWANTED)
		return 0;
	if (!check->pool->read_only_fs &&
	    pool_impl_lock_set(check->pool, number, check->pool->lock_wait_ms, &lock, NULL) != 0)
		return 0; /* in use */
	if (set_is_wanted(check, number, generation, name) != UNWANTED ||
	    pool_blob_check(check->pool->sets, name, NULL) != 0)
		return 0;
	snprintf(text, sizeof(text), "change set '%s' is in no record%s", name,
		 check->spec->repair ? " and is moved to the quarantine" : "");
	if (!check->spec->repair) {
		pool_check_fault(check, POOL_FAULT_FOUND, "%s", text);
		return 0;
	}
	rc = pool_changeset_file_set_aside(check->pool->sets, name, &why);
	return pool_check_outcome(check, rc, &why, POOL_FAULT_REPAIRED, text, err);
}

int pool_check_strays(struct check *check, struct cairn_err *err)
{
	struct stray volumes = {.check = check, .kind = STORE_VOLUME};
	struct stray snapshots = {.check = check, .kind = STORE_SNAPSHOT};
	struct store *store = check->pool->store;
	int rc;

	if (!pool_catalogue_is_certain(check->pool->cat))
		return 0;
	rc = pool_store_list(store, STORE_VOLUME, check_object, &volumes, err);
	if (!rc)
		rc = pool_store_list(store, STORE_SNAPSHOT, check_object, &snapshots, err);
	return rc ? rc
		  : pool_changeset_file_list(check->pool->sets, false, check_set_file, check, err);
}
