/* SPDX-License-Identifier: Apache-2.0 */

/* Taking over what the storage of a pool already holds.
 *
 * The data is given the id of a new volume, then the record is committed. Nothing notes it for
 * removal: a process that dies in between leaves data without a record, which `pool check`
 * reports and no operation removes.
 */

#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/random.h"
#include "pool/catalogue/catalogue.h"
#include "pool/catalogue/ids.h"
#include "pool/catalogue/records.h"
#include "pool/pool.h"
#include "pool/pool_impl.h"
#include "pool/store/store.h"

static int adopt_commit(struct pool *pool, const struct record_volume *record,
			struct cairn_err *err)
{
	cairn_cleanup(pool_catalogue_batch_freep) struct catalogue_batch *batch = NULL;
	int rc = pool_catalogue_batch_new(pool->cat, &batch, err);

	if (rc)
		return rc;
	pool_records_volume_change(batch, NULL, record);
	rc = pool_catalogue_commit(batch, CATALOGUE_DURABLE, err);
	return rc == CAIRN_ABORTED ? cairn_err_set(err, CAIRN_EXISTS, "volume '%s' exists already",
						   record->name)
				   : rc;
}

static int adopt_check(struct pool *pool, const char *name, struct cairn_err *err)
{
	struct record_volume holder;
	int rc = pool_impl_check_writable(pool, err);

	if (!rc)
		rc = pool_name_check("volume", name, err);
	if (rc)
		return rc;
	rc = pool_records_volume_by_name(pool->cat, name, &holder, err);
	if (rc == 0)
		return cairn_err_set(err, CAIRN_EXISTS, "volume '%s' exists already", name);
	return rc == CAIRN_NOT_FOUND ? 0 : rc;
}

int pool_volume_adopt(struct pool *pool, const char *image, const char *name,
		      struct pool_volume *ret, struct cairn_err *err)
{
	cairn_auto_fd int lock = -1;
	struct record_volume record = {0};
	char id[POOL_ID_MAX + 1];
	int rc = adopt_check(pool, name, err);

	if (!rc)
		rc = cairn_random_bytes(&record.volume, sizeof(record.volume), err);
	if (!rc)
		rc = pool_impl_lock_volume(pool, record.volume, 0, &lock, err);
	if (rc)
		return rc;
	memcpy(record.name, name, strlen(name) + 1);
	record.created_ns = cairn_now_ns();
	pool_ids_format_volume(record.volume, id);
	rc = pool_store_volume_adopt(pool->store, id, image, &record.size, err);
	if (rc)
		return cairn_err_wrap(err, "adopt '%s'", image);
	rc = pool_impl_check_size(record.size, err);
	if (!rc)
		rc = adopt_commit(pool, &record, err);
	if (!rc) {
		pool_impl_fill_volume(pool, &record, ret);
		return 0;
	}
	/* Whether an uncertain commit was carried out shows in the catalogue later. */
	if (pool_catalogue_is_certain(pool->cat))
		(void)pool_store_volume_disown(pool->store, id, image, NULL);
	return cairn_err_wrap(err, "adopt '%s'", image);
}
