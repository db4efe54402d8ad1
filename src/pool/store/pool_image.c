/* SPDX-License-Identifier: Apache-2.0 */

#include "pool/store/pool_image.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <linux/loop.h>
#include <linux/major.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/io.h"
#include "base/mem.h"
#include "base/num.h"
#include "base/process.h"
#include "pool/device/loop_device.h"
#include "pool/device/mounts.h"
#include "pool/device/volume_device.h"

/* Between finding a device and opening it, the device may disappear with its
 * last user. */
#define MOUNT_TRIES    8U
#define MOUNT_PAUSE_MS 20U

struct image_fs_kind {
	const char *name;
	const char *package; /* package that contains its mkfs */
	/* btrfs returns freed space to the host in the background; XFS would do it
	 * within each commit, which costs more than the space is worth. XFS refuses to
	 * mount a copy of a mounted image with EINVAL, as if it were damaged; the lock
	 * and the search for the file's device exclude a second mount of one file. */
	const char *options;
	const char *mkfs[4];
};

static const struct image_fs_kind kinds[] = {
	[IMAGE_BTRFS] = {"btrfs", "btrfs-progs", "discard=async", {"mkfs.btrfs", "-q", "-K"}},
	[IMAGE_XFS] = {"xfs", "xfsprogs", "nouuid", {"mkfs.xfs", "-q", "-K", "-mreflink=1"}},
};

