/* SPDX-License-Identifier: Apache-2.0 */

/* The ioctls that count. */
#include "faultshim.h"

#include <linux/btrfs.h>
#include <linux/fiemap.h>
#include <linux/fs.h>
#include <linux/loop.h>
#include <stdarg.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <unistd.h>

struct known_ioctl {
	unsigned long request;
	const char *name;
	bool reads; /* changes nothing */
};

static const struct known_ioctl ioctls[] = {
	{FICLONE, "FICLONE", false},
	{FICLONERANGE, "FICLONERANGE", false},
	{FIFREEZE, "FIFREEZE", false},
	{FITHAW, "FITHAW", false},
	{FS_IOC_FIEMAP, "FIEMAP", true},
	{FS_IOC_SETFLAGS, "SETFLAGS", false},
	{FS_IOC_FSSETXATTR, "FSSETXATTR", false},
	{BTRFS_IOC_SUBVOL_CREATE, "SUBVOL_CREATE", false},
	{BTRFS_IOC_SUBVOL_CREATE_V2, "SUBVOL_CREATE_V2", false},
	{BTRFS_IOC_SNAP_CREATE, "SNAP_CREATE", false},
	{BTRFS_IOC_SNAP_CREATE_V2, "SNAP_CREATE_V2", false},
	{BTRFS_IOC_SNAP_DESTROY, "SNAP_DESTROY", false},
	{BTRFS_IOC_SNAP_DESTROY_V2, "SNAP_DESTROY_V2", false},
	{BTRFS_IOC_SUBVOL_SETFLAGS, "SUBVOL_SETFLAGS", false},
	{BTRFS_IOC_SYNC, "BTRFS_SYNC", false},
	{BTRFS_IOC_START_SYNC, "BTRFS_START_SYNC", false},
	{BTRFS_IOC_WAIT_SYNC, "BTRFS_WAIT_SYNC", false},
	{BTRFS_IOC_DEFRAG, "BTRFS_DEFRAG", false},
	{BTRFS_IOC_SEND, "BTRFS_SEND", true},
	{BTRFS_IOC_TREE_SEARCH, "TREE_SEARCH", true},
	{BTRFS_IOC_TREE_SEARCH_V2, "TREE_SEARCH_V2", true},
	{BTRFS_IOC_INO_LOOKUP, "INO_LOOKUP", true},
	{BTRFS_IOC_GET_SUBVOL_INFO, "GET_SUBVOL_INFO", true},
	{BTRFS_IOC_SUBVOL_GETFLAGS, "SUBVOL_GETFLAGS", true},
	{LOOP_CTL_GET_FREE, "LOOP_CTL_GET_FREE", false},
	{LOOP_CONFIGURE, "LOOP_CONFIGURE", false},
	{LOOP_CLR_FD, "LOOP_CLR_FD", false},
	{LOOP_SET_FD, "LOOP_SET_FD", false},
	{LOOP_SET_STATUS64, "LOOP_SET_STATUS64", false},
	{LOOP_SET_CAPACITY, "LOOP_SET_CAPACITY", false},
	{LOOP_SET_DIRECT_IO, "LOOP_SET_DIRECT_IO", false},
	{LOOP_GET_STATUS64, "LOOP_GET_STATUS64", true},
};

static bool enter_ioctl(struct call *call, int fd, unsigned long request)
{
	for (size_t i = 0; i < sizeof(ioctls) / sizeof(ioctls[0]); i++)
		if ((unsigned)ioctls[i].request == (unsigned)request)
			return shim_enter_any(call, ioctls[i].name, fd, ioctls[i].reads,
					      request != FITHAW);
	return true;
}

WRAP(int, ioctl, int fd, unsigned long request, ...)
{
	struct call call = {0};
	va_list args;
	void *arg;

	va_start(args, request);
	arg = va_arg(args, void *);
	va_end(args);
	if (!enter_ioctl(&call, fd, request))
		return -1;
	return (int)shim_leave(&call, syscall(SYS_ioctl, fd, request, arg));
}
