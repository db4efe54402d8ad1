/* SPDX-License-Identifier: Apache-2.0 */

#include "pool/rbd/rbd_store.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/mem.h"
#include "pool/rbd/rbd_cluster.h"
#include "pool/rbd/rbd_diff.h"
#include "pool/rbd/rbd_image.h"
#include "pool/rbd/rbd_store_impl.h"
#include "pool/store/store.h"

#define FRESH ".new"

struct rbd_cluster *rbd_store_cluster(const struct store *store)
{
	return ((const struct rbd_store *)store)->cluster;
}

static void rbd_store_close(struct store *store)
{
	free(store);
}

static int rbd_store_volume_resize(struct store *store, const char *id, uint64_t size,
				   struct cairn_err *err)
{
	cairn_cleanup(rbd_image_done) struct rbd_image_handle handle = {0};
	uint64_t have = 0;
	int rc = rbd_image_open(rbd_store_cluster(store), id, true, &handle, err);

	if (rc)
		return rc;
	rc = handle.api->rbd_get_size(handle.image, &have);
	if (rc >= 0 && have > size)
		return cairn_err_set(err, CAIRN_RANGE, "image '%s' would shrink", id);
	if (rc >= 0 && have < size)
		rc = handle.api->rbd_resize(handle.image, size);
	return rc < 0 ? rbd_api_err(err, rc, "resize image '%s'", id) : 0;
}

static int rbd_store_volume_create(struct store *store, const char *id, uint64_t size,
				   struct cairn_err *err)
{
	struct rbd_cluster *cluster = rbd_store_cluster(store);
	const struct rbd_api *api = rbd_cluster_api(cluster);
	rbd_image_options_t options;
	int rc;

	api->rbd_image_options_create(&options);
	rc = api->rbd_image_options_set_uint64(options, RBD_IMAGE_OPTION_FEATURES,
					       RBD_STORE_FEATURES);
	if (rc >= 0)
		rc = api->rbd_create4(rbd_cluster_io(cluster), id, size, options);
	api->rbd_image_options_destroy(options);
	if (rc == -EEXIST) /* of an interrupted attempt */
		return rbd_store_volume_resize(store, id, size, err);
	return rc < 0 ? rbd_api_err(err, rc, "make image '%s'", id) : 0;
}

static int rbd_store_volume_clone(struct store *store, const char *id, const char *snapshot_id,
				  uint64_t length, uint64_t size, struct cairn_err *err)
{
	return rbd_image_clone(rbd_store_cluster(store), id, snapshot_id, length, size, err);
}

static void fresh_name(const char *id, char name[RBD_IMAGE_NAME_MAX])
{
	snprintf(name, RBD_IMAGE_NAME_MAX, "%.64s" FRESH, id);
}

int rbd_store_rename_image(struct rbd_cluster *cluster, const char *from, const char *to,
			   struct cairn_err *err)
{
	int rc = rbd_cluster_api(cluster)->rbd_rename(rbd_cluster_io(cluster), from, to);

	return rc < 0 ? rbd_api_err(err, rc, "rename image '%s' to '%s'", from, to) : 0;
}

/* The old image keeps its snapshots under a name of its own. A process that dies between
 * the two renames leaves the volume to volume_sweep, which does the second. */
static int rbd_store_volume_replace(struct store *store, const struct store_replacement *spec,
				    struct cairn_err *err)
{
	struct rbd_cluster *cluster = rbd_store_cluster(store);
	char fresh[RBD_IMAGE_NAME_MAX];
	int rc;

	fresh_name(spec->id, fresh);
	rc = rbd_image_clone(cluster, fresh, spec->snapshot_id, spec->length, spec->size, err);
	if (!rc && spec->ready)
		rc = spec->ready(spec->arg, NULL, err);
	if (rc) {
		(void)rbd_image_remove(cluster, fresh, NULL);
		return rc;
	}
	rc = rbd_image_retire(cluster, spec->id, err);
	return rc ? rc : rbd_store_rename_image(cluster, fresh, spec->id, err);
}

