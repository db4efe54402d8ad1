/* SPDX-License-Identifier: Apache-2.0 */

#include "pool/device/volume_device.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <linux/loop.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/mem.h"
#include "pool/device/loop_device.h"
#include "pool/device/mounts.h"

#define LIMIT_TRIES   100U
#define LIMIT_WAIT_MS 10U

#define GROW_WAIT_MS 10000U
#define GROW_POLL_MS 20U

static int stat_file(const char *path, struct stat *ret, struct cairn_err *err)
{
	if (stat(path, ret) < 0)
		return cairn_err_sys(err, errno, "stat '%s'", path);
	if (!S_ISREG(ret->st_mode))
		return cairn_err_set(err, CAIRN_INVALID, "'%s' is not a regular file", path);
	return 0;
}

int pool_device_find(const char *path, char ret_device[DEVICE_PATH_MAX], struct cairn_err *err)
{
	struct loop_device found = {.path = ""};
	struct stat file;
	int rc = stat_file(path, &file, err);

	if (rc == 0)
		rc = pool_loop_find(&file, &found, err);
	if (rc == 0)
		memcpy(ret_device, found.path, sizeof(found.path));
	return rc;
}

/* Whether the existing device of a file can be used. */
static int volume_device_reuse(const struct loop_device *found, bool read_only,
			       struct cairn_err *err)
{
	if (!read_only && (found->flags & LO_FLAGS_READ_ONLY))
		return cairn_err_set(err, CAIRN_PRECONDITION,
				     "already attached read-only as '%s'; detach it first",
				     found->path);
	return 0;
}

int pool_device_attach_locked(const char *path, bool read_only, uint64_t size,
			      char ret_device[DEVICE_PATH_MAX], struct cairn_err *err)
{
	struct loop_spec spec = {.file = path, .read_only = read_only, .size = size};
	struct loop_device device = {.path = ""};
	cairn_auto_fd int fd = -1;
	struct stat file;
	int rc = stat_file(path, &file, err);

	if (rc == 0)
		rc = pool_loop_find(&file, &device, err);
	if (rc < 0)
		return rc;
	rc = device.path[0] ? volume_device_reuse(&device, read_only, err)
			    : pool_loop_attach(&spec, &device, &fd, err);
	if (rc == 0)
		memcpy(ret_device, device.path, sizeof(device.path));
	return rc;
}

int pool_device_attach(const char *path, bool read_only, char ret_device[DEVICE_PATH_MAX],
		       struct cairn_err *err)
{
	cairn_auto_fd int lock = -1;
	struct stat file;
	int rc = stat_file(path, &file, err);

	if (rc == 0)
		rc = pool_loop_lock(path, &lock, err);
	return rc ? rc : pool_device_attach_locked(path, read_only, 0, ret_device, err);
}

int pool_device_detach_locked(const char *path, struct cairn_err *err)
{
	struct stat file;
	int rc = stat_file(path, &file, err);

	/* A file may have several devices, if another program attached it too. */
	while (rc == 0) {
		struct loop_device device = {.path = ""};

		rc = pool_loop_find(&file, &device, err);
		if (rc == 0 && !device.path[0])
			return 0;
		if (rc == 0)
			rc = pool_loop_detach(device.path, &file, err);
	}
	return rc;
}

int pool_device_detach(const char *path, struct cairn_err *err)
{
	cairn_auto_fd int lock = -1;
	struct stat file;
	int rc = stat_file(path, &file, err);

	if (rc == 0)
		rc = pool_loop_lock(path, &lock, err);
	return rc ? rc : pool_device_detach_locked(path, err);
}

static int volume_device_list_add(void *arg, const struct loop_device *device,
				  struct cairn_err *err)
{
	struct device_list *list = arg;
	struct device_one *grown = cairn_realloc_array(list->list, list->n + 1, sizeof(*grown));
	struct device_one *one;

	if (!grown)
		return cairn_err_nomem(err, "devices");
	list->list = grown;
	one = &grown[list->n++];
	*one = (struct device_one){.read_only = device->flags & LO_FLAGS_READ_ONLY};
	memcpy(one->path, device->path, sizeof(one->path));
	return pool_device_mount_point(one->path, &one->mount, err);
}

