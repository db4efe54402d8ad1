/* SPDX-License-Identifier: Apache-2.0 */

#include <errno.h>
#include <fcntl.h>
#include <linux/btrfs.h>
#include <linux/btrfs_tree.h>
#include <linux/fs.h>
#include <linux/loop.h>
#include <linux/magic.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/statvfs.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "pool/store/pool_image.h"

#define PROBE_BYTES 65536U /* a whole block of every filesystem */

/* A file without a name where possible, so that nothing is left behind. */
static int temporary_file(int dir)
{
	char name[64];
	int fd = openat(dir, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);

	for (unsigned i = 0; fd < 0 && i < 16; i++) {
		snprintf(name, sizeof(name), ".cairn-probe-%d-%u", (int)getpid(), i);
		fd = openat(dir, name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
		if (fd >= 0)
			(void)unlinkat(dir, name, 0);
		else if (errno != EEXIST)
			break;
	}
	return fd;
}

static bool try_reflink(int dir)
{
	static const char block[PROBE_BYTES] = {1};
	cairn_auto_fd int from = temporary_file(dir);
	cairn_auto_fd int to = from < 0 ? -1 : temporary_file(dir);

	return to >= 0 && pwrite(from, block, sizeof(block), 0) == (ssize_t)sizeof(block) &&
	       ioctl(to, FICLONE, from) == 0;
}

/* The permission to search trees implies the permission to delete any
 * subvolume, and every user may create one in a writable directory. */
static bool try_tree_search(int dir)
{
	struct btrfs_ioctl_search_args args = {
		.key = {.tree_id = BTRFS_ROOT_TREE_OBJECTID,
			.max_objectid = UINT64_MAX,
			.max_type = UINT32_MAX,
			.max_offset = UINT64_MAX,
			.max_transid = UINT64_MAX,
			.nr_items = 1},
	};

	return ioctl(dir, BTRFS_IOC_TREE_SEARCH, &args) == 0;
}

/* Runs in a mount namespace of its own, so that the mount is not visible
 * elsewhere. Its copies of other mounts go with those: a filesystem that is
 * unmounted meanwhile does not stay. */
static bool try_mount(void)
{
	sigset_t all;
	sigset_t before;
	int status = 0;
	pid_t pid;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	pid = fork();
	if (pid == 0)
		_exit(unshare(CLONE_NEWNS) == 0 &&
				      mount("none", "/", NULL, MS_REC | MS_SLAVE, NULL) == 0 &&
				      mount("none", "/", "tmpfs", 0, "size=4k") == 0
			      ? 0
			      : 1);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (pid < 0)
		return false;
	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return false;
	return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

/* A container may have the control node and no access to the devices. */
static bool try_loop(void)
{
	cairn_auto_fd int control = open("/dev/loop-control", O_RDWR | O_CLOEXEC);
	cairn_auto_fd int device = -1;
	char path[32];
	int n;

	if (control < 0)
		return false;
	n = ioctl(control, LOOP_CTL_GET_FREE);
	if (n < 0)
		return false;
	snprintf(path, sizeof(path), "/dev/loop%d", n);
	device = open(path, O_RDWR | O_CLOEXEC);
	return device >= 0;
}

int pool_image_probe(const char *dir, struct image_host *ret, struct cairn_err *err)
{
	struct image_host host = {0};
	cairn_auto_fd int fd = -1;
	struct statvfs space;
	struct statfs fs;

	fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return cairn_err_sys(err, errno, "open '%s'", dir);
	if (fstatfs(fd, &fs) < 0 || fstatvfs(fd, &space) < 0)
		return cairn_err_sys(err, errno, "filesystem of '%s'", dir);
	host.is_btrfs = fs.f_type == BTRFS_SUPER_MAGIC;
	host.is_xfs = fs.f_type == XFS_SUPER_MAGIC;
	host.can_reflink = try_reflink(fd);
	host.can_tree_search = host.is_btrfs && try_tree_search(fd);
	host.can_mount = try_loop() && try_mount();
	if (__builtin_mul_overflow((uint64_t)space.f_bavail, (uint64_t)space.f_frsize,
				   &host.free_bytes))
		host.free_bytes = UINT64_MAX;
	*ret = host;
	return 0;
}
