/* SPDX-License-Identifier: Apache-2.0 */

#include "pool/check/quarantine.h"

#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/err.h"
#include "pool/catalogue/ids.h"
#include "pool/catalogue/record_key.h"
#include "pool/catalogue/records.h"
#include "pool/check/record_rebuild.h"
#include "pool/pool.h"
#include "pool/pool_impl.h"
#include "pool/store/changeset_file.h"
#include "pool/store/store.h"

#define VALUE_ID "record-"

int pool_quarantine_keep_value(struct catalogue *cat, struct catalogue_batch *batch,
			       struct catalogue_bytes key, struct cairn_err *err)
{
	struct ledger_key kept = pool_records_key_under('q', cairn_now_ns());
	cairn_auto_free uint8_t *data = NULL;
	size_t room = sizeof(kept.text) - kept.len;
	size_t len = 0;
	int rc = pool_catalogue_get_stored(cat, key, &data, &len, err);

	if (rc == CAIRN_NOT_FOUND) {
		pool_catalogue_expect(batch, key, (struct catalogue_bytes){NULL, 0});
		return 0;
	}
	if (rc)
		return rc;
	if (len > CATALOGUE_VALUE_MAX) /* the catalogue has no value of this length */
		return cairn_err_set(err, CAIRN_RANGE, "a damaged value has %zu bytes", len);
	pool_catalogue_expect_stored(batch, key, (struct catalogue_bytes){data, len});
	room = key.len < room ? key.len : room;
	memcpy(kept.text + kept.len, key.data, room);
	kept.len += room;
	pool_catalogue_put(batch, pool_records_key_bytes(&kept),
			   (struct catalogue_bytes){data, len});
	return 0;
}

/* ---- listing ------------------------------------------------------------- */

struct listing {
	int (*fn)(void *arg, const struct pool_quarantined *item, struct cairn_err *err);
	void *arg;
	enum pool_quarantine_kind kind;
	bool ended;
};

static int list_object(void *arg, const char *id, struct cairn_err *err)
{
	struct listing *listing = arg;
	struct pool_quarantined item = {.kind = listing->kind};
	int rc = 0;

	snprintf(item.id, sizeof(item.id), "%s", id);
	if (!listing->ended)
		rc = listing->fn(listing->arg, &item, err);
	listing->ended = listing->ended || rc > 0;
	return rc < 0 ? rc : 0;
}

static int list_value(void *arg, struct catalogue_bytes key, struct catalogue_bytes value,
		      bool damaged, struct cairn_err *err)
{
	const struct listing *listing = arg;
	struct pool_quarantined item = {
		.kind = POOL_QUARANTINE_VALUE, .data = value.data, .len = value.len};
	const char *text = key.data;

	if (damaged || key.len <= 3 + LEDGER_HEX)
		return 0;
	snprintf(item.id, sizeof(item.id), VALUE_ID "%.*s", (int)LEDGER_HEX, text + 2);
	snprintf(item.key, sizeof(item.key), "%.*s", (int)(key.len - 3 - LEDGER_HEX),
		 text + 3 + LEDGER_HEX);
	return listing->fn(listing->arg, &item, err);
}

int pool_quarantine_list(struct pool *pool,
			 int (*fn)(void *arg, const struct pool_quarantined *item,
				   struct cairn_err *err),
			 void *arg, struct cairn_err *err)
{
	struct listing listing = {.fn = fn, .arg = arg, .kind = POOL_QUARANTINE_VOLUME};
	struct ledger_key prefix = pool_records_key_kind('q');
	int rc = pool_store_list_aside(pool->store, STORE_VOLUME, list_object, &listing, err);

	listing.kind = POOL_QUARANTINE_SNAPSHOT;
	if (!rc)
		rc = pool_store_list_aside(pool->store, STORE_SNAPSHOT, list_object, &listing, err);
	listing.kind = POOL_QUARANTINE_SET;
	if (!rc)
		rc = pool_changeset_file_list(pool->sets, true, list_object, &listing, err);
	if (!rc && !listing.ended)
		rc = pool_catalogue_scan(pool->cat, pool_records_key_bytes(&prefix),
					 (struct catalogue_bytes){"", 0}, list_value, &listing,
					 err);
	return rc;
}

static int count_item(void *arg, const struct pool_quarantined *item, struct cairn_err *err)
{
	uint64_t *n = arg;

	(void)item;
	(void)err;
	(*n)++;
	return 0;
}

int pool_quarantine_count(struct pool *pool, uint64_t *ret, struct cairn_err *err)
{
	*ret = 0;
	return pool_quarantine_list(pool, count_item, ret, err);
}

/* ---- the way back -------------------------------------------------------- */

struct search {
	const char *id;
	struct pool_quarantined found;
	bool is_found;
};

