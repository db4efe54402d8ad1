/* SPDX-License-Identifier: Apache-2.0 */

#include "pool/take.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/mem.h"
#include "pool/catalogue.h"
#include "pool/cut.h"
#include "pool/handle.h"
#include "pool/ids.h"
#include "pool/ledger.h"
#include "pool/leftover.h"
#include "pool/store.h"

struct taking {
	struct pool *pool;
	struct take_item *items;
	size_t n;
	int *locks;
	struct cut_item *cuts;
	struct record_snapshot *records;
};

/* Ascending, so that two groups that share volumes can not block each other. */
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
		rc = handle_lock_volume(t->pool, sorted[i]->volume.volume, t->pool->lock_wait_ms,
					&t->locks[i], err);
		if (rc)
			return cairn_err_wrap(err, "volume '%s'", sorted[i]->volume.name);
	}
	return 0;
}

/* Under the lock: the record as it is, its file as large as it says, and the
 * name free. */
static int read_again(struct taking *t, struct take_item *item, struct cairn_err *err)
{
	struct record_snapshot holder;
	char id[POOL_ID_MAX + 1];
	uint64_t size;
	int rc = ledger_volume_get(t->pool->cat, item->volume.volume, &item->volume, err);

	if (rc == CAIRN_NOT_FOUND || (rc == 0 && item->volume.deleted))
		return cairn_err_set(err, CAIRN_NOT_FOUND, "volume '%s' was deleted",
				     item->volume.name);
	if (rc)
		return rc;
	ids_format_volume(item->volume.volume, id);
	rc = store_size(t->pool->store, (struct store_ref){STORE_VOLUME, id}, &size, err);
	if (!rc && size < item->volume.size)
		rc = store_volume_resize(t->pool->store, id, item->volume.size, err);
	if (rc || !item->name[0])
		return rc;
	rc = ledger_snapshot_by_name(t->pool->cat, item->volume.volume, item->name, &holder, err);
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
		record->expires_ns = handle_expiry_ns(t->pool, &item->volume);
	}
	ids_format_volume(item->volume.volume, cut->volume_id);
	ids_format_snapshot(item->volume.volume, number, cut->snapshot_id);
	cut->volume_name = item->volume.name;
}

/* Numbers and leftovers, before anything is cut. */
static int reserve(struct taking *t, struct cairn_err *err)
{
	int rc = CAIRN_ABORTED;

	for (int try = 0; try < POOL_COMMIT_TRIES && rc == CAIRN_ABORTED; try++) {
		cairn_cleanup(catalogue_batch_freep) struct catalogue_batch *batch = NULL;
		uint64_t first;

		rc = catalogue_batch_new(t->pool->cat, &batch, err);
		if (!rc)
			rc = ledger_take_numbers(t->pool->cat, batch, t->n, &first, err);
		if (rc)
			return rc;
		for (size_t i = 0; i < t->n; i++) {
			fill_record(t, i, first + i);
			ledger_leftover_add(batch, t->cuts[i].snapshot_id);
		}
		rc = catalogue_commit(batch, CATALOGUE_ORDERED, err);
	}
	return rc;
}

/* The predecessor is the volume's head, if its data is there to compare with.
 * One of another volume is not under our lock: its record changes too, so that
 * a merge that did not see this successor fails. */
static int link_parent(struct taking *t, size_t i, struct catalogue_batch *batch,
		       struct cairn_err *err)
{
	struct record_snapshot head, now;
	uint64_t number = t->items[i].volume.head;
	int rc;

	if (!number)
		return 0;
	rc = ledger_snapshot_get(t->pool->cat, number, &head, err);
	if (rc)
		return cairn_err_wrap(err, "predecessor of the snapshot of '%s'",
				      t->items[i].volume.name);
	if (!head.has_data)
		return 0;
	t->records[i].parent = head.number;
	t->records[i].parent_volume = head.volume;
	t->records[i].set = POOL_SET_PENDING;
	if (head.volume == t->records[i].volume)
		return 0;
	now = head;
	now.revision++;
	return ledger_snapshot_change(t->pool->cat, batch, &head, &now, err);
}

static int commit_records(struct taking *t, struct cairn_err *err)
{
	cairn_cleanup(catalogue_batch_freep) struct catalogue_batch *batch = NULL;
	int rc = catalogue_batch_new(t->pool->cat, &batch, err);

	for (size_t i = 0; i < t->n && !rc; i++) {
		struct record_volume now = t->items[i].volume;

		rc = link_parent(t, i, batch, err);
		if (rc)
			return rc;
		now.head = t->records[i].number;
		ledger_volume_change(batch, &t->items[i].volume, &now);
		rc = ledger_snapshot_change(t->pool->cat, batch, NULL, &t->records[i], err);
		ledger_leftover_clear(batch, t->cuts[i].snapshot_id);
	}
	return rc ? rc : catalogue_commit(batch, CATALOGUE_DURABLE, err);
}

/* A commit can lose against the merge of an expired head, which moves the
 * volume's head elsewhere: read the volumes again, then. */
static int commit_with_retry(struct taking *t, struct cairn_err *err)
{
	int rc = commit_records(t, err);

	for (int try = 0; try < POOL_COMMIT_TRIES && rc == CAIRN_ABORTED; try++) {
		rc = 0;
		for (size_t i = 0; i < t->n && !rc; i++) {
			t->records[i].parent = 0;
			t->records[i].set = POOL_SET_NONE;
			rc = ledger_volume_get(t->pool->cat, t->items[i].volume.volume,
					       &t->items[i].volume, err);
		}
		if (!rc)
			rc = commit_records(t, err);
	}
	return rc;
}

static int take_all(struct taking *t, struct cairn_err *err)
{
	bool reserved = false;
	int rc = lock_volumes(t, err);

	for (size_t i = 0; i < t->n && !rc; i++)
		rc = read_again(t, &t->items[i], err);
	if (!rc)
		rc = reserve(t, err);
	if (!rc) {
		reserved = true;
		rc = cut_snapshots(t->pool, t->cuts, t->n, err);
	}
	if (!rc)
		rc = commit_with_retry(t, err);
	for (size_t i = 0; i < t->n && rc && reserved; i++) {
		struct cairn_err ignored;

		(void)leftover_settle(t->pool, t->cuts[i].snapshot_id, t->records[i].volume,
				      &ignored);
	}
	return rc;
}

int take_snapshots(struct pool *pool, struct take_item *items, size_t n,
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
	rc = take_all(&t, err);
	for (size_t i = 0; i < n; i++)
		cairn_closep(&locks[i]);
	return rc;
}
