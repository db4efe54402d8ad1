/* SPDX-License-Identifier: Apache-2.0 */

#include "pool/changeset_build.h"

#include <errno.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "pool/catalogue/catalogue.h"
#include "pool/catalogue/ids.h"
#include "pool/catalogue/records.h"
#include "pool/cleanup_queue.h"
#include "pool/pool.h"
#include "pool/pool_impl.h"
#include "pool/store/changeset_file.h"
#include "pool/store/reserve.h"
#include "pool/store/store.h"

/* How often a waiter checks for cancellation. */
#define WAIT_STEP_MS 200

static bool changeset_build_is_cancelled(const struct store_progress *progress)
{
	return progress && progress->cancelled && progress->cancelled(progress->arg);
}

static int lock_patiently(struct pool *pool, uint64_t number, const struct store_progress *progress,
			  int *ret_fd, struct cairn_err *err)
{
	int rc;

	do {
		if (changeset_build_is_cancelled(progress))
			return cairn_err_set(err, CAIRN_CANCELLED, "interrupted");
		rc = pool_impl_lock_set(pool, number, WAIT_STEP_MS, ret_fd, err);
	} while (rc == CAIRN_ABORTED);
	return rc;
}

/* A filter before another sink. Everything past the size of the base counts as
 * changed, whatever the store reports for the base's file there. */
struct grown {
	struct block_sink sink;
	uint64_t at; /* first offset past the base's size that was not passed on yet */
};

static int grown_fill(struct grown *grown, uint64_t until, struct cairn_err *err)
{
	struct block_extent extent = {.offset = grown->at, .length = until - grown->at};

	if (until <= grown->at)
		return 0;
	grown->at = until;
	return grown->sink.emit(grown->sink.arg, &extent, err);
}

static int grown_emit(void *arg, const struct block_extent *extent, struct cairn_err *err)
{
	struct grown *grown = arg;
	uint64_t end = block_extent_end(extent);
	int rc = grown_fill(grown, extent->offset, err);

	if (end > grown->at)
		grown->at = end;
	return rc ? rc : grown->sink.emit(grown->sink.arg, extent, err);
}

/* Compares the two snapshots up to their recorded sizes. */
static int compare_snapshots(struct pool *pool, const struct record_snapshot *record,
			     const struct record_snapshot *parent, struct block_sink sink,
			     const struct store_progress *progress, struct cairn_err *err)
{
	struct grown grown = {.sink = sink, .at = parent->size};
	struct store_delta_stats stats;
	char base_id[POOL_ID_MAX + 1];
	char target_id[POOL_ID_MAX + 1];
	uint64_t size;
	int rc;

	pool_ids_format_snapshot(parent->volume, parent->number, base_id);
	pool_ids_format_snapshot(record->volume, record->number, target_id);
	rc = pool_impl_data_size(pool, (struct store_ref){STORE_SNAPSHOT, target_id}, record->size,
				 &size, err);
	if (!rc)
		rc = pool_store_delta(pool->store, base_id, target_id,
				      (struct block_sink){.emit = grown_emit, .arg = &grown},
				      progress, &stats, err);
	return rc ? rc : grown_fill(&grown, record->size, err);
}

/* Compares the two snapshots and writes the file. */
static int write_set(struct pool *pool, const struct record_snapshot *record,
		     const struct record_snapshot *parent, const char *name,
		     const struct store_progress *progress, struct block_set_info *ret_info,
		     struct cairn_err *err)
{
	cairn_cleanup(pool_changeset_file_writer_freep) struct setfile_writer *writer = NULL;
	struct block_set_info info = {
		.volume_size = record->size,
		.base_size = parent->size,
	};
	struct record_volume volume;
	int rc = pool_records_volume_get(pool->cat, record->volume, &volume, err);

