/* SPDX-License-Identifier: Apache-2.0 */

#include "csi/filesystem.h"

#include <blkid.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/btrfs.h>
#include <linux/fs.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/mem.h"
#include "base/process.h"
#include "pool/device/mounts.h"

#define FS_NAME_MAX 32

/* A btrfs is as large as its device, in whole sectors of this size. */
#define BTRFS_SECTOR 4096U

/* Exit statuses of fsck up to this one mean that the filesystem is good now. */
#define FSCK_REPAIRED 1

/* Maps "not found" and "exists" errors of paths and tools: a caller would take these codes
 * as statements about the volume. */
static int not_of_the_volume(int rc, struct cairn_err *err)
{
	return rc == CAIRN_NOT_FOUND || rc == CAIRN_EXISTS
		       ? cairn_err_recode(err, CAIRN_PRECONDITION)
		       : rc;
}

int csi_path_error(struct cairn_err *err, int sys_errno, const char *what, const char *path)
{
	return not_of_the_volume(cairn_err_sys(err, sys_errno, "%s '%s'", what, path), err);
}

static void probe_freep(blkid_probe *probe)
{
	if (*probe)
		blkid_free_probe(*probe);
}

/* Detects the filesystem on the device; "" if it is empty.
 *
 * CAIRN_PRECONDITION  several signatures (ambiguous), or partitions
 */
static int find_filesystem(const char *device, char ret[FS_NAME_MAX], struct cairn_err *err)
{
	cairn_cleanup(probe_freep) blkid_probe probe = blkid_new_probe_from_filename(device);
	const char *type;
	int rc;

	if (!probe)
		return cairn_err_sys(err, errno, "look at '%s'", device);
	blkid_probe_enable_superblocks(probe, 1);
	blkid_probe_set_superblocks_flags(probe, BLKID_SUBLKS_TYPE);
	blkid_probe_enable_partitions(probe, 1);
	rc = blkid_do_safeprobe(probe);
	ret[0] = '\0';
	if (rc == 1)
		return 0;
	if (rc == -2)
		return cairn_err_set(err, CAIRN_PRECONDITION,
				     "'%s' has the marks of several filesystems", device);
	if (rc < 0)
		return cairn_err_sys(err, errno, "look at '%s'", device);
	if (blkid_probe_lookup_value(probe, "TYPE", &type, NULL) == 0)
		snprintf(ret, FS_NAME_MAX, "%s", type);
	else
		return cairn_err_set(err, CAIRN_PRECONDITION,
				     "'%s' holds partitions, not a filesystem", device);
	return 0;
}

static int run_tool(const char *const argv[], int worst, struct cairn_err *err)
{
	return not_of_the_volume(cairn_run_up_to(argv, worst, err), err);
}

static int make_filesystem(const char *device, const char *fs, struct cairn_err *err)
{
	/* Discarding a new sparse volume is useless. */
	const char *const ext4[] = {"mkfs.ext4", "-q", "-E", "nodiscard", "-m", "0", device, NULL};
	const char *const xfs[] = {"mkfs.xfs", "-q", "-K", device, NULL};
	const char *const btrfs[] = {"mkfs.btrfs", "-q", "-K", device, NULL};

	if (strcmp(fs, "xfs") == 0)
		return run_tool(xfs, 0, err);
	if (strcmp(fs, "btrfs") == 0)
		return run_tool(btrfs, 0, err);
	return run_tool(ext4, 0, err);
}

/* XFS and btrfs recover when they are mounted. */
static int filesystem_check_filesystem(const char *device, const char *fs, struct cairn_err *err)
{
	const char *const argv[] = {"fsck.ext4", "-p", device, NULL};

	return strcmp(fs, "ext4") == 0 ? run_tool(argv, FSCK_REPAIRED, err) : 0;
}

/* Only a few options are mount flags; all others go to the filesystem, which rejects those
 * it does not know. */