/* Syncs the directory that holds `file`. */
static int pool_image_sync_parent(const char *file, struct cairn_err *err)
{
	cairn_auto_free char *copy = cairn_strdup(file);
	cairn_auto_fd int fd = -1;

	if (!copy)
		return cairn_err_nomem(err, "path");
	fd = open(dirname(copy), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return cairn_err_sys(err, errno, "open the directory of '%s'", file);
	return cairn_sync_dir(fd, file, err);
}

static int run_mkfs(const struct image_fs_kind *kind, const char *file, struct cairn_err *err)
{
	const char *argv[6] = {NULL};
	size_t n = 0;
	int rc;

	while (n < sizeof(kind->mkfs) / sizeof(kind->mkfs[0]) && kind->mkfs[n]) {
		argv[n] = kind->mkfs[n];
		n++;
	}
	argv[n] = file;
	rc = cairn_run(argv, err);
	if (rc == CAIRN_NOT_FOUND)
		return cairn_err_set(err, CAIRN_NOT_FOUND,
				     "'%s' is not installed; install the package %s", argv[0],
				     kind->package);
	return rc;
}

/* Makes the filesystem in the empty file and everything durable. */
static int pool_image_fill(int fd, const char *file, enum image_fs fs, uint64_t size,
			   struct cairn_err *err)
{
	int rc;

	if (ftruncate(fd, (off_t)size) < 0)
		return cairn_err_sys(err, errno, "size of '%s'", file);
	rc = run_mkfs(&kinds[fs], file, err);
	if (rc < 0)
		return rc;
	if (fsync(fd) < 0)
		return cairn_err_sys(err, errno, "sync '%s'", file);
	return pool_image_sync_parent(file, err);
}

int pool_image_make(const char *file, enum image_fs fs, uint64_t size, struct cairn_err *err)
{
	char least[CAIRN_SIZE_TEXT_MAX];
	cairn_auto_fd int fd = -1;
	int rc;

	if (size < IMAGE_SIZE_MIN)
		return cairn_err_set(err, CAIRN_INVALID, "an image needs at least %s",
				     cairn_format_size(IMAGE_SIZE_MIN, least));
	if (size > INT64_MAX)
		return cairn_err_set(err, CAIRN_RANGE, "an image cannot be that large");
	fd = open(file, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (fd < 0)
		return cairn_err_sys(err, errno, "make '%s'", file);
	rc = pool_image_fill(fd, file, fs, size, err);
	if (rc < 0)
		(void)unlink(file);
	return rc;
}

/* Holds the image's device open; attaches one if it has none. */
static int hold_device(const char *file, const struct stat *st, struct loop_device *ret,
		       int *ret_fd, struct cairn_err *err)
{
	struct loop_spec spec = {.file = file, .autoclear = true};
	int rc = CAIRN_NOT_FOUND;

	for (unsigned i = 0; i < MOUNT_TRIES && rc == CAIRN_NOT_FOUND; i++) {
		rc = pool_loop_find(st, ret, err);
		if (rc < 0)
			return rc;
		if (!ret->path[0])
			return pool_loop_attach(&spec, ret, ret_fd, err);
		rc = pool_loop_open(ret->path, st, O_RDONLY, ret_fd, err);
	}
	return rc;
}

/* The filesystem that is already mounted there must be the image. The mount
 * names its device, so no search over all devices is needed. */
static int check_mounted(const char *file, const struct stat *st, const char *mount_point,
			 dev_t source, struct cairn_err *err)
{
	char device[DEVICE_PATH_MAX];
	cairn_auto_fd int fd = -1;

	snprintf(device, sizeof(device), "/dev/loop%u", minor(source));
	if (major(source) != LOOP_MAJOR || pool_loop_open(device, st, O_RDONLY, &fd, err) != 0)
		return cairn_err_set(err, CAIRN_PRECONDITION,
				     "something else than '%s' is mounted on '%s'", file,
				     mount_point);
	return 0;
}

/* A filesystem that is mounted claims its device. */
static bool is_claimed(const char *device)
{
	cairn_auto_fd int fd = open(device, O_RDONLY | O_EXCL | O_CLOEXEC);

	return fd < 0 && errno == EBUSY;
}

/* A btrfs that has shut down is refused with EINVAL also while the kernel still lets go of its
 * last mount, which does not mean that its contents are invalid. */
static int mount_image_device(const char *device, const struct image_fs_kind *kind,
			      const char *mount_point)
{
	unsigned long flags = MS_NOATIME | MS_NODEV | MS_NOSUID | MS_NOEXEC;

	for (unsigned try = 1;; try++) {
		if (mount(device, mount_point, kind->name, flags, kind->options) == 0)
			return 0;
		if ((errno != EINVAL && errno != EBUSY) || try == MOUNT_TRIES)
			return -1;
		cairn_sleep_ms(MOUNT_PAUSE_MS);
	}
}

static int mount_now(const char *file, const struct stat *st, const struct image_fs_kind *kind,
		     const char *mount_point, struct cairn_err *err)
{
	struct loop_device device = {.path = ""};
	cairn_auto_fd int fd = -1;
	int rc = hold_device(file, st, &device, &fd, err);

	if (rc < 0)
		return rc;
	if (mount_image_device(device.path, kind, mount_point) == 0)
		return 0;
	if (errno == ENODEV)
		return cairn_err_set(err, CAIRN_UNIMPLEMENTED,
				     "this kernel has no %s filesystem; try 'modprobe %s'",
				     kind->name, kind->name);
	/* A btrfs that has shut down cannot be mounted for writing while it is mounted at all. */
	if ((errno == EINVAL || errno == EBUSY) && is_claimed(device.path))
		return cairn_err_set(err, CAIRN_UNAVAILABLE,
				     "the filesystem of '%s' has shut down after an error and is "
				     "still mounted elsewhere, for example in a container",
				     file);
	/* The options are fixed, so it is the contents that mount(2) calls invalid. */
	if (errno == EINVAL || errno == EUCLEAN)
		return cairn_err_set(err, CAIRN_DATA_LOSS,
				     "'%s' holds no %s filesystem that can be mounted", file,
				     kind->name);
	return cairn_err_sys(err, errno, "mount '%s' on '%s'", file, mount_point);
}

/* XFS does not show in the mount table that it has shut down; no file of it can be
 * opened then. */
static bool has_shut_down(const char *mount_point)
{
	cairn_auto_fd int fd = open(mount_point, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	return fd < 0 && errno == EIO;
}

bool pool_image_has_stopped(const char *mount_point)
{
	struct mounts_at at;

	return pool_mounts_look(mount_point, &at, NULL) == 0 && at.mounted &&
	       (at.stopped || has_shut_down(mount_point));
}

int pool_image_mount_look(const char *file, enum image_fs fs, const char *mount_point,
			  bool *ret_stopped, struct cairn_err *err)
{
	cairn_auto_fd int lock = -1;
	struct mounts_at at;
	struct stat st;
	int rc;

	if (mkdir(mount_point, 0700) < 0 && errno != EEXIST)
		return cairn_err_sys(err, errno, "make '%s'", mount_point);
	rc = pool_loop_lock(file, &lock, err);
	if (rc < 0)
		return rc;
	if (fstat(lock, &st) < 0)
		return cairn_err_sys(err, errno, "stat '%s'", file);
	if (!S_ISREG(st.st_mode))
		return cairn_err_set(err, CAIRN_PRECONDITION, "'%s' is not a regular file", file);
	rc = pool_mounts_look(mount_point, &at, err);
	if (rc < 0)
		return rc;
	rc = at.mounted ? check_mounted(file, &st, mount_point, at.source, err)
			: mount_now(file, &st, &kinds[fs], mount_point, err);
	if (!rc)
		*ret_stopped = at.stopped || (at.mounted && has_shut_down(mount_point));
	return rc;
}

int pool_image_mount(const char *file, enum image_fs fs, const char *mount_point,
		     struct cairn_err *err)
{
	bool stopped;

	return pool_image_mount_look(file, fs, mount_point, &stopped, err);
}

int pool_image_is_mounted(const char *path, bool *ret, struct cairn_err *err)
{
	return pool_mounts_is_mount_point(path, ret, err);
}

static int sync_mounted(const char *mount_point, struct cairn_err *err)
{
	cairn_auto_fd int fd = open(mount_point, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (fd < 0)
		return cairn_err_sys(err, errno, "open '%s'", mount_point);
	if (syncfs(fd) < 0)
		return cairn_err_sys(err, errno, "sync '%s'", mount_point);
	return 0;
}

static int unmount_image(const char *mount_point, bool sync, struct cairn_err *err)
{
	cairn_auto_free char *elsewhere = NULL;
	bool mounted;
	dev_t source;
	int rc = pool_mounts_is_mount_point(mount_point, &mounted, err);

	if (rc < 0 || !mounted)
		return rc;
	rc = pool_mounts_source_of(mount_point, &source, err);
	if (rc == 0 && sync)
		rc = sync_mounted(mount_point, err);
	if (rc < 0)
		return rc;
	if (umount2(mount_point, UMOUNT_NOFOLLOW) < 0) {
		if (errno == EBUSY)
			return cairn_err_set(
				err, CAIRN_PRECONDITION,
				"'%s' is in use: a volume in it is attached, or a file open",
				mount_point);
		return cairn_err_sys(err, errno, "unmount '%s'", mount_point);
	}
	/* The caller may remove the image next, so wait until the device is
	 * released. */
	if (pool_mounts_find_device(source, &elsewhere, NULL) == 0 && !elsewhere)
		(void)pool_loop_wait_released(source, LOOP_DETACH_WAIT_MS);
	return 0;
}

int pool_image_unmount(const char *mount_point, struct cairn_err *err)
{
	return unmount_image(mount_point, true, err);
}

int pool_image_unmount_unsynced(const char *mount_point, struct cairn_err *err)
{
	return unmount_image(mount_point, false, err);
}

/* Images are mounted under the same lock. */
int pool_image_unmount_stopped(const char *file, const char *mount_point, struct cairn_err *err)
{
	cairn_auto_fd int lock = -1;
	int rc = pool_loop_lock(file, &lock, err);

	if (rc < 0 || !pool_image_has_stopped(mount_point))
		return rc;
	return unmount_image(mount_point, false, err);
}
