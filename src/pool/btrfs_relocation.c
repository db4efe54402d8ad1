/* SPDX-License-Identifier: Apache-2.0 */

#include "pool/btrfs_relocation.h"

#include <errno.h>
#include <sys/ioctl.h>

#include <linux/btrfs.h>

#include "base/err.h"

int pool_relocation_epoch(int fd, uint64_t *ret, struct cairn_err *err)
{
	struct btrfs_ioctl_fs_info_args info = {.flags = BTRFS_FS_INFO_FLAG_GENERATION};

	if (ioctl(fd, BTRFS_IOC_FS_INFO, &info) < 0) {
		if (errno == ENOTTY || errno == EOPNOTSUPP)
			return cairn_err_set(err, CAIRN_UNIMPLEMENTED, "not btrfs");
		return cairn_err_sys(err, errno, "generation of the filesystem");
	}
	if (!(info.flags & BTRFS_FS_INFO_FLAG_GENERATION))
		return cairn_err_set(err, CAIRN_UNIMPLEMENTED,
				     "the kernel does not report the filesystem's generation");
	*ret = info.generation;
	return 0;
}
