/* SPDX-License-Identifier: Apache-2.0 */

/* Node.NodeStageVolume and NodeUnstageVolume: attaches the device and mounts its
 * filesystem once for the whole node. */

#include "csi/node.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/log.h"
#include "csi/capability.h"
#include "csi/filesystem.h"
#include "csi/publish_target.h"
#include "csi/published.h"
#include "csi/staging.h"
#include "csi_node.pb-c.h"
#include "pool/device/mounts.h"
#include "pool/device/volume_device.h"

static bool device_is_read_only(const char *device)
{
	cairn_auto_fd int fd = open(device, O_RDONLY | O_CLOEXEC);
	int read_only = 0;

	return fd >= 0 && ioctl(fd, BLKROGET, &read_only) == 0 && read_only;
}

static int attach_either(struct pool *pool, const char *volume_id, bool read_only, char *ret_device,
			 size_t n, struct cairn_err *err)
{
	const char *other_way = read_only ? "for writing" : "read-only";
	int rc = pool_volume_attach(pool, volume_id, read_only, ret_device, n, err);
	struct csi_targets targets;

	/* A device attached read-only cannot be used for writing. */
	if (rc && rc != CAIRN_PRECONDITION)
		return rc;
	if (rc == 0 && device_is_read_only(ret_device) == read_only)
		return 0;
	/* A published device may not be open, but a pod knows it by its device number. */
	rc = csi_targets_get(pool, volume_id, "", &targets, err);
	if (!rc && targets.others > 0)
		rc = cairn_err_set(err, CAIRN_PRECONDITION, "volume '%s' is published %s",
				   volume_id, other_way);
	if (rc)
		return rc;
	rc = pool_volume_detach(pool, volume_id, err);
	if (rc)
		return cairn_err_wrap(err, "volume '%s' is in use %s", volume_id, other_way);
	return pool_volume_attach(pool, volume_id, read_only, ret_device, n, err);
}

int csi_node_attach(struct pool *pool, const char *volume_id, bool read_only, char *ret_device,
		    size_t n, struct cairn_err *err)
{
	int rc = attach_either(pool, volume_id, read_only, ret_device, n, err);

	if (!rc)
		cairn_log(CAIRN_LOG_INFO, "volume attached", CAIRN_STR("volume", volume_id),
			  CAIRN_STR("device", ret_device),
			  CAIRN_STR("kind", pool_device_kind(pool, ret_device)));
	return rc;
}

int csi_node_read_only(struct pool *pool, const char *volume_id,
		       const Csi__V1__VolumeCapability *capability, bool *ret,
		       struct cairn_err *err)
{
	struct csi_publication publication;
	int rc = csi_published_get(pool, volume_id, &publication, err);

	*ret = *ret || csi_capability_is_read_only(capability) || (!rc && publication.read_only);
	return rc;
}

int csi_node_is_mounted(const char *device, const char *path, bool *ret, struct cairn_err *err)
{
	struct stat st;
	dev_t source;
	int rc = pool_mounts_source_of(path, &source, err);

	*ret = rc == 0 && stat(device, &st) == 0 && source == st.st_rdev;
	return rc;
}

int csi_node_check_raw(const char *volume_id, const char *device, const char *staging,
		       struct cairn_err *err)
{
	bool mounted;
	int rc = csi_node_is_mounted(device, staging, &mounted, err);

	if (!rc && mounted)
		rc = cairn_err_set(err, CAIRN_EXISTS, "volume '%s' is staged as a filesystem",
				   volume_id);
	return rc;
}

static int stage_device(struct pool *pool, const char *id, const char *staging, bool read_only,
			struct cairn_err *err)
{
	char device[DEVICE_PATH_MAX];
	int rc = pool_volume_device(pool, id, device, sizeof(device), err);

	if (!rc && device[0])
		rc = csi_node_check_raw(id, device, staging, err);
	return rc ? rc : csi_node_attach(pool, id, read_only, device, sizeof(device), err);
}

/* Compares an existing mount with the request. Read-only is taken from the mount, because
 * a filesystem may turn read-only by itself after errors. */
static int check_staged(const struct csi_mount_spec *spec, const struct mounts_at *at,
			struct cairn_err *err)
{
	bool wants_read_only = spec->read_only;

	for (size_t i = 0; i < spec->n_flags; i++)
		wants_read_only = wants_read_only || strcmp(spec->flags[i], "ro") == 0;
	if (at->read_only != wants_read_only)
		return cairn_err_set(err, CAIRN_EXISTS, "the volume is staged there %s",
				     at->read_only ? "read-only" : "for writing");
	if (spec->fs_matters && strcmp(at->fs_type, spec->fs) != 0)
		return cairn_err_set(err, CAIRN_EXISTS, "the volume is staged there with %s",
				     at->fs_type);
	return 0;
}

static int begin_staging(struct pool *pool, const char *id, const struct csi_mount_spec *spec,
			 struct cairn_err *err)
{
	int rc = 0;

	if (mkdir(spec->path, 0750) < 0 && errno != EEXIST)
		return csi_path_error(err, errno, "make", spec->path);
	if (!spec->read_only)
		rc = csi_staging_begin(pool, id, err);
	if (!rc)
		rc = csi_filesystem_mount(spec, err);
	return rc ? rc : csi_staging_end(pool, id, err);
}

