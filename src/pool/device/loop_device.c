/* SPDX-License-Identifier: Apache-2.0 */

#include "pool/device/loop_device.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/loop.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/num.h"
#include "pool/device/mounts.h"

#define BACKING_PATH_MAX 4096U
#define POLL_FIRST_MS    1U
#define POLL_MAX_MS      50U

/* "loop" and a number without a leading zero that makes two names of one. */
static bool is_loop_name(const char *name)
{
	uint64_t n;

	return strncmp(name, "loop", 4) == 0 && strlen(name) <= 4 + 10 &&
	       cairn_parse_u64(name + 4, &n, NULL) == 0;
}

static bool same_file(const struct loop_info64 *info, const struct stat *file)
{
	return info->lo_device == file->st_dev && info->lo_inode == file->st_ino;
}

int pool_loop_open(const char *device, const struct stat *file, int flags, int *ret_fd,
		   struct cairn_err *err)
{
	cairn_auto_fd int fd = -1;
	struct loop_info64 info;

	fd = open(device, flags | O_CLOEXEC);
	if (fd < 0)
		return cairn_err_sys(err, errno, "open '%s'", device);
	if (ioctl(fd, LOOP_GET_STATUS64, &info) < 0)
		return cairn_err_sys(err, errno, "status of '%s'", device);
	if (!same_file(&info, file))
		return cairn_err_set(err, CAIRN_NOT_FOUND, "'%s' has another backing file", device);
	*ret_fd = cairn_take_fd(&fd);
	return 0;
}

/* sysfs shows every user the path of the backing file at the time of attaching.
 * Returns 1 if that is the file, 0 if not, or a negative errno. */
