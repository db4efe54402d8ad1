/* SPDX-License-Identifier: Apache-2.0 */

/* Space used by volumes, snapshots and the pool, and their devices and mounts. */

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <linux/fiemap.h>
#include <linux/fs.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/mem.h"
#include "pool/catalogue/ids.h"
#include "pool/catalogue/records.h"
#include "pool/device/attacher.h"
#include "pool/pool.h"
#include "pool/pool_impl.h"
#include "pool/snapshot_temporary.h"
#include "pool/store/store.h"

#define BATCH 512U

/* Paths of the backing files of all loop devices: thousands of them. */
#define BACKING_FILES_MAX (16UL << 20)

/* `ret` refers to `id`. */
static int pool_usage_find(struct pool *pool, const char *volume_or_snapshot,
			   char id[POOL_ID_MAX + 1], struct store_ref *ret, struct cairn_err *err)
{
	struct record_volume volume;
	struct record_snapshot snapshot;
	int rc = pool_impl_find_live_volume(pool, volume_or_snapshot, &volume, id, err);

	*ret = (struct store_ref){STORE_VOLUME, id};
	if (rc != CAIRN_NOT_FOUND)
		return rc;
	rc = pool_impl_find_live_snapshot(pool, volume_or_snapshot, &snapshot, err);
	if (!rc)
		pool_ids_format_snapshot(snapshot.volume, snapshot.number, id);
	ret->kind = STORE_SNAPSHOT;
	return rc;
}

static int pool_usage_open_file(struct pool *pool, struct store_ref ref, int *ret_fd,
				struct stat *ret_st, struct cairn_err *err)
{
	cairn_auto_free char *path = NULL;
	cairn_auto_fd int fd = -1;
	int rc = pool_store_path(pool->store, ref, &path, err);

	if (rc)
		return rc;
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	if (fd < 0 || fstat(fd, ret_st) < 0)
		return cairn_err_sys(err, errno, "open '%s'", path);
	*ret_fd = cairn_take_fd(&fd);
	return 0;
}

/* Where a store has no files, it knows the space itself. */
static int used_bytes(struct pool *pool, struct store_ref ref, uint64_t *ret, struct cairn_err *err)
{
	cairn_auto_fd int fd = -1;
	struct stat st;
	int rc;

	if (pool->store->ops->used)
		return pool->store->ops->used(pool->store, ref, ret, err);
	rc = pool_usage_open_file(pool, ref, &fd, &st, err);
	if (!rc)
		*ret = (uint64_t)st.st_blocks * 512;
	return rc;
}

struct pool_attached {
	char *files; /* paths that loop devices have as backing files; NULL: not known */
};

void pool_attached_free(struct pool_attached *attached)
{
	if (attached)
		free(attached->files);
	free(attached);
}

/* The file of a volume or snapshot is below a directory with its id as name. */
static bool pool_usage_may_be_attached(const struct pool_attached *attached, const char *id)
{
	return !attached || !attached->files || strstr(attached->files, id);
}

static void add_backing_file(int sys_fd, const char *device, struct cairn_buf *files)
{
	char name[sizeof("/loop/backing_file") + 256];
	cairn_auto_fd int fd = -1;
	char text[4096];
	ssize_t n;

	snprintf(name, sizeof(name), "%s/loop/backing_file", device);
	fd = openat(sys_fd, name, O_RDONLY | O_CLOEXEC);
	n = fd < 0 ? 0 : read(fd, text, sizeof(text));
	if (n > 0)
		cairn_buf_add(files, text, (size_t)n);
}

int pool_attached_get(struct pool_attached **ret, struct cairn_err *err)
{
	struct pool_attached *attached = cairn_calloc(1, sizeof(*attached));
	cairn_auto_buf struct cairn_buf files = CAIRN_BUF_INIT(BACKING_FILES_MAX);
	DIR *dir = opendir("/sys/block");
	const struct dirent *entry;

	while (dir && (entry = readdir(dir)))
		if (strncmp(entry->d_name, "loop", 4) == 0)
			add_backing_file(dirfd(dir), entry->d_name, &files);
	if (attached && dir && !cairn_buf_failed(&files))
		attached->files =
			cairn_strndup(files.data ? (const char *)files.data : "", files.len);
	if (dir)
		closedir(dir);
	if (!attached)
		return cairn_err_nomem(err, "devices");
	*ret = attached;
	return 0;
}

static int look_at_devices(struct pool *pool, struct store_ref ref, struct pool_usage *ret,
			   struct cairn_err *err)
{
	cairn_cleanup(pool_device_list_done) struct device_list devices = {0};
	int rc = pool_attacher_list(pool->attacher, ref, &devices, err);

	if (!rc && devices.n > 0)
		ret->device_kind = pool_attacher_kind(pool->attacher, devices.list[0].path);
	for (size_t i = 0; i < devices.n && !rc; i++) {
		if (!ret->device[0])
			snprintf(ret->device, sizeof(ret->device), "%s", devices.list[i].path);
		if (!devices.list[i].mount || ret->mounted[0])
			continue;
		snprintf(ret->device, sizeof(ret->device), "%s", devices.list[i].path);
		snprintf(ret->mounted, sizeof(ret->mounted), "%s", devices.list[i].mount);
	}
	return rc;
}

