/* SPDX-License-Identifier: Apache-2.0 */

/* Checks that the data of volumes and snapshots exists and has the recorded size. */

#include "pool/check/pool_check.h"

#include <inttypes.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "pool/catalogue/ids.h"
#include "pool/catalogue/records.h"
#include "pool/changeset_build.h"
#include "pool/check/inventory.h"
#include "pool/cleanup_queue.h"
#include "pool/pool_impl.h"
#include "pool/store/store.h"

/* Only missing data is lost: a device may fail temporarily, and another user may
 * have permission to read it. */
static enum pool_fault_state state_of_loss(const struct check *check, const struct cairn_err *why)
{
	return check->spec->repair && why->code == CAIRN_NOT_FOUND ? POOL_FAULT_LOST
								   : POOL_FAULT_FOUND;
}

/* A size changes under the lock, so it is read under the lock. A file that is
 * larger than recorded is the result of a failed expansion, and harmless. */
static int check_volume_size(struct check *check, const struct record_volume *seen, const char *id,
			     struct cairn_err *err)
{
	struct pool *pool = check->pool;
	cairn_auto_fd int lock = -1;
	struct record_volume now;
	uint64_t size = 0;
	bool listed = false;
	int rc = pool_impl_lock_volume(pool, seen->volume, pool->lock_wait_ms, &lock, NULL);

	if (rc && !pool->read_only_fs)
		return 0; /* in use: cannot be checked */
	rc = pool_records_volume_get(pool->cat, seen->volume, &now, err);
	if (rc || now.deleted)
		return rc == CAIRN_NOT_FOUND ? 0 : rc;
	rc = pool_store_size(pool->store, (struct store_ref){STORE_VOLUME, id}, &size, err);
	if (!rc)
		rc = pool_cleanup_is_listed(pool, id, &listed, err);
	if (rc || size >= now.size || listed)
		return rc == CAIRN_NOT_FOUND ? 0 : rc;
	pool_check_fault(check, POOL_FAULT_FOUND,
			 "volume '%s' (%s) has %" PRIu64 " bytes, its record says %" PRIu64,
			 now.name, id, size, now.size);
	return 0;
}

static int check_volume_data(struct check *check, const struct record_volume *volume,
			     struct cairn_err *err)
{
	struct pool *pool = check->pool;
	struct record_volume now;
	struct cairn_err why = {0};
	char id[POOL_ID_MAX + 1];
	uint64_t size;
	int rc;

	pool_ids_format_volume(volume->volume, id);
	rc = pool_store_size(pool->store, (struct store_ref){STORE_VOLUME, id}, &size, &why);
	if (!rc && size >= volume->size)
		return 0;
	if (!rc)
		return check_volume_size(check, volume, id, err);
	rc = pool_records_volume_get(pool->cat, volume->volume, &now, err);
	if (rc || now.deleted)
		return rc == CAIRN_NOT_FOUND ? 0 : rc;
	pool_check_fault(check, state_of_loss(check, &why),
			 "the data of volume '%s' (%s) can not be read: %s", volume->name, id,
			 why.msg);
	return 0;
}

/* Volumes must not compare their next snapshot with missing data. */
static int forget_head(struct check *check, uint64_t number, struct cairn_err *err)
{
	const struct inventory *inv = check->inv;
	int rc = 0;

	for (size_t i = 0; i < inv->n_volumes && !rc; i++) {
		const struct record_volume *volume = &inv->volumes[i].record;
		struct record_volume now = *volume;

		if (inv->volumes[i].state != INVENTORY_GOOD || volume->head != number)
			continue;
		now.head = 0;
		rc = pool_check_change_volume(check, volume, &now, err);
	}
	return rc == CAIRN_ABORTED ? 0 : rc;
}

/* A deleted snapshot needs no data: its record is changed accordingly. */
static int forget_data(struct check *check, uint64_t number, struct cairn_err *err)
{
	struct record_snapshot record;
	struct record_snapshot now;
	int rc = pool_records_snapshot_get(check->pool->cat, number, &record, err);

	if (rc || !record.deleted || !record.has_data)
		return rc;
	now = record;
	now.has_data = false;
	return pool_check_change_snapshot(check, &record, &now, err);
}

/* The record of a live snapshot is kept, so that the data can be brought back;
 * sets that need the data are lost. */
static int give_up_data(struct check *check, const struct record_snapshot *snapshot,
			struct cairn_err *err)
{
	struct pool *pool = check->pool;
	cairn_auto_free uint64_t *children = NULL;
	size_t n = 0;
	int rc = pool_changeset_build_or_lose(pool, snapshot->number, LEFTOVER_NO_LOCK, err);

	if (!rc)
		rc = pool_records_collect(pool->cat, LEDGER_CHILDREN, snapshot->number, &children,
					  &n, err);
	for (size_t i = 0; i < n && !rc; i++)
		rc = pool_changeset_build_or_lose(pool, children[i], LEFTOVER_NO_LOCK, err);
	if (!rc)
		rc = forget_head(check, snapshot->number, err);
	if (!rc)
		rc = forget_data(check, snapshot->number, err);
	check->repaired = true;
	return rc == CAIRN_NOT_FOUND || rc == CAIRN_ABORTED ? 0 : rc;
}

static int report_missing(struct check *check, const struct record_snapshot *snapshot,
			  const char *id, const struct cairn_err *why, struct cairn_err *err)
{
	struct record_snapshot now;
	int rc = pool_records_snapshot_get(check->pool->cat, snapshot->number, &now, err);

	if (rc)
		return rc == CAIRN_NOT_FOUND ? 0 : rc;
	if (now.has_data != snapshot->has_data || now.deleted != snapshot->deleted)
		return 0;
	pool_check_fault(check, state_of_loss(check, why), "the data of %s can not be read: %s%s",
			 id, why->msg,
			 now.deleted || why->code != CAIRN_NOT_FOUND ? ""
								     : "; it can only be deleted");
	if (!check->spec->repair || why->code != CAIRN_NOT_FOUND)
		return 0;
	return give_up_data(check, snapshot, err);
}

static int check_snapshot_data(struct check *check, const struct record_snapshot *snapshot,
			       struct cairn_err *err)
{
	struct cairn_err why = {0};
	char id[POOL_ID_MAX + 1];
	uint64_t size;
	int rc;

	pool_ids_format_snapshot(snapshot->volume, snapshot->number, id);
	rc = pool_store_size(check->pool->store, (struct store_ref){STORE_SNAPSHOT, id}, &size,
			     &why);
	if (rc)
		return report_missing(check, snapshot, id, &why, err);
	if (size != snapshot->size)
		pool_check_fault(check, POOL_FAULT_FOUND,
				 "%s has %" PRIu64 " bytes, its record says %" PRIu64, id, size,
				 snapshot->size);
	return 0;
}

int pool_check_data(struct check *check, struct cairn_err *err)
{
	const struct inventory *inv = check->inv;
	int rc = 0;

	for (size_t i = 0; i < inv->n_volumes && !rc; i++)
		if (inv->volumes[i].state == INVENTORY_GOOD && !inv->volumes[i].record.deleted)
			rc = check_volume_data(check, &inv->volumes[i].record, err);
	for (size_t i = 0; i < inv->n_snapshots && !rc; i++) {
		const struct record_snapshot *snapshot = &inv->snapshots[i].record;

		if (inv->snapshots[i].state == INVENTORY_GOOD &&
		    (snapshot->has_data || !snapshot->deleted))
			rc = check_snapshot_data(check, snapshot, err);
	}
	return rc;
}
