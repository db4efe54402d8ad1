/* SPDX-License-Identifier: Apache-2.0 */

#include "pool/copy/copy.h"

#include <fcntl.h>

#include "base/err.h"
#include "pool/copy/sparse.h"
#include "pool/store/fileset.h"

static int copy_snapshot_cut(struct store *store, const char *volume_id, const char *snapshot_id,
			     uint64_t size, struct cairn_err *err)
{
	return pool_fileset_cut((struct fileset *)store, volume_id, snapshot_id, size,
				copy_sparse_copy_still, err);
}

static int copy_whole(int from, int to, struct cairn_err *err)
{
	uint64_t size = 0;
	int rc = pool_fileset_fd_size(from, &size, err);

	return rc ? rc : copy_sparse_copy(from, to, size, err);
}

static int copy_volume_clone(struct store *store, const char *id, const char *snapshot_id,
			     uint64_t length, uint64_t size, struct cairn_err *err)
{
	return pool_fileset_clone((struct fileset *)store, id, snapshot_id, length, size,
				  copy_whole, err);
}

static int copy_volume_replace(struct store *store, const struct store_replacement *spec,
			       struct cairn_err *err)
{
	return pool_fileset_replace((struct fileset *)store, spec, copy_whole, err);
}

static int copy_delta(struct store *store, const char *base_id, const char *target_id,
		      struct block_sink sink, const struct store_progress *progress,
		      struct store_delta_stats *ret_stats, struct cairn_err *err)
{
	struct fileset *set = (struct fileset *)store;
	cairn_auto_fd int base = -1;
	cairn_auto_fd int target = -1;
	int rc = pool_fileset_open_disk(set, (struct store_ref){STORE_SNAPSHOT, base_id}, O_RDONLY,
					&base, err);

	rc = rc ? rc
		: pool_fileset_open_disk(set, (struct store_ref){STORE_SNAPSHOT, target_id},
					 O_RDONLY, &target, err);
	ret_stats->method = "compare";
	return rc ? rc
		  : copy_sparse_compare(base, target, sink, progress, &ret_stats->extents_walked,
					err);
}

static const struct store_ops ops = {
	.name = "copy",
	.close = pool_fileset_store_close,
	.volume_create = pool_fileset_volume_create,
	.volume_clone = copy_volume_clone,
	.volume_resize = pool_fileset_volume_resize,
	.volume_replace = copy_volume_replace,
	.volume_sweep = pool_fileset_volume_sweep,
	.remove = pool_fileset_remove,
	.snapshot_cut = copy_snapshot_cut,
	.delta = copy_delta,
	.allocated = pool_fileset_allocated_seek,
	.size = pool_fileset_size,
	.usage = pool_fileset_usage,
	.list = pool_fileset_list,
	.set_aside = pool_fileset_set_aside,
	.bring_back = pool_fileset_bring_back,
	.drop_aside = pool_fileset_drop_aside,
	.list_aside = pool_fileset_list_aside,
	.reader_open = pool_fileset_reader_open,
	.path = pool_fileset_path,
	.cut_is_atomic = false,
};

int copy_store_open(const char *dir, bool writable, struct store **ret, struct cairn_err *err)
{
	struct fileset *set = NULL;
	int rc = pool_fileset_new(&ops, dir, writable, &set, err);

	if (rc == 0)
		*ret = &set->store;
	return rc;
}