int pool_device_list_get(const char *path, struct device_list *ret, struct cairn_err *err)
{
	struct device_list list = {0};
	struct stat file;
	int rc = stat_file(path, &file, err);

	if (rc == 0)
		rc = pool_loop_find_all(&file, volume_device_list_add, &list, err);
	if (rc == 0)
		*ret = list;
	else
		pool_device_list_done(&list);
	return rc;
}

void pool_device_list_done(struct device_list *list)
{
	for (size_t i = 0; i < list->n; i++)
		free(list->list[i].mount);
	free(list->list);
	*list = (struct device_list){0};
}

/* The kernel returns EAGAIN while pages of the device are being written. */
static int set_limit(int fd, uint64_t size)
{
	struct loop_info64 info;
	int rc = ioctl(fd, LOOP_GET_STATUS64, &info);

	info.lo_sizelimit = size;
	for (unsigned i = 0; rc == 0 && i < LIMIT_TRIES; i++) {
		rc = ioctl(fd, LOOP_SET_STATUS64, &info);
		if (rc == 0 || errno != EAGAIN)
			break;
		rc = 0;
		cairn_sleep_ms(LIMIT_WAIT_MS);
	}
	return rc;
}

/* The client of a network store must learn the new size. */
static int await_size(int fd, const char *device, uint64_t size, struct cairn_err *err)
{
	uint64_t deadline = cairn_monotonic_ns() + GROW_WAIT_MS * CAIRN_NS_PER_MS;
	uint64_t have = 0;

	for (;;) {
		if (ioctl(fd, BLKGETSIZE64, &have) < 0)
			return cairn_err_sys(err, errno, "size of '%s'", device);
		if (have >= size)
			return 0;
		if (cairn_monotonic_ns() > deadline)
			return cairn_err_set(err, CAIRN_UNAVAILABLE, "'%s' has not grown yet",
					     device);
		cairn_sleep_ms(GROW_POLL_MS);
	}
}

int pool_device_is_read_only(const char *device, bool *ret, struct cairn_err *err)
{
	cairn_auto_fd int fd = open(device, O_RDONLY | O_CLOEXEC);
	int read_only = 0;

	if (fd < 0 || ioctl(fd, BLKROGET, &read_only) < 0) {
		int rc = cairn_err_sys(err, errno, "open '%s'", device);

		/* The volume is there; callers take CAIRN_NOT_FOUND for a missing one. */
		return rc == CAIRN_NOT_FOUND ? cairn_err_recode(err, CAIRN_UNAVAILABLE) : rc;
	}
	*ret = read_only != 0;
	return 0;
}

/* Without a limit the device takes its file's size, which may be larger. */
int pool_device_refresh_size(const char *device, uint64_t size, struct cairn_err *err)
{
	cairn_auto_fd int fd = open(device, O_RDONLY | O_CLOEXEC);
	struct loop_info64 info;
	uint64_t have = 0;

	if (fd < 0)
		return cairn_err_sys(err, errno, "open '%s'", device);
	if (strncmp(device, "/dev/loop", 9) != 0)
		return await_size(fd, device, size, err);
	if (ioctl(fd, LOOP_GET_STATUS64, &info) < 0 || ioctl(fd, BLKGETSIZE64, &have) < 0)
		return cairn_err_sys(err, errno, "size of '%s'", device);
	if (have >= size)
		return 0;
	if (info.lo_sizelimit == 0 && ioctl(fd, LOOP_SET_CAPACITY, 0) < 0)
		return cairn_err_sys(err, errno, "new size of '%s'", device);
	if (ioctl(fd, BLKGETSIZE64, &have) < 0)
		return cairn_err_sys(err, errno, "size of '%s'", device);
	if (have != size && set_limit(fd, size) < 0)
		return cairn_err_sys(err, errno, "new size of '%s'", device);
	return 0;
}

int pool_device_flush(const char *device, struct cairn_err *err)
{
	cairn_auto_fd int fd = open(device, O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return cairn_err_sys(err, errno, "open '%s'", device);
	if (fsync(fd) < 0)
		return cairn_err_sys(err, errno, "flush '%s'", device);
	return 0;
}

int pool_device_mount_point(const char *device, char **ret_mount, struct cairn_err *err)
{
	struct stat st;

	if (stat(device, &st) < 0)
		return cairn_err_sys(err, errno, "stat '%s'", device);
	if (!S_ISBLK(st.st_mode))
		return cairn_err_set(err, CAIRN_INVALID, "'%s' is not a block device", device);
	return pool_mounts_find_device(st.st_rdev, ret_mount, err);
}