static int collect_options(const struct csi_mount_spec *spec, const char *fs,
			   unsigned long *ret_flags, struct cairn_buf *data, struct cairn_err *err)
{
	static const struct {
		const char *name;
		unsigned long flag;
	} known[] = {
		{"ro", MS_RDONLY},        {"noatime", MS_NOATIME}, {"nodiratime", MS_NODIRATIME},
		{"nodev", MS_NODEV},      {"nosuid", MS_NOSUID},   {"noexec", MS_NOEXEC},
		{"sync", MS_SYNCHRONOUS}, {"dirsync", MS_DIRSYNC}, {"relatime", MS_RELATIME},
	};

	/* A clone has its origin's UUID, and both may be mounted at the same time. */
	if (strcmp(fs, "xfs") == 0)
		cairn_buf_adds(data, "nouuid");
	for (size_t i = 0; i < spec->n_flags; i++) {
		const char *option = spec->flags[i];
		unsigned long flag = 0;

		for (size_t j = 0; j < sizeof(known) / sizeof(known[0]); j++)
			if (strcmp(option, known[j].name) == 0)
				flag = known[j].flag;
		*ret_flags |= flag;
		if (flag || strcmp(option, "rw") == 0 || strcmp(option, "defaults") == 0)
			continue;
		if (!option[0] || strchr(option, ','))
			return cairn_err_set(err, CAIRN_INVALID, "'%s' is not a valid mount option",
					     option);
		if (data->len)
			cairn_buf_addc(data, ',');
		cairn_buf_adds(data, option);
	}
	cairn_buf_addc(data, '\0');
	if (cairn_buf_failed(data))
		return cairn_err_set(err, CAIRN_INVALID, "the mount options are too long");
	return 0;
}

static int mount_device(const struct csi_mount_spec *spec, const char *fs, struct cairn_err *err)
{
	cairn_auto_buf struct cairn_buf data = CAIRN_BUF_INIT(CSI_MOUNT_OPTIONS_MAX);
	unsigned long flags = spec->read_only ? MS_RDONLY : 0;
	int rc = collect_options(spec, fs, &flags, &data, err);

	if (rc)
		return rc;
	if (mount(spec->device, spec->path, fs, flags, data.data) < 0)
		return csi_path_error(err, errno, "mount the volume on", spec->path);
	return 0;
}

/* ext4 can be grown while mounted only with CAP_SYS_RESOURCE. */
static int grow_unmounted(const char *device, struct cairn_err *err)
{
	const char *const check[] = {"fsck.ext4", "-f", "-p", device, NULL};
	const char *const grow[] = {"resize2fs", device, NULL};
	int rc = run_tool(check, FSCK_REPAIRED, err);

	return rc ? rc : run_tool(grow, 0, err);
}

int csi_filesystem_mount(const struct csi_mount_spec *spec, struct cairn_err *err)
{
	char fs[FS_NAME_MAX];
	int rc = find_filesystem(spec->device, fs, err);

	if (rc)
		return rc;
	if (!fs[0] && spec->read_only)
		return cairn_err_set(err, CAIRN_PRECONDITION,
				     "the volume is empty and to be read only");
	if (!fs[0])
		rc = make_filesystem(spec->device, spec->fs, err);
	else if (spec->fs_matters && strcmp(fs, spec->fs) != 0)
		rc = cairn_err_set(err, CAIRN_PRECONDITION,
				   "the volume holds a %s filesystem, and %s is asked for", fs,
				   spec->fs);
	else if (!spec->read_only)
		rc = filesystem_check_filesystem(spec->device, fs, err);
	if (!rc)
		rc = mount_device(spec, fs[0] ? fs : spec->fs, err);
	if (rc || !fs[0] || spec->read_only)
		return rc;
	rc = csi_filesystem_grow(spec->device, spec->path, err);
	if (!rc)
		return 0;
	/* Otherwise the next call would take the staging as complete. */
	if (umount2(spec->path, UMOUNT_NOFOLLOW) < 0 || strcmp(fs, "ext4") != 0)
		return rc;
	rc = grow_unmounted(spec->device, err);
	return rc ? rc : mount_device(spec, fs, err);
}

/* The kernel refuses to resize a btrfs below 256 MiB, also to the size that it has. */
static bool btrfs_has_size_of(const char *device, const char *path)
{
	struct btrfs_ioctl_dev_info_args info = {.devid = 1};
	cairn_auto_fd int block = open(device, O_RDONLY | O_CLOEXEC);
	cairn_auto_fd int root = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	uint64_t size = 0;

	return block >= 0 && root >= 0 && ioctl(block, BLKGETSIZE64, &size) == 0 &&
	       ioctl(root, BTRFS_IOC_DEV_INFO, &info) == 0 &&
	       info.total_bytes == size / BTRFS_SECTOR * BTRFS_SECTOR;
}

