/* SPDX-License-Identifier: Apache-2.0 */

/* Snapshots as pool.h shows them: making, finding, listing, attaching. */

#include "pool/pool.h"

#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "pool/catalogue/ids.h"
#include "pool/catalogue/records.h"
#include "pool/device/attacher.h"
#include "pool/pool_impl.h"
#include "pool/snapshot_create.h"
#include "pool/snapshot_expire.h"
#include "pool/store/reserve.h"
#include "pool/store/store.h"

int pool_snapshot_spec_parse(struct pool *pool, const char *text, char **ret_volume,
			     char **ret_name, struct cairn_err *err)
{
	cairn_auto_free char *volume = cairn_strdup(text);
	char *at;

	if (!volume)
		return cairn_err_nomem(err, "name");
	if (!strchr(text, '@'))
		return cairn_err_set(err, CAIRN_INVALID,
				     "'%s' does not name a snapshot; write VOLUME@SNAPSHOT", text);
	while ((at = strrchr(volume, '@'))) {
		struct record_volume found;
		cairn_auto_free char *name = NULL;
		int rc;

		*at = '\0';
		rc = pool_impl_find_volume(pool, volume, &found, err);
		if (rc == CAIRN_NOT_FOUND)
			continue;
		if (rc)
			return rc;
		name = cairn_strdup(text + (at - volume) + 1);
		if (!name)
			return cairn_err_nomem(err, "name");
		*ret_volume = cairn_take(volume);
		*ret_name = cairn_take(name);
		return 0;
	}
	return cairn_err_set(err, CAIRN_NOT_FOUND, "there is no volume '%.*s'",
			     (int)(strrchr(text, '@') - text), text);
}

int pool_snapshot_create(struct pool *pool, const struct pool_snapshot_spec *specs, size_t n,
			 struct pool_snapshot *ret, struct cairn_err *err)
{
	cairn_auto_free struct take_item *items = cairn_calloc(n, sizeof(*items));
	cairn_auto_free struct record_snapshot *records = cairn_calloc(n, sizeof(*records));
	int rc = pool_impl_check_writable(pool, err);

	if (rc)
		return rc;
	if (!items || !records)
		return cairn_err_nomem(err, "snapshot");
	for (size_t i = 0; i < n; i++) {
		rc = pool_name_check("snapshot", specs[i].name, err);
		if (!rc)
			rc = pool_impl_find_volume(pool, specs[i].volume, &items[i].volume, err);
		if (rc)
			return rc;
		items[i].name = specs[i].name;
	}
	rc = pool_reserve_require(pool, err);
	if (!rc)
		rc = pool_snapshots_create(pool, items, n, records, err);
	if (rc)
		return rc;
	for (size_t i = 0; i < n; i++)
		pool_impl_fill_snapshot_of(&items[i].volume, &records[i], &ret[i]);
	pool_expire_some(pool);
	return 0;
}

int pool_snapshot_get(struct pool *pool, const char *snapshot, struct pool_snapshot *ret,
		      struct cairn_err *err)
{
	struct record_snapshot record;
	int rc = pool_impl_find_snapshot(pool, snapshot, &record, err);

	return rc ? rc : pool_impl_fill_snapshot(pool, &record, ret, err);
}

struct listing {
	struct pool *pool;
	const struct pool_snapshot_list_spec *spec;
	int (*fn)(void *arg, const struct pool_snapshot *snapshot, struct cairn_err *err);
	void *arg;
};

static int pool_snapshot_list_one(void *arg, const struct record_snapshot *record,
				  struct cairn_err *err)
{
	const struct listing *listing = arg;
	struct pool_snapshot snapshot;
	int rc;

	if (record->deleted && !listing->spec->with_deleted)
		return 0;
	rc = pool_impl_fill_snapshot(listing->pool, record, &snapshot, err);
	if (rc)
		return rc == CAIRN_NOT_FOUND ? 0 : rc;
	return listing->fn(listing->arg, &snapshot, err);
}

static int list_of_volume(struct listing *listing, uint64_t after, struct cairn_err *err)
{
	cairn_auto_free uint64_t *numbers = NULL;
	struct record_volume volume;
	size_t n;
	int rc = pool_impl_find_volume(listing->pool, listing->spec->volume, &volume, err);

	if (!rc)
		rc = pool_records_collect(listing->pool->cat, LEDGER_SNAPSHOTS, volume.volume,
					  &numbers, &n, err);
	for (size_t i = 0; !rc && i < n; i++) {
		struct record_snapshot record;

		if (numbers[i] <= after)
			continue;
		rc = pool_records_snapshot_get(listing->pool->cat, numbers[i], &record, err);
		if (rc == CAIRN_NOT_FOUND)
			rc = 0; /* merged since the index was read */
		else if (!rc)
			rc = pool_snapshot_list_one(listing, &record, err);
	}
	return rc > 0 ? 0 : rc;
}

