/* SPDX-License-Identifier: Apache-2.0 */

#include "pool/btrfs/subvolume.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>

#include <linux/btrfs.h>
#include <linux/btrfs_tree.h>

#include "base/err.h"

int btrfs_subvolume_create(int dir_fd, const char *name, struct cairn_err *err)
{
	struct btrfs_ioctl_vol_args_v2 args = {0};

	snprintf(args.name, sizeof(args.name), "%s", name);
	if (ioctl(dir_fd, BTRFS_IOC_SUBVOL_CREATE_V2, &args) < 0)
		return cairn_err_sys(err, errno, "make subvolume '%s'", name);
	return 0;
}

int btrfs_subvolume_snapshot(int dir_fd, const char *name, int source_fd, bool read_only,
			     struct cairn_err *err)
{
	struct btrfs_ioctl_vol_args_v2 args = {
		.fd = source_fd,
		.flags = read_only ? BTRFS_SUBVOL_RDONLY : 0,
	};

	snprintf(args.name, sizeof(args.name), "%s", name);
	if (ioctl(dir_fd, BTRFS_IOC_SNAP_CREATE_V2, &args) < 0)
		return cairn_err_sys(err, errno, "snapshot subvolume as '%s'", name);
	return 0;
}

int btrfs_subvolume_protect(int fd, struct cairn_err *err)
{
	uint64_t flags = BTRFS_SUBVOL_RDONLY;

	if (ioctl(fd, BTRFS_IOC_SUBVOL_SETFLAGS, &flags) < 0)
		return cairn_err_sys(err, errno, "make a subvolume read-only");
	return 0;
}

int btrfs_subvolume_destroy(int dir_fd, const char *name, struct cairn_err *err)
{
	struct btrfs_ioctl_vol_args args = {0};
	struct stat st;

	if (fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return cairn_err_sys(err, errno, "remove subvolume '%s'", name);
	/* The root directory of every subvolume has this inode number. */
	if (!S_ISDIR(st.st_mode) || st.st_ino != BTRFS_FIRST_FREE_OBJECTID)
		return cairn_err_set(err, CAIRN_INVALID, "'%s' is not a subvolume", name);
	snprintf(args.name, sizeof(args.name), "%s", name);
	if (ioctl(dir_fd, BTRFS_IOC_SNAP_DESTROY, &args) < 0)
		return cairn_err_sys(err, errno, "remove subvolume '%s'", name);
	return 0;
}

int btrfs_subvolume_info_get(int fd, struct subvolume_info *ret, struct cairn_err *err)
{
	struct btrfs_ioctl_get_subvol_info_args args;

	memset(&args, 0, sizeof(args));
	if (ioctl(fd, BTRFS_IOC_GET_SUBVOL_INFO, &args) < 0)
		return cairn_err_sys(err, errno, "information about a subvolume");
	*ret = (struct subvolume_info){
		.id = args.treeid,
		.cut_generation = args.otransid,
		.read_only = (args.flags & BTRFS_ROOT_SUBVOL_RDONLY) != 0,
	};
	return 0;
}