static int sysfs_says_same(const char *name, const struct stat *file)
{
	char text[BACKING_PATH_MAX];
	cairn_auto_fd int fd = -1;
	struct stat st;
	ssize_t len;

	snprintf(text, sizeof(text), "/sys/block/%s/loop/backing_file", name);
	fd = open(text, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return errno == ENOENT || errno == ENODEV || errno == EACCES ? 0 : -errno;
	len = read(fd, text, sizeof(text) - 1);
	if (len <= 0)
		return 0; /* detached just now */
	if (text[len - 1] == '\n')
		len--;
	text[len] = '\0';
	return stat(text, &st) == 0 && st.st_dev == file->st_dev && st.st_ino == file->st_ino;
}

/* 1 if the device's backing file is the file, 0 if not, or a negative errno: an
 * overlooked device would not be flushed. */
static int loop_device_belongs(const char *name, const struct stat *file, struct loop_device *ret)
{
	char path[DEVICE_PATH_MAX];
	struct loop_info64 info = {0};
	cairn_auto_fd int fd = -1;
	int same;

	snprintf(path, sizeof(path), "/dev/%.20s", name);
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (fd >= 0 && ioctl(fd, LOOP_GET_STATUS64, &info) == 0)
		same = same_file(&info, file);
	else if (fd >= 0 && errno == ENXIO)
		same = 0; /* not attached */
	else
		same = sysfs_says_same(name, file);
	if (same != 1)
		return same;
	memcpy(ret->path, path, sizeof(ret->path));
	ret->flags = info.lo_flags;
	return 1;
}

static void loop_device_closedirp(DIR **dir)
{
	if (*dir)
		closedir(*dir);
}

/* False for a device that sysfs shows without backing file. */
static bool loop_device_may_be_attached(const char *name)
{
	char path[64];

	snprintf(path, sizeof(path), "/sys/block/%.20s/loop", name);
	return access(path, F_OK) == 0 || access("/sys/block", F_OK) < 0;
}

int pool_loop_find_all(const struct stat *file,
		       int (*fn)(void *arg, const struct loop_device *device,
				 struct cairn_err *err),
		       void *arg, struct cairn_err *err)
{
	cairn_cleanup(loop_device_closedirp) DIR *dir = NULL;
	const struct dirent *entry;
	int rc = 0;

	dir = opendir("/sys/block");
	if (!dir)
		dir = opendir("/dev");
	if (!dir)
		return cairn_err_sys(err, errno, "list block devices in /sys or /dev");
	while (rc == 0 && (entry = readdir(dir))) {
		struct loop_device found = {.path = ""};
		int same = 0;

		if (is_loop_name(entry->d_name) && loop_device_may_be_attached(entry->d_name))
			same = loop_device_belongs(entry->d_name, file, &found);
		if (same < 0)
			return cairn_err_sys(err, -same, "look at the loop devices");
		if (same)
			rc = fn(arg, &found, err);
	}
	return rc > 0 ? 0 : rc;
}

/* Paths are as this process sees them. */
static bool loop_device_is_below(const char *name, const char *dir)
{
	cairn_auto_fd int fd = -1;
	char path[64];
	char file[BACKING_PATH_MAX];
	ssize_t n;

	snprintf(path, sizeof(path), "/sys/block/%.20s/loop/backing_file", name);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	n = fd < 0 ? 0 : read(fd, file, sizeof(file));
	return n > (ssize_t)strlen(dir) && strncmp(file, dir, strlen(dir)) == 0 &&
	       file[strlen(dir)] == '/';
}

bool pool_loop_any_below(const char *dir)
{
	cairn_cleanup(loop_device_closedirp) DIR *devices = opendir("/sys/block");
	const struct dirent *entry;

	while (devices && (entry = readdir(devices)))
		if (is_loop_name(entry->d_name) && loop_device_is_below(entry->d_name, dir))
			return true;
	return !devices;
}

static int prefer_writable(void *arg, const struct loop_device *device, struct cairn_err *err)
{
	struct loop_device *best = arg;

	(void)err;
	*best = *device;
	return !(device->flags & LO_FLAGS_READ_ONLY);
}

int pool_loop_find(const struct stat *file, struct loop_device *ret, struct cairn_err *err)
{
	struct loop_device best = {.path = ""};
	int rc = pool_loop_find_all(file, prefer_writable, &best, err);

	if (!rc)
		*ret = best;
	return rc;
}

bool pool_loop_wait_gone(const char *device, const struct stat *file, uint64_t wait_ms)
{
	uint64_t deadline = cairn_monotonic_ns() + wait_ms * CAIRN_NS_PER_MS;
	struct loop_device now;

	for (uint64_t pause = POLL_FIRST_MS;; pause = pause < POLL_MAX_MS ? pause * 2 : pause) {
		if (loop_device_belongs(device + strlen("/dev/"), file, &now) == 0)
			return true;
		if (cairn_monotonic_ns() >= deadline)
			return false;
		cairn_sleep_ms(pause);
	}
}

/* '0' or '1'; 0 when the device has no backing file. */
static char autoclear_attribute(dev_t device)
{
	cairn_auto_fd int fd = -1;
	char path[64];
	char value = 0;

	snprintf(path, sizeof(path), "/sys/dev/block/%u:%u/loop/autoclear", major(device),
		 minor(device));
	fd = open(path, O_RDONLY | O_CLOEXEC);
	return fd >= 0 && read(fd, &value, 1) == 1 ? value : 0;
}

bool pool_loop_wait_released(dev_t device, uint64_t wait_ms)
{
	uint64_t deadline = cairn_monotonic_ns() + wait_ms * CAIRN_NS_PER_MS;

	for (uint64_t pause = POLL_FIRST_MS;; pause = pause < POLL_MAX_MS ? pause * 2 : pause) {
		char autoclear = autoclear_attribute(device);

		if (!autoclear)
			return true;
		if (autoclear != '1' || cairn_monotonic_ns() >= deadline)
			return false;
		cairn_sleep_ms(pause);
	}
}

/* LOOP_CLR_FD on a device that is open elsewhere only marks it to be detached
 * with the last close. This removes that mark. */
static void keep_after_all(const char *device, const struct stat *file)
{
	struct loop_info64 info;
	cairn_auto_fd int fd = -1;

	if (pool_loop_open(device, file, O_RDONLY, &fd, NULL) < 0)
		return;
	if (ioctl(fd, LOOP_GET_STATUS64, &info) < 0)
		return;
	info.lo_flags &= ~(uint32_t)LO_FLAGS_AUTOCLEAR;
	(void)ioctl(fd, LOOP_SET_STATUS64, &info);
}

/* An error counts as "mounted": the caller then fails at once instead of waiting. */
static bool loop_device_is_mounted(const char *device)
{
	cairn_auto_free char *mount = NULL;
	struct stat st;

	return stat(device, &st) < 0 || pool_mounts_find_device(st.st_rdev, &mount, NULL) < 0 ||
	       mount;
}

/* Opens exclusively, so that the device cannot be mounted between the check and the
 * ioctl. After umount(2) the kernel may hold the device until a walk over all
 * filesystems, such as sync(2) of another process, has released it: EBUSY is
 * transient unless it is mounted. */
static int open_exclusively(const char *device, const struct stat *file, int *ret_fd,
			    struct cairn_err *err)
{
	uint64_t deadline = cairn_monotonic_ns() + LOOP_DETACH_WAIT_MS * CAIRN_NS_PER_MS;

	for (uint64_t pause = POLL_FIRST_MS;; pause = pause < POLL_MAX_MS ? pause * 2 : pause) {
		struct cairn_err why = {0};
		int rc = pool_loop_open(device, file, O_RDONLY | O_EXCL, ret_fd, &why);

		if (rc == 0 || why.sys_errno != EBUSY)
			return rc ? cairn_err_set(err, rc, "%s", why.msg) : 0;
		if (loop_device_is_mounted(device) || cairn_monotonic_ns() >= deadline)
			return cairn_err_set(err, CAIRN_PRECONDITION,
					     "'%s' is mounted or in use; unmount it first", device);
		cairn_sleep_ms(pause);
	}
}

int pool_loop_detach(const char *device, const struct stat *file, struct cairn_err *err)
{
	struct loop_info64 before = {0};
	struct cairn_err why = {0};
	cairn_auto_fd int fd = -1;
	int rc = open_exclusively(device, file, &fd, &why);

	if (rc == CAIRN_NOT_FOUND)
		return 0;
	if (rc < 0)
		return cairn_err_set(err, rc, "%s", why.msg);
	if (ioctl(fd, LOOP_GET_STATUS64, &before) < 0 || ioctl(fd, LOOP_CLR_FD, 0) < 0) {
		if (errno == ENXIO)
			return 0;
		return cairn_err_sys(err, errno, "detach '%s'", device);
	}
	close(cairn_take_fd(&fd));
	if (pool_loop_wait_gone(device, file, LOOP_DETACH_WAIT_MS))
		return 0;
	if (!(before.lo_flags & LO_FLAGS_AUTOCLEAR))
		keep_after_all(device, file);
	return cairn_err_set(err, CAIRN_PRECONDITION, "'%s' is open in another program", device);
}

/* A rollback replaces the file while others wait for its lock. */
static bool is_replaced(int fd, const char *file)
{
	struct stat held;
	struct stat named;

	return fstat(fd, &held) == 0 && lstat(file, &named) == 0 &&
	       (held.st_ino != named.st_ino || held.st_dev != named.st_dev);
}

static int lock_opened(const char *file, uint64_t deadline, int *ret_fd, struct cairn_err *err)
{
	uint64_t pause = POLL_FIRST_MS;
	cairn_auto_fd int fd = -1;

	fd = open(file, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW);
	if (fd < 0)
		return cairn_err_sys(err, errno, "open '%s'", file);
	while (flock(fd, LOCK_EX | LOCK_NB) < 0) {
		if (errno == EINTR)
			continue;
		if (errno != EWOULDBLOCK)
			return cairn_err_sys(err, errno, "lock '%s'", file);
		if (cairn_monotonic_ns() >= deadline)
			return cairn_err_set(err, CAIRN_ABORTED,
					     "'%s' is being attached or written by another process",
					     file);
		cairn_sleep_ms(pause);
		pause = pause < POLL_MAX_MS ? pause * 2 : pause;
	}
	*ret_fd = cairn_take_fd(&fd);
	return 0;
}

int pool_loop_lock(const char *file, int *ret_fd, struct cairn_err *err)
{
	uint64_t deadline = cairn_monotonic_ns() + LOOP_LOCK_WAIT_MS * CAIRN_NS_PER_MS;

	for (;;) {
		cairn_auto_fd int fd = -1;
		int rc = lock_opened(file, deadline, &fd, err);

		if (rc)
			return rc;
		if (!is_replaced(fd, file)) {
			*ret_fd = cairn_take_fd(&fd);
			return 0;
		}
	}
}
