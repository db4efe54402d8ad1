/* SPDX-License-Identifier: Apache-2.0 */

#include "pool/snapshot_create.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/mem.h"
#include "pool/catalogue/catalogue.h"
#include "pool/catalogue/catalogue_ops.h"
#include "pool/catalogue/ids.h"
#include "pool/catalogue/records.h"
#include "pool/cleanup_queue.h"
#include "pool/pool_impl.h"
#include "pool/snapshot_cut.h"
#include "pool/store/store.h"

struct taking {
	struct pool *pool;
	struct take_item *items;
	size_t n;
	int *locks; /* NULL: the caller holds them */
	struct cut_item *cuts;
	struct cut *cut;
	struct record_snapshot *records;
};

/* Ascending, so that two groups that share volumes cannot deadlock. */
static int by_volume(const void *a, const void *b)
{
	const struct take_item *left = *(const struct take_item *const *)a;
	const struct take_item *right = *(const struct take_item *const *)b;

	return left->volume.volume < right->volume.volume   ? -1
	       : left->volume.volume > right->volume.volume ? 1
							    : 0;
}

static int lock_volumes(struct taking *t, struct cairn_err *err)
{
	struct take_item *sorted[POOL_GROUP_MAX];

	for (size_t i = 0; i < t->n; i++)
		sorted[i] = &t->items[i];
	qsort(sorted, t->n, sizeof(sorted[0]), by_volume);
	for (size_t i = 0; i < t->n; i++) {
		int rc;

		if (i > 0 && sorted[i]->volume.volume == sorted[i - 1]->volume.volume)
			return cairn_err_set(err, CAIRN_INVALID,
					     "volume '%s' is named twice in one point in time",
					     sorted[i]->volume.name);
		rc = pool_impl_lock_volume(t->pool, sorted[i]->volume.volume, t->pool->lock_wait_ms,
					   &t->locks[i], err);
		if (rc)
			return cairn_err_wrap(err, "volume '%s'", sorted[i]->volume.name);
	}
	return 0;
}

/* Checks under the lock: the current record, that its file is not shorter than
 * recorded, and that the name is free. */
static int snapshot_create_read_again(struct taking *t, struct take_item *item,
				      struct cairn_err *err)
{
	struct record_snapshot holder;
	char id[POOL_ID_MAX + 1];
	uint64_t size;
	int rc = pool_records_volume_get(t->pool->cat, item->volume.volume, &item->volume, err);

	if (rc == CAIRN_NOT_FOUND || (rc == 0 && item->volume.deleted))
		return cairn_err_set(err, CAIRN_NOT_FOUND, "volume '%s' was deleted",
				     item->volume.name);
	if (!rc)
		rc = pool_impl_check_whole(&item->volume, err);
	if (rc)
		return rc;
	pool_ids_format_volume(item->volume.volume, id);
	rc = pool_impl_data_size(t->pool, (struct store_ref){STORE_VOLUME, id}, item->volume.size,
				 &size, err);
	if (rc || !item->name[0])
		return rc;
	rc = pool_records_snapshot_by_name(t->pool->cat, item->volume.volume, item->name, &holder,
					   err);
	if (rc == CAIRN_NOT_FOUND)
		return 0;
	if (rc == 0 && !holder.deleted)
		return cairn_err_set(err, CAIRN_EXISTS, "snapshot '%s@%s' exists already",
				     item->volume.name, item->name);
	return rc;
}

static void fill_record(struct taking *t, size_t i, uint64_t number)
{
	const struct take_item *item = &t->items[i];
	struct record_snapshot *record = &t->records[i];
	struct cut_item *cut = &t->cuts[i];

	*record = (struct record_snapshot){
		.number = number,
		.volume = item->volume.volume,
		.size = item->volume.size,
		.created_ns = cairn_now_ns(),
		.has_data = true,
		.set = POOL_SET_NONE,
	};
	memcpy(record->name, item->name, strlen(item->name) + 1);
	if (!item->name[0]) {
		record->deleted = true;
		record->expires_ns = pool_impl_expiry_ns(t->pool, &item->volume);
	}
	pool_ids_format_snapshot(item->volume.volume, number, cut->snapshot_id);
}

/* True in *ret if one of the objects to be created already exists. Where no reservation is
 * ever lost there is nothing to look for. */