static int image_exists(struct rbd_cluster *cluster, const char *name, bool *ret,
			struct cairn_err *err)
{
	cairn_cleanup(rbd_image_done) struct rbd_image_handle handle = {0};
	int rc = rbd_image_open(cluster, name, false, &handle, err);

	*ret = rc == 0;
	return rc == CAIRN_NOT_FOUND ? 0 : rc;
}

static int rbd_store_volume_sweep(struct store *store, const char *id, struct cairn_err *err)
{
	struct rbd_cluster *cluster = rbd_store_cluster(store);
	char fresh[RBD_IMAGE_NAME_MAX];
	bool has_fresh = false, has_volume = false;
	int rc;

	fresh_name(id, fresh);
	rc = image_exists(cluster, fresh, &has_fresh, err);
	if (rc || !has_fresh)
		return rc;
	rc = image_exists(cluster, id, &has_volume, err);
	if (rc)
		return rc;
	if (!has_volume)
		return rbd_store_rename_image(cluster, fresh, id, err);
	rc = rbd_image_remove(cluster, fresh, err);
	return rc > 0 ? 0 : rc;
}

int rbd_store_remove_snapshot(struct rbd_cluster *cluster, const char *id, struct cairn_err *err)
{
	struct rbd_image_handle handle = {0};
	bool is_old;
	int rc = rbd_image_open_owner(cluster, id, &handle, err);

	if (rc)
		return rc == CAIRN_NOT_FOUND ? 0 : rc;
	rc = handle.api->rbd_snap_remove(handle.image, id);
	is_old = rbd_image_is_retired(handle.name);
	rbd_image_done(&handle);
	if (rc < 0 && rc != -ENOENT)
		return rbd_api_err(err, rc, "remove snapshot '%s'", id);
	rc = is_old ? rbd_image_remove(cluster, handle.name, err) : 0;
	return rc > 0 ? 0 : rc;
}

static int rbd_store_remove(struct store *store, struct store_ref ref, struct cairn_err *err)
{
	struct rbd_cluster *cluster = rbd_store_cluster(store);
	char fresh[RBD_IMAGE_NAME_MAX];
	int rc;

	if (ref.kind == STORE_SNAPSHOT)
		return rbd_store_remove_snapshot(cluster, ref.id, err);
	fresh_name(ref.id, fresh);
	rc = rbd_image_remove(cluster, fresh, err);
	if (rc >= 0)
		rc = rbd_image_remove(cluster, ref.id, err);
	return rc > 0 ? rbd_image_retire(cluster, ref.id, err) : rc;
}

static int rbd_store_snapshot_cut(struct store *store, const char *volume_id,
				  const char *snapshot_id, uint64_t size, struct cairn_err *err)
{
	cairn_cleanup(rbd_image_done) struct rbd_image_handle handle = {0};
	uint64_t have = 0;
	int rc = rbd_image_open(rbd_store_cluster(store), volume_id, true, &handle, err);

	if (rc)
		return rc;
	rc = handle.api->rbd_get_size(handle.image, &have);
	if (rc >= 0 && have < size)
		return cairn_err_set(err, CAIRN_DATA_LOSS, "image '%s' is shorter than its record",
				     volume_id);
	if (rc >= 0)
		rc = handle.api->rbd_snap_create(handle.image, snapshot_id);
	return rc < 0 ? rbd_api_err(err, rc, "cut snapshot '%s'", snapshot_id) : 0;
}

static int rbd_store_delta(struct store *store, const char *base_id, const char *target_id,
			   struct block_sink sink, const struct store_progress *progress,
			   struct store_delta_stats *ret_stats, struct cairn_err *err)
{
	return rbd_diff_snapshots(rbd_store_cluster(store), base_id, target_id, sink, progress,
				  ret_stats, err);
}

struct page {
	struct block_extent *out;
	size_t n, max;
	uint64_t start;
};

/* CAIRN_RANGE ends the walk when the page is full. */
static int page_add(void *arg, const struct block_extent *extent, struct cairn_err *err)
{
	struct page *page = arg;
	uint64_t start = extent->offset > page->start ? extent->offset : page->start;
	uint64_t end = block_extent_end(extent);

	if (start >= end || extent->zero)
		return 0;
	if (page->n == page->max)
		return cairn_err_set(err, CAIRN_RANGE, "the page is full");
	page->out[page->n++] = (struct block_extent){.offset = start, .length = end - start};
	return 0;
}

