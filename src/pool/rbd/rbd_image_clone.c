/* SPDX-License-Identifier: Apache-2.0 */

#include "pool/rbd/rbd_image.h"

#include <stdio.h>

#include "base/err.h"
#include "pool/rbd/rbd_cluster.h"

static int clone_image(struct rbd_cluster *cluster, struct rbd_image_handle *parent,
		       const char *snapshot_id, const char *name, struct cairn_err *err)
{
	const struct rbd_api *api = rbd_cluster_api(cluster);
	rados_ioctx_t io = rbd_cluster_io(cluster);
	rbd_image_options_t options;
	int rc;

	api->rbd_image_options_create(&options);
	rc = api->rbd_image_options_set_uint64(options, RBD_IMAGE_OPTION_CLONE_FORMAT, 2);
	if (rc >= 0)
		rc = api->rbd_clone3(io, parent->name, snapshot_id, io, name, options);
	api->rbd_image_options_destroy(options);
	return rc < 0 ? rbd_api_err(err, rc, "clone '%s'", snapshot_id) : 0;
}

/* Cuts the clone to what belongs to the snapshot, marks the moment, and grows it. */
static int shape_clone(struct rbd_cluster *cluster, const char *name, const char *snapshot_id,
		       uint64_t length, uint64_t size, struct cairn_err *err)
{
	const struct rbd_api *api = rbd_cluster_api(cluster);
	struct rbd_image_handle handle = {0};
	char origin[RBD_IMAGE_NAME_MAX];
	uint64_t have = 0;
	int rc = rbd_image_open(cluster, name, true, &handle, err);

	if (rc)
		return rc;
	snprintf(origin, sizeof(origin), RBD_IMAGE_ORIGIN "%.64s", snapshot_id);
	rc = api->rbd_get_size(handle.image, &have);
	if (rc >= 0 && have > length)
		rc = api->rbd_resize(handle.image, length);
	if (rc >= 0)
		rc = api->rbd_snap_create(handle.image, origin);
	if (rc >= 0 && size > length)
		rc = api->rbd_resize(handle.image, size);
	rbd_image_done(&handle);
	if (rc < 0)
		return rbd_api_err(err, rc, "clone '%s'", snapshot_id);
	if (have < length)
		return cairn_err_set(
			err, CAIRN_DATA_LOSS, "snapshot '%s' has %llu bytes, its record says %llu",
			snapshot_id, (unsigned long long)have, (unsigned long long)length);
	return 0;
}

int rbd_image_clone(struct rbd_cluster *cluster, const char *name, const char *snapshot_id,
		    uint64_t length, uint64_t size, struct cairn_err *err)
{
	struct rbd_image_handle parent = {0};
	int rc = rbd_image_remove(cluster, name, err);

	if (rc > 0)
		return cairn_err_set(err, CAIRN_EXISTS, "image '%s' exists and has snapshots",
				     name);
	if (!rc)
		rc = rbd_image_open_ref(cluster, (struct store_ref){STORE_SNAPSHOT, snapshot_id},
					&parent, err);
	if (rc)
		return rc;
	rc = clone_image(cluster, &parent, snapshot_id, name, err);
	rbd_image_done(&parent);
	if (!rc)
		rc = shape_clone(cluster, name, snapshot_id, length, size, err);
	if (rc)
		(void)rbd_image_remove(cluster, name, NULL);
	return rc;
}
