/* SPDX-License-Identifier: Apache-2.0 */

/* Renames volumes and snapshots by one commit in the catalogue. Data, change sets,
 * notes and backups refer to them by id, and ids do not change.
 */

#include <string.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "pool/catalogue/catalogue.h"
#include "pool/catalogue/records.h"
#include "pool/pool.h"
#include "pool/pool_impl.h"
#include "pool/store/reserve.h"

static void set_name(char to[POOL_NAME_MAX + 1], const char *name)
{
	memset(to, 0, POOL_NAME_MAX + 1);
	memcpy(to, name, strlen(name));
}

/* A volume, or one of its snapshots, that gets a name. */
struct renaming {
	struct pool *pool;
	const char *name;
	struct record_volume volume;
	struct record_snapshot snapshot;
	/* One attempt; CAIRN_ABORTED when a record or a name changed since it was
	 * read. */
	int (*commit)(struct renaming *r, struct cairn_err *err);
};

static int volume_rename_prepare(const struct renaming *r, const char *what, struct cairn_err *err)
{
	int rc = pool_impl_check_writable(r->pool, err);

	if (!rc)
		rc = pool_name_check(what, r->name, err);
	return rc ? rc : pool_reserve_require(r->pool, err);
}

static int commit_name(struct renaming *r, struct cairn_err *err)
{
	int rc = CAIRN_ABORTED;

	for (int try = 0; try < POOL_COMMIT_TRIES && rc == CAIRN_ABORTED; try++)
		rc = r->commit(r, err);
	return rc;
}

/* `found` is the result of the search for the name. */
static int volume_rename_check_free(const struct renaming *r, const char *what, int found,
				    struct cairn_err *err)
{
	if (!found)
		return cairn_err_set(err, CAIRN_EXISTS, "%s '%s' exists already", what, r->name);
	return found == CAIRN_NOT_FOUND ? 0 : found;
}

static int volume_rename_commit_volume(struct renaming *r, struct cairn_err *err)
{
	cairn_cleanup(pool_catalogue_batch_freep) struct catalogue_batch *batch = NULL;
	struct record_volume *record = &r->volume;
	struct record_volume holder;
	struct record_volume now;
	int rc = pool_records_volume_get(r->pool->cat, record->volume, record, err);

	if (rc || strcmp(record->name, r->name) == 0)
		return rc;
	now = *record;
	set_name(now.name, r->name);
	rc = pool_records_volume_by_name(r->pool->cat, r->name, &holder, err);
	rc = volume_rename_check_free(r, "volume", rc, err);
	if (!rc)
		rc = pool_catalogue_batch_new(r->pool->cat, &batch, err);
	if (rc)
		return rc;
	pool_records_volume_rename(batch, record, &now);
	rc = pool_catalogue_commit(batch, CATALOGUE_DURABLE, err);
	if (!rc)
		*record = now;
	return rc;
}

int pool_volume_rename(struct pool *pool, const char *volume, const char *name,
		       struct pool_volume *ret, struct cairn_err *err)
{
	struct renaming r = {.pool = pool, .name = name, .commit = volume_rename_commit_volume};
	cairn_auto_fd int lock = -1;
	char id[POOL_ID_MAX + 1];
	int rc = volume_rename_prepare(&r, "volume", err);

	if (!rc)
		rc = pool_impl_lock_live_volume(pool, volume, &r.volume, id, &lock, err);
	if (!rc)
		rc = commit_name(&r, err);
	if (rc)
		return cairn_err_wrap(err, "rename volume '%s'", volume);
	pool_impl_fill_volume(pool, &r.volume, ret);
	return 0;
}

/* A tombstone that has the name loses it, as it would to a new snapshot. */
static int volume_rename_commit_snapshot(struct renaming *r, struct cairn_err *err)
{
	cairn_cleanup(pool_catalogue_batch_freep) struct catalogue_batch *batch = NULL;
	struct record_snapshot *record = &r->snapshot;
	struct record_snapshot holder;
	struct record_snapshot now;
	int rc = pool_records_snapshot_get(r->pool->cat, record->number, record, err);

	if (rc || strcmp(record->name, r->name) == 0)
		return rc;
	rc = pool_records_snapshot_by_name(r->pool->cat, record->volume, r->name, &holder, err);
	if (rc || !holder.deleted)
		rc = volume_rename_check_free(r, "snapshot", rc, err);
	if (!rc)
		rc = pool_catalogue_batch_new(r->pool->cat, &batch, err);
	now = *record;
	set_name(now.name, r->name);
	if (!rc)
		rc = pool_records_snapshot_rename(r->pool->cat, batch, record, &now, err);
	if (!rc)
		rc = pool_catalogue_commit(batch, CATALOGUE_DURABLE, err);
	if (!rc)
		*record = now;
	return rc;
}

int pool_snapshot_rename(struct pool *pool, const char *snapshot, const char *name,
			 struct pool_snapshot *ret, struct cairn_err *err)
{
	struct renaming r = {.pool = pool, .name = name, .commit = volume_rename_commit_snapshot};
	cairn_auto_fd int lock = -1;
	int rc = volume_rename_prepare(&r, "snapshot", err);

	if (!rc)
		rc = pool_impl_lock_live_snapshot(pool, snapshot, &r.snapshot, &lock, err);
	if (!rc)
		rc = pool_records_volume_get(pool->cat, r.snapshot.volume, &r.volume, err);
	if (!rc)
		rc = commit_name(&r, err);
	if (rc)
		return cairn_err_wrap(err, "rename snapshot '%s'", snapshot);
	pool_impl_fill_snapshot_of(&r.volume, &r.snapshot, ret);
	return 0;
}
