/* SPDX-License-Identifier: Apache-2.0 */

/* Images that the namespace held before the pool did: from ceph-csi, a VM, or `rbd create`. */

#include <errno.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "pool/rbd/rbd_cluster.h"
#include "pool/rbd/rbd_image.h"
#include "pool/rbd/rbd_store_impl.h"

#define NEEDED (RBD_FEATURE_EXCLUSIVE_LOCK | RBD_FEATURE_OBJECT_MAP | RBD_FEATURE_FAST_DIFF)

static int refuse_clients(struct rbd_image_handle *handle, struct cairn_err *err)
{
	rbd_image_watcher_t watchers[2];
	size_t n = 2;
	int rc = handle->api->rbd_watchers_list(handle->image, watchers, &n);

	if (rc == 0 && n > 0)
		handle->api->rbd_watchers_list_cleanup(watchers, n);
	if (rc == -ERANGE || (rc == 0 && n > 0))
		return cairn_err_set(err, CAIRN_PRECONDITION,
				     "the image is open for writing; unmap it first");
	return rc < 0 ? rbd_api_err(err, rc, "clients of the image") : 0;
}

static int refuse_snapshots(struct rbd_image_handle *handle, struct cairn_err *err)
{
	size_t n = 0;
	int rc = rbd_image_count_snapshots(handle, &n, err);

	if (!rc && n > 0)
		return cairn_err_set(err, CAIRN_PRECONDITION,
				     "the image has %zu snapshots, which the pool would not know; "
				     "remove them first",
				     n);
	return rc;
}

static int adopt_look(struct rbd_cluster *cluster, const char *image, struct cairn_err *err)
{
	cairn_cleanup(rbd_image_done) struct rbd_image_handle handle = {0};
	int rc = rbd_image_open(cluster, image, false, &handle, err);

	if (!rc)
		rc = refuse_clients(&handle, err);
	return rc ? rc : refuse_snapshots(&handle, err);
}

static int ignore_progress(uint64_t done, uint64_t total, void *arg)
{
	(void)done;
	(void)total;
	(void)arg;
	return 0;
}

/* Without an object map each snapshot would have to look at every object; one that was just
 * switched on does not know yet what exists. */
static int add_features(struct rbd_image_handle *handle, struct cairn_err *err)
{
	uint64_t features = 0;
	int rc = handle->api->rbd_get_features(handle->image, &features);

	if (rc >= 0 && (features & NEEDED) != NEEDED) {
		rc = handle->api->rbd_update_features(handle->image, NEEDED & ~features, 1);
		if (rc >= 0)
			rc = handle->api->rbd_rebuild_object_map(handle->image, ignore_progress,
								 NULL);
	}
	return rc < 0 ? rbd_api_err(err, rc, "features of the image") : 0;
}

static int adopt_shape(struct rbd_cluster *cluster, const char *image, uint64_t *ret_size,
		       struct cairn_err *err)
{
	cairn_cleanup(rbd_image_done) struct rbd_image_handle handle = {0};
	int rc = rbd_image_open(cluster, image, true, &handle, err);

	if (!rc)
		rc = add_features(&handle, err);
	if (rc)
		return rc;
	rc = handle.api->rbd_get_size(handle.image, ret_size);
	return rc < 0 ? rbd_api_err(err, rc, "size of the image") : 0;
}

int rbd_store_volume_adopt(struct store *store, const char *id, const char *image,
			   uint64_t *ret_size, struct cairn_err *err)
{
	struct rbd_cluster *cluster = rbd_store_cluster(store);
	int rc;

	if (strlen(image) >= RBD_IMAGE_NAME_MAX || rbd_image_is_ours(image))
		return cairn_err_set(err, CAIRN_INVALID,
				     "not the name of an image outside the pool");
	rc = adopt_look(cluster, image, err);
	if (!rc)
		rc = adopt_shape(cluster, image, ret_size, err);
	return rc ? rc : rbd_store_rename_image(cluster, image, id, err);
}

int rbd_store_volume_disown(struct store *store, const char *id, const char *image,
			    struct cairn_err *err)
{
	return rbd_store_rename_image(rbd_store_cluster(store), id, image, err);
}