static int match_item(void *arg, const struct pool_quarantined *item, struct cairn_err *err)
{
	struct search *search = arg;

	(void)err;
	if (strcmp(item->id, search->id) != 0)
		return 0;
	search->found = *item;
	search->is_found = true;
	return 1;
}

/* Finds what is to be restored or dropped. */
static int find_item(struct pool *pool, const char *id, struct pool_quarantined *ret,
		     struct cairn_err *err)
{
	struct search search = {.id = id};
	int rc = pool_impl_check_writable(pool, err);

	if (!rc)
		rc = pool_quarantine_list(pool, match_item, &search, err);
	if (!rc && !search.is_found)
		rc = cairn_err_set(err, CAIRN_NOT_FOUND, "'%s' is not in quarantine", id);
	if (!rc)
		*ret = search.found;
	return rc;
}

/* A record marked as deleted is revived under a name that cannot be taken. */
static int revive_volume(struct pool *pool, const struct record_volume *record,
			 struct cairn_err *err)
{
	struct record_volume now = *record;

	now.deleted = false;
	snprintf(now.name, sizeof(now.name), "recovered-%016llx",
		 (unsigned long long)record->volume);
	return pool_impl_commit_volume(pool, record, &now, err);
}

static int restore_volume(struct pool *pool, const char *id, struct rebuild_result *result,
			  struct cairn_err *err)
{
	cairn_auto_fd int lock = -1;
	struct record_volume record;
	uint64_t bits;
	int rc;

	if (!pool_ids_parse_volume(id, &bits))
		return cairn_err_set(err, CAIRN_PRECONDITION, "'%s' is not the id of a volume", id);
	rc = pool_impl_lock_volume(pool, bits, pool->lock_wait_ms, &lock, err);
	if (!rc)
		rc = pool_store_bring_back(pool->store, (struct store_ref){STORE_VOLUME, id}, err);
	if (rc)
		return rc;
	rc = pool_records_volume_get(pool->cat, bits, &record, err);
	if (rc == 0)
		return record.deleted ? revive_volume(pool, &record, err) : 0;
	cairn_closep(&lock);
	lock = -1;
	return rc == CAIRN_UNIMPLEMENTED ? rc : pool_rebuild_volume(pool, bits, true, result, err);
}

static int revive_snapshot(struct pool *pool, const struct record_snapshot *record,
			   struct cairn_err *err)
{
	cairn_cleanup(pool_catalogue_batch_freep) struct catalogue_batch *batch = NULL;
	struct record_snapshot now = *record;
	struct record_snapshot holder;
	int rc = pool_records_snapshot_by_name(pool->cat, record->volume, record->name, &holder,
					       err);
	bool has_name = rc == 0 && holder.number == record->number;

	if (!rc || rc == CAIRN_NOT_FOUND)
		rc = pool_catalogue_batch_new(pool->cat, &batch, err);
	if (rc)
		return rc;
	now.deleted = false;
	now.has_data = true;
	now.expires_ns = 0;
	if (!has_name)
		snprintf(now.name, sizeof(now.name), "recovered-%llu",
			 (unsigned long long)record->number);
	rc = pool_records_snapshot_change(pool->cat, batch, record, &now, err);
	if (rc)
		return rc;
	pool_records_snapshot_reindex(batch, &now, true);
	return pool_catalogue_commit(batch, CATALOGUE_DURABLE, err);
}

/* The data is still in quarantine. Data of a snapshot whose record says that it has
 * none must not be replaced. */
static int revive_before_data(struct pool *pool, const struct record_snapshot *record,
			      const char *id, struct cairn_err *err)
{
	uint64_t size;
	int rc = pool_store_size(pool->store, (struct store_ref){STORE_SNAPSHOT, id}, &size, err);

	if (rc == 0)
		return cairn_err_set(err, CAIRN_EXISTS, "there are data of '%s' already", id);
	return rc == CAIRN_NOT_FOUND ? revive_snapshot(pool, record, err) : rc;
}

/* Change the record first: data of a record that says it has none is removed as a
 * leftover, also when this is interrupted. Without a record, the record is rebuilt
 * from the data. */
static int restore_snapshot(struct pool *pool, const char *id, struct rebuild_result *result,
			    struct cairn_err *err)
{
	cairn_auto_fd int lock = -1;
	struct rebuild_result ignored;
	struct record_snapshot record;
	uint64_t volume;
	uint64_t number;
	int found;
	int rc;

	if (!pool_ids_parse_snapshot(id, &volume, &number))
		return cairn_err_set(err, CAIRN_PRECONDITION, "'%s' is not the id of a snapshot",
				     id);
	rc = pool_rebuild_volume(pool, volume, true, &ignored, err);
	if (!rc)
		rc = pool_impl_lock_volume(pool, volume, pool->lock_wait_ms, &lock, err);
	if (rc)
		return rc;
	found = pool_records_snapshot_get(pool->cat, number, &record, err);
	if (found && found != CAIRN_NOT_FOUND && found != CAIRN_DATA_LOSS)
		return found;
	if (!found && !record.has_data)
		rc = revive_before_data(pool, &record, id, err);
	if (!rc)
		rc = pool_store_bring_back(pool->store, (struct store_ref){STORE_SNAPSHOT, id},
					   err);
	if (rc || !found)
		return rc;
	cairn_closep(&lock);
	lock = -1;
	return pool_rebuild_snapshot(pool, number, false, result, err);
}

