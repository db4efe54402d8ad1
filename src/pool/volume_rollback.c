/* SPDX-License-Identifier: Apache-2.0 */

/* Setting a volume back to one of its snapshots: docs/decisions/013.
 *
 * The volume's file is replaced by a clone of the snapshot, and that is all. The volume's
 * head stays: the next snapshot is compared with what was cut last, as if the old bytes
 * had been written again, so all snapshots of the volume stay one line.
 */

#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "pool/catalogue/catalogue.h"
#include "pool/catalogue/ids.h"
#include "pool/catalogue/records.h"
#include "pool/cleanup_queue.h"
#include "pool/device/attacher.h"
#include "pool/device/loop_device.h"
#include "pool/pool.h"
#include "pool/pool_impl.h"
#include "pool/snapshot_create.h"
#include "pool/snapshot_expire.h"
#include "pool/store/reserve.h"
#include "pool/store/store.h"

struct rollback {
	struct pool *pool;
	const struct pool_rollback_spec *spec;
	struct record_snapshot snapshot;
	char snapshot_id[POOL_ID_MAX + 1];
	struct record_volume volume;
	char id[POOL_ID_MAX + 1];
	struct record_snapshot kept; /* number 0: none */
	int file_lock;
	int new_file_lock;
	int lock;
};

static void rollback_done(struct rollback *r)
{
	cairn_closep(&r->lock);
	cairn_closep(&r->file_lock);
	cairn_closep(&r->new_file_lock);
}

/* Locks the volume of the snapshot. The file's lock is taken first, as in attaching
 * and restoring. */
static int lock_volume(struct rollback *r, struct cairn_err *err)
{
	int rc = pool_impl_find_live_volume(r->pool, r->id, &r->volume, r->id, err);

	if (!rc)
		rc = pool_attacher_lock(r->pool->attacher, (struct store_ref){STORE_VOLUME, r->id},
					&r->file_lock, err);
	if (!rc)
		rc = pool_impl_lock_live_volume(r->pool, r->id, &r->volume, r->id, &r->lock, err);
	return rc;
}

static int lock_all(struct rollback *r, struct cairn_err *err)
{
	struct record_volume volume;
	int rc = pool_impl_find_live_snapshot(r->pool, r->spec->snapshot, &r->snapshot, err);

	if (rc)
		return rc;
	pool_ids_format_snapshot(r->snapshot.volume, r->snapshot.number, r->snapshot_id);
	pool_ids_format_volume(r->snapshot.volume, r->id);
	rc = lock_volume(r, err);
	if (rc == CAIRN_NOT_FOUND &&
	    (pool_records_volume_get(r->pool->cat, r->snapshot.volume, &volume, NULL) != 0 ||
	     volume.deleted))
		return cairn_err_set(err, CAIRN_PRECONDITION,
				     "its volume was deleted; make a new one with 'cairn volume "
				     "create NAME --from %s'",
				     r->snapshot_id);
	return rc ? rc : pool_impl_find_live_snapshot(r->pool, r->snapshot_id, &r->snapshot, err);
}

/* A process that has the old file open would keep writing to an unlinked
 * file. */
static int refuse_used(const struct rollback *r, struct cairn_err *err)
{
	cairn_cleanup(pool_device_list_done) struct device_list devices = {0};
	struct store_ref ref = {STORE_VOLUME, r->id};
	const struct device_one *device;
	struct attacher_users users;
	int rc = pool_attacher_list(r->pool->attacher, ref, &devices, err);

	if (!rc)
		rc = pool_attacher_users(r->pool->attacher, ref, &users, err);
	if (rc)
		return rc;
	device = devices.n > 0 ? &devices.list[0] : NULL;
	if (device && device->mount)
		return cairn_err_set(err, CAIRN_PRECONDITION,
				     "it is mounted on '%.120s'; unmount and detach it first",
				     device->mount);
	if (device)
		return cairn_err_set(err, CAIRN_PRECONDITION,
				     "it is attached as %s; detach it first", device->path);
	if (users.writer == OPENED)
		return cairn_err_set(err, CAIRN_PRECONDITION,
				     "another program has its file open for writing");
	return 0;
}

