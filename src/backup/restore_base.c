/* SPDX-License-Identifier: Apache-2.0 */

#include "backup/restore_base.h"

#include <string.h>

#include "backup/backup_record.h"
#include "backup/changed_bitmap.h"
#include "backup/select.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/mem.h"
#include "base/random.h"
#include "block/extent.h"
#include "pool/pool.h"
#include "repo/repo_snapshot.h"

#define BATCH 1024

void backup_restore_base_done(struct held *held)
{
	backup_image_done(&held->image);
	backup_changed_bitmap_freep(&held->changed);
	*held = (struct held){0};
}

int backup_restore_base_by_name(struct repo *repo, const char *name, const char *path,
				struct zeros *zeros, struct held *ret, struct cairn_err *err)
{
	cairn_cleanup(repo_snapshot_freep) struct repo_snapshot *snapshot = NULL;
	int rc = backup_select(repo, &(struct backup_choice){.name = name}, &snapshot, err);

	if (!rc)
		rc = backup_image_open(repo, snapshot, path, zeros, &ret->image, err);
	ret->known = rc == 0;
	return rc;
}

struct search {
	const struct repo_snapshot_list *list;
	const struct repo_snapshot *found;
	char snapshot_id[POOL_ID_MAX + 1];
	uint64_t created_ns;
};

/* Snapshots come oldest first, so the last one that has a backup is used. */
static int restore_base_match(void *arg, const struct pool_snapshot *snapshot,
			      struct cairn_err *err)
{
	struct search *search = arg;

	(void)err;
	for (size_t i = 0; i < search->list->n; i++) {
		struct backup_record record = backup_record_of(search->list->items[i]);

		if (!record.ours || strcmp(record.snapshot_id, snapshot->id) != 0)
			continue;
		search->found = search->list->items[i];
		memcpy(search->snapshot_id, snapshot->id, sizeof(search->snapshot_id));
		search->created_ns = snapshot->created_ns;
	}
	return 0;
}

static int restore_base_draw(struct pool *pool, const char *base, const char *target,
			     struct changed_bitmap *marks, struct cairn_err *err)
{
	struct pool_delta_spec spec = {.base = base, .target = target};
	cairn_cleanup(pool_delta_freep) struct pool_delta *delta = NULL;
	struct block_extent batch[BATCH];
	size_t n = 1;
	int rc = pool_delta_open(pool, &spec, &delta, err);

	while (!rc && n > 0) {
		rc = pool_delta_next(delta, batch, BATCH, &n, err);
		for (size_t i = 0; i < n && !rc; i++)
			backup_changed_bitmap_add(marks, &batch[i]);
	}
	return rc;
}

/* Marks what changed in the volume since the snapshot. */
static int restore_base_since(struct pool *pool, const char *volume, const char *snapshot_id,
			      struct changed_bitmap **ret, struct cairn_err *err)
{
	cairn_cleanup(backup_changed_bitmap_freep) struct changed_bitmap *marks = NULL;
	char name[48] = "cairn-restore-";
	struct pool_snapshot_spec spec = {.volume = volume, .name = name};
	struct pool_snapshot made;
	int rc = cairn_random_hex(name + strlen(name), 8, err);

	if (!rc)
		rc = pool_snapshot_create(pool, &spec, 1, &made, err);
	if (rc)
		return rc;
	rc = pool_snapshot_complete(pool, made.id, NULL, err);
	if (!rc)
		rc = backup_changed_bitmap_new(made.size, &marks, err);
	if (!rc)
		rc = restore_base_draw(pool, snapshot_id, made.id, marks, err);
	(void)pool_snapshot_delete(pool, made.id, NULL);
	if (!rc)
		*ret = cairn_take(marks);
	return rc;
}

int backup_restore_base_by_volume(struct repo *repo, struct pool *pool, const char *volume,
				  struct zeros *zeros, struct held *ret, struct cairn_err *err)
{
	cairn_cleanup(repo_snapshot_list_done) struct repo_snapshot_list list = {0};
	struct pool_snapshot_list_spec of = {.volume = volume, .with_deleted = true};
	struct search search = {.list = &list};
	int rc = repo_snapshot_list(repo, &list, err);

	if (!rc)
		rc = pool_snapshot_list(pool, &of, restore_base_match, &search, err);
	if (rc || !search.found)
		return rc;
	/* If the changes are unknown, everything is restored: slower, but
	 * correct. A pool that was copied assigns the same ids as its copy. */
	if (restore_base_since(pool, volume, search.snapshot_id, &ret->changed, NULL) ||
	    backup_image_open(repo, search.found, NULL, zeros, &ret->image, NULL) ||
	    ret->image.metadata.snapshot_time_ns != search.created_ns) {
		backup_restore_base_done(ret);
		return 0;
	}
	ret->known = true;
	return 0;
}