int pool_usage_get(struct pool *pool, const char *volume_or_snapshot,
		   const struct pool_attached *attached, struct pool_usage *ret,
		   struct cairn_err *err)
{
	struct pool_usage usage = {0};
	char id[POOL_ID_MAX + 1];
	struct store_ref ref;
	int rc = pool_usage_find(pool, volume_or_snapshot, id, &ref, err);

	if (!rc)
		rc = used_bytes(pool, ref, &usage.used_bytes, err);
	if (!rc && (pool->attacher->ops->kind || pool_usage_may_be_attached(attached, id)))
		rc = look_at_devices(pool, ref, &usage, err);
	if (rc)
		return rc;
	*ret = usage;
	return 0;
}

/* The bytes of one batch of extents that nothing else refers to; *at is advanced past
 * it. */
static uint64_t count_exclusive(const struct fiemap *map, uint64_t *at, bool *ret_last)
{
	uint64_t bytes = 0;

	for (uint32_t i = 0; i < map->fm_mapped_extents; i++) {
		const struct fiemap_extent *extent = &map->fm_extents[i];

		*at = extent->fe_logical + extent->fe_length;
		*ret_last = extent->fe_flags & FIEMAP_EXTENT_LAST;
		if (!(extent->fe_flags & FIEMAP_EXTENT_SHARED))
			bytes += extent->fe_length;
	}
	return bytes;
}

static int walk_exclusive(int fd, uint64_t *ret, struct cairn_err *err)
{
	cairn_auto_free struct fiemap *map =
		cairn_calloc(1, sizeof(*map) + BATCH * sizeof(map->fm_extents[0]));
	uint64_t bytes = 0;
	uint64_t at = 0;
	bool last = false;

	if (!map)
		return cairn_err_nomem(err, "extent map");
	do {
		*map = (struct fiemap){.fm_start = at,
				       .fm_length = FIEMAP_MAX_OFFSET - at,
				       .fm_extent_count = BATCH};
		if (ioctl(fd, FS_IOC_FIEMAP, map) < 0 && errno != EINTR)
			return cairn_err_sys(err, errno, "extent map");
		bytes += count_exclusive(map, &at, &last);
	} while (map->fm_mapped_extents > 0 && !last);
	*ret = bytes;
	return 0;
}

int pool_exclusive_bytes(struct pool *pool, const char *volume_or_snapshot, uint64_t *ret,
			 struct cairn_err *err)
{
	cairn_auto_fd int fd = -1;
	char id[POOL_ID_MAX + 1];
	struct store_ref ref;
	struct stat st;
	int rc = pool_usage_find(pool, volume_or_snapshot, id, &ref, err);

	if (!rc)
		rc = pool_usage_open_file(pool, ref, &fd, &st, err);
	if (rc)
		return rc;
	/* Copies share nothing. */
	if (strcmp(pool_store_backend(pool->store), "copy") == 0) {
		*ret = (uint64_t)st.st_blocks * 512;
		return 0;
	}
	return walk_exclusive(fd, ret, err);
}

int pool_snapshot_in_use(struct pool *pool, const char *snapshot, bool *ret, struct cairn_err *err)
{
	char id[POOL_ID_MAX + 1], device[DEVICE_PATH_MAX] = "";
	struct store_ref ref = {STORE_SNAPSHOT, id};
	struct attacher_users users = {0};
	struct record_snapshot record;
	struct pool_snapshot found;
	bool is_held = false;
	int rc = pool_impl_find_live_snapshot(pool, snapshot, &record, err);

	if (rc)
		return rc;
	pool_ids_format_snapshot(record.volume, record.number, id);
	rc = pool_attacher_find(pool->attacher, ref, device, err);
	if (!rc)
		rc = pool_snapshot_get(pool, snapshot, &found, err);
	if (!rc)
		rc = pool_temporary_is_held(pool, &found, &is_held, err);
	if (!rc)
		rc = pool_attacher_users(pool->attacher, ref, &users, err);
	if (!rc)
		*ret = is_held || device[0] || users.reader;
	return rc;
}

/* ---- the pool as a whole -------------------------------------------------- */

static int pool_count_volume(void *arg, const struct record_volume *volume, struct cairn_err *err)
{
	struct pool_info *info = arg;

	(void)err;
	if (!volume->deleted)
		info->volumes++;
	return 0;
}

static int pool_count_snapshot(void *arg, const struct record_snapshot *snapshot,
			       struct cairn_err *err)
{
	struct pool_info *info = arg;

	(void)err;
	if (snapshot->deleted)
		info->tombstones++;
	else
		info->snapshots++;
	return 0;
}

int pool_info_get(struct pool *pool, struct pool_info *ret, struct cairn_err *err)
{
	struct pool_info info = {
		.backend = pool_store_backend(pool->store),
		.image = strcmp(pool->marker.image, "none") != 0,
		.read_only = pool->read_only_fs,
		.retention_ms = pool->marker.retention_ms,
		.granularity = pool->marker.granularity,
	};
	struct ledger_walk walk = {
		.volume = pool_count_volume, .snapshot = pool_count_snapshot, .arg = &info};
	struct pool_space space;
	int rc = pool_space_get(pool, &space, err);

	if (!rc)
		rc = pool_records_walk_volumes(pool->cat, &walk, err);
	if (!rc)
		rc = pool_records_walk_snapshots(pool->cat, &walk, err);
	if (rc)
		return rc;
	snprintf(info.dir, sizeof(info.dir), "%s", pool->dir);
	info.total_bytes = space.total_bytes;
	info.free_bytes = space.free_bytes;
	*ret = info;
	return 0;
}
