/* SPDX-License-Identifier: Apache-2.0 */

#include "pool/cleanup_queue.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/log.h"
#include "base/parallel.h"
#include "pool/catalogue/catalogue.h"
#include "pool/catalogue/ids.h"
#include "pool/catalogue/records.h"
#include "pool/device/attacher.h"
#include "pool/pool_impl.h"
#include "pool/store/blob.h"
#include "pool/store/changeset_file.h"
#include "pool/store/reserve.h"
#include "pool/store/store.h"

#define BATCH_OF_IDS 128
#define SWEEPERS     16U
#define FEW_IDS      4U
#define PROBE_ENDING "-probe"

/* An attempt fails when another operation changes the object meanwhile. */
#define SETTLE_TRIES 8

void pool_cleanup_probe_id(const char *snapshot_id, char *out, unsigned size)
{
	snprintf(out, size, "%s" PROBE_ENDING, snapshot_id);
}

int pool_cleanup_is_listed(struct pool *pool, const char *name, bool *ret, struct cairn_err *err)
{
	static const char *const endings[] = {"", PROBE_ENDING};
	char id[POOL_ID_MAX + 1];
	size_t len = strlen(name);

	*ret = false;
	for (size_t i = 0; i < sizeof(endings) / sizeof(endings[0]) && !*ret; i++) {
		size_t cut = strlen(endings[i]);
		int rc;

		if (cut > len || len - cut >= sizeof(id) ||
		    strcmp(name + len - cut, endings[i]) != 0)
			continue;
		memcpy(id, name, len - cut);
		id[len - cut] = '\0';
		rc = pool_records_cleanup_listed(pool->cat, id, ret, err);
		if (rc)
			return rc;
	}
	return 0;
}

int pool_cleanup_note(struct pool *pool, const char *id, struct cairn_err *err)
{
	cairn_cleanup(pool_catalogue_batch_freep) struct catalogue_batch *batch = NULL;
	int rc = pool_catalogue_batch_new(pool->cat, &batch, err);

	if (rc)
		return rc;
	pool_records_cleanup_add(batch, id);
	return pool_catalogue_commit(batch, CATALOGUE_ORDERED, err);
}

static int lost_record(const char *id, struct cairn_err *err)
{
	return cairn_err_set(err, CAIRN_DATA_LOSS, "an index lists '%s', which has no record", id);
}

/* A volume without a record has no snapshots in the index, unless its record is lost. */
static int refuse_lost_volume(struct pool *pool, uint64_t volume, const char *id,
			      struct cairn_err *err)
{
	cairn_auto_free uint64_t *numbers = NULL;
	size_t n;
	int rc = pool_records_collect(pool->cat, LEDGER_SNAPSHOTS, volume, &numbers, &n, err);

	return rc || n == 0 ? rc : lost_record(id, err);
}

/* The same for a snapshot. */
static int refuse_lost_snapshot(struct pool *pool, uint64_t volume, uint64_t number, const char *id,
				struct cairn_err *err)
{
	bool listed;
	int rc = pool_records_is_listed(pool->cat, volume, number, &listed, err);

	return rc || !listed ? rc : lost_record(id, err);
}

static int settle_volume(struct pool *pool, uint64_t volume, const char *id, struct cairn_err *err)
{
	struct store_ref ref = {STORE_VOLUME, id};
	struct record_volume record;
	uint64_t size;
	int rc = pool_records_volume_get(pool->cat, volume, &record, err);
	bool none = rc == CAIRN_NOT_FOUND;

	if (none)
		rc = refuse_lost_volume(pool, volume, id, err);
	if (rc == 0 && (none || record.deleted))
		return pool_store_remove(pool->store, ref, err);
	if (rc)
		return rc;
	/* An older version recorded the new size before it grew the file. */
	rc = pool_store_size(pool->store, ref, &size, err);
	if (rc == 0 && size < record.size)
		rc = pool_store_volume_resize(pool->store, id, record.size, err);
	/* Remove the half of a rollback that is not the volume. */
	return rc ? rc : pool_store_volume_sweep(pool->store, id, err);
}