static int any_exists(struct taking *t, uint64_t first, bool *ret, struct cairn_err *err)
{
	*ret = false;
	if (t->pool->cat->ops->always_durable)
		return 0;
	for (size_t i = 0; i < t->n && !*ret; i++) {
		struct cairn_err why = {0};
		char id[POOL_ID_MAX + 1];
		uint64_t size;
		int rc;

		pool_ids_format_snapshot(t->items[i].volume.volume, first + i, id);
		rc = pool_store_size(t->pool->store, (struct store_ref){STORE_SNAPSHOT, id}, &size,
				     &why);
		if (rc && rc != CAIRN_NOT_FOUND) {
			if (err)
				*err = why;
			return rc;
		}
		*ret = rc == 0;
	}
	return 0;
}

/* A power cut may lose the reservation of a number, which is not synced, and leave
 * the snapshot that was cut under it. Such numbers are not assigned again, and the
 * objects are left for a check, because it is not proven that they are unwanted. */
static int take_free_numbers(struct taking *t, struct catalogue_batch *batch, uint64_t *ret_first,
			     struct cairn_err *err)
{
	uint64_t first = 0;
	size_t skip = 0;
	bool exists = true;
	int rc = 0;

	for (; !rc && exists; skip += exists ? 1 : 0) {
		rc = pool_records_take_numbers(batch, skip + t->n, &first, err);
		if (!rc)
			rc = any_exists(t, first + skip, &exists, err);
	}
	*ret_first = first + skip;
	return rc;
}

static int reserve_late(void *arg, struct catalogue_batch *batch, struct cairn_err *err)
{
	struct taking *t = arg;
	uint64_t first;
	int rc = take_free_numbers(t, batch, &first, err);

	for (size_t i = 0; i < t->n && !rc; i++) {
		fill_record(t, i, first + i);
		if (pool_cut_freezes(t->cut, i))
			pool_records_cleanup_add_frozen(batch, t->cuts[i].snapshot_id);
		else
			pool_records_cleanup_add(batch, t->cuts[i].snapshot_id);
	}
	return rc;
}

/* Reserves numbers and leftovers before anything is cut. The numbers are assigned
 * inside the commit, so any number of volumes may be cut at the same time. */
static int snapshot_create_reserve(struct taking *t, struct cairn_err *err)
{
	cairn_cleanup(pool_catalogue_batch_freep) struct catalogue_batch *batch = NULL;
	int rc = pool_catalogue_batch_new(t->pool->cat, &batch, err);

	if (rc)
		return rc;
	pool_catalogue_batch_late(batch, reserve_late, t);
	return pool_catalogue_commit(batch, CATALOGUE_ORDERED, err);
}

/* The volume's head was not found: it has expired since the volume was read,
 * which moves the head, or the lineage is broken. */
static int head_is_gone(struct taking *t, const struct record_volume *volume, struct cairn_err *err)
{
	struct record_volume now;
	int rc = pool_records_volume_get(t->pool->cat, volume->volume, &now, err);

	if (rc)
		return rc;
	if (now.head != volume->head)
		return cairn_err_set(err, CAIRN_ABORTED,
				     "the predecessor of the snapshot of '%s' has just expired",
				     volume->name);
	return cairn_err_set(err, CAIRN_DATA_LOSS,
			     "the predecessor of the snapshot of '%s' has no record; run: cairn "
			     "pool check",
			     volume->name);
}

/* The predecessor is the volume's head, if it has data to compare with. A head
 * of another volume is not under our lock: its record is changed too, so that a
 * merge that did not see this successor fails. */
static int link_parent(struct taking *t, size_t i, struct cairn_err *err)
{
	struct record_snapshot head;
	uint64_t number = t->items[i].volume.head;
	int rc;

	if (!number)
		return 0;
	rc = pool_records_snapshot_get(t->pool->cat, number, &head, err);
	if (rc == CAIRN_NOT_FOUND)
		return head_is_gone(t, &t->items[i].volume, err);
	if (rc)
		return cairn_err_wrap(err, "predecessor of the snapshot of '%s'",
				      t->items[i].volume.name);
	if (!head.has_data)
		return 0;
	t->records[i].parent = head.number;
	t->records[i].parent_volume = head.volume;
	t->records[i].set = POOL_SET_PENDING;
	return 0;
}

static int touch_parents(void *arg, struct catalogue_batch *batch, struct cairn_err *err)
{
	const struct taking *t = arg;
	int rc = 0;

	for (size_t i = 0; i < t->n && !rc; i++)
		if (t->records[i].parent && t->records[i].parent_volume != t->records[i].volume)
			rc = pool_records_snapshot_touch(batch, t->records[i].parent, err);
	return rc;
}