int csi_filesystem_grow(const char *device, const char *path, struct cairn_err *err)
{
	const char *const ext4[] = {"resize2fs", device, NULL};
	const char *const xfs[] = {"xfs_growfs", path, NULL};
	const char *const btrfs[] = {"btrfs", "filesystem", "resize", "max", path, NULL};
	char fs[FS_NAME_MAX];
	int rc = find_filesystem(device, fs, err);

	if (rc)
		return rc;
	if (strcmp(fs, "xfs") == 0)
		return run_tool(xfs, 0, err);
	if (strcmp(fs, "btrfs") == 0)
		return btrfs_has_size_of(device, path) ? 0 : run_tool(btrfs, 0, err);
	return run_tool(ext4, 0, err);
}

/* Creates a mount point of the source's type. */
static int make_mount_point(const char *source, const char *path, struct cairn_err *err)
{
	cairn_auto_fd int fd = -1;
	struct stat st;

	if (stat(source, &st) < 0)
		return csi_path_error(err, errno, "look at", source);
	if (S_ISDIR(st.st_mode)) {
		if (mkdir(path, 0750) < 0 && errno != EEXIST)
			return csi_path_error(err, errno, "make", path);
		return 0;
	}
	fd = open(path, O_CREAT | O_RDONLY | O_CLOEXEC | O_NOFOLLOW, 0600);
	return fd < 0 ? csi_path_error(err, errno, "make", path) : 0;
}

/* A remount replaces all flags, so keep those that the staged filesystem was mounted with. */
int csi_make_read_only(const char *path, struct cairn_err *err)
{
	static const struct {
		unsigned long seen, flag;
	} kept[] = {
		{ST_NOSUID, MS_NOSUID},     {ST_NODEV, MS_NODEV},
		{ST_NOEXEC, MS_NOEXEC},     {ST_NOATIME, MS_NOATIME},
		{ST_RELATIME, MS_RELATIME}, {ST_NODIRATIME, MS_NODIRATIME},
	};
	unsigned long flags = MS_BIND | MS_REMOUNT | MS_RDONLY;
	struct statvfs st;

	if (statvfs(path, &st) < 0)
		return csi_path_error(err, errno, "look at", path);
	for (size_t i = 0; i < sizeof(kept) / sizeof(kept[0]); i++)
		if (st.f_flag & kept[i].seen)
			flags |= kept[i].flag;
	if (mount(NULL, path, NULL, flags, NULL) < 0)
		return csi_path_error(err, errno, "make read-only", path);
	return 0;
}

int csi_bind_mount(const char *source, const char *path, bool read_only, struct cairn_err *err)
{
	int rc = make_mount_point(source, path, err);

	if (rc)
		return rc;
	if (mount(source, path, NULL, MS_BIND, NULL) < 0)
		return csi_path_error(err, errno, "bind the volume to", path);
	rc = read_only ? csi_make_read_only(path, err) : 0;
	if (rc)
		(void)umount2(path, UMOUNT_NOFOLLOW);
	return rc;
}

int csi_unmount(const char *path, struct cairn_err *err)
{
	bool mounted = true;

	/* Concurrent repeated calls may have stacked mounts. */
	while (mounted) {
		int rc = pool_mounts_is_mount_point(path, &mounted, err);

		if (rc)
			return rc;
		if (mounted && umount2(path, UMOUNT_NOFOLLOW) < 0)
			return cairn_err_sys(err, errno, "unmount '%s'", path);
	}
	return 0;
}

int csi_unmount_and_remove(const char *path, struct cairn_err *err)
{
	struct stat st;
	int rc = csi_unmount(path, err);

	if (rc)
		return rc;
	if (lstat(path, &st) < 0)
		return errno == ENOENT ? 0 : cairn_err_sys(err, errno, "'%s'", path);
	if (!S_ISDIR(st.st_mode) && (!S_ISREG(st.st_mode) || st.st_size > 0))
		return cairn_err_set(err, CAIRN_PRECONDITION,
				     "'%s' is not what a volume was published at", path);
	if ((S_ISDIR(st.st_mode) ? rmdir(path) : unlink(path)) < 0 && errno != ENOENT)
		return cairn_err_sys(err, errno, "remove '%s'", path);
	return 0;
}
