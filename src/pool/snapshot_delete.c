/* SPDX-License-Identifier: Apache-2.0 */

#include "pool/snapshot_delete.h"

#include "base/cleanup.h"
#include "base/err.h"
#include "pool/catalogue/catalogue.h"
#include "pool/catalogue/ids.h"
#include "pool/catalogue/records.h"
#include "pool/changeset_build.h"
#include "pool/cleanup_queue.h"
#include "pool/device/attacher.h"
#include "pool/pool.h"
#include "pool/pool_impl.h"
#include "pool/snapshot_expire.h"
#include "pool/store/reserve.h"
#include "pool/store/store.h"

int pool_snapshot_bury_prepare(struct pool *pool, const struct record_snapshot *record,
			       struct cairn_err *err)
{
	char id[POOL_ID_MAX + 1];
	int rc;

	pool_ids_format_snapshot(record->volume, record->number, id);
	/* A device means that it is being read. */
	rc = pool_attacher_refuse_attached(pool->attacher, (struct store_ref){STORE_SNAPSHOT, id},
					   "snapshot", err);
	if (rc)
		return rc;
	do
		rc = pool_changeset_build_family(pool, record->number, record->volume, err);
	while (pool_reserve_helps(pool, rc, err));
	/* If there is no space for a set, the data for it is kept, also that of a
	 * deleted snapshot; the set is computed later. */
	return rc == CAIRN_NO_SPACE ? 0 : rc;
}

int pool_snapshot_bury(struct pool *pool, struct catalogue_batch *batch,
		       const struct record_volume *volume, const struct record_snapshot *record,
		       struct cairn_err *err)
{
	struct record_snapshot now = *record;
	char id[POOL_ID_MAX + 1];
	int rc;

	now.deleted = true;
	now.expires_ns = pool_impl_expiry_ns(pool, volume);
	rc = pool_records_snapshot_change(pool->cat, batch, record, &now, err);
	if (rc)
		return rc;
	pool_ids_format_snapshot(record->volume, record->number, id);
	pool_records_cleanup_add(batch, id);
	return 0;
}

static int snapshot_delete_bury(struct pool *pool, uint64_t number, struct cairn_err *err)
{
	int rc = CAIRN_ABORTED;

	for (int try = 0; try < POOL_COMMIT_TRIES && rc == CAIRN_ABORTED; try++) {
		cairn_cleanup(pool_catalogue_batch_freep) struct catalogue_batch *batch = NULL;
		struct record_snapshot record;
		struct record_volume volume;

		rc = pool_records_snapshot_get(pool->cat, number, &record, err);
		if (!rc)
			rc = pool_impl_volume_of_snapshot(pool, &record, &volume, err);
		if (!rc)
			rc = pool_catalogue_batch_new(pool->cat, &batch, err);
		if (!rc)
			rc = pool_snapshot_bury(pool, batch, &volume, &record, err);
		if (rc)
			return rc;
		rc = pool_catalogue_commit(batch, CATALOGUE_DURABLE, err);
	}
	return rc;
}

static int snapshot_delete_locked(struct pool *pool, const struct record_snapshot *record,
				  struct cairn_err *err)
{
	char id[POOL_ID_MAX + 1];
	int rc = pool_snapshot_bury_prepare(pool, record, err);

	if (!rc)
		rc = snapshot_delete_bury(pool, record->number, err);
	if (rc)
		return rc;
	pool_ids_format_snapshot(record->volume, record->number, id);
	pool_cleanup_tidy(pool, id, record->volume);
	return 0;
}

int pool_snapshot_delete(struct pool *pool, const char *snapshot, struct cairn_err *err)
{
	cairn_auto_fd int lock = -1;
	struct record_snapshot record;
	int rc = pool_impl_check_writable(pool, err);

	if (!rc)
		rc = pool_impl_lock_live_snapshot(pool, snapshot, &record, &lock, err);
	pool_reserve_prepare(pool);
	if (!rc) {
		do
			rc = snapshot_delete_locked(pool, &record, err);
		while (pool_reserve_helps(pool, rc, err));
		pool_reserve_refill(pool);
		/* The snapshot is there, whatever was not found. */
		if (rc == CAIRN_NOT_FOUND)
			rc = cairn_err_recode(err, CAIRN_UNAVAILABLE);
	}
	if (rc)
		return cairn_err_wrap(err, "delete snapshot '%s'", snapshot);
	cairn_closep(&lock);
	lock = -1;
	pool_expire_some(pool);
	return 0;
}
