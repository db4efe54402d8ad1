/* SPDX-License-Identifier: Apache-2.0 */

/* Making volumes: empty ones, and clones of a volume or a snapshot. */

#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/num.h"
#include "base/random.h"
#include "pool/catalogue/catalogue.h"
#include "pool/catalogue/ids.h"
#include "pool/catalogue/records.h"
#include "pool/changeset_build.h"
#include "pool/cleanup_queue.h"
#include "pool/pool.h"
#include "pool/pool_impl.h"
#include "pool/snapshot_create.h"
#include "pool/store/reserve.h"
#include "pool/store/store.h"

struct creation {
	struct pool *pool;
	const struct pool_volume_spec *spec;
	struct record_volume record;
	char id[POOL_ID_MAX + 1];
	struct record_snapshot source; /* number 0: empty */
	int source_lock;
	int lock;
};

static int check_not_smaller(const struct creation *c, uint64_t source_size, struct cairn_err *err)
{
	char text[CAIRN_SIZE_TEXT_MAX];

	if (c->spec->size == 0 || c->spec->size >= source_size)
		return 0;
	return cairn_err_set(err, CAIRN_RANGE, "'%s' has %s; the new volume must not be smaller",
			     c->spec->from, cairn_format_size(source_size, text));
}

static int volume_create_find_snapshot(struct creation *c, struct cairn_err *err)
{
	struct cairn_err why = {0};
	int rc = pool_impl_find_live_snapshot(c->pool, c->spec->from, &c->source, &why);

	if (rc == CAIRN_NOT_FOUND && !strchr(c->spec->from, '@'))
		return cairn_err_set(err, CAIRN_NOT_FOUND, "there is no volume or snapshot '%s'",
				     c->spec->from);
	if (rc && err)
		*err = why;
	if (!rc)
		rc = pool_impl_lock_volume(c->pool, c->source.volume, c->pool->lock_wait_ms,
					   &c->source_lock, err);
	if (rc)
		return rc;
	rc = pool_records_snapshot_get(c->pool->cat, c->source.number, &c->source, err);
	if (rc == CAIRN_NOT_FOUND || (!rc && (c->source.deleted || !c->source.has_data)))
		rc = cairn_err_set(err, CAIRN_NOT_FOUND, "snapshot '%s' was deleted",
				   c->spec->from);
	return rc;
}

/* What it is made from, with the lock of its volume, so that the snapshot's
 * data stays. A volume is first cut into a hidden snapshot. */
static int volume_create_find_source(struct creation *c, struct cairn_err *err)
{
	struct take_item item = {.name = ""};
	int rc = pool_impl_find_volume(c->pool, c->spec->from, &item.volume, err);

	if (rc && rc != CAIRN_NOT_FOUND)
		return rc;
	if (rc || item.volume.deleted)
		return volume_create_find_snapshot(c, err);
	rc = check_not_smaller(c, item.volume.size, err);
	return rc ? rc
		  : pool_snapshot_create_locked(c->pool, &item, &c->source, &c->source_lock, err);
}

static int volume_create_choose_size(struct creation *c, struct cairn_err *err)
{
	c->record.size = c->spec->from && c->spec->size == 0 ? c->source.size : c->spec->size;
	return c->spec->from ? check_not_smaller(c, c->source.size, err) : 0;
}

static int volume_create_make_data(struct creation *c, struct cairn_err *err)
{
	char source_id[POOL_ID_MAX + 1];
	uint64_t size;
	int rc = pool_cleanup_note(c->pool, c->id, err);

	if (rc)
		return rc;
	if (!c->spec->from)
		return pool_store_volume_create(c->pool->store, c->id, c->record.size, err);
	pool_ids_format_snapshot(c->source.volume, c->source.number, source_id);
	rc = pool_impl_data_size(c->pool, (struct store_ref){STORE_SNAPSHOT, source_id},
				 c->source.size, &size, err);
	if (rc)
		return rc;
	return pool_store_volume_clone(c->pool->store, c->id, source_id, c->source.size,
				       c->record.size, err);
}

