/* SPDX-License-Identifier: Apache-2.0 */

/* Node.NodeGetVolumeStats and NodeExpandVolume. */

#include "csi/node.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#include "base/err.h"
#include "csi/capability.h"
#include "csi/csi_controller.h"
#include "csi/filesystem.h"
#include "csi/reply.h"
#include "csi/size.h"
#include "csi_node.pb-c.h"
#include "pool/device/mounts.h"
#include "pool/device/volume_device.h"

struct place {
	char device[DEVICE_PATH_MAX];
	bool block;   /* the path is the device itself */
	int dead;     /* errno of a filesystem that no longer answers, or 0 */
	bool stopped; /* it no longer accepts writes */
	bool read_only;
};

/* Finds how the volume is mounted at the path; CAIRN_NOT_FOUND if it is not. */
static int node_volume_find_place(struct pool *pool, const char *id, const char *path,
				  struct place *ret, struct cairn_err *err)
{
	struct stat at = {0};
	struct stat device = {0};
	struct mounts_at mount = {0};
	int rc;

	*ret = (struct place){.block = false};
	rc = pool_volume_device(pool, id, ret->device, sizeof(ret->device), err);
	if (rc)
		return rc;
	if (stat(path, &at) < 0)
		ret->dead = errno;
	ret->block = !ret->dead && S_ISBLK(at.st_mode);
	if (ret->block)
		mount.source = at.st_rdev;
	else if (pool_mounts_look(path, &mount, NULL) != 0)
		mount.source = 0; /* also for an invalid path */
	/* A volume is never published at a relative path. */
	if (path[0] != '/' || !ret->device[0] || stat(ret->device, &device) < 0 ||
	    mount.source != device.st_rdev)
		return cairn_err_set(err, CAIRN_NOT_FOUND, "volume '%s' is not at '%s'", id, path);
	ret->read_only = mount.read_only;
	ret->stopped = mount.stopped;
	return 0;
}

static void fill_usage(Csi__V1__VolumeUsage *usage, uint64_t total, uint64_t available,
		       uint64_t used, Csi__V1__VolumeUsage__Unit unit)
{
	csi__v1__volume_usage__init(usage);
	usage->total = (int64_t)total;
	usage->available = (int64_t)available;
	usage->used = (int64_t)used;
	usage->unit = unit;
}

/* Reports how the kernel reacted to a damaged filesystem. */
static void node_volume_tell_damage(const struct place *place, struct pool_condition *condition)
{
	if (condition->abnormal || (!place->dead && !place->stopped))
		return;
	condition->abnormal = true;
	if (place->dead)
		snprintf(condition->reason, sizeof(condition->reason),
			 "the filesystem has shut down: %s", strerrordesc_np(place->dead));
	else
		snprintf(condition->reason, sizeof(condition->reason),
			 "the filesystem takes no writes any more, after errors");
}

static int fill_stats(const struct pool_volume *volume, struct place *place, const char *path,
		      struct pool_condition *condition, Csi__V1__VolumeUsage usages[2],
		      size_t *ret_n, struct cairn_err *err)
{
	struct statvfs fs;

	if (place->block) {
		fill_usage(&usages[0], volume->size, 0, 0, CSI__V1__VOLUME_USAGE__UNIT__BYTES);
		*ret_n = 1;
		return 0;
	}
	if (!place->dead && statvfs(path, &fs) < 0) {
		if (errno != EIO && errno != ESTALE)
			return cairn_err_sys(err, errno, "statvfs '%s'", path);
		place->dead = errno;
	}
	node_volume_tell_damage(place, condition);
	if (place->dead) {
		*ret_n = 0;
		return 0;
	}
	fill_usage(&usages[0], fs.f_blocks * fs.f_frsize, fs.f_bavail * fs.f_frsize,
		   (fs.f_blocks - fs.f_bfree) * fs.f_frsize, CSI__V1__VOLUME_USAGE__UNIT__BYTES);
	fill_usage(&usages[1], fs.f_files, fs.f_favail, fs.f_files - fs.f_ffree,
		   CSI__V1__VOLUME_USAGE__UNIT__INODES);
	*ret_n = 2;
	return 0;
}

CSI_METHOD(csi_node_stats)
{
	const Csi__V1__NodeGetVolumeStatsRequest *r = request;
	Csi__V1__NodeGetVolumeStatsResponse response;
	Csi__V1__VolumeCondition condition;
	struct pool_condition known;
	Csi__V1__VolumeUsage usages[2];
	Csi__V1__VolumeUsage *list[] = {&usages[0], &usages[1]};
	struct pool_volume volume;
	struct place place;
	struct pool *pool;
	int rc = csi_require(r->volume_id, "the volume id", err);

	if (!rc)
		rc = csi_require(r->volume_path, "the volume path", err);
	if (!rc)
		rc = csi_find_volume(driver, r->volume_id, &pool, &volume, err);
	if (!rc)
		rc = node_volume_find_place(pool, volume.id, r->volume_path, &place, err);
	csi__v1__node_get_volume_stats_response__init(&response);
	if (!rc)
		rc = pool_volume_health(pool, volume.id, &known, err);
	if (!rc)
		rc = fill_stats(&volume, &place, r->volume_path, &known, usages, &response.n_usage,
				err);
	if (rc)
		return rc;
	csi_condition_fill(&condition, &known);
	response.usage = list;
	response.volume_condition = &condition;
	return csi_reply(reply, &response.base, err);
}

/* Makes the volume as large as the range wants it, if that is this service's task. */
static int node_volume_grow(const struct csi_driver *driver, struct pool *pool,
			    const Csi__V1__CapacityRange *wanted, struct pool_volume *volume,
			    struct cairn_err *err)
{
	struct csi_size_range range;
	int rc = csi_size_range(wanted, &range, err);

	if (rc || range.least <= volume->size)
		return rc;
	if (driver->node_expansion)
		return csi_volume_grow(pool, &range, volume, err);
	return cairn_err_set(err, CAIRN_RANGE,
			     "the volume has %llu bytes; the controller must grow it first",
			     (unsigned long long)volume->size);
}

CSI_METHOD(csi_node_expand)
{
	const Csi__V1__NodeExpandVolumeRequest *r = request;
	Csi__V1__NodeExpandVolumeResponse response;
	csi_auto_turn struct csi_op_lock turn = {0};
	struct pool_volume volume;
	struct place place;
	struct pool *pool;
	int rc = csi_require(r->volume_id, "the volume id", err);

	if (!rc) /* the size must not change between reading it and growing the device */
		rc = csi_take_volume(driver, r->volume_id, &turn, &pool, &volume, err);
	if (!rc)
		rc = csi_require(r->volume_path, "the volume path", err);
	if (!rc)
		rc = node_volume_find_place(pool, volume.id, r->volume_path, &place, err);
	if (!rc && !place.block && place.read_only)
		rc = cairn_err_set(err, CAIRN_PRECONDITION,
				   "the filesystem is mounted read-only and cannot grow");
	if (!rc && r->capacity_range)
		rc = node_volume_grow(driver, pool, r->capacity_range, &volume, err);
	if (!rc)
		rc = pool_device_refresh_size(place.device, volume.size, err);
	if (!rc && !place.block)
		rc = csi_filesystem_grow(place.device, r->volume_path, err);
	if (rc)
		return rc;
	csi__v1__node_expand_volume_response__init(&response);
	response.capacity_bytes = (int64_t)volume.size;
	return csi_reply(reply, &response.base, err);
}
