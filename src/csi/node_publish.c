/* SPDX-License-Identifier: Apache-2.0 */

/* Node.NodePublishVolume and NodeUnpublishVolume: mounts the volume at a pod's path. */

#include "csi/node.h"

#include "base/err.h"
#include "csi/capability.h"
#include "csi/filesystem.h"
#include "csi/publish_target.h"
#include "csi_node.pb-c.h"
#include "pool/device/mounts.h"
#include "pool/device/volume_device.h"

/* A read-only block volume needs a read-only device: a read-only bind mount of a writable
 * device node does not prevent writes. */
static int publish_block(struct pool *pool, const char *id, const char *staging, const char *path,
			 bool read_only, struct cairn_err *err)
{
	char device[DEVICE_PATH_MAX];
	int rc = pool_volume_device(pool, id, device, sizeof(device), err);

	if (!rc && !device[0])
		rc = cairn_err_set(err, CAIRN_PRECONDITION, "volume '%s' is not staged", id);
	if (!rc)
		rc = csi_node_check_raw(id, device, staging, err);
	if (!rc)
		rc = csi_node_attach(pool, id, read_only, device, sizeof(device), err);
	return rc ? rc : csi_bind_mount(device, path, false, err);
}

static int publish_mount(struct pool *pool, const char *id, const char *staging, const char *path,
			 bool read_only, struct cairn_err *err)
{
	char device[DEVICE_PATH_MAX];
	bool staged = false;
	int rc = pool_volume_device(pool, id, device, sizeof(device), err);

	if (!rc && device[0])
		rc = csi_node_is_mounted(device, staging, &staged, err);
	if (!rc && !staged)
		rc = cairn_err_set(err, CAIRN_PRECONDITION, "volume '%s' is not staged at '%s'", id,
				   staging);
	return rc ? rc : csi_bind_mount(staging, path, read_only, err);
}

/* The note is written first, so that a mount without a note is known to be foreign. */
static int publish_new(struct pool *pool, const char *id,
		       const Csi__V1__NodePublishVolumeRequest *r, bool read_only,
		       struct cairn_err *err)
{
	struct cairn_err ignored;
	int rc = csi_target_add(pool, id, r->target_path, read_only, err);

	if (rc)
		return rc;
	rc = csi_capability_is_block(r->volume_capability)
		     ? publish_block(pool, id, r->staging_target_path, r->target_path, read_only,
				     err)
		     : publish_mount(pool, id, r->staging_target_path, r->target_path, read_only,
				     err);
	if (rc)
		(void)csi_target_remove(pool, id, r->target_path, &ignored);
	return rc;
}

static int node_publish_publish(struct pool *pool, const char *id,
				const Csi__V1__NodePublishVolumeRequest *r, struct cairn_err *err)
{
	bool read_only = r->readonly;
	struct csi_targets targets;
	int rc;

	if (!r->staging_target_path[0])
		return cairn_err_set(err, CAIRN_PRECONDITION, "the staging target path is missing");
	rc = csi_node_read_only(pool, id, r->volume_capability, &read_only, err);
	if (!rc)
		rc = csi_targets_get(pool, id, r->target_path, &targets, err);
	if (rc)
		return rc;
	if (targets.this_one && targets.this_read_only != read_only)
		return cairn_err_set(err, CAIRN_EXISTS, "the volume is published there %s",
				     targets.this_read_only ? "read-only" : "for writing");
	if (targets.this_one &&
	    targets.this_device != csi_capability_is_block(r->volume_capability))
		return cairn_err_set(err, CAIRN_EXISTS, "the volume is published there as a %s",
				     targets.this_device ? "device" : "filesystem");
	/* Repeats the last step, which a crash may have prevented. */
	if (targets.this_one && read_only && !targets.this_device)
		return csi_make_read_only(r->target_path, err);
	if (targets.this_one)
		return 0;
	if (targets.foreign)
		return cairn_err_set(err, CAIRN_PRECONDITION, "something else is mounted at '%s'",
				     r->target_path);
	if (targets.others > 0 && csi_capability_is_single_writer(r->volume_capability))
		return cairn_err_set(err, CAIRN_PRECONDITION,
				     "the volume has its single writer elsewhere");
	return publish_new(pool, id, r, read_only, err);
}

CSI_METHOD(csi_node_publish)
{
	const Csi__V1__NodePublishVolumeRequest *r = request;
	Csi__V1__NodePublishVolumeResponse response;
	csi_auto_turn struct csi_op_lock turn = {0};
	struct pool_volume volume;
	struct pool *pool;
	int rc = csi_require_path(r->target_path, "the target path", err);

	if (!rc)
		rc = csi_capability_check(r->volume_capability, err);
	if (!rc)
		rc = csi_take_volume(driver, r->volume_id, &turn, &pool, &volume, err);
	if (!rc)
		rc = node_publish_publish(pool, volume.id, r, err);
	csi__v1__node_publish_volume_response__init(&response);
	return rc ? rc : csi_reply(reply, &response.base, err);
}

static int node_publish_unpublish(struct pool *pool, const char *id, const char *path,
				  struct cairn_err *err)
{
	struct csi_targets targets;
	int rc = csi_targets_get(pool, id, path, &targets, err);

	if (!rc && targets.foreign)
		rc = cairn_err_set(err, CAIRN_PRECONDITION, "what is mounted at '%s' is not '%s'",
				   path, id);
	if (!rc)
		rc = csi_unmount_and_remove(path, err);
	return rc ? rc : csi_target_remove(pool, id, path, err);
}

CSI_METHOD(csi_node_unpublish)
{
	const Csi__V1__NodeUnpublishVolumeRequest *r = request;
	Csi__V1__NodeUnpublishVolumeResponse response;
	csi_auto_turn struct csi_op_lock turn = {0};
	struct pool_volume volume;
	struct pool *pool;
	int rc = csi_require_path(r->target_path, "the target path", err);

	if (!rc)
		rc = csi_take_volume(driver, r->volume_id, &turn, &pool, &volume, err);
	if (!rc)
		rc = node_publish_unpublish(pool, volume.id, r->target_path, err);
	csi__v1__node_unpublish_volume_response__init(&response);
	return rc ? rc : csi_reply(reply, &response.base, err);
}
