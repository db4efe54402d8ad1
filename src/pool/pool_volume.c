/* SPDX-License-Identifier: Apache-2.0 */

/* Volumes as pool.h shows them: finding, listing, attaching. */

#include "pool/pool.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/err.h"
#include "pool/catalogue/ids.h"
#include "pool/catalogue/records.h"
#include "pool/device/attacher.h"
#include "pool/pool_impl.h"
#include "pool/store/store.h"

int pool_volume_get(struct pool *pool, const char *volume, struct pool_volume *ret,
		    struct cairn_err *err)
{
	struct record_volume record;
	int rc = pool_impl_find_volume(pool, volume, &record, err);

	if (!rc)
		pool_impl_fill_volume(pool, &record, ret);
	return rc;
}

struct listing {
	struct pool *pool;
	int (*fn)(void *arg, const struct pool_volume *volume, struct cairn_err *err);
	void *arg;
};

static int pool_volume_list_one(void *arg, const struct record_volume *record,
				struct cairn_err *err)
{
	const struct listing *listing = arg;
	struct pool_volume volume;

	if (record->deleted)
		return 0;
	pool_impl_fill_volume(listing->pool, record, &volume);
	return listing->fn(listing->arg, &volume, err);
}

int pool_volume_list(struct pool *pool, const char *after,
		     int (*fn)(void *arg, const struct pool_volume *volume, struct cairn_err *err),
		     void *arg, struct cairn_err *err)
{
	struct listing listing = {.pool = pool, .fn = fn, .arg = arg};
	struct ledger_walk walk = {.volume = pool_volume_list_one, .arg = &listing};
	uint64_t volume;

	if (after && after[0]) {
		if (!pool_ids_parse_volume(after, &volume))
			return cairn_err_set(err, CAIRN_INVALID, "'%s' is not a volume id", after);
		walk.after = &volume;
	}
	return pool_records_walk_volumes(pool->cat, &walk, err);
}

int pool_volume_path(struct pool *pool, const char *volume, char **ret_path, struct cairn_err *err)
{
	struct record_volume record;
	char id[POOL_ID_MAX + 1];
	int rc = pool_impl_find_live_volume(pool, volume, &record, id, err);

	return rc ? rc
		  : pool_store_path(pool->store, (struct store_ref){STORE_VOLUME, id}, ret_path,
				    err);
}

int pool_volume_device(struct pool *pool, const char *volume, char *ret_device, size_t n,
		       struct cairn_err *err)
{
	struct record_volume record;
	char id[POOL_ID_MAX + 1], device[DEVICE_PATH_MAX];
	int rc = pool_impl_find_live_volume(pool, volume, &record, id, err);

	if (!rc)
		rc = pool_attacher_find(pool->attacher, (struct store_ref){STORE_VOLUME, id},
					device, err);
	if (!rc)
		snprintf(ret_device, n, "%s", device);
	return rc;
}

/* Locks that prevent deletion and snapshots of the volume while a device is
 * attached or detached. The file's lock is taken first, as in a restore, which
 * holds it for long. */
struct device_turn {
	struct record_volume record;
	char id[POOL_ID_MAX + 1];
	int file_lock;
	int lock;
};

static void device_turn_end(struct device_turn *turn)
{
	cairn_closep(&turn->lock);
	cairn_closep(&turn->file_lock);
}

static int device_turn_take(struct pool *pool, const char *volume, struct device_turn *turn,
			    struct cairn_err *err)
{
	int rc = pool_impl_find_live_volume(pool, volume, &turn->record, turn->id, err);

	if (!rc)
		rc = pool_attacher_lock(pool->attacher, (struct store_ref){STORE_VOLUME, turn->id},
					&turn->file_lock, err);
	/* Nothing can be deleted from a read-only filesystem, nor locked in it. */
	if (!rc && !pool->read_only_fs)
		rc = pool_impl_lock_live_volume(pool, turn->id, &turn->record, turn->id,
						&turn->lock, err);
	return rc;
}