static int check_name_free(struct pool *pool, const char *name, struct cairn_err *err)
{
	struct record_volume holder;
	int rc = pool_records_volume_by_name(pool->cat, name, &holder, err);

	if (rc == 0)
		return cairn_err_set(err, CAIRN_EXISTS, "volume '%s' exists already", name);
	return rc == CAIRN_NOT_FOUND ? 0 : rc;
}

/* The new volume depends on the source's data. */
static int touch_source(void *arg, struct catalogue_batch *batch, struct cairn_err *err)
{
	const struct creation *c = arg;

	return c->source.number ? pool_records_snapshot_touch(batch, c->source.number, err) : 0;
}

static int volume_create_commit_volume(struct creation *c, struct cairn_err *err)
{
	cairn_cleanup(pool_catalogue_batch_freep) struct catalogue_batch *batch = NULL;
	int rc = pool_catalogue_batch_new(c->pool->cat, &batch, err);

	if (rc)
		return rc;
	pool_catalogue_batch_late(batch, touch_source, c);
	pool_records_volume_change(batch, NULL, &c->record);
	pool_records_cleanup_clear(batch, c->id);
	rc = pool_catalogue_commit(batch, CATALOGUE_DURABLE, err);
	if (rc == CAIRN_ABORTED) {
		/* The source is under its lock: it is the name that was taken. */
		int taken = check_name_free(c->pool, c->record.name, err);

		rc = taken ? taken : rc;
	}
	return rc;
}

static int create_volume(struct creation *c, struct cairn_err *err)
{
	int rc = cairn_random_bytes(&c->record.volume, sizeof(c->record.volume), err);

	if (!rc && c->spec->from)
		rc = volume_create_find_source(c, err);
	if (!rc)
		rc = volume_create_choose_size(c, err);
	if (rc)
		return rc;
	memcpy(c->record.name, c->spec->name, strlen(c->spec->name) + 1);
	if (c->spec->restoring)
		memcpy(c->record.restoring, c->spec->restoring, strlen(c->spec->restoring) + 1);
	c->record.created_ns = cairn_now_ns();
	c->record.origin = c->record.head = c->source.number;
	c->record.origin_volume = c->source.volume;
	pool_ids_format_volume(c->record.volume, c->id);
	rc = pool_impl_lock_volume(c->pool, c->record.volume, 0, &c->lock, err);
	if (rc)
		return rc;
	rc = volume_create_make_data(c, err);
	if (!rc)
		rc = volume_create_commit_volume(c, err);
	if (rc) {
		struct cairn_err ignored;

		(void)pool_cleanup_settle(c->pool, c->id, c->record.volume, &ignored);
	}
	return rc;
}

static int check_spec(struct pool *pool, const struct pool_volume_spec *spec, struct cairn_err *err)
{
	int rc = pool_impl_check_writable(pool, err);

	if (!rc)
		rc = pool_name_check("volume", spec->name, err);
	if (!rc && spec->restoring)
		rc = pool_impl_check_restoring(spec->restoring, err);
	if (!rc && (!spec->from || spec->size != 0))
		rc = pool_impl_check_size(spec->size, err);
	if (!rc)
		rc = pool_reserve_require(pool, err);
	return rc ? rc : check_name_free(pool, spec->name, err);
}

int pool_volume_create(struct pool *pool, const struct pool_volume_spec *spec,
		       struct pool_volume *ret, struct cairn_err *err)
{
	struct creation c = {.pool = pool, .spec = spec, .source_lock = -1, .lock = -1};
	struct cairn_err ignored;
	int rc = check_spec(pool, spec, err);

	if (!rc)
		rc = create_volume(&c, err);
	cairn_closep(&c.lock);
	cairn_closep(&c.source_lock);
	if (rc)
		return rc;
	/* No caller waits for the set of a hidden snapshot; if this fails it
	 * stays pending and is computed when it is needed. */
	if (c.source.number && !c.source.name[0])
		(void)pool_changeset_build(pool, c.source.number, LEFTOVER_NO_LOCK, NULL, &ignored);
	pool_impl_fill_volume(pool, &c.record, ret);
	return 0;
}
