/* SPDX-License-Identifier: Apache-2.0 */

#include "pool/copy/copy.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>

#include "base/err.h"
#include "pool/copy/sparse.h"
#include "pool/fileset.h"

static int copy_snapshot_cut(struct store *store, const char *volume_id, const char *snapshot_id,
			     struct cairn_err *err)
{
	struct fileset *set = (struct fileset *)store;
	struct store_ref ref = {STORE_SNAPSHOT, snapshot_id};
	cairn_auto_fd int from = -1;
	cairn_auto_fd int to = -1;
	int rc = fileset_no_snapshot(set, snapshot_id, err);

	rc = rc ? rc
		: fileset_open_disk(set, (struct store_ref){STORE_VOLUME, volume_id}, O_RDONLY,
				    &from, err);
	rc = rc ? rc : fileset_build(set, ref, &to, err);
	if (rc)
		return rc;
	rc = sparse_copy_still(from, to, err);
	if (rc == 0 && fchmod(to, 0400) < 0)
		rc = cairn_err_sys(err, errno, "protect snapshot '%s'", snapshot_id);
	rc = rc ? rc : fileset_finish(set, ref, to, err);
	if (rc)
		fileset_abandon(set, ref);
	return rc;
}

static int copy_volume_clone(struct store *store, const char *id, const char *snapshot_id,
			     uint64_t size, struct cairn_err *err)
{
	struct fileset *set = (struct fileset *)store;
	struct store_ref ref = {STORE_VOLUME, id};
	cairn_auto_fd int from = -1;
	cairn_auto_fd int to = -1;
	uint64_t have = 0;
	bool exists = false;
	int rc = fileset_existing_volume(set, id, size, &exists, err);

	if (rc || exists)
		return rc ? rc : fileset_settle(set, ref, err);
	rc = fileset_open_disk(set, (struct store_ref){STORE_SNAPSHOT, snapshot_id}, O_RDONLY,
			       &from, err);
	rc = rc ? rc : fileset_fd_size(from, &have, err);
	if (rc == 0 && size < have)
		rc = cairn_err_set(err, CAIRN_RANGE, "the clone is smaller than the snapshot");
	rc = rc ? rc : fileset_build(set, ref, &to, err);
	if (rc)
		return rc;
	rc = sparse_copy(from, to, have, err);
	rc = rc ? rc : fileset_grow(to, size, err);
	rc = rc ? rc : fileset_finish(set, ref, to, err);
	if (rc)
		fileset_abandon(set, ref);
	return rc;
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
	.remove = fileset_remove,
	.snapshot_cut = copy_snapshot_cut,
	.delta = copy_delta,
	.allocated = fileset_allocated_seek,
	.size = fileset_size,
	.usage = fileset_usage,
	.list = fileset_list,
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