int pool_snapshot_list(struct pool *pool, const struct pool_snapshot_list_spec *spec,
		       int (*fn)(void *arg, const struct pool_snapshot *snapshot,
				 struct cairn_err *err),
		       void *arg, struct cairn_err *err)
{
	struct listing listing = {.pool = pool, .spec = spec, .fn = fn, .arg = arg};
	uint64_t after = 0;
	uint64_t volume;

	if (spec->after && !pool_ids_parse_snapshot(spec->after, &volume, &after))
		return cairn_err_set(err, CAIRN_INVALID, "'%s' is not a snapshot id", spec->after);
	if (spec->volume)
		return list_of_volume(&listing, after, err);
	struct ledger_walk walk = {
		.after = &after, .snapshot = pool_snapshot_list_one, .arg = &listing};

	return pool_records_walk_snapshots(pool->cat, &walk, err);
}

/* Finds a live snapshot and locks its volume, which prevents deletion. On a read-only
 * filesystem nothing can be deleted, nor locked. */
static int lock_data(struct pool *pool, const char *snapshot, char id[POOL_ID_MAX + 1],
		     int *ret_lock, struct cairn_err *err)
{
	struct record_snapshot record;
	int rc = pool->read_only_fs
			 ? pool_impl_find_live_snapshot(pool, snapshot, &record, err)
			 : pool_impl_lock_live_snapshot(pool, snapshot, &record, ret_lock, err);

	if (!rc)
		pool_ids_format_snapshot(record.volume, record.number, id);
	return rc;
}

int pool_snapshot_path(struct pool *pool, const char *snapshot, char **ret_path,
		       struct cairn_err *err)
{
	struct record_snapshot record;
	char id[POOL_ID_MAX + 1];
	int rc = pool_impl_find_live_snapshot(pool, snapshot, &record, err);

	if (rc)
		return rc;
	pool_ids_format_snapshot(record.volume, record.number, id);
	return pool_store_path(pool->store, (struct store_ref){STORE_SNAPSHOT, id}, ret_path, err);
}

int pool_snapshot_attach(struct pool *pool, const char *snapshot, char *ret_device, size_t n,
			 struct cairn_err *err)
{
	cairn_auto_fd int lock = -1;
	cairn_auto_fd int file_lock = -1;
	char id[POOL_ID_MAX + 1], device[DEVICE_PATH_MAX];
	struct store_ref ref = {STORE_SNAPSHOT, id};
	int rc = lock_data(pool, snapshot, id, &lock, err);

	if (!rc)
		rc = pool_attacher_lock(pool->attacher, ref, &file_lock, err);
	if (!rc)
		rc = pool_attacher_attach(pool->attacher, ref, true, 0, device, err);
	if (!rc)
		snprintf(ret_device, n, "%s", device);
	return rc;
}

int pool_snapshot_detach(struct pool *pool, const char *snapshot, struct cairn_err *err)
{
	cairn_auto_fd int lock = -1;
	cairn_auto_fd int file_lock = -1;
	char id[POOL_ID_MAX + 1];
	struct store_ref ref = {STORE_SNAPSHOT, id};
	int rc = lock_data(pool, snapshot, id, &lock, err);

	if (!rc)
		rc = pool_attacher_lock(pool->attacher, ref, &file_lock, err);
	return rc ? rc : pool_attacher_detach(pool->attacher, ref, err);
}

int pool_snapshot_reader(struct pool *pool, const char *snapshot, struct store_reader **ret,
			 struct cairn_err *err)
{
	struct record_snapshot record;
	char id[POOL_ID_MAX + 1];
	int rc = pool_impl_find_snapshot(pool, snapshot, &record, err);

	if (rc)
		return rc;
	if (!record.has_data)
		return cairn_err_set(err, CAIRN_PRECONDITION,
				     "snapshot '%s' was deleted and its data is gone", snapshot);
	pool_ids_format_snapshot(record.volume, record.number, id);
	return pool_store_reader_open(pool->store, (struct store_ref){STORE_SNAPSHOT, id}, ret,
				      err);
}