/* Before anything is made. */
static int volume_rollback_check_data(const struct rollback *r, struct cairn_err *err)
{
	uint64_t size;

	return pool_impl_data_size(r->pool, (struct store_ref){STORE_SNAPSHOT, r->snapshot_id},
				   r->snapshot.size, &size, err);
}

static int keep_state(struct rollback *r, struct cairn_err *err)
{
	struct take_item item = {.volume = r->volume, .name = r->spec->keep_as};

	return r->spec->keep_as ? pool_snapshot_create_held(r->pool, &item, &r->kept, err) : 0;
}

/* Durable: what is left would have the volume's own id, so that no check could distinguish it
 * from an operation under way. */
static int note_volume(struct rollback *r, struct cairn_err *err)
{
	cairn_cleanup(pool_catalogue_batch_freep) struct catalogue_batch *batch = NULL;
	int rc = pool_catalogue_batch_new(r->pool->cat, &batch, err);

	if (rc)
		return rc;
	pool_records_cleanup_add(batch, r->id);
	return pool_catalogue_commit(batch, CATALOGUE_DURABLE, err);
}

/* Making the new file may take long, and a program may have opened the old one since. The
 * new one is locked before others can reach it: it is taken away again if its name can
 * not be made durable, and with it what somebody wrote to it. */
static int prepare_exchange(void *arg, const char *path, struct cairn_err *err)
{
	struct rollback *r = arg;
	int rc = path ? pool_loop_lock(path, &r->new_file_lock, err) : 0;

	return rc ? rc : refuse_used(r, err);
}

static int replace_data(struct rollback *r, struct cairn_err *err)
{
	const struct store_replacement spec = {.id = r->id,
					       .snapshot_id = r->snapshot_id,
					       .length = r->snapshot.size,
					       .size = r->volume.size,
					       .ready = prepare_exchange,
					       .arg = r};
	int rc = note_volume(r, err);

	return rc ? rc : pool_store_volume_replace(r->pool->store, &spec, err);
}

/* A volume that holds half a restore is whole again. */
static int end_restore(struct rollback *r, struct cairn_err *err)
{
	int rc;

	if (!r->volume.restoring[0])
		return 0;
	rc = pool_volume_set_restoring(r->pool, r->id, NULL, err);
	if (!rc)
		memset(r->volume.restoring, 0, sizeof(r->volume.restoring));
	return rc ? cairn_err_wrap(err, "its data is rolled back, its record is not; do it again")
		  : 0;
}

static int volume_rollback_roll_back(struct rollback *r, struct cairn_err *err)
{
	int rc = lock_all(r, err);

	if (!rc)
		rc = refuse_used(r, err);
	if (!rc)
		rc = volume_rollback_check_data(r, err);
	if (!rc)
		rc = keep_state(r, err);
	if (rc)
		return rc;
	rc = replace_data(r, err);
	if (!rc)
		rc = end_restore(r, err);
	pool_cleanup_tidy(r->pool, r->id, r->snapshot.volume);
	return rc;
}

int pool_volume_rollback(struct pool *pool, const struct pool_rollback_spec *spec,
			 struct pool_rollback_result *ret, struct cairn_err *err)
{
	cairn_cleanup(rollback_done) struct rollback r = {
		.pool = pool, .spec = spec, .file_lock = -1, .new_file_lock = -1, .lock = -1};
	int rc = pool_impl_check_writable(pool, err);

	if (!rc && spec->keep_as)
		rc = pool_name_check("snapshot", spec->keep_as, err);
	if (!rc)
		rc = pool_reserve_require(pool, err);
	if (!rc)
		rc = volume_rollback_roll_back(&r, err);
	if (rc && r.kept.number)
		rc = cairn_err_wrap(err, "snapshot '%s@%s' was made", r.volume.name, r.kept.name);
	if (rc)
		return cairn_err_wrap(err, "roll back to '%s'", spec->snapshot);
	*ret = (struct pool_rollback_result){0};
	pool_impl_fill_volume(pool, &r.volume, &ret->volume);
	pool_impl_fill_snapshot_of(&r.volume, &r.snapshot, &ret->snapshot);
	if (r.kept.number)
		pool_impl_fill_snapshot_of(&r.volume, &r.kept, &ret->kept);
	cairn_closep(&r.lock);
	r.lock = -1;
	pool_expire_some(pool);
	return 0;
}
