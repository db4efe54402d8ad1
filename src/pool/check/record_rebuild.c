/* SPDX-License-Identifier: Apache-2.0 */

#include "pool/check/record_rebuild.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/err.h"
#include "pool/catalogue/catalogue.h"
#include "pool/catalogue/ids.h"
#include "pool/catalogue/record_key.h"
#include "pool/catalogue/records.h"
#include "pool/check/inventory.h"
#include "pool/check/quarantine.h"
#include "pool/pool_impl.h"
#include "pool/store/store.h"

/* Other information about a volume. */
struct volume_facts {
	const struct inventory *inv;
	uint64_t bits;
	bool has_data;
	uint64_t size; /* of the data */
	const char *name;
	const struct record_snapshot *oldest;
	const struct record_snapshot *newest;
	const struct record_snapshot *head; /* has data; NULL: none can be */
	bool has_snapshots;
};

int pool_rebuild_find_data(struct pool *pool, struct store_ref ref, bool *ret_has,
			   uint64_t *ret_size, struct cairn_err *err)
{
	int rc = pool_store_size(pool->store, ref, ret_size, err);

	*ret_has = rc == 0;
	return rc == CAIRN_NOT_FOUND ? 0 : rc;
}

static void collect_volume_snapshots(struct volume_facts *facts)
{
	const struct inventory *inv = facts->inv;

	for (size_t i = 0; i < inv->n_snapshots; i++) {
		const struct record_snapshot *record = &inv->snapshots[i].record;

		if (inv->snapshots[i].state != INVENTORY_GOOD || record->volume != facts->bits)
			continue;
		facts->has_snapshots = true;
		if (!facts->oldest)
			facts->oldest = record;
		facts->newest = record;
		if (record->has_data)
			facts->head = record;
	}
	for (size_t i = 0; i < inv->n_entries; i++)
		if (inv->entries[i].kind == 'l' && inv->entries[i].a == facts->bits)
			facts->has_snapshots = true;
}

static int collect_volume_facts(struct pool *pool, struct volume_facts *facts,
				struct cairn_err *err)
{
	const struct inventory_entry *name =
		pool_inventory_entry_of(facts->inv, 'w', facts->bits, NULL);
	const struct inventory_entry *head =
		pool_inventory_entry_of(facts->inv, 'h', facts->bits, NULL);
	const struct record_snapshot *indexed =
		head ? pool_inventory_good_snapshot(facts->inv, head->a) : NULL;
	char id[POOL_ID_MAX + 1];

	facts->name = name ? name->name : NULL;
	collect_volume_snapshots(facts);
	if (indexed && indexed->has_data)
		facts->head = indexed;
	pool_ids_format_volume(facts->bits, id);
	return pool_rebuild_find_data(pool, (struct store_ref){STORE_VOLUME, id}, &facts->has_data,
				      &facts->size, err);
}

static struct record_volume volume_from_facts(const struct volume_facts *facts)
{
	struct record_volume volume = {
		.volume = facts->bits,
		.size = facts->has_data ? facts->size
			: facts->newest ? facts->newest->size
					: 0,
		.created_ns = facts->oldest ? facts->oldest->created_ns : cairn_now_ns(),
		.deleted = !facts->has_data && !facts->name,
	};
	const struct record_snapshot *head = facts->head;

	if (facts->name)
		snprintf(volume.name, sizeof(volume.name), "%s", facts->name);
	else
		snprintf(volume.name, sizeof(volume.name), "recovered-%016" PRIx64, facts->bits);
	if (head && !volume.deleted)
		volume.head = head->number;
	if (head && head->volume != facts->bits) {
		volume.origin = head->number;
		volume.origin_volume = head->volume;
	} else if (facts->oldest && facts->oldest->parent &&
		   facts->oldest->parent_volume != facts->bits) {
		volume.origin = facts->oldest->parent;
		volume.origin_volume = facts->oldest->parent_volume;
	}
	return volume;
}

/* Takes further fields from the damaged bytes that are harmless if wrong. An
 * unfinished restore must be preserved, because its volume must not be used. */