int pool_volume_attach(struct pool *pool, const char *volume, bool read_only, char *ret_device,
		       size_t n, struct cairn_err *err)
{
	cairn_cleanup(device_turn_end) struct device_turn turn = {.file_lock = -1, .lock = -1};
	char device[DEVICE_PATH_MAX];
	uint64_t size;
	int rc = device_turn_take(pool, volume, &turn, err);

	if (!rc)
		rc = pool_impl_check_whole(&turn.record, err);
	if (!rc)
		rc = pool_impl_data_size(pool, (struct store_ref){STORE_VOLUME, turn.id},
					 turn.record.size, &size, err);
	if (!rc)
		rc = pool_attacher_attach(pool->attacher, (struct store_ref){STORE_VOLUME, turn.id},
					  read_only || pool->read_only, turn.record.size, device,
					  err);
	if (!rc)
		snprintf(ret_device, n, "%s", device);
	return rc;
}

int pool_volume_detach(struct pool *pool, const char *volume, struct cairn_err *err)
{
	cairn_cleanup(device_turn_end) struct device_turn turn = {.file_lock = -1, .lock = -1};
	int rc = device_turn_take(pool, volume, &turn, err);

	return rc ? rc
		  : pool_attacher_detach(pool->attacher, (struct store_ref){STORE_VOLUME, turn.id},
					 err);
}

const char *pool_device_kind(struct pool *pool, const char *device)
{
	return pool_attacher_kind(pool->attacher, device);
}

int pool_volume_lock_file(struct pool *pool, const char *volume, int *ret_fd, struct cairn_err *err)
{
	struct record_volume record;
	char id[POOL_ID_MAX + 1], device[DEVICE_PATH_MAX];
	struct store_ref ref = {STORE_VOLUME, id};
	cairn_auto_fd int lock = -1;
	int rc = pool_impl_find_live_volume(pool, volume, &record, id, err);

	if (!rc)
		rc = pool_attacher_lock(pool->attacher, ref, &lock, err);
	if (!rc)
		rc = pool_attacher_find(pool->attacher, ref, device, err);
	if (!rc && device[0])
		rc = cairn_err_set(err, CAIRN_PRECONDITION, "volume '%s' is attached as %s", volume,
				   device);
	if (!rc)
		*ret_fd = cairn_take_fd(&lock);
	return rc;
}

int pool_volume_open_data(struct pool *pool, const char *volume, int *ret_fd, struct cairn_err *err)
{
	struct record_volume record;
	char id[POOL_ID_MAX + 1];
	int rc = pool_impl_find_live_volume(pool, volume, &record, id, err);

	return rc ? rc
		  : pool_attacher_open_data(pool->attacher, (struct store_ref){STORE_VOLUME, id},
					    ret_fd, err);
}

int pool_volume_check_data(struct pool *pool, const char *volume, int fd, struct cairn_err *err)
{
	struct record_volume record;
	char id[POOL_ID_MAX + 1];
	int rc = pool_impl_find_live_volume(pool, volume, &record, id, err);

	return rc ? rc
		  : pool_attacher_check_data(pool->attacher, (struct store_ref){STORE_VOLUME, id},
					     fd, err);
}

int pool_volume_lock(struct pool *pool, const char *volume, int *ret_fd, struct cairn_err *err)
{
	struct record_volume record;
	char id[POOL_ID_MAX + 1];

	return pool_impl_lock_live_volume(pool, volume, &record, id, ret_fd, err);
}

#define ALLOCATED_BATCH 1024

int pool_allocated_bytes(struct pool *pool, const char *volume_or_snapshot, uint64_t *ret,
			 struct cairn_err *err)
{
	struct block_extent extents[ALLOCATED_BATCH];
	struct record_snapshot snapshot;
	struct record_volume volume;
	struct store_ref ref = {STORE_VOLUME, NULL};
	char id[POOL_ID_MAX + 1];
	uint64_t total = 0;
	uint64_t position = 0;
	size_t n = 0;
	int rc = pool_impl_find_live_volume(pool, volume_or_snapshot, &volume, id, err);

	if (rc == CAIRN_NOT_FOUND) {
		rc = pool_impl_find_live_snapshot(pool, volume_or_snapshot, &snapshot, err);
		ref.kind = STORE_SNAPSHOT;
		if (!rc)
			pool_ids_format_snapshot(snapshot.volume, snapshot.number, id);
	}
	ref.id = id;
	while (!rc) {
		rc = pool_store_allocated(pool->store, ref, position, extents, ALLOCATED_BATCH, &n,
					  err);
		if (rc || n == 0)
			break;
		for (size_t i = 0; i < n; i++)
			total += extents[i].length;
		position = block_extent_end(&extents[n - 1]);
	}
	if (!rc)
		*ret = total;
	return rc;
}
