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
#include "pool/store/changeset_file.h"
#include "pool/store/store.h"

struct snapshot_facts {
	const struct inventory *inv;
	const struct record_volume *volume;
	uint64_t number;
	bool has_data;
	uint64_t size;
	const char *name;                     /* NULL: not known */
	const struct inventory_entry *expiry; /* NULL: not in the index of deleted ones */
	const struct record_snapshot *parent; /* NULL: none, or not known */
	uint64_t generation;                  /* of the newest set file */
};

struct owner_search {
	uint64_t number;
	uint64_t volume;
	bool found;
};

static int match_owner(void *arg, const char *id, struct cairn_err *err)
{
	struct owner_search *search = arg;
	uint64_t volume;
	uint64_t number;

	(void)err;
	if (pool_ids_parse_snapshot(id, &volume, &number) && number == search->number) {
		search->volume = volume;
		search->found = true;
	}
	return 0;
}

bool pool_rebuild_volume_of(struct pool *pool, const struct inventory *inv, uint64_t number,
			    uint64_t *ret_volume)
{
	const struct inventory_entry *listed = pool_inventory_entry_of(inv, 'l', number, NULL);
	const struct inventory_entry *named = pool_inventory_entry_of(inv, 'm', number, NULL);
	struct owner_search search = {.number = number};

	/* The name of the data is the best evidence. */
	if (pool_store_list(pool->store, STORE_SNAPSHOT, match_owner, &search, NULL) == 0 &&
	    search.found)
		*ret_volume = search.volume;
	else if (listed || named)
		*ret_volume = listed ? listed->a : named->a;
	else
		return false;
	return true;
}

/* The base size in a successor's set is the size of this snapshot. */
static bool size_from_children(struct pool *pool, const struct inventory *inv, uint64_t number,
			       uint64_t *ret_size)
{
	for (size_t i = 0; i < inv->n_entries; i++) {
		cairn_cleanup(pool_changeset_file_reader_freep) struct setfile_reader *reader =
			NULL;
		const struct inventory_entry *entry = &inv->entries[i];
		const struct record_snapshot *child;
		char name[SETFILE_NAME_MAX];

		if (entry->kind != 'c' || entry->a != number)
			continue;
		child = pool_inventory_good_snapshot(inv, entry->b);
		if (!child || child->set != POOL_SET_READY || child->parent != number)
			continue;
		pool_changeset_file_name(child->number, child->set_generation, name);
		if (pool_changeset_file_reader_new(pool->sets, name, 0, &reader, NULL) != 0)
			continue;
		*ret_size =
			block_set_reader_info(pool_changeset_file_reader_set(reader))->base_size;
		return true;
	}
	return false;
}

/* The predecessor according to the index, if it names only one. */
static const struct record_snapshot *indexed_parent(const struct inventory *inv, uint64_t number)
{
	const struct inventory_entry *entry = pool_inventory_entry_of(inv, 'c', number, NULL);

	if (!entry || pool_inventory_entry_of(inv, 'c', number, entry) || entry->a >= number)
		return NULL;
	return pool_inventory_good_snapshot(inv, entry->a);
}

static int collect_snapshot_facts(struct pool *pool, struct snapshot_facts *facts,
				  struct cairn_err *err)
{
	const struct inventory_entry *name =
		pool_inventory_entry_of(facts->inv, 'm', facts->number, NULL);
	char id[POOL_ID_MAX + 1];
	int rc;

	facts->name = name && name->a == facts->volume->volume ? name->name : NULL;
	facts->expiry = pool_inventory_entry_of(facts->inv, 't', facts->number, NULL);
	facts->parent = indexed_parent(facts->inv, facts->number);
	pool_ids_format_snapshot(facts->volume->volume, facts->number, id);
	rc = pool_rebuild_find_data(pool, (struct store_ref){STORE_SNAPSHOT, id}, &facts->has_data,
				    &facts->size, err);
	if (!rc && !facts->has_data &&
	    !size_from_children(pool, facts->inv, facts->number, &facts->size))
		facts->size = facts->volume->size;
	if (!rc)
		rc = pool_changeset_file_newest_generation(pool->sets, facts->number,
							   &facts->generation, err);
	return rc;
}

static struct record_snapshot snapshot_from_facts(const struct pool *pool,
						  const struct snapshot_facts *facts)
{
	const struct record_snapshot *parent = facts->parent;
	struct record_snapshot snapshot = {
		.number = facts->number,
		.volume = facts->volume->volume,
		.size = facts->size,
		.created_ns = parent ? parent->created_ns + 1 : facts->volume->created_ns,
		.parent = parent ? parent->number : 0,
		.parent_volume = parent ? parent->volume : 0,
		.deleted = facts->expiry || !facts->has_data,
		.has_data = facts->has_data,
		.set_generation = facts->generation + 1,
		.set = !parent                               ? POOL_SET_NONE
		       : parent->has_data && facts->has_data ? POOL_SET_PENDING
							     : POOL_SET_LOST,
	};

	if (snapshot.deleted)
		snapshot.expires_ns =
			facts->expiry ? facts->expiry->a : pool_impl_expiry_ns(pool, facts->volume);
	if (facts->name)
		snprintf(snapshot.name, sizeof(snapshot.name), "%s", facts->name);
	else if (!snapshot.deleted)
		snprintf(snapshot.name, sizeof(snapshot.name), "recovered-%" PRIu64, facts->number);
	return snapshot;
}

