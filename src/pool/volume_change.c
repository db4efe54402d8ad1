/* SPDX-License-Identifier: Apache-2.0 */

/* Growing volumes, and changing how their change sets are kept. */

#include <string.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "block/set.h"
#include "pool/catalogue/catalogue.h"
#include "pool/catalogue/ids.h"
#include "pool/catalogue/records.h"
#include "pool/device/attacher.h"
#include "pool/pool.h"
#include "pool/pool_impl.h"
#include "pool/store/reserve.h"
#include "pool/store/store.h"

static int commit_size(struct pool *pool, struct record_volume *record, uint64_t size,
		       struct cairn_err *err)
{
	struct record_volume now = *record;
	int rc;

	now.size = size;
	rc = pool_impl_commit_volume(pool, record, &now, err);
	if (!rc)
		*record = now;
	return rc;
}

/* An expiry on another volume may move the head at any time. */
static int record_size(struct pool *pool, struct record_volume *record, uint64_t size,
		       struct cairn_err *err)
{
	int rc = commit_size(pool, record, size, err);

	for (int try = 0; try < POOL_COMMIT_TRIES && rc == CAIRN_ABORTED; try++) {
		rc = pool_records_volume_get(pool->cat, record->volume, record, err);
		if (!rc)
			rc = commit_size(pool, record, size, err);
	}
	return rc;
}

/* The file grows first, then the record: a file that is shorter than its record
 * is always damage. One that is longer, after a failure in between, does no harm:
 * devices, snapshots and clones end where the record does. */
static int grow_volume(struct pool *pool, struct record_volume *record, uint64_t size,
		       const char *id, struct cairn_err *err)
{
	struct store_ref ref = {STORE_VOLUME, id};
	uint64_t have;
	int rc = pool_impl_data_size(pool, ref, record->size, &have, err);

	if (rc || size == record->size)
		return rc;
	rc = pool_store_volume_resize(pool->store, id, have > size ? have : size, err);
	return rc ? rc : record_size(pool, record, size, err);
}

static int expand_locked(struct pool *pool, struct record_volume *record, uint64_t size,
			 const char *id, struct cairn_err *err)
{
	cairn_cleanup(pool_device_list_done) struct device_list devices = {0};
	int rc;

	if (size < record->size)
		return cairn_err_set(err, CAIRN_INVALID, "a volume can only grow");
	rc = grow_volume(pool, record, size, id, err);
	if (!rc)
		rc = pool_attacher_list(pool->attacher, (struct store_ref){STORE_VOLUME, id},
					&devices, err);
	for (size_t i = 0; i < devices.n && !rc; i++)
		rc = pool_device_refresh_size(devices.list[i].path, size, err);
	return rc;
}

int pool_volume_expand(struct pool *pool, const char *volume, uint64_t size,
		       struct pool_volume *ret, struct cairn_err *err)
{
	cairn_auto_fd int lock = -1;
	struct record_volume record;
	char id[POOL_ID_MAX + 1];
	int rc = pool_impl_check_writable(pool, err);

	if (!rc)
		rc = pool_impl_check_size(size, err);
	if (!rc)
		rc = pool_reserve_require(pool, err);
	if (!rc)
		rc = pool_impl_lock_live_volume(pool, volume, &record, id, &lock, err);
	if (!rc)
		rc = expand_locked(pool, &record, size, id, err);
	if (rc)
		return cairn_err_wrap(err, "expand volume '%s'", volume);
	pool_impl_fill_volume(pool, &record, ret);
	return 0;
}

static int commit_settings(struct pool *pool, const struct pool_volume_settings *settings,
			   struct record_volume *ret, struct cairn_err *err)
{
	cairn_cleanup(pool_catalogue_batch_freep) struct catalogue_batch *batch = NULL;
	struct record_volume old = *ret;
	int rc = pool_catalogue_batch_new(pool->cat, &batch, err);

	if (rc)
		return rc;
	if (settings->set_retention)
		ret->retention_ms = settings->retention_ms;
	if (settings->set_granularity)
		ret->granularity = settings->granularity;
	pool_records_volume_change(batch, &old, ret);
	return pool_catalogue_commit(batch, CATALOGUE_DURABLE, err);
}

/* An expiry on another volume may move the head at any time. */
static int modify_locked(struct pool *pool, const struct pool_volume_settings *settings,
			 struct record_volume *ret, struct cairn_err *err)
{
	int rc = commit_settings(pool, settings, ret, err);

	for (int try = 0; try < POOL_COMMIT_TRIES && rc == CAIRN_ABORTED; try++) {
		rc = pool_records_volume_get(pool->cat, ret->volume, ret, err);
		if (!rc)
			rc = commit_settings(pool, settings, ret, err);
	}
	return rc;
}

/* Once; CAIRN_ABORTED when the record changed meanwhile: expiry moves heads without
 * the volume's lock. */
static int record_restoring(struct pool *pool, const char *volume, const char *backup,
			    struct cairn_err *err)
{
	cairn_cleanup(pool_catalogue_batch_freep) struct catalogue_batch *batch = NULL;
	struct record_volume old;
	struct record_volume now;
	char id[POOL_ID_MAX + 1];
	int rc = pool_impl_find_live_volume(pool, volume, &old, id, err);

	if (!rc)
		rc = pool_catalogue_batch_new(pool->cat, &batch, err);
	if (rc)
		return rc;
	now = old;
	memset(now.restoring, 0, sizeof(now.restoring));
	if (backup)
		memcpy(now.restoring, backup, strlen(backup) + 1);
	pool_records_volume_change(batch, &old, &now);
	return pool_catalogue_commit(batch, CATALOGUE_DURABLE, err);
}

int pool_volume_set_restoring(struct pool *pool, const char *volume, const char *backup,
			      struct cairn_err *err)
{
	int rc = pool_impl_check_writable(pool, err);

	if (!rc && backup)
		rc = pool_impl_check_restoring(backup, err);
	if (rc)
		return rc;
	rc = CAIRN_ABORTED;
	for (int try = 0; try < POOL_COMMIT_TRIES && rc == CAIRN_ABORTED; try++)
		rc = record_restoring(pool, volume, backup, err);
	return rc ? cairn_err_wrap(err, "restore to volume '%s'", volume) : 0;
}

int pool_volume_settings_check(const struct pool_volume_settings *settings, struct cairn_err *err)
{
	/* 0 is the pool's own. */
	return settings->set_granularity && settings->granularity
		       ? pool_impl_check_granularity(settings->granularity, err)
		       : 0;
}

int pool_volume_modify(struct pool *pool, const char *volume,
		       const struct pool_volume_settings *settings, struct pool_volume *ret,
		       struct cairn_err *err)
{
	cairn_auto_fd int lock = -1;
	struct record_volume record;
	char id[POOL_ID_MAX + 1];
	int rc = pool_volume_settings_check(settings, err);

	if (!rc)
		rc = pool_impl_check_writable(pool, err);
	if (!rc)
		rc = pool_impl_lock_live_volume(pool, volume, &record, id, &lock, err);
	if (!rc)
		rc = modify_locked(pool, settings, &record, err);
	if (rc)
		return cairn_err_wrap(err, "modify volume '%s'", volume);
	pool_impl_fill_volume(pool, &record, ret);
	return 0;
}
