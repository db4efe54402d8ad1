/* SPDX-License-Identifier: Apache-2.0 */

/* Reports known faults of a volume. Other operations may change or delete it at
 * the same time, and a record is always changed before the object it names is
 * removed: a missing object counts only if the record still refers to it
 * afterwards. */

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "pool/catalogue/ids.h"
#include "pool/catalogue/records.h"
#include "pool/cleanup_queue.h"
#include "pool/pool.h"
#include "pool/pool_impl.h"
#include "pool/site.h"
#include "pool/store/blob.h"
#include "pool/store/changeset_file.h"
#include "pool/store/store.h"

__attribute__((format(printf, 2, 3))) static void find_wrong(struct pool_condition *c,
							     const char *fmt, ...)
{
	va_list args;

	c->abnormal = true;
	va_start(args, fmt);
	vsnprintf(c->reason, sizeof(c->reason), fmt, args);
	va_end(args);
}

static int look_at_data(struct pool *pool, const struct record_volume *volume,
			struct pool_condition *c, struct cairn_err *err)
{
	struct cairn_err why = {0};
	struct record_volume now;
	char id[POOL_ID_MAX + 1];
	uint64_t size = 0;
	bool listed = false;
	int rc;

	pool_ids_format_volume(volume->volume, id);
	if (pool_store_size(pool->store, (struct store_ref){STORE_VOLUME, id}, &size, &why) != 0)
		find_wrong(c, "the volume's data can not be read: %s", why.msg);
	else if (size < volume->size)
		find_wrong(c, "the volume has %" PRIu64 " bytes of data only", size);
	if (!c->abnormal)
		return 0;
	rc = pool_records_volume_get(pool->cat, volume->volume, &now, err);
	if (rc == 0 && !now.deleted && now.size == volume->size)
		rc = pool_cleanup_is_listed(pool, id, &listed, err);
	else
		c->abnormal = false;
	if (rc == CAIRN_NOT_FOUND)
		rc = 0;
	if (listed)
		c->abnormal = false;
	return rc;
}

static void volume_health_look_at_snapshot(struct pool *pool,
					   const struct record_snapshot *snapshot,
					   struct pool_condition *c)
{
	struct cairn_err why = {0};
	char id[POOL_ID_MAX + 1], name[SETFILE_NAME_MAX];
	uint64_t size;

	pool_ids_format_snapshot(snapshot->volume, snapshot->number, id);
	pool_changeset_file_name(snapshot->number, snapshot->set_generation, name);
	if (snapshot->set == POOL_SET_LOST)
		find_wrong(c, "the change set of snapshot '%s' is lost: do a full backup",
			   snapshot->name);
	else if (snapshot->set == POOL_SET_READY && pool_blob_check(pool->sets, name, &why) != 0)
		find_wrong(c, "the change set of snapshot '%s' can not be read: %s", snapshot->name,
			   why.msg);
	else if (pool_store_size(pool->store, (struct store_ref){STORE_SNAPSHOT, id}, &size,
				 &why) != 0)
		find_wrong(c, "the data of snapshot '%s' can not be read: %s", snapshot->name,
			   why.msg);
}

static int look_at_number(struct pool *pool, uint64_t number, struct pool_condition *c,
			  struct cairn_err *err)
{
	struct record_snapshot snapshot, now;
	int rc = pool_records_snapshot_get(pool->cat, number, &snapshot, err);

	if (rc == CAIRN_DATA_LOSS || rc == CAIRN_UNIMPLEMENTED) {
		find_wrong(c, "the record of snapshot number %" PRIu64 " can not be read", number);
		return 0;
	}
	if (rc || snapshot.deleted)
		return rc == CAIRN_NOT_FOUND ? 0 : rc;
	volume_health_look_at_snapshot(pool, &snapshot, c);
	if (!c->abnormal)
		return 0;
	rc = pool_records_snapshot_get(pool->cat, number, &now, err);
	if (rc == CAIRN_NOT_FOUND ||
	    (!rc && (now.deleted || now.set_generation != snapshot.set_generation)))
		c->abnormal = false;
	return rc == CAIRN_NOT_FOUND ? 0 : rc;
}

int pool_volume_health(struct pool *pool, const char *volume, struct pool_condition *ret,
		       struct cairn_err *err)
{
	cairn_auto_free uint64_t *numbers = NULL;
	struct pool_condition c = {.reason = ""};
	struct record_volume record;
	char id[POOL_ID_MAX + 1];
	size_t n = 0;
	int rc = pool_impl_find_live_volume(pool, volume, &record, id, err);

	if (rc)
		return rc;
	if (pool->site->look)
		pool->site->look(pool, &c);
	if (!c.abnormal && record.restoring[0])
		find_wrong(&c, "a restore to the volume is not finished");
	if (!c.abnormal)
		rc = look_at_data(pool, &record, &c, err);
	if (!rc && !c.abnormal)
		rc = pool_records_collect(pool->cat, LEDGER_SNAPSHOTS, record.volume, &numbers, &n,
					  err);
	for (size_t i = 0; i < n && !rc && !c.abnormal; i++)
		rc = look_at_number(pool, numbers[i], &c, err);
	if (rc)
		return rc;
	*ret = c;
	return 0;
}
