/* SPDX-License-Identifier: Apache-2.0 */

/* Checks that change sets are intact, and are those that the records refer
 * to. */

#include "pool/check/pool_check.h"

#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "pool/catalogue/catalogue.h"
#include "pool/catalogue/ids.h"
#include "pool/catalogue/records.h"
#include "pool/changeset_build.h"
#include "pool/check/inventory.h"
#include "pool/cleanup_queue.h"
#include "pool/pool_impl.h"
#include "pool/store/changeset_file.h"
#include "pool/store/store.h"

static int verify_file(struct check *check, const struct record_snapshot *snapshot,
		       const struct record_snapshot *parent, struct cairn_err *err)
{
	cairn_cleanup(pool_changeset_file_reader_freep) struct setfile_reader *reader = NULL;
	const struct block_set_info *info;
	char name[SETFILE_NAME_MAX];
	int rc;

	pool_changeset_file_name(snapshot->number, snapshot->set_generation, name);
	rc = pool_changeset_file_reader_new(check->pool->sets, name, 0, &reader, err);
	if (!rc)
		rc = block_set_verify(pool_changeset_file_reader_set(reader), err);
	if (rc)
		return rc;
	info = block_set_reader_info(pool_changeset_file_reader_set(reader));
	if (info->volume_size != snapshot->size || info->extents != snapshot->set_extents ||
	    info->changed_bytes != snapshot->set_changed_bytes ||
	    info->zero_bytes != snapshot->set_zero_bytes ||
	    (parent && info->base_size != parent->size))
		return cairn_err_set(err, CAIRN_DATA_LOSS, "it does not fit the snapshot's record");
	return 0;
}

static bool has_data(struct check *check, const struct record_snapshot *snapshot)
{
	char id[POOL_ID_MAX + 1];
	uint64_t size;

	pool_ids_format_snapshot(snapshot->volume, snapshot->number, id);
	return snapshot->has_data &&
	       pool_store_size(check->pool->store, (struct store_ref){STORE_SNAPSHOT, id}, &size,
			       NULL) == 0;
}

/* From now on the record is right, whatever the index said. */
static void settle_index(struct check *check, struct catalogue_batch *batch,
			 const struct record_snapshot *snapshot)
{
	const struct inventory_entry *entry = NULL;

	while ((entry = pool_inventory_entry_of(check->inv, 'c', snapshot->number, entry)))
		if (entry->a != snapshot->parent)
			pool_catalogue_delete(batch,
					      (struct catalogue_bytes){entry->key, entry->key_len});
	pool_records_snapshot_reindex(batch, snapshot, false);
}

/* If both snapshots have data, the set becomes pending and is computed again;
 * otherwise it is lost. */
static int commit_unmade(struct check *check, const struct record_snapshot *snapshot,
			 bool *ret_possible, struct cairn_err *err)
{
	cairn_cleanup(pool_catalogue_batch_freep) struct catalogue_batch *batch = NULL;
	const struct record_snapshot *parent =
		pool_inventory_good_snapshot(check->inv, snapshot->parent);
	struct record_snapshot now = *snapshot;
	bool possible = parent && has_data(check, snapshot) && has_data(check, parent);
	int rc = pool_catalogue_batch_new(check->pool->cat, &batch, err);

	now.set = possible ? POOL_SET_PENDING : POOL_SET_LOST;
	now.set_generation++;
	now.set_extents = now.set_changed_bytes = now.set_zero_bytes = 0;
	if (!rc)
		rc = pool_records_snapshot_change(check->pool->cat, batch, snapshot, &now, err);
	if (!rc && possible) {
		struct record_snapshot kept = *parent;

		kept.revision++; /* makes a concurrent release of its data fail */
		rc = pool_records_snapshot_change(check->pool->cat, batch, parent, &kept, err);
	}
	if (rc)
		return rc;
	settle_index(check, batch, &now);
	*ret_possible = possible;
	return pool_catalogue_commit(batch, CATALOGUE_DURABLE, err);
}

