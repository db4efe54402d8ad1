/* SPDX-License-Identifier: Apache-2.0 */

#include "pool/snapshot_delete.h"

#include "base/cleanup.h"
#include "base/err.h"
#include "pool/catalogue/catalogue.h"
#include "pool/changeset_build.h"
#include "pool/device/volume_device.h"
#include "pool/snapshot_expire.h"
#include "pool/pool_impl.h"
#include "pool/catalogue/ids.h"
#include "pool/catalogue/records.h"
#include "pool/cleanup_queue.h"
#include "pool/pool.h"
#include "pool/store/reserve.h"
#include "pool/store/store.h"

/* A device over the snapshot's file means that it is being read. */
static int refuse_attached(struct pool *pool, const char *id, struct cairn_err *err)
{
	cairn_auto_free char *path = NULL;
	char device[DEVICE_PATH_MAX] = "";
	int rc = store_path(pool->store, (struct store_ref){STORE_SNAPSHOT, id}, &path, err);

	if (!rc)
		rc = device_find(path, device, err);
	if (!rc && device[0])
		return cairn_err_set(err, CAIRN_PRECONDITION,
				     "snapshot is attached as %s; detach it first", device);
	return rc == CAIRN_NOT_FOUND ? 0 : rc; /* without data it has no device */
}

int delete_prepare(struct pool *pool, const struct record_snapshot *record, struct cairn_err *err)
{
	char id[POOL_ID_MAX + 1];
	int rc;

	ids_format_snapshot(record->volume, record->number, id);
	rc = refuse_attached(pool, id, err);
	if (rc)
		return rc;
	do
		rc = complete_family(pool, record->number, record->volume, err);
	while (reserve_helps(pool, rc, err));
	/* If there is no space for a set, the data for it is kept, also that of a
	 * deleted snapshot; the set is computed later. */
	return rc == CAIRN_NO_SPACE ? 0 : rc;
}

int delete_bury(struct pool *pool, struct catalogue_batch *batch,
		const struct record_volume *volume, const struct record_snapshot *record,
		struct cairn_err *err)
{
	struct record_snapshot now = *record;
	char id[POOL_ID_MAX + 1];
	int rc;

	now.deleted = true;
	now.expires_ns = handle_expiry_ns(pool, volume);
	rc = ledger_snapshot_change(pool->cat, batch, record, &now, err);
	if (rc)
		return rc;
	ids_format_snapshot(record->volume, record->number, id);
	ledger_leftover_add(batch, id);
	return 0;
}

static int bury(struct pool *pool, uint64_t number, struct cairn_err *err)
{
	int rc = CAIRN_ABORTED;

	for (int try = 0; try < POOL_COMMIT_TRIES && rc == CAIRN_ABORTED; try++) {
		cairn_cleanup(catalogue_batch_freep) struct catalogue_batch *batch = NULL;
		struct record_snapshot record;
		struct record_volume volume;

		rc = ledger_snapshot_get(pool->cat, number, &record, err);
		if (!rc)
			rc = ledger_volume_get(pool->cat, record.volume, &volume, err);
		if (!rc)
			rc = catalogue_batch_new(pool->cat, &batch, err);
		if (!rc)
			rc = delete_bury(pool, batch, &volume, &record, err);
		if (rc)
			return rc;
		rc = catalogue_commit(batch, CATALOGUE_DURABLE, err);
	}
	return rc;
}

static int delete_locked(struct pool *pool, const struct record_snapshot *record,
			 struct cairn_err *err)
{
	char id[POOL_ID_MAX + 1];
	int rc = delete_prepare(pool, record, err);

	if (!rc)
		rc = bury(pool, record->number, err);
	if (rc)
		return rc;
	ids_format_snapshot(record->volume, record->number, id);
	leftover_tidy(pool, id, record->volume);
	return 0;
}

int pool_snapshot_delete(struct pool *pool, const char *snapshot, struct cairn_err *err)
{
	cairn_auto_fd int lock = -1;
	struct record_snapshot record;
	int rc = handle_check_writable(pool, err);

	if (!rc)
		rc = handle_lock_live_snapshot(pool, snapshot, &record, &lock, err);
	reserve_prepare(pool);
	if (!rc) {
		do
			rc = delete_locked(pool, &record, err);
		while (reserve_helps(pool, rc, err));
		reserve_refill(pool);
	}
	if (rc)
		return cairn_err_wrap(err, "delete snapshot '%s'", snapshot);
	cairn_closep(&lock);
	lock = -1;
	expire_some(pool);
	return 0;
}
