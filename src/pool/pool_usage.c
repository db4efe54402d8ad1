/* SPDX-License-Identifier: Apache-2.0 */

/* Space used by volumes and snapshots, and their devices and mounts. */

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
#include "pool/device/open_files.h"
#include "pool/device/volume_device.h"
#include "pool/pool.h"
#include "pool/pool_impl.h"
#include "pool/snapshot_temporary.h"
#include "pool/store/store.h"

#define BATCH 512U

/* Paths of the backing files of all loop devices: thousands of them. */
#define BACKING_FILES_MAX (16UL << 20)

static int pool_usage_path_of(struct pool *pool, const char *volume_or_snapshot,
			      char id[POOL_ID_MAX + 1], char **ret, struct cairn_err *err)
{
	struct record_volume volume;
	struct record_snapshot snapshot;
	int rc = pool_impl_find_live_volume(pool, volume_or_snapshot, &volume, id, err);

	if (rc == 0)
		return pool_store_path(pool->store, (struct store_ref){STORE_VOLUME, id}, ret, err);
	if (rc != CAIRN_NOT_FOUND)
		return rc;
	rc = pool_impl_find_live_snapshot(pool, volume_or_snapshot, &snapshot, err);
	if (rc)
		return rc;
	pool_ids_format_snapshot(snapshot.volume, snapshot.number, id);
	return pool_store_path(pool->store, (struct store_ref){STORE_SNAPSHOT, id}, ret, err);
}

static int pool_usage_open_file(const char *path, int *ret_fd, struct stat *ret_st,
				struct cairn_err *err)
{
	cairn_auto_fd int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);

	if (fd < 0 || fstat(fd, ret_st) < 0)
		return cairn_err_sys(err, errno, "open '%s'", path);
	*ret_fd = cairn_take_fd(&fd);
	return 0;
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

static int look_at_devices(const char *path, struct pool_usage *ret, struct cairn_err *err)
{
	cairn_cleanup(pool_device_list_done) struct device_list devices = {0};
	int rc = pool_device_list_get(path, &devices, err);

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
	cairn_auto_free char *path = NULL;
	cairn_auto_fd int fd = -1;
	struct pool_usage usage = {0};
	char id[POOL_ID_MAX + 1];
	struct stat st;
	int rc = pool_usage_path_of(pool, volume_or_snapshot, id, &path, err);

	if (!rc)
		rc = pool_usage_open_file(path, &fd, &st, err);
	if (!rc && pool_usage_may_be_attached(attached, id))
		rc = look_at_devices(path, &usage, err);
	if (rc)
		return rc;
	usage.used_bytes = (uint64_t)st.st_blocks * 512;
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
	cairn_auto_free char *path = NULL;
	cairn_auto_fd int fd = -1;
	char id[POOL_ID_MAX + 1];
	struct stat st;
	int rc = pool_usage_path_of(pool, volume_or_snapshot, id, &path, err);

	if (!rc)
		rc = pool_usage_open_file(path, &fd, &st, err);
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
	cairn_auto_free char *path = NULL;
	char device[DEVICE_PATH_MAX] = "";
	struct pool_snapshot found;
	bool is_held = false;
	int rc = pool_snapshot_path(pool, snapshot, &path, err);

	if (!rc)
		rc = pool_device_find(path, device, err);
	if (!rc)
		rc = pool_snapshot_get(pool, snapshot, &found, err);
	if (!rc)
		rc = pool_temporary_is_held(pool, &found, &is_held, err);
	if (!rc)
		*ret = is_held || device[0] || pool_open_files_has_reader(path);
	return rc;
}