static int restore_set(struct pool *pool, const char *name, struct cairn_err *err)
{
	cairn_auto_fd int lock = -1;
	struct record_snapshot record;
	uint64_t number;
	uint64_t generation;
	int rc = CAIRN_NOT_FOUND;

	if (pool_changeset_file_parse_name(name, &number, &generation))
		rc = pool_impl_lock_set(pool, number, pool->lock_wait_ms, &lock, err);
	if (!rc)
		rc = pool_records_snapshot_get(pool->cat, number, &record, err);
	if (rc == CAIRN_NOT_FOUND ||
	    (!rc && (record.set != POOL_SET_READY || record.set_generation != generation)))
		return cairn_err_set(err, CAIRN_PRECONDITION,
				     "no snapshot uses '%s' any more; it can only be dropped",
				     name);
	return rc ? rc : pool_changeset_file_bring_back(pool->sets, name, err);
}

int pool_quarantine_restore(struct pool *pool, const char *id, char *ret_text, size_t n,
			    struct cairn_err *err)
{
	struct rebuild_result result = {.outcome = REBUILD_NOTHING};
	struct pool_quarantined item;
	int rc = find_item(pool, id, &item, err);

	if (rc)
		return rc;
	if (item.kind == POOL_QUARANTINE_VOLUME)
		rc = restore_volume(pool, id, &result, err);
	else if (item.kind == POOL_QUARANTINE_SNAPSHOT)
		rc = restore_snapshot(pool, id, &result, err);
	else if (item.kind == POOL_QUARANTINE_SET)
		rc = restore_set(pool, id, err);
	else
		rc = cairn_err_set(err, CAIRN_PRECONDITION,
				   "'%s' holds damaged bytes, which can only be shown", id);
	if (rc)
		return cairn_err_wrap(err, "restore '%s'", id);
	snprintf(ret_text, n, "%s", result.text[0] ? result.text : id);
	return 0;
}

static int delete_key(void *arg, struct catalogue_bytes key, struct catalogue_bytes value,
		      bool damaged, struct cairn_err *err)
{
	(void)value;
	(void)damaged;
	(void)err;
	pool_catalogue_delete(arg, key);
	return 0;
}

static int drop_value(struct pool *pool, const char *id, struct cairn_err *err)
{
	cairn_cleanup(pool_catalogue_batch_freep) struct catalogue_batch *batch = NULL;
	struct ledger_key prefix;
	uint64_t when;
	int rc = pool_catalogue_batch_new(pool->cat, &batch, err);

	if (rc)
		return rc;
	if (!pool_records_key_parse_hex(id + strlen(VALUE_ID), strlen(id) - strlen(VALUE_ID),
					&when))
		return cairn_err_set(err, CAIRN_NOT_FOUND, "no such value");
	prefix = pool_records_key_under('q', when);
	rc = pool_catalogue_scan(pool->cat, pool_records_key_bytes(&prefix),
				 (struct catalogue_bytes){"", 0}, delete_key, batch, err);
	return rc ? rc : pool_catalogue_commit(batch, CATALOGUE_DURABLE, err);
}

static int drop_object(struct pool *pool, enum store_kind kind, const char *id,
		       struct cairn_err *err)
{
	cairn_auto_fd int lock = -1;
	uint64_t volume;
	uint64_t number;
	int rc = 0;

	if (pool_ids_parse_volume(id, &volume) || pool_ids_parse_snapshot(id, &volume, &number))
		rc = pool_impl_lock_volume(pool, volume, pool->lock_wait_ms, &lock, err);
	return rc ? rc : pool_store_drop_aside(pool->store, (struct store_ref){kind, id}, err);
}

int pool_quarantine_drop(struct pool *pool, const char *id, struct cairn_err *err)
{
	struct pool_quarantined item;
	int rc = find_item(pool, id, &item, err);

	if (rc)
		return rc;
	if (item.kind == POOL_QUARANTINE_VOLUME)
		rc = drop_object(pool, STORE_VOLUME, id, err);
	else if (item.kind == POOL_QUARANTINE_SNAPSHOT)
		rc = drop_object(pool, STORE_SNAPSHOT, id, err);
	else if (item.kind == POOL_QUARANTINE_SET)
		rc = pool_changeset_file_drop_aside(pool->sets, id, err);
	else
		rc = drop_value(pool, id, err);
	return rc ? cairn_err_wrap(err, "drop '%s'", id) : 0;
}