static int rbd_store_allocated(struct store *store, struct store_ref ref, uint64_t start,
			       struct block_extent *out, size_t max, size_t *ret_n,
			       struct cairn_err *err)
{
	cairn_cleanup(rbd_image_done) struct rbd_image_handle handle = {0};
	struct page page = {.out = out, .max = max, .start = start};
	int rc = rbd_image_open_ref(rbd_store_cluster(store), ref, &handle, err);

	if (rc)
		return rc;
	rc = rbd_diff_walk(&handle, NULL, start,
			   (struct block_sink){.emit = page_add, .arg = &page}, NULL, err);
	if (rc && !(rc == CAIRN_RANGE && page.n == max))
		return rc;
	*ret_n = page.n;
	return 0;
}

static int rbd_store_size(struct store *store, struct store_ref ref, uint64_t *ret_size,
			  struct cairn_err *err)
{
	cairn_cleanup(rbd_image_done) struct rbd_image_handle handle = {0};
	int rc;

	if (ref.kind == STORE_VOLUME)
		return rbd_image_size(rbd_store_cluster(store), ref.id, ret_size, err);
	rc = rbd_image_open_ref(rbd_store_cluster(store), ref, &handle, err);
	if (rc)
		return rc;
	rc = handle.api->rbd_get_size(handle.image, ret_size);
	return rc < 0 ? rbd_api_err(err, rc, "size of '%s'", ref.id) : 0;
}

static int rbd_store_used(struct store *store, struct store_ref ref, uint64_t *ret,
			  struct cairn_err *err)
{
	cairn_cleanup(rbd_image_done) struct rbd_image_handle handle = {0};
	int rc = rbd_image_open_ref(rbd_store_cluster(store), ref, &handle, err);

	return rc ? rc : rbd_diff_used(&handle, ret, err);
}

static int rbd_store_usage(struct store *store, struct store_usage *ret, struct cairn_err *err)
{
	struct rbd_cluster *cluster = rbd_store_cluster(store);
	struct rados_cluster_stat_t stat;
	int rc = rbd_cluster_api(cluster)->rados_cluster_stat(rbd_cluster_rados(cluster), &stat);

	if (rc < 0)
		return rbd_api_err(err, rc, "space of the cluster");
	*ret = (struct store_usage){.total_bytes = stat.kb * 1024,
				    .free_bytes = stat.kb_avail * 1024};
	return 0;
}

static const struct store_ops rbd_store_ops = {
	.name = "rbd",
	.close = rbd_store_close,
	.volume_create = rbd_store_volume_create,
	.volume_clone = rbd_store_volume_clone,
	.volume_resize = rbd_store_volume_resize,
	.volume_replace = rbd_store_volume_replace,
	.volume_sweep = rbd_store_volume_sweep,
	.remove = rbd_store_remove,
	.snapshot_cut = rbd_store_snapshot_cut,
	.delta = rbd_store_delta,
	.allocated = rbd_store_allocated,
	.size = rbd_store_size,
	.usage = rbd_store_usage,
	.list = rbd_store_list,
	.set_aside = rbd_store_set_aside,
	.bring_back = rbd_store_bring_back,
	.drop_aside = rbd_store_drop_aside,
	.list_aside = rbd_store_list_aside,
	.reader_open = rbd_store_reader_open,
	.volume_adopt = rbd_store_volume_adopt,
	.volume_disown = rbd_store_volume_disown,
	.used = rbd_store_used,
	.cut_is_atomic = true,
};

int rbd_store_open(struct rbd_cluster *cluster, bool writable, struct store **ret,
		   struct cairn_err *err)
{
	struct rbd_store *store = cairn_calloc(1, sizeof(*store));

	if (!store)
		return cairn_err_nomem(err, "pool");
	store->base.ops = &rbd_store_ops;
	store->base.writable = writable;
	store->cluster = cluster;
	*ret = &store->base;
	return 0;
}
