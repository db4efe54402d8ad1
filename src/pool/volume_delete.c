/* SPDX-License-Identifier: Apache-2.0 */

/* Deleting a volume. While snapshots of it remain, live ones or tombstones, its
 * record stays behind as deleted: they still need its name and their lineage.
 */

#include <stdlib.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "pool/catalogue/catalogue.h"
#include "pool/catalogue/ids.h"
#include "pool/catalogue/records.h"
#include "pool/cleanup_queue.h"
#include "pool/device/attacher.h"
#include "pool/pool.h"
#include "pool/pool_impl.h"
#include "pool/snapshot_delete.h"
#include "pool/store/reserve.h"
#include "pool/store/store.h"

/* The volume's snapshots: live ones and tombstones. */
struct family {
	uint64_t *numbers;
	size_t n;
	bool go; /* the live ones go with the volume */
};

static void family_done(struct family *family)
{
	free(family->numbers);
}

/* Looks at the live snapshots as the mode says. */
static int look_at_family(struct pool *pool, const struct record_volume *volume,
			  enum pool_volume_delete_mode mode, struct family *family,
			  struct cairn_err *err)
{
	size_t live = 0;
	int rc = pool_records_collect(pool->cat, LEDGER_SNAPSHOTS, volume->volume, &family->numbers,
				      &family->n, err);

	family->go = mode == POOL_DELETE_SNAPSHOTS;
	for (size_t i = 0; !rc && i < family->n; i++) {
		struct record_snapshot record;

		rc = pool_records_snapshot_get(pool->cat, family->numbers[i], &record, err);
		if (rc == CAIRN_NOT_FOUND) { /* its record is lost: pool check reports it */
			rc = 0;
			continue;
		}
		if (rc || record.deleted)
			continue;
		live++;
		if (family->go)
			rc = pool_snapshot_bury_prepare(pool, &record, err);
	}
	if (!rc && live > 0 && mode == POOL_DELETE_REFUSE)
		return cairn_err_set(err, CAIRN_PRECONDITION,
				     "it has %zu snapshot%s; delete %s first, or use "
				     "--with-snapshots or --keep-snapshots",
				     live, live == 1 ? "" : "s", live == 1 ? "it" : "them");
	return rc;
}

static int bury_family(struct pool *pool, struct catalogue_batch *batch,
		       const struct record_volume *volume, const struct family *family,
		       struct cairn_err *err)
{
	int rc = 0;

	for (size_t i = 0; !rc && family->go && i < family->n; i++) {
		struct record_snapshot record;

		rc = pool_records_snapshot_get(pool->cat, family->numbers[i], &record, err);
		if (rc == CAIRN_NOT_FOUND)
			rc = 0;
		else if (!rc && !record.deleted)
			rc = pool_snapshot_bury(pool, batch, volume, &record, err);
	}
	return rc;
}

static void tidy_family(struct pool *pool, const struct record_volume *volume,
			const struct family *family)
{
	for (size_t i = 0; family->go && i < family->n; i++) {
		char id[POOL_ID_MAX + 1];

		pool_ids_format_snapshot(volume->volume, family->numbers[i], id);
		pool_cleanup_tidy(pool, id, volume->volume);
	}
}

/* One commit for all, so that a volume is never seen with some of its snapshots
 * deleted. */
static int commit_delete(struct pool *pool, const struct record_volume *volume, const char *id,
			 const struct family *family, struct cairn_err *err)
{
	cairn_cleanup(pool_catalogue_batch_freep) struct catalogue_batch *batch = NULL;
	struct record_volume now = *volume;
	struct record_snapshot head = {.number = 0};
	char head_id[POOL_ID_MAX + 1] = "";
	int rc = pool_catalogue_batch_new(pool->cat, &batch, err);

	if (!rc && volume->head)
		rc = pool_records_snapshot_get(pool->cat, volume->head, &head, err);
	if (rc == CAIRN_NOT_FOUND) /* a broken head is no reason to keep the volume */
		rc = 0;
	if (!rc)
		rc = bury_family(pool, batch, volume, family, err);
	if (rc)
		return rc;
	now.deleted = true;
	now.head = 0;
	pool_records_volume_change(batch, volume, family->n > 0 ? &now : NULL);
	pool_records_cleanup_add(batch, id);
	if (head.number) {
		pool_ids_format_snapshot(head.volume, head.number, head_id);
		pool_records_cleanup_add(batch, head_id);
	}
	rc = pool_catalogue_commit(batch, CATALOGUE_DURABLE, err);
	if (rc)
		return rc;
	tidy_family(pool, volume, family);
	if (head_id[0])
		pool_cleanup_tidy(pool, head_id, volume->volume);
	return 0;
}

static int volume_delete_locked(struct pool *pool, const char *id,
				enum pool_volume_delete_mode mode, struct cairn_err *err)
{
	struct record_volume volume;
	int rc = CAIRN_ABORTED;

	for (int try = 0; try < POOL_COMMIT_TRIES && rc == CAIRN_ABORTED; try++) {
		cairn_cleanup(family_done) struct family family = {0};

		rc = pool_impl_find_volume(pool, id, &volume, err);
		if (rc)
			return rc;
		rc = pool_attacher_refuse_attached(pool->attacher,
						   (struct store_ref){STORE_VOLUME, id}, "it", err);
		if (!rc)
			rc = look_at_family(pool, &volume, mode, &family, err);
		if (!rc)
			rc = commit_delete(pool, &volume, id, &family, err);
	}
	if (!rc)
		pool_cleanup_tidy(pool, id, volume.volume);
	return rc;
}

int pool_volume_delete(struct pool *pool, const char *volume, enum pool_volume_delete_mode mode,
		       struct cairn_err *err)
{
	cairn_auto_fd int lock = -1;
	struct record_volume record;
	char id[POOL_ID_MAX + 1];
	int rc = pool_impl_check_writable(pool, err);

	if (!rc)
		rc = pool_impl_lock_live_volume(pool, volume, &record, id, &lock, err);
	if (!rc)
		pool_reserve_prepare(pool);
	if (!rc) {
		do
			rc = volume_delete_locked(pool, id, mode, err);
		while (pool_reserve_helps(pool, rc, err));
		pool_reserve_refill(pool);
		/* The volume is there, whatever was not found. */
		if (rc == CAIRN_NOT_FOUND)
			rc = cairn_err_recode(err, CAIRN_UNAVAILABLE);
	}
	return rc ? cairn_err_wrap(err, "delete volume '%s'", volume) : 0;
}