static int remake_set(struct check *check, const struct record_snapshot *snapshot,
		      bool *ret_possible, struct cairn_err *err)
{
	struct pool *pool = check->pool;
	cairn_auto_fd int lock = -1;
	char name[SETFILE_NAME_MAX];
	int rc = pool_impl_lock_set(pool, snapshot->number, pool->lock_wait_ms, &lock, err);

	if (!rc)
		rc = commit_unmade(check, snapshot, ret_possible, err);
	if (rc)
		return rc;
	pool_changeset_file_name(snapshot->number, snapshot->set_generation, name);
	rc = pool_changeset_file_set_aside(pool->sets, name, err);
	cairn_closep(&lock);
	lock = -1;
	if ((!rc || rc == CAIRN_NOT_FOUND) && *ret_possible)
		rc = pool_changeset_build(pool, snapshot->number, LEFTOVER_NO_LOCK,
					  check->spec->progress, err);
	return rc == CAIRN_NOT_FOUND ? 0 : rc;
}

int pool_check_remake_set(struct check *check, const struct record_snapshot *snapshot,
			  const char *reason, struct cairn_err *err)
{
	struct cairn_err why = {0};
	char id[POOL_ID_MAX + 1];
	char text[480];
	bool possible = false;
	int rc;

	pool_ids_format_snapshot(snapshot->volume, snapshot->number, id);
	if (!check->spec->repair) {
		pool_check_fault(check, POOL_FAULT_FOUND, "the change set of %s is damaged: %s", id,
				 reason);
		return 0;
	}
	rc = remake_set(check, snapshot, &possible, &why);
	if (possible || rc)
		snprintf(text, sizeof(text), "the change set of %s was damaged (%s) and made again",
			 id, reason);
	else
		snprintf(text, sizeof(text),
			 "the change set of %s is damaged (%s) and its snapshots are gone: deltas "
			 "over it are refused from now on",
			 id, reason);
	return pool_check_outcome(check, rc, &why, possible ? POOL_FAULT_REPAIRED : POOL_FAULT_LOST,
				  text, err);
}

static int check_ready_set(struct check *check, const struct record_snapshot *snapshot,
			   struct cairn_err *err)
{
	const struct record_snapshot *parent =
		pool_inventory_good_snapshot(check->inv, snapshot->parent);
	struct record_snapshot again;
	struct cairn_err why = {0};
	char id[POOL_ID_MAX + 1];
	int verify_rc = verify_file(check, snapshot, parent, &why);
	int rc;

	if (!verify_rc)
		return 0;
	/* It may have been merged since the record was read. */
	rc = pool_records_snapshot_get(check->pool->cat, snapshot->number, &again, err);
	if (rc)
		return rc == CAIRN_NOT_FOUND ? 0 : rc;
	if (again.set != POOL_SET_READY || again.set_generation != snapshot->set_generation ||
	    again.parent != snapshot->parent)
		return 0;
	if (verify_rc == CAIRN_DATA_LOSS || verify_rc == CAIRN_NOT_FOUND)
		return pool_check_remake_set(check, snapshot, why.msg, err);
	/* A newer version of the format, or a transient error. */
	pool_ids_format_snapshot(snapshot->volume, snapshot->number, id);
	pool_check_fault(check, POOL_FAULT_FOUND, "the change set of %s can not be read: %s", id,
			 why.msg);
	return 0;
}

int pool_check_sets(struct check *check, struct cairn_err *err)
{
	const struct inventory *inv = check->inv;
	const struct store_progress *progress = check->spec->progress;
	int rc = 0;

	for (size_t i = 0; i < inv->n_snapshots && !rc; i++) {
		if (progress && progress->cancelled && progress->cancelled(progress->arg))
			return cairn_err_set(err, CAIRN_CANCELLED, "interrupted");
		if (inv->snapshots[i].state == INVENTORY_GOOD &&
		    inv->snapshots[i].record.set == POOL_SET_READY)
			rc = check_ready_set(check, &inv->snapshots[i].record, err);
	}
	return rc;
}
