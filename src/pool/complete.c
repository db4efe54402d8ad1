/* SPDX-License-Identifier: Apache-2.0 */

#include "pool/complete.h"

#include "base/cleanup.h"
#include "base/err.h"
#include "pool/catalogue.h"
#include "pool/handle.h"
#include "pool/ids.h"
#include "pool/ledger.h"
#include "pool/leftover.h"
#include "pool/pool.h"
#include "pool/setfile.h"
#include "pool/store.h"

/* How often a waiter looks whether it was cancelled. */
#define WAIT_STEP_MS 200

static bool is_cancelled(const struct store_progress *progress)
{
	return progress && progress->cancelled && progress->cancelled(progress->arg);
}

static int lock_patiently(struct pool *pool, uint64_t number, const struct store_progress *progress,
			  int *ret_fd, struct cairn_err *err)
{
	int rc;

	do {
		if (is_cancelled(progress))
			return cairn_err_set(err, CAIRN_CANCELLED, "interrupted");
		rc = handle_lock_set(pool, number, WAIT_STEP_MS, ret_fd, err);
	} while (rc == CAIRN_ABORTED);
	return rc;
}

/* Compares the two snapshots and writes the file. */
static int write_set(struct pool *pool, const struct record_snapshot *record,
		     const struct record_snapshot *parent, const char *name,
		     const struct store_progress *progress, struct block_set_info *ret_info,
		     struct cairn_err *err)
{
	cairn_cleanup(setfile_writer_freep) struct setfile_writer *writer = NULL;
	struct block_set_info info = {
		.volume_size = record->size,
		.base_size = parent->size,
	};
	struct record_volume volume;
	struct store_delta_stats stats;
	char base_id[POOL_ID_MAX + 1];
	char target_id[POOL_ID_MAX + 1];
	int rc = ledger_volume_get(pool->cat, record->volume, &volume, err);

	if (rc)
		return rc;
	info.granularity = handle_granularity(pool, &volume);
	rc = setfile_writer_new(pool->sets_fd, name, &info, &writer, err);
	if (rc)
		return rc;
	ids_format_snapshot(parent->volume, parent->number, base_id);
	ids_format_snapshot(record->volume, record->number, target_id);
	rc = store_delta(pool->store, base_id, target_id,
			 block_set_writer_sink(setfile_writer_set(writer)), progress, &stats, err);
	return rc ? rc : setfile_writer_finish(writer, ret_info, err);
}

/* Records the result on whatever the record has become meanwhile. */
static int commit_set(struct pool *pool, uint64_t number, enum pool_set_state state,
		      uint64_t generation, const struct block_set_info *info, struct cairn_err *err)
{
	int rc = CAIRN_ABORTED;

	for (int try = 0; try < POOL_COMMIT_TRIES && rc == CAIRN_ABORTED; try++) {
		cairn_cleanup(catalogue_batch_freep) struct catalogue_batch *batch = NULL;
		struct record_snapshot old;
		struct record_snapshot now;
		char parent_id[POOL_ID_MAX + 1];
		char name[SETFILE_NAME_MAX];

		rc = ledger_snapshot_get(pool->cat, number, &old, err);
		if (!rc)
			rc = catalogue_batch_new(pool->cat, &batch, err);
		if (rc)
			return rc;
		now = old;
		now.set = state;
		now.set_generation = generation;
		now.set_extents = info->extents;
		now.set_changed_bytes = info->changed_bytes;
		now.set_zero_bytes = info->zero_bytes;
		rc = ledger_snapshot_change(pool->cat, batch, &old, &now, err);
		if (rc)
			return rc;
		setfile_name(number, generation, name);
		ids_format_snapshot(old.parent_volume, old.parent, parent_id);
		if (state == POOL_SET_READY)
			ledger_leftover_clear(batch, name);
		ledger_leftover_add(batch, parent_id); /* its data may be free to go now */
		rc = catalogue_commit(batch, CATALOGUE_ORDERED, err);
	}
	return rc;
}

static int make_set(struct pool *pool, const struct record_snapshot *record, uint64_t held,
		    const struct store_progress *progress, struct cairn_err *err)
{
	uint64_t generation = record->set_generation + 1;
	struct block_set_info info = {0};
	struct record_snapshot parent;
	char parent_id[POOL_ID_MAX + 1];
	char name[SETFILE_NAME_MAX];
	int rc = ledger_snapshot_get(pool->cat, record->parent, &parent, err);

	if (rc)
		return cairn_err_wrap(err, "predecessor");
	if (!parent.has_data)
		return commit_set(pool, record->number, POOL_SET_LOST, generation, &info, err);
	setfile_name(record->number, generation, name);
	rc = leftover_note(pool, name, err);
	if (!rc)
		rc = write_set(pool, record, &parent, name, progress, &info, err);
	if (!rc)
		rc = commit_set(pool, record->number, POOL_SET_READY, generation, &info, err);
	if (rc)
		return rc;
	ids_format_snapshot(parent.volume, parent.number, parent_id);
	leftover_tidy(pool, parent_id, held);
	return 0;
}

int complete_set(struct pool *pool, uint64_t number, uint64_t held,
		 const struct store_progress *progress, struct cairn_err *err)
{
	cairn_auto_fd int lock = -1;
	struct record_snapshot record;
	char id[POOL_ID_MAX + 1];
	int rc = ledger_snapshot_get(pool->cat, number, &record, err);

	if (rc || record.set != POOL_SET_PENDING)
		return rc;
	if (pool->read_only)
		return cairn_err_set(err, CAIRN_UNAVAILABLE,
				     "a change set is not made yet, and the pool is read-only");
	rc = lock_patiently(pool, number, progress, &lock, err);
	if (!rc)
		rc = ledger_snapshot_get(pool->cat, number, &record, err);
	if (rc || record.set != POOL_SET_PENDING)
		return rc;
	rc = make_set(pool, &record, held, progress, err);
	if (rc) {
		ids_format_snapshot(record.volume, record.number, id);
		return cairn_err_wrap(err, "change set of %s", id);
	}
	return 0;
}

int pool_snapshot_complete(struct pool *pool, const char *snapshot,
			   const struct store_progress *progress, struct cairn_err *err)
{
	struct record_snapshot record;
	int rc = handle_find_snapshot(pool, snapshot, &record, err);

	return rc ? rc : complete_set(pool, record.number, LEFTOVER_NO_LOCK, progress, err);
}