/* True in *ret when a volume or a set that is not yet computed still needs the
 * data. */
static int data_is_needed(struct pool *pool, const struct record_snapshot *snapshot, bool *ret,
			  struct cairn_err *err)
{
	cairn_auto_free uint64_t *heads = NULL;
	cairn_auto_free uint64_t *children = NULL;
	size_t n_heads;
	size_t n_children;
	int rc = pool_records_collect(pool->cat, LEDGER_HEADS, snapshot->number, &heads, &n_heads,
				      err);

	if (!rc)
		rc = pool_records_collect(pool->cat, LEDGER_CHILDREN, snapshot->number, &children,
					  &n_children, err);
	if (rc)
		return rc;
	*ret = n_heads > 0 || snapshot->set == POOL_SET_PENDING;
	for (size_t i = 0; i < n_children && !*ret; i++) {
		struct record_snapshot child;

		rc = pool_records_snapshot_get(pool->cat, children[i], &child, err);
		if (rc == CAIRN_NOT_FOUND)
			continue; /* merged since the index was read */
		if (rc)
			return rc;
		*ret = child.set == POOL_SET_PENDING;
	}
	return 0;
}

/* A tombstone's data is removed when no comparison needs it any more. No new
 * need can arise, because only live snapshots are cloned. */
static int release_data(struct pool *pool, const struct record_snapshot *record,
			struct cairn_err *err)
{
	cairn_cleanup(pool_catalogue_batch_freep) struct catalogue_batch *batch = NULL;
	struct record_snapshot now = *record;
	int rc = pool_catalogue_batch_new(pool->cat, &batch, err);

	if (rc)
		return rc;
	now.has_data = false;
	rc = pool_records_snapshot_change(pool->cat, batch, record, &now, err);
	return rc ? rc : pool_catalogue_commit(batch, CATALOGUE_DURABLE, err);
}

static int remove_snapshot_data(struct pool *pool, const char *id, struct cairn_err *err)
{
	char probe[POOL_ID_MAX + 8];
	int rc;

	pool_cleanup_probe_id(id, probe, sizeof(probe));
	rc = pool_store_remove(pool->store, (struct store_ref){STORE_SNAPSHOT, probe}, err);
	return rc ? rc
		  : pool_store_remove(pool->store, (struct store_ref){STORE_SNAPSHOT, id}, err);
}

/* An interrupted cut may have left the volume's filesystem frozen, if the guard
 * that would have thawed it was killed as well. */
static void thaw_volume(struct pool *pool, uint64_t volume)
{
	cairn_cleanup(pool_device_list_done) struct device_list devices = {0};
	char id[POOL_ID_MAX + 1];
	struct cairn_err err = {0};
	int rc;

	pool_ids_format_volume(volume, id);
	rc = pool_attacher_list(pool->attacher, (struct store_ref){STORE_VOLUME, id}, &devices,
				&err);
	for (size_t i = 0; i < devices.n && !rc; i++)
		rc = pool_device_thaw(devices.list[i].path, &err);
	if (rc && rc != CAIRN_NOT_FOUND)
		cairn_log(CAIRN_LOG_DEBUG, "could not thaw", CAIRN_STR("volume", id),
			  CAIRN_STR("reason", err.msg));
}