	if (rc)
		return rc;
	info.granularity = pool_impl_granularity(pool, &volume);
	rc = pool_changeset_file_writer_new(pool->sets, name, &info, &writer, err);
	if (rc)
		return rc;
	rc = compare_snapshots(pool, record, parent,
			       block_set_writer_sink(pool_changeset_file_writer_set(writer)),
			       progress, err);
	return rc ? rc : pool_changeset_file_writer_finish(writer, ret_info, err);
}

/* Records the result in the record as it is now. */
static int commit_set(struct pool *pool, uint64_t number, enum pool_set_state state,
		      uint64_t generation, const struct block_set_info *info, struct cairn_err *err)
{
	int rc = CAIRN_ABORTED;

	for (int try = 0; try < POOL_COMMIT_TRIES && rc == CAIRN_ABORTED; try++) {
		cairn_cleanup(pool_catalogue_batch_freep) struct catalogue_batch *batch = NULL;
		struct record_snapshot old;
		struct record_snapshot now;
		char parent_id[POOL_ID_MAX + 1];
		char name[SETFILE_NAME_MAX];

		rc = pool_records_snapshot_get(pool->cat, number, &old, err);
		if (!rc)
			rc = pool_catalogue_batch_new(pool->cat, &batch, err);
		if (rc)
			return rc;
		now = old;
		now.set = state;
		now.set_generation = generation;
		now.set_extents = info->extents;
		now.set_changed_bytes = info->changed_bytes;
		now.set_zero_bytes = info->zero_bytes;
		rc = pool_records_snapshot_change(pool->cat, batch, &old, &now, err);
		if (rc)
			return rc;
		pool_changeset_file_name(number, generation, name);
		pool_ids_format_snapshot(old.parent_volume, old.parent, parent_id);
		if (state == POOL_SET_READY)
			pool_records_cleanup_clear(batch, name);
		pool_records_cleanup_add(batch, parent_id); /* its data may no longer be needed */
		rc = pool_catalogue_commit(batch, CATALOGUE_ORDERED, err);
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
	int rc = pool_records_snapshot_get(pool->cat, record->parent, &parent, err);

	if (rc)
		return cairn_err_wrap(err, "predecessor");
	if (!parent.has_data)
		return commit_set(pool, record->number, POOL_SET_LOST, generation, &info, err);
	pool_changeset_file_name(record->number, generation, name);
	rc = pool_cleanup_note(pool, name, err);
	if (!rc)
		rc = write_set(pool, record, &parent, name, progress, &info, err);
	if (!rc)
		rc = commit_set(pool, record->number, POOL_SET_READY, generation, &info, err);
	if (rc)
		return rc;
	pool_ids_format_snapshot(parent.volume, parent.number, parent_id);
	pool_cleanup_tidy(pool, parent_id, held);
	return 0;
}

int pool_changeset_build(struct pool *pool, uint64_t number, uint64_t held,
			 const struct store_progress *progress, struct cairn_err *err)
{
	cairn_auto_fd int lock = -1;
	struct record_snapshot record;
	char id[POOL_ID_MAX + 1];
	int rc = pool_records_snapshot_get(pool->cat, number, &record, err);

	if (rc || record.set != POOL_SET_PENDING)
		return rc;
	if (pool->read_only)
		return cairn_err_set(err, CAIRN_UNAVAILABLE,
				     "a change set is not made yet, and the pool is read-only");
	rc = lock_patiently(pool, number, progress, &lock, err);
	if (!rc)
		rc = pool_records_snapshot_get(pool->cat, number, &record, err);
	if (rc || record.set != POOL_SET_PENDING)
		return rc;
	rc = make_set(pool, &record, held, progress, err);
	if (rc) {
		pool_ids_format_snapshot(record.volume, record.number, id);
		return cairn_err_wrap(err, "change set of %s", id);
	}
	return 0;
}

static bool data_is_missing(struct pool *pool, uint64_t volume, uint64_t number)
{
	char id[POOL_ID_MAX + 1];
	uint64_t size;

	pool_ids_format_snapshot(volume, number, id);
	return pool_store_size(pool->store, (struct store_ref){STORE_SNAPSHOT, id}, &size, NULL) ==
	       CAIRN_NOT_FOUND;
}

static int changeset_build_discard(void *arg, const struct block_extent *extent,
				   struct cairn_err *err)
{
	(void)arg;
	(void)extent;
	(void)err;
	return 0;
}

/* An EIO of the set's own file or of the catalogue may be transient, and is not a
 * reason to give up the set: the snapshots are read once more, and nothing is
 * written. */
static bool data_is_unreadable(struct pool *pool, const struct record_snapshot *record)
{
	struct block_sink nowhere = {.emit = changeset_build_discard};
	struct store_delta_stats stats;
	struct cairn_err why = {0};
	char base_id[POOL_ID_MAX + 1];
	char target_id[POOL_ID_MAX + 1];

	pool_ids_format_snapshot(record->parent_volume, record->parent, base_id);
	pool_ids_format_snapshot(record->volume, record->number, target_id);
	return pool_store_delta(pool->store, base_id, target_id, nowhere, NULL, &stats, &why) !=
		       0 &&
	       why.sys_errno == EIO;
}

static bool set_is_impossible(struct pool *pool, const struct record_snapshot *record,
			      const struct cairn_err *why)
{
	struct record_snapshot parent;

	if (data_is_missing(pool, record->volume, record->number) ||
	    data_is_missing(pool, record->parent_volume, record->parent) ||
	    (why->sys_errno == EIO && data_is_unreadable(pool, record)))
		return true;
	return pool_records_snapshot_get(pool->cat, record->parent, &parent, NULL) ==
	       CAIRN_NOT_FOUND;
}

int pool_changeset_build_or_lose(struct pool *pool, uint64_t number, uint64_t held,
				 struct cairn_err *err)
{
	const struct block_set_info nothing = {0};
	cairn_auto_fd int lock = -1;
	struct record_snapshot record;
	struct cairn_err why = {0};
	int rc = pool_changeset_build(pool, number, held, NULL, &why);

	if (!rc)
		return 0;
	if (err)
		*err = why;
	if (pool_impl_lock_set(pool, number, pool->lock_wait_ms, &lock, NULL) != 0 ||
	    pool_records_snapshot_get(pool->cat, number, &record, NULL) != 0)
		return rc;
	if (record.set != POOL_SET_PENDING)
		return 0;
	if (!set_is_impossible(pool, &record, &why))
		return rc;
	return commit_set(pool, number, POOL_SET_LOST, record.set_generation + 1, &nothing, err);
}

/* A successor in another volume may be merged away at any time. */
static int complete_child(struct pool *pool, uint64_t number, uint64_t held, struct cairn_err *err)
{
	struct record_snapshot gone;
	int rc = pool_changeset_build_or_lose(pool, number, held, err);

	if (rc == CAIRN_NOT_FOUND &&
	    pool_records_snapshot_get(pool->cat, number, &gone, NULL) == CAIRN_NOT_FOUND)
		return 0;
	return rc;
}

int pool_changeset_build_family(struct pool *pool, uint64_t number, uint64_t held,
				struct cairn_err *err)
{
	cairn_auto_free uint64_t *children = NULL;
	size_t n = 0;
	int rc = pool_changeset_build_or_lose(pool, number, held, err);

	if (!rc)
		rc = pool_records_collect(pool->cat, LEDGER_CHILDREN, number, &children, &n, err);
	for (size_t i = 0; i < n && !rc; i++)
		rc = complete_child(pool, children[i], held, err);
	return rc;
}

int pool_snapshot_complete(struct pool *pool, const char *snapshot,
			   const struct store_progress *progress, struct cairn_err *err)
{
	struct record_snapshot record;
	int rc = pool_impl_find_recorded_snapshot(pool, snapshot, &record, err);

	/* A deletion that runs at the same time needs the last blocks. */
	if (!rc && record.set == POOL_SET_PENDING && !pool->read_only)
		rc = pool_reserve_require(pool, err);
	return rc ? rc : pool_changeset_build(pool, record.number, LEFTOVER_NO_LOCK, progress, err);
}
