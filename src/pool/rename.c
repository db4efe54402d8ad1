/* SPDX-License-Identifier: Apache-2.0 */

/* Renaming volumes and snapshots: one commit in the catalogue. Data, change sets, notes
 * and backups know them by id, and ids do not change.
 */

#include <string.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "pool/catalogue.h"
#include "pool/handle.h"
#include "pool/ledger.h"
#include "pool/pool.h"
#include "pool/reserve.h"

static void set_name(char to[POOL_NAME_MAX + 1], const char *name)
{
	memset(to, 0, POOL_NAME_MAX + 1);
	memcpy(to, name, strlen(name));
}

/* Once; CAIRN_ABORTED when a record or a name changed since it was read. */
static int commit_volume_name(struct pool *pool, struct record_volume *record, const char *name,
			      struct cairn_err *err)
{
	cairn_cleanup(catalogue_batch_freep) struct catalogue_batch *batch = NULL;
	struct record_volume holder;
	struct record_volume now;
	int rc = ledger_volume_get(pool->cat, record->volume, record, err);

	if (rc || strcmp(record->name, name) == 0)
		return rc;
	rc = ledger_volume_by_name(pool->cat, name, &holder, err);
	if (!rc)
		return cairn_err_set(err, CAIRN_EXISTS, "volume '%s' exists already", name);
	if (rc != CAIRN_NOT_FOUND)
		return rc;
	rc = catalogue_batch_new(pool->cat, &batch, err);
	if (rc)
		return rc;
	now = *record;
	set_name(now.name, name);
	ledger_volume_rename(batch, record, &now);
	rc = catalogue_commit(batch, CATALOGUE_DURABLE, err);
	if (!rc)
		*record = now;
	return rc;
}

static int record_volume_name(struct pool *pool, struct record_volume *record, const char *name,
			      struct cairn_err *err)
{
	int rc = CAIRN_ABORTED;

	for (int try = 0; try < POOL_COMMIT_TRIES && rc == CAIRN_ABORTED; try++)
		rc = commit_volume_name(pool, record, name, err);
	return rc;
}

int pool_volume_rename(struct pool *pool, const char *volume, const char *name,
		       struct pool_volume *ret, struct cairn_err *err)
{
	cairn_auto_fd int lock = -1;
	struct record_volume record;
	char id[POOL_ID_MAX + 1];
	int rc = handle_check_writable(pool, err);

	if (!rc)
		rc = pool_name_check("volume", name, err);
	if (!rc)
		rc = reserve_require(pool, err);
	if (!rc)
		rc = handle_lock_live_volume(pool, volume, &record, id, &lock, err);
	if (!rc)
		rc = record_volume_name(pool, &record, name, err);
	if (rc)
		return cairn_err_wrap(err, "rename volume '%s'", volume);
	handle_fill_volume(pool, &record, ret);
	return 0;
}

/* The same for a snapshot. A tombstone that has the name loses it, as to a new one. */
static int commit_snapshot_name(struct pool *pool, struct record_snapshot *record, const char *name,
				struct cairn_err *err)
{
	cairn_cleanup(catalogue_batch_freep) struct catalogue_batch *batch = NULL;
	struct record_snapshot holder;
	struct record_snapshot now;
	int rc = ledger_snapshot_get(pool->cat, record->number, record, err);

	if (rc || strcmp(record->name, name) == 0)
		return rc;
	rc = ledger_snapshot_by_name(pool->cat, record->volume, name, &holder, err);
	if (!rc && !holder.deleted)
		return cairn_err_set(err, CAIRN_EXISTS, "snapshot '%s' exists already", name);
	if (rc && rc != CAIRN_NOT_FOUND)
		return rc;
	rc = catalogue_batch_new(pool->cat, &batch, err);
	if (rc)
		return rc;
	now = *record;
	set_name(now.name, name);
	rc = ledger_snapshot_rename(pool->cat, batch, record, &now, err);
	if (!rc)
		rc = catalogue_commit(batch, CATALOGUE_DURABLE, err);
	if (!rc)
		*record = now;
	return rc;
}

static int record_snapshot_name(struct pool *pool, struct record_snapshot *record, const char *name,
				struct cairn_err *err)
{
	int rc = CAIRN_ABORTED;

	for (int try = 0; try < POOL_COMMIT_TRIES && rc == CAIRN_ABORTED; try++)
		rc = commit_snapshot_name(pool, record, name, err);
	return rc;
}

int pool_snapshot_rename(struct pool *pool, const char *snapshot, const char *name,
			 struct pool_snapshot *ret, struct cairn_err *err)
{
	cairn_auto_fd int lock = -1;
	struct record_snapshot record;
	struct record_volume volume;
	int rc = handle_check_writable(pool, err);

	if (!rc)
		rc = pool_name_check("snapshot", name, err);
	if (!rc)
		rc = reserve_require(pool, err);
	if (!rc)
		rc = handle_lock_live_snapshot(pool, snapshot, &record, &lock, err);
	if (!rc)
		rc = ledger_volume_get(pool->cat, record.volume, &volume, err);
	if (!rc)
		rc = record_snapshot_name(pool, &record, name, err);
	if (rc)
		return cairn_err_wrap(err, "rename snapshot '%s'", snapshot);
	handle_fill_snapshot_of(&volume, &record, ret);
	return 0;
}