static int settle_snapshot(struct pool *pool, uint64_t volume, uint64_t number, const char *id,
			   bool frozen, struct cairn_err *err)
{
	struct record_snapshot record;
	bool needed;
	int rc = pool_records_snapshot_get(pool->cat, number, &record, err);

	if (rc == CAIRN_NOT_FOUND) {
		if (frozen)
			thaw_volume(pool, volume);
		rc = refuse_lost_snapshot(pool, volume, number, id, err);
		return rc ? rc : remove_snapshot_data(pool, id, err);
	}
	if (rc)
		return rc;
	if (record.has_data) {
		if (!record.deleted)
			return 0;
		rc = data_is_needed(pool, &record, &needed, err);
		if (rc || needed)
			return rc;
		rc = release_data(pool, &record, err);
		if (rc)
			return rc;
	}
	return remove_snapshot_data(pool, id, err);
}

static int settle_set(struct pool *pool, uint64_t number, uint64_t generation, const char *id,
		      struct cairn_err *err)
{
	struct record_snapshot record;
	int rc = pool_records_snapshot_get(pool->cat, number, &record, err);

	if (rc == 0 && record.set == POOL_SET_READY && record.set_generation == generation)
		return 0;
	if (rc && rc != CAIRN_NOT_FOUND)
		return rc;
	return pool_blob_remove(pool->sets, id, false, err);
}

/* The object that an id names. */
struct object {
	enum {
		OBJECT_SET,
		OBJECT_SNAPSHOT,
		OBJECT_VOLUME,
	} kind;
	uint64_t volume; /* not of a set */
	uint64_t number; /* not of a volume */
	uint64_t generation;
};

static int parse_object(const char *id, struct object *ret, struct cairn_err *err)
{
	if (pool_changeset_file_parse_name(id, &ret->number, &ret->generation))
		ret->kind = OBJECT_SET;
	else if (pool_ids_parse_snapshot(id, &ret->volume, &ret->number))
		ret->kind = OBJECT_SNAPSHOT;
	else if (pool_ids_parse_volume(id, &ret->volume))
		ret->kind = OBJECT_VOLUME;
	else
		return cairn_err_set(err, CAIRN_DATA_LOSS, "'%s' is not an id of this pool", id);
	return 0;
}

static int cleanup_queue_lock_object(struct pool *pool, const struct object *object, uint64_t held,
				     int *ret_fd, struct cairn_err *err)
{
	if (object->kind == OBJECT_SET)
		return pool_impl_lock_set(pool, object->number, 0, ret_fd, err);
	if (held != LEFTOVER_NO_LOCK && held == object->volume)
		return 0;
	return pool_impl_lock_volume(pool, object->volume, 0, ret_fd, err);
}

/* Removes the entry from the list, if it is unchanged. */
static int clear_seen(struct pool *pool, const char *id, const struct ledger_leftover *seen,
		      struct cairn_err *err)
{
	cairn_cleanup(pool_catalogue_batch_freep) struct catalogue_batch *batch = NULL;
	int rc = pool_catalogue_batch_new(pool->cat, &batch, err);

	if (rc)
		return rc;
	pool_records_cleanup_clear_seen(batch, id, seen);
	return pool_catalogue_commit(batch, CATALOGUE_ORDERED, err);
}

/* Call with the object's lock, which is also held while the entry is removed:
 * the next holder may add it again. A process without the lock may also add it
 * after changing the object: the result is then CAIRN_ABORTED. */
static int settle_locked(struct pool *pool, const char *id, const struct object *object,
			 bool interrupted, struct cairn_err *err)
{
	struct ledger_leftover seen;
	int found = pool_records_cleanup_get(pool->cat, id, &seen, err);
	int rc;

	if (found && found != CAIRN_NOT_FOUND)
		return found;
	if (object->kind == OBJECT_SET)
		rc = settle_set(pool, object->number, object->generation, id, err);
	else if (object->kind == OBJECT_VOLUME)
		rc = settle_volume(pool, object->volume, id, err);
	else
		rc = settle_snapshot(pool, object->volume, object->number, id,
				     interrupted && !found && seen.frozen, err);
	return rc || found ? rc : clear_seen(pool, id, &seen, err);
}