static void salvage_volume(struct pool *pool, uint64_t bits, struct record_volume *volume)
{
	struct ledger_key key = pool_records_key_number('v', bits);
	cairn_auto_free uint8_t *data = NULL;
	struct record_volume old;
	size_t len = 0;

	if (pool_catalogue_get_stored(pool->cat, pool_records_key_bytes(&key), &data, &len, NULL) !=
		    0 ||
	    len <= CATALOGUE_SUM_LEN)
		return;
	if (pool_record_volume_decode(data + CATALOGUE_SUM_LEN, len - CATALOGUE_SUM_LEN, &old,
				      NULL) == 0 &&
	    old.volume == bits) {
		memcpy(volume->restoring, old.restoring, sizeof(volume->restoring));
		if (!volume->origin) {
			volume->origin = old.origin;
			volume->origin_volume = old.origin_volume;
		}
		if (old.granularity == 0 || pool_impl_check_granularity(old.granularity, NULL) == 0)
			volume->granularity = old.granularity;
	} else if (data[CATALOGUE_SUM_LEN] == 2) {
		snprintf(volume->restoring, sizeof(volume->restoring), "unknown");
	}
}

int pool_rebuild_keep_head(struct pool *pool, struct catalogue_batch *batch,
			   const struct record_snapshot *head, struct cairn_err *err)
{
	struct record_snapshot now = *head;

	now.revision++;
	return pool_records_snapshot_change(pool->cat, batch, head, &now, err);
}

static int record_rebuild_commit_volume(struct pool *pool, const struct volume_facts *facts,
					struct rebuild_result *ret, struct cairn_err *err)
{
	cairn_cleanup(pool_catalogue_batch_freep) struct catalogue_batch *batch = NULL;
	struct record_volume volume = volume_from_facts(facts);
	bool keep = facts->has_data || facts->has_snapshots;
	struct ledger_key key = pool_records_key_number('v', facts->bits);
	char id[POOL_ID_MAX + 1];
	int rc = pool_catalogue_batch_new(pool->cat, &batch, err);

	salvage_volume(pool, facts->bits, &volume);
	if (!rc)
		rc = pool_quarantine_keep_value(pool->cat, batch, pool_records_key_bytes(&key),
						err);
	if (!rc && keep && volume.head)
		rc = pool_rebuild_keep_head(pool, batch, facts->head, err);
	if (rc)
		return rc;
	if (keep)
		pool_records_volume_put(batch, &volume);
	else
		pool_catalogue_delete(batch, pool_records_key_bytes(&key));
	rc = pool_catalogue_commit(batch, CATALOGUE_DURABLE, err);
	if (rc)
		return rc;
	ret->outcome = keep ? REBUILD_DONE : REBUILD_DROPPED;
	pool_ids_format_volume(facts->bits, id);
	snprintf(ret->text, sizeof(ret->text), "%s%s '%s', %" PRIu64 " bytes%s", id,
		 volume.deleted ? ", deleted, was" : " is", volume.name, volume.size,
		 facts->has_data || volume.deleted ? "" : ", without its data");
	return 0;
}

int pool_rebuild_volume(struct pool *pool, uint64_t bits, bool wanted, struct rebuild_result *ret,
			struct cairn_err *err)
{
	cairn_cleanup(pool_inventory_freep) struct inventory *inv = NULL;
	struct volume_facts facts = {.bits = bits, .has_snapshots = wanted};
	const struct inventory_volume *found;
	cairn_auto_fd int lock = -1;
	int rc = pool_impl_lock_volume(pool, bits, pool->lock_wait_ms, &lock, err);

	*ret = (struct rebuild_result){.outcome = REBUILD_NOTHING};
	if (!rc)
		rc = pool_inventory_take(pool->cat, &inv, err);
	if (rc)
		return rc;
	facts.inv = inv;
	found = pool_inventory_find_volume(inv, bits);
	if (found && found->state != INVENTORY_DAMAGED)
		return 0;
	rc = collect_volume_facts(pool, &facts, err);
	if (rc || (!found && !facts.has_data && !facts.has_snapshots))
		return rc;
	return record_rebuild_commit_volume(pool, &facts, ret, err);
}
