/* SPDX-License-Identifier: Apache-2.0 */

#include "pool/copy/copy.h"

#include <fcntl.h>

#include "base/err.h"
#include "pool/copy/sparse.h"
#include "pool/store/fileset.h"

static int copy_snapshot_cut(struct store *store, const char *volume_id, const char *snapshot_id,
			     uint64_t size, struct cairn_err *err)
{
	return fileset_cut((struct fileset *)store, volume_id, snapshot_id, size, sparse_copy_still,
			   err);
}

static int copy_whole(int from, int to, struct cairn_err *err)
{
	uint64_t size = 0;
	int rc = fileset_fd_size(from, &size, err);

	return rc ? rc : sparse_copy(from, to, size, err);
}

static int copy_volume_clone(struct store *store, const char *id, const char *snapshot_id,
			     uint64_t length, uint64_t size, struct cairn_err *err)
{
	return fileset_clone((struct fileset *)store, id, snapshot_id, length, size, copy_whole,
			     err);
}

static int copy_volume_replace(struct store *store, const struct store_replacement *spec,
			       struct cairn_err *err)
{
	return fileset_replace((struct fileset *)store, spec, copy_whole, err);
}

static int copy_delta(struct store *store, const char *base_id, const char *target_id,
		      struct block_sink sink, const struct store_progress *progress,
		      struct store_delta_stats *ret_stats, struct cairn_err *err)
{
	struct fileset *set = (struct fileset *)store;
	cairn_auto_fd int base = -1;
	cairn_auto_fd int target = -1;
	int rc = fileset_open_disk(set, (struct store_ref){STORE_SNAPSHOT, base_id}, O_RDONLY,
				   &base, err);

	rc = rc ? rc
		: fileset_open_disk(set, (struct store_ref){STORE_SNAPSHOT, target_id}, O_RDONLY,
				    &target, err);
	ret_stats->method = "compare";
	return rc ? rc
		  : sparse_compare(base, target, sink, progress, &ret_stats->extents_walked, err);
}

static const struct store_ops ops = {
	.name = "copy",
	.close = fileset_store_close,
	.volume_create = fileset_volume_create,
	.volume_clone = copy_volume_clone,
	.volume_resize = fileset_volume_resize,
	.volume_replace = copy_volume_replace,
	.volume_sweep = fileset_volume_sweep,
	.remove = fileset_remove,
	.snapshot_cut = copy_snapshot_cut,
	.delta = copy_delta,
	.allocated = fileset_allocated_seek,
	.size = fileset_size,
	.usage = fileset_usage,
	.list = fileset_list,
	.set_aside = fileset_set_aside,
	.bring_back = fileset_bring_back,
	.drop_aside = fileset_drop_aside,
	.list_aside = fileset_list_aside,
	.reader_open = fileset_reader_open,
	.path = fileset_path,
	.cut_is_atomic = false,
};

int copy_store_open(const char *dir, bool writable, struct store **ret, struct cairn_err *err)
{
	struct fileset *set = NULL;
	int rc = fileset_new(&ops, dir, writable, &set, err);

	if (rc == 0)
		*ret = &set->store;
	return rc;
}
