/* SPDX-License-Identifier: Apache-2.0 */

#include "cairntest.h"

#include "blockdev.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/process.h"
#include "pool/device/volume_device.h"
#include "pool/store/pool_image.h"

#define DETACH_TRIES 200U

static char scratch[64];

bool blockdev_may_run(void)
{
	struct image_host host;
	struct cairn_err err = {0};

	if (pool_image_probe(scratch_parent(), &host, &err) < 0) {
		fprintf(stderr, "skipped: %s\n", err.msg);
		return false;
	}
	if (!host.can_mount)
		fprintf(stderr, "skipped: loop devices or mounting are refused here\n");
	return host.can_mount;
}

const char *blockdev_scratch(void)
{
	if (!scratch[0]) {
		scratch_template(scratch, "blockdev");
		assert_non_null(mkdtemp(scratch));
	}
	return scratch;
}

const char *blockdev_path(const char *name)
{
	static char ring[16][192];
	static unsigned next;
	char *path = ring[next++ % ARRAY_LEN(ring)];

	snprintf(path, sizeof(ring[0]), "%s/%s", blockdev_scratch(), name);
	return path;
}

static int unmount_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	(void)st;
	(void)ftw;
	if (type == FTW_DP || type == FTW_D)
		while (umount2(path, MNT_DETACH) == 0)
			;
	return 0;
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	(void)ftw;
	/* A writer that was killed in a frozen filesystem lets go of it a little
	 * after the thaw. */
	for (unsigned i = 0; type == FTW_F && S_ISREG(st->st_mode) && i < DETACH_TRIES; i++) {
		if (pool_device_detach(path, NULL) == 0)
			break;
		cairn_sleep_ms(20);
	}
	(void)remove(path);
	return 0;
}

void blockdev_done(void)
{
	if (!scratch[0])
		return;
	nftw(scratch, unmount_one, 16, FTW_PHYS);
	nftw(scratch, remove_one, 16, FTW_PHYS | FTW_DEPTH | FTW_MOUNT);
	scratch[0] = '\0';
}

const char *blockdev_file(const char *name, uint64_t size)
{
	const char *path = blockdev_path(name);
	int fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, (off_t)size), 0);
	close(fd);
	return path;
}

bool blockdev_run_ok(const char *const argv[])
{
	return cairn_run(argv, NULL) == 0;
}

void blockdev_run(const char *const argv[])
{
	struct cairn_err err = {0};

	assert_ok(cairn_run(argv, &err), &err);
}

void blockdev_mkfs(const char *fs, const char *device)
{
	if (strcmp(fs, "ext4") == 0)
		RUN("mkfs.ext4", "-q", "-F", device);
	else if (strcmp(fs, "xfs") == 0)
		RUN("mkfs.xfs", "-q", "-f", device);
	else
		RUN("mkfs.btrfs", "-q", "-f", device);
}

const char *blockdev_mount(const char *device, const char *name)
{
	const char *point = blockdev_path(name);

	if (mkdir(point, 0700) < 0)
		assert_int_equal(errno, EEXIST);
	RUN("mount", device, point);
	return point;
}

static _Noreturn void write_something(const char *dir)
{
	char path[256];
	int fd;

	snprintf(path, sizeof(path), "%s/probe", dir);
	fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	if (fd < 0 || write(fd, "x", 1) != 1 || fsync(fd) < 0 || unlink(path) < 0)
		_exit(1);
	_exit(0);
}

bool blockdev_writable_within(const char *dir, unsigned ms)
{
	uint64_t deadline = cairn_monotonic_ns() + ms * CAIRN_NS_PER_MS;
	pid_t pid = fork();
	int status;

	assert_true(pid >= 0);
	if (pid == 0)
		write_something(dir);
	while (waitpid(pid, &status, WNOHANG) == 0) {
		if (cairn_monotonic_ns() > deadline) {
			kill(pid, SIGKILL); /* takes effect when the filesystem thaws */
			return false;
		}
		cairn_sleep_ms(2);
	}
	return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}