static int commit_records(struct taking *t, struct cairn_err *err)
{
	cairn_cleanup(pool_catalogue_batch_freep) struct catalogue_batch *batch = NULL;
	int rc = pool_catalogue_batch_new(t->pool->cat, &batch, err);

	for (size_t i = 0; i < t->n && !rc; i++) {
		struct record_volume now = t->items[i].volume;

		rc = link_parent(t, i, err);
		if (rc)
			return rc;
		now.head = t->records[i].number;
		pool_records_volume_change(batch, &t->items[i].volume, &now);
		rc = pool_records_snapshot_change(t->pool->cat, batch, NULL, &t->records[i], err);
		pool_records_cleanup_clear(batch, t->cuts[i].snapshot_id);
	}
	if (rc)
		return rc;
	pool_catalogue_batch_late(batch, touch_parents, t);
	return pool_catalogue_commit(batch, CATALOGUE_DURABLE, err);
}

/* A commit can conflict with the merge of an expired head, which moves the
 * volume's head: then read the volumes again. */
static int commit_with_retry(struct taking *t, struct cairn_err *err)
{
	int rc = commit_records(t, err);

	for (int try = 0; try < POOL_COMMIT_TRIES && rc == CAIRN_ABORTED; try++) {
		rc = 0;
		for (size_t i = 0; i < t->n && !rc; i++) {
			t->records[i].parent = 0;
			t->records[i].set = POOL_SET_NONE;
			rc = pool_records_volume_get(t->pool->cat, t->items[i].volume.volume,
						     &t->items[i].volume, err);
		}
		if (!rc)
			rc = commit_records(t, err);
	}
	return rc;
}

/* The volumes to be cut, as read under the locks. */
static int prepare_cut(struct taking *t, struct cairn_err *err)
{
	for (size_t i = 0; i < t->n; i++) {
		int rc = snapshot_create_read_again(t, &t->items[i], err);

		if (rc)
			return rc;
		pool_ids_format_volume(t->items[i].volume.volume, t->cuts[i].volume_id);
		t->cuts[i].volume_name = t->items[i].volume.name;
		t->cuts[i].size = t->items[i].volume.size;
	}
	return pool_cut_new(t->pool, t->cuts, t->n, &t->cut, err);
}

static int snapshot_create_take_all(struct taking *t, struct cairn_err *err)
{
	bool reserved = false;
	int rc = t->locks ? lock_volumes(t, err) : 0;

	if (!rc)
		rc = prepare_cut(t, err);
	if (!rc)
		rc = snapshot_create_reserve(t, err);
	if (!rc) {
		reserved = true;
		rc = pool_cut_take(t->cut, err);
	}
	pool_cut_freep(&t->cut);
	if (!rc)
		rc = commit_with_retry(t, err);
	for (size_t i = 0; i < t->n && rc && reserved; i++) {
		struct cairn_err ignored;

		(void)pool_cleanup_settle(t->pool, t->cuts[i].snapshot_id, t->records[i].volume,
					  &ignored);
	}
	return rc;
}

int pool_snapshot_create_locked(struct pool *pool, struct take_item *item,
				struct record_snapshot *ret, int *ret_lock, struct cairn_err *err)
{
	struct cut_item cut = {0};
	cairn_auto_fd int lock = -1;
	struct taking t = {
		.pool = pool, .items = item, .n = 1, .locks = &lock, .cuts = &cut, .records = ret};
	int rc = snapshot_create_take_all(&t, err);

	if (!rc)
		*ret_lock = cairn_take_fd(&lock);
	return rc;
}

int pool_snapshot_create_held(struct pool *pool, struct take_item *item,
			      struct record_snapshot *ret, struct cairn_err *err)
{
	struct cut_item cut = {0};
	struct taking t = {.pool = pool, .items = item, .n = 1, .cuts = &cut, .records = ret};

	return snapshot_create_take_all(&t, err);
}

int pool_snapshots_create(struct pool *pool, struct take_item *items, size_t n,
			  struct record_snapshot *ret, struct cairn_err *err)
{
	struct taking t = {.pool = pool, .items = items, .n = n, .records = ret};
	cairn_auto_free int *locks = NULL;
	cairn_auto_free struct cut_item *cuts = NULL;
	int rc;

	if (n == 0 || n > POOL_GROUP_MAX)
		return cairn_err_set(err, CAIRN_INVALID,
				     "one point in time takes 1 to %u volumes, not %zu",
				     POOL_GROUP_MAX, n);
	locks = cairn_calloc(n, sizeof(*locks));
	cuts = cairn_calloc(n, sizeof(*cuts));
	if (!locks || !cuts)
		return cairn_err_nomem(err, "snapshot");
	for (size_t i = 0; i < n; i++)
		locks[i] = -1;
	t.locks = locks;
	t.cuts = cuts;
	rc = snapshot_create_take_all(&t, err);
	for (size_t i = 0; i < n; i++)
		cairn_closep(&locks[i]);
	return rc;
}
