/* SPDX-License-Identifier: Apache-2.0 */

#include "pool/device.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/loop.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "pool/loop.h"
#include "pool/mounts.h"

static int stat_file(const char *path, struct stat *ret, struct cairn_err *err)
{
	if (stat(path, ret) < 0)
		return cairn_err_sys(err, errno, "stat '%s'", path);
	if (!S_ISREG(ret->st_mode))
		return cairn_err_set(err, CAIRN_INVALID, "'%s' is not a regular file", path);
	return 0;
}

int device_find(const char *path, char ret_device[DEVICE_PATH_MAX], struct cairn_err *err)
{
	struct loop_device found = {.path = ""};
	struct stat file;
	int rc = stat_file(path, &file, err);

	if (rc == 0)
		rc = loop_find(&file, &found, err);
	if (rc == 0)
		memcpy(ret_device, found.path, sizeof(found.path));
	return rc;
}

/* What a file that has a device already is good for. */
static int reuse(const struct loop_device *found, bool read_only, struct cairn_err *err)
{
	if (!read_only && (found->flags & LO_FLAGS_READ_ONLY))
		return cairn_err_set(err, CAIRN_PRECONDITION,
				     "already attached read-only as '%s'; detach it first",
				     found->path);
	return 0;
}

int device_attach(const char *path, bool read_only, char ret_device[DEVICE_PATH_MAX],
		  struct cairn_err *err)
{
	struct loop_spec spec = {.file = path, .read_only = read_only};
	struct loop_device device = {.path = ""};
	cairn_auto_fd int lock = -1;
	cairn_auto_fd int fd = -1;
	struct stat file;
	int rc = stat_file(path, &file, err);

	if (rc == 0)
		rc = loop_lock(path, &lock, err);
	if (rc == 0)
		rc = loop_find(&file, &device, err);
	if (rc < 0)
		return rc;
	rc = device.path[0] ? reuse(&device, read_only, err)
			    : loop_attach(&spec, &device, &fd, err);
	if (rc == 0)
		memcpy(ret_device, device.path, sizeof(device.path));
	return rc;
}

int device_detach(const char *path, struct cairn_err *err)
{
	cairn_auto_fd int lock = -1;
	struct stat file;
	int rc = stat_file(path, &file, err);

	if (rc == 0)
		rc = loop_lock(path, &lock, err);
	while (rc == 0) {
		struct loop_device device = {.path = ""};

		rc = loop_find(&file, &device, err);
		if (rc == 0 && !device.path[0])
			return 0;
		if (rc == 0)
			rc = loop_detach(device.path, &file, err);
	}
	return rc;
}

int device_refresh_size(const char *device, struct cairn_err *err)
{
	cairn_auto_fd int fd = open(device, O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return cairn_err_sys(err, errno, "open '%s'", device);
	if (ioctl(fd, LOOP_SET_CAPACITY, 0) < 0)
		return cairn_err_sys(err, errno, "new size of '%s'", device);
	return 0;
}

int device_flush(const char *device, struct cairn_err *err)
{
	cairn_auto_fd int fd = open(device, O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return cairn_err_sys(err, errno, "open '%s'", device);
	if (fsync(fd) < 0)
		return cairn_err_sys(err, errno, "flush '%s'", device);
	return 0;
}

int device_mount_point(const char *device, char **ret_mount, struct cairn_err *err)
{
	struct stat st;

	if (stat(device, &st) < 0)
		return cairn_err_sys(err, errno, "stat '%s'", device);
	if (!S_ISBLK(st.st_mode))
		return cairn_err_set(err, CAIRN_INVALID, "'%s' is not a block device", device);
	return mounts_find_device(st.st_rdev, ret_mount, err);
}