/* A mount that a crash left behind may not have been grown: stage it again. */
static int finish_staging(struct pool *pool, const char *id, const struct csi_mount_spec *spec,
			  size_t published, struct cairn_err *err)
{
	bool open;
	int rc = csi_staging_is_open(pool, id, &open, err);

	if (rc || !open)
		return rc;
	if (published > 0) {
		rc = csi_filesystem_grow(spec->device, spec->path, err);
		return rc ? rc : csi_staging_end(pool, id, err);
	}
	rc = csi_unmount(spec->path, err);
	return rc ? rc : begin_staging(pool, id, spec, err);
}

static int stage_filesystem(struct pool *pool, const char *id, const struct csi_mount_spec *asked,
			    struct cairn_err *err)
{
	char device[DEVICE_PATH_MAX];
	struct csi_mount_spec spec = *asked;
	struct csi_targets targets;
	struct mounts_at at;
	struct stat st;
	/* Do not create a filesystem on a device that a pod may be writing to. */
	int rc = csi_targets_get(pool, id, "", &targets, err);

	if (!rc && targets.devices)
		rc = cairn_err_set(err, CAIRN_EXISTS, "volume '%s' is published as a device", id);
	/* A read-only filesystem is mounted from a writable device: its log may have to be
	 * replayed. */
	if (!rc)
		rc = csi_node_attach(pool, id, false, device, sizeof(device), err);
	if (!rc)
		rc = pool_mounts_look(spec.path, &at, err);
	if (rc)
		return rc;
	spec.device = device;
	if (!at.mounted || stat(device, &st) < 0 || at.source != st.st_rdev)
		return begin_staging(pool, id, &spec, err);
	rc = check_staged(&spec, &at, err);
	return rc ? rc : finish_staging(pool, id, &spec, targets.others, err);
}

static int node_stage_stage(struct pool *pool, const Csi__V1__NodeStageVolumeRequest *r,
			    const char *id, struct cairn_err *err)
{
	const Csi__V1__VolumeCapability *capability = r->volume_capability;
	bool read_only = false;
	int rc = csi_node_read_only(pool, id, capability, &read_only, err);

	if (rc)
		return rc;
	if (csi_capability_is_block(capability))
		return stage_device(pool, id, r->staging_target_path, read_only, err);
	struct csi_mount_spec spec = {
		.path = r->staging_target_path,
		.fs = csi_capability_fs(capability),
		.fs_matters = csi_capability_names_fs(capability),
		.read_only = read_only,
		.flags = capability->mount->mount_flags,
		.n_flags = capability->mount->n_mount_flags,
	};

	return stage_filesystem(pool, id, &spec, err);
}

CSI_METHOD(csi_node_stage)
{
	const Csi__V1__NodeStageVolumeRequest *r = request;
	Csi__V1__NodeStageVolumeResponse response;
	csi_auto_turn struct csi_op_lock turn = {0};
	struct pool_volume volume;
	struct pool *pool;
	int rc = csi_require_path(r->staging_target_path, "the staging target path", err);

	if (!rc)
		rc = csi_capability_check(r->volume_capability, err);
	if (!rc)
		rc = csi_take_volume(driver, r->volume_id, &turn, &pool, &volume, err);
	if (!rc)
		rc = node_stage_stage(pool, r, volume.id, err);
	csi__v1__node_stage_volume_response__init(&response);
	return rc ? rc : csi_reply(reply, &response.base, err);
}

/* Unmounts the volume, and leaves any other mount at the path alone. */
static int node_stage_unstage(struct pool *pool, const char *id, const char *path,
			      struct cairn_err *err)
{
	char device[DEVICE_PATH_MAX];
	struct csi_targets targets;
	bool mounted = false;
	bool ours = false;
	int rc = csi_targets_get(pool, id, "", &targets, err);

	if (!rc && targets.others > 0)
		rc = cairn_err_set(err, CAIRN_PRECONDITION, "volume '%s' is still published", id);
	if (!rc)
		rc = pool_volume_device(pool, id, device, sizeof(device), err);
	if (!rc)
		rc = pool_mounts_is_mount_point(path, &mounted, err);
	if (!rc && mounted && device[0])
		rc = csi_node_is_mounted(device, path, &ours, err);
	if (!rc && mounted && !ours)
		rc = cairn_err_set(err, CAIRN_PRECONDITION, "what is mounted at '%s' is not '%s'",
				   path, id);
	if (!rc && mounted)
		rc = csi_unmount(path, err);
	if (!rc)
		rc = csi_staging_end(pool, id, err);
	return rc ? rc : pool_volume_detach(pool, id, err);
}

CSI_METHOD(csi_node_unstage)
{
	const Csi__V1__NodeUnstageVolumeRequest *r = request;
	Csi__V1__NodeUnstageVolumeResponse response;
	csi_auto_turn struct csi_op_lock turn = {0};
	struct pool_volume volume;
	struct pool *pool;
	int rc = csi_require_path(r->staging_target_path, "the staging target path", err);

	if (!rc)
		rc = csi_take_volume(driver, r->volume_id, &turn, &pool, &volume, err);
	if (!rc)
		rc = node_stage_unstage(pool, volume.id, r->staging_target_path, err);
	csi__v1__node_unstage_volume_response__init(&response);
	return rc ? rc : csi_reply(reply, &response.base, err);
}
