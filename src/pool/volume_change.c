/* SPDX-License-Identifier: Apache-2.0 */

/* Growing volumes, and changing how their change sets are kept. */

#include "base/cleanup.h"
#include "base/err.h"
#include "block/set.h"
#include "pool/catalogue.h"
#include "pool/device.h"
#include "pool/handle.h"
#include "pool/ids.h"
#include "pool/ledger.h"
#include "pool/leftover.h"
#include "pool/pool.h"
#include "pool/store.h"

/* The new size is recorded first: a crash in between is rolled forward by the
 * leftover, and the file is never larger than its record. */
static int record_size(struct pool *pool, struct record_volume *record, uint64_t size,
		       const char *id, struct cairn_err *err)
{
	cairn_cleanup(catalogue_batch_freep) struct catalogue_batch *batch = NULL;
	struct record_volume now = *record;
	int rc = catalogue_batch_new(pool->cat, &batch, err);

	if (rc)
		return rc;
	now.size = size;
	ledger_volume_change(batch, record, &now);
	ledger_leftover_add(batch, id);
	rc = catalogue_commit(batch, CATALOGUE_DURABLE, err);
	if (!rc)
		*record = now;
	return rc;
}

/* Growing that was interrupted after it was recorded. */
static int finish_growing(struct pool *pool, const struct record_volume *record, const char *id,
			  struct cairn_err *err)
{
	bool listed = false;
	int rc = leftover_is_listed(pool, id, &listed, err);

	return rc || !listed ? rc : leftover_settle(pool, id, record->volume, err);
}

static int expand_locked(struct pool *pool, struct record_volume *record, uint64_t size,
			 const char *id, struct cairn_err *err)
{
	uint64_t old_size = record->size;
	char device[DEVICE_PATH_MAX];
	cairn_auto_free char *path = NULL;
	struct cairn_err ignored;
	int rc;

	if (size == old_size)
		return finish_growing(pool, record, id, err);
	if (size < old_size)
		return cairn_err_set(err, CAIRN_INVALID, "a volume can only grow");
	rc = record_size(pool, record, size, id, err);
	if (rc)
		return rc;
	rc = store_volume_resize(pool->store, id, size, err);
	if (rc) {
		(void)record_size(pool, record, old_size, id, &ignored);
		return rc;
	}
	leftover_tidy(pool, id, record->volume);
	rc = store_path(pool->store, (struct store_ref){STORE_VOLUME, id}, &path, err);
	if (!rc)
		rc = device_find(path, device, err);
	if (!rc && device[0])
		rc = device_refresh_size(device, err);
	return rc;
}

int pool_volume_expand(struct pool *pool, const char *volume, uint64_t size,
		       struct pool_volume *ret, struct cairn_err *err)
{
	cairn_auto_fd int lock = -1;
	struct record_volume record;
	char id[POOL_ID_MAX + 1];
	int rc = handle_check_writable(pool, err);

	if (!rc)
		rc = handle_check_size(size, err);
	if (!rc)
		rc = pool_volume_lock(pool, volume, &lock, err);
	if (!rc)
		rc = handle_find_live_volume(pool, volume, &record, id, err);
	if (!rc)
		rc = expand_locked(pool, &record, size, id, err);
	if (rc)
		return cairn_err_wrap(err, "expand volume '%s'", volume);
	handle_fill_volume(pool, &record, ret);
	return 0;
}

static int modify_locked(struct pool *pool, const char *volume,
			 const struct pool_volume_settings *settings, struct record_volume *ret,
			 struct cairn_err *err)
{
	cairn_cleanup(catalogue_batch_freep) struct catalogue_batch *batch = NULL;
	struct record_volume old;
	char id[POOL_ID_MAX + 1];
	int rc = handle_find_live_volume(pool, volume, &old, id, err);

	if (!rc)
		rc = catalogue_batch_new(pool->cat, &batch, err);
	if (rc)
		return rc;
	*ret = old;
	if (settings->set_retention)
		ret->retention_ms = settings->retention_ms;
	if (settings->set_granularity)
		ret->granularity = settings->granularity;
	ledger_volume_change(batch, &old, ret);
	return catalogue_commit(batch, CATALOGUE_DURABLE, err);
}

int pool_volume_settings_check(const struct pool_volume_settings *settings, struct cairn_err *err)
{
	/* 0 is the pool's own. */
	return settings->set_granularity && settings->granularity
		       ? handle_check_granularity(settings->granularity, err)
		       : 0;
}

int pool_volume_modify(struct pool *pool, const char *volume,
		       const struct pool_volume_settings *settings, struct pool_volume *ret,
		       struct cairn_err *err)
{
	cairn_auto_fd int lock = -1;
	struct record_volume record;
	int rc = handle_check_writable(pool, err);

	if (!rc)
		rc = pool_volume_settings_check(settings, err);
	if (!rc)
		rc = pool_volume_lock(pool, volume, &lock, err);
	if (!rc)
		rc = modify_locked(pool, volume, settings, &record, err);
	if (rc)
		return cairn_err_wrap(err, "modify volume '%s'", volume);
	handle_fill_volume(pool, &record, ret);
	return 0;
}