static int record_rebuild_commit_snapshot(struct pool *pool, const struct snapshot_facts *facts,
					  struct rebuild_result *ret, struct cairn_err *err)
{
	static const char *const set_text[] = {
		[POOL_SET_NONE] = "the first of its line",
		[POOL_SET_PENDING] = "compared with its predecessor again",
		[POOL_SET_READY] = "",
		[POOL_SET_LOST] = "without its change set: deltas over it are refused",
	};
	cairn_cleanup(pool_catalogue_batch_freep) struct catalogue_batch *batch = NULL;
	struct record_snapshot snapshot = snapshot_from_facts(pool, facts);
	struct ledger_key key = pool_records_key_number('s', facts->number);
	char id[POOL_ID_MAX + 1];
	int rc = pool_catalogue_batch_new(pool->cat, &batch, err);

	if (!rc)
		rc = pool_quarantine_keep_value(pool->cat, batch, pool_records_key_bytes(&key),
						err);
	if (!rc && snapshot.set == POOL_SET_PENDING)
		rc = pool_rebuild_keep_head(pool, batch, facts->parent, err);
	if (rc)
		return rc;
	pool_records_snapshot_put(batch, &snapshot);
	rc = pool_catalogue_commit(batch, CATALOGUE_DURABLE, err);
	if (rc)
		return rc;
	ret->outcome = REBUILD_DONE;
	pool_ids_format_snapshot(snapshot.volume, snapshot.number, id);
	snprintf(ret->text, sizeof(ret->text), "%s is%s '%s', %" PRIu64 " bytes, %s", id,
		 snapshot.deleted ? " a deleted" : "", snapshot.name, snapshot.size,
		 set_text[snapshot.set]);
	return 0;
}

/* The volume cannot be determined: there is neither data nor an index entry. */
static int drop_snapshot(struct pool *pool, uint64_t number, struct rebuild_result *ret,
			 struct cairn_err *err)
{
	cairn_cleanup(pool_catalogue_batch_freep) struct catalogue_batch *batch = NULL;
	struct ledger_key key = pool_records_key_number('s', number);
	int rc = pool_catalogue_batch_new(pool->cat, &batch, err);

	if (!rc)
		rc = pool_quarantine_keep_value(pool->cat, batch, pool_records_key_bytes(&key),
						err);
	if (rc)
		return rc;
	pool_catalogue_delete(batch, pool_records_key_bytes(&key));
	rc = pool_catalogue_commit(batch, CATALOGUE_DURABLE, err);
	if (rc)
		return rc;
	ret->outcome = REBUILD_DROPPED;
	snprintf(ret->text, sizeof(ret->text), "snapshot number %" PRIu64, number);
	return 0;
}

static bool is_to_be_made(const struct inventory_snapshot *found, bool doubted)
{
	return !found || found->state == INVENTORY_DAMAGED ||
	       (doubted && found->state == INVENTORY_GOOD);
}

static int rebuild_snapshot_locked(struct pool *pool, const struct inventory *inv, uint64_t number,
				   uint64_t volume, bool doubted, struct rebuild_result *ret,
				   struct cairn_err *err)
{
	const struct inventory_snapshot *found = pool_inventory_find_snapshot(inv, number);
	const struct inventory_volume *owner = pool_inventory_find_volume(inv, volume);
	struct snapshot_facts facts = {.inv = inv, .number = number};
	uint64_t again;
	int rc;

	if (!is_to_be_made(found, doubted) || (owner && owner->state == INVENTORY_NEWER))
		return 0;
	if (!pool_rebuild_volume_of(pool, inv, number, &again) || again != volume)
		return cairn_err_set(err, CAIRN_ABORTED, "another operation was faster");
	if (!owner || owner->state != INVENTORY_GOOD)
		return cairn_err_set(err, CAIRN_DATA_LOSS, "the record of its volume is damaged");
	facts.volume = &owner->record;
	rc = collect_snapshot_facts(pool, &facts, err);
	if (rc || (!found && !facts.has_data))
		return rc;
	return record_rebuild_commit_snapshot(pool, &facts, ret, err);
}

int pool_rebuild_snapshot(struct pool *pool, uint64_t number, bool doubted,
			  struct rebuild_result *ret, struct cairn_err *err)
{
	cairn_cleanup(pool_inventory_freep) struct inventory *before = NULL;
	cairn_cleanup(pool_inventory_freep) struct inventory *inv = NULL;
	const struct inventory_snapshot *found;
	cairn_auto_fd int lock = -1;
	uint64_t volume;
	int rc = pool_inventory_take(pool->cat, &before, err);

	*ret = (struct rebuild_result){.outcome = REBUILD_NOTHING};
	if (rc)
		return rc;
	if (!pool_rebuild_volume_of(pool, before, number, &volume)) {
		found = pool_inventory_find_snapshot(before, number);
		return found && found->state == INVENTORY_DAMAGED
			       ? drop_snapshot(pool, number, ret, err)
			       : 0;
	}
	rc = pool_impl_lock_volume(pool, volume, pool->lock_wait_ms, &lock, err);
	if (!rc)
		rc = pool_inventory_take(pool->cat, &inv, err);
	return rc ? rc : rebuild_snapshot_locked(pool, inv, number, volume, doubted, ret, err);
}