int pool_cleanup_settle(struct pool *pool, const char *id, uint64_t held, struct cairn_err *err)
{
	struct object object = {0};
	struct cairn_err why = {0};
	cairn_auto_fd int lock = -1;
	int rc = parse_object(id, &object, &why);

	if (!rc && !pool_catalogue_is_certain(pool->cat))
		rc = cairn_err_set(&why, CAIRN_UNAVAILABLE, "it may be wanted after all");
	if (!rc)
		rc = cleanup_queue_lock_object(pool, &object, held, &lock, &why);
	if (rc == CAIRN_ABORTED)
		return 0; /* the next process that opens the pool settles it */
	if (!rc)
		rc = CAIRN_ABORTED;
	for (int try = 0; try < SETTLE_TRIES && rc == CAIRN_ABORTED; try++)
		do
			rc = settle_locked(pool, id, &object, held == LEFTOVER_NO_LOCK, &why);
		while (pool_reserve_helps(pool, rc, &why));
	if (rc && err)
		*err = why;
	return rc ? cairn_err_wrap(err, "clean up '%s'", id) : 0;
}

void pool_cleanup_tidy(struct pool *pool, const char *id, uint64_t held)
{
	struct cairn_err err = {0};

	if (pool_cleanup_settle(pool, id, held, &err))
		cairn_log(CAIRN_LOG_DEBUG, "left for later", CAIRN_STR("reason", err.msg));
}

/* ---- all of them --------------------------------------------------------- */

/* A killed driver with many callers leaves many entries, and on btrfs each
 * waits for a commit of the filesystem; concurrent waiters share one commit. */
struct sweep {
	struct pool *pool;
	char ids[BATCH_OF_IDS][POOL_ID_MAX + 1];
	size_t n;
	unsigned n_threads;
	const struct store_progress *progress;
};

/* Entries of one volume are settled by one thread, because they need the same
 * lock. */
static unsigned sweeper_of(const struct sweep *sweep, const char *id)
{
	uint64_t key = 0;
	uint64_t number;

	if (!pool_ids_parse_volume(id, &key) && !pool_ids_parse_snapshot(id, &key, &number))
		(void)pool_changeset_file_parse_name(id, &key, &number);
	return (unsigned)(key % sweep->n_threads);
}

static bool cleanup_queue_is_cancelled(const struct store_progress *progress)
{
	return progress && progress->cancelled && progress->cancelled(progress->arg);
}

static int sweep_some(void *arg, size_t index, struct cairn_err *err)
{
	struct sweep *sweep = arg;

	(void)err;
	for (size_t i = 0; i < sweep->n && !cleanup_queue_is_cancelled(sweep->progress); i++)
		if (sweeper_of(sweep, sweep->ids[i]) == index)
			pool_cleanup_tidy(sweep->pool, sweep->ids[i], LEFTOVER_NO_LOCK);
	return 0;
}

/* Few entries are settled by this thread alone. */
static void sweep_all(struct sweep *sweep)
{
	sweep->n_threads = sweep->n > FEW_IDS ? SWEEPERS : 1;
	(void)cairn_parallel_each(sweep->n_threads, sweep->n_threads, sweep_some, sweep, NULL);
}

int pool_cleanup_settle_all(struct pool *pool, const struct store_progress *progress,
			    struct cairn_err *err)
{
	struct sweep sweep = {.pool = pool, .progress = progress};
	char after[POOL_ID_MAX + 1] = "";

	do {
		int rc = pool_records_leftovers(pool->cat, after, sweep.ids, BATCH_OF_IDS, &sweep.n,
						err);

		if (rc)
			return rc;
		if (cleanup_queue_is_cancelled(progress))
			return cairn_err_set(err, CAIRN_CANCELLED, "interrupted");
		sweep_all(&sweep);
		if (sweep.n > 0)
			memcpy(after, sweep.ids[sweep.n - 1], sizeof(after));
	} while (sweep.n == BATCH_OF_IDS);
	return 0;
}
