/* SPDX-License-Identifier: Apache-2.0 */

#include "scratchfs.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/process.h"

static char scratch[256];
static char image[300];
static char mount_point[300];
static enum scratchfs_kind made_kind;
static bool mounted;

static const struct {
	const char *mkfs[8]; /* the image's path follows */
	const char *options;
} recipes[] = {
	[SCRATCHFS_BTRFS] = {{"mkfs.btrfs", "-q"}, "loop"},
	[SCRATCHFS_BTRFS_COMPRESSED] = {{"mkfs.btrfs", "-q"}, "loop,compress-force=zstd:1"},
	[SCRATCHFS_XFS] = {{"mkfs.xfs", "-q", "-m", "reflink=1"}, "loop"},
	[SCRATCHFS_XFS_NO_REFLINK] = {{"mkfs.xfs", "-q", "-m", "reflink=0"}, "loop"},
	[SCRATCHFS_EXT4_SECONDS] = {{"mkfs.ext4", "-q", "-F", "-I", "128"}, "loop"},
};

static bool run_said(const char *const argv[])
{
	struct cairn_err err = {0};

	if (cairn_run(argv, &err) == 0)
		return true;
	fprintf(stderr, "skipped: %s\n", err.msg);
	return false;
}

bool scratchfs_run(const char *const argv[])
{
	return cairn_run(argv, NULL) == 0;
}

static bool make_image(enum scratchfs_kind kind, uint64_t size)
{
	const char *argv[10] = {NULL};
	size_t n = 0;
	int fd = open(image, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);

	if (fd < 0 || ftruncate(fd, (off_t)size) < 0) {
		fprintf(stderr, "skipped: cannot make '%s'\n", image);
		return false;
	}
	close(fd);
	while (recipes[kind].mkfs[n]) {
		argv[n] = recipes[kind].mkfs[n];
		n++;
	}
	argv[n] = image;
	return run_said(argv);
}

static bool mount_image(void)
{
	const char *const argv[] = {"mount", "-o",        recipes[made_kind].options,
				    image,   mount_point, NULL};

	mounted = run_said(argv);
	return mounted;
}

const char *scratchfs_make(enum scratchfs_kind kind, uint64_t size)
{
	static bool registered;
	const char *parent = getenv("TMPDIR");

	scratchfs_remove();
	if (!registered)
		registered = atexit(scratchfs_remove) == 0;
	if (kind != SCRATCHFS_PLAIN && geteuid() != 0) {
		fprintf(stderr, "skipped: mounting needs root\n");
		return NULL;
	}
	snprintf(scratch, sizeof(scratch), "%s/cairn-fs-XXXXXX", parent ? parent : "/tmp");
	if (!mkdtemp(scratch)) {
		fprintf(stderr, "skipped: cannot make '%s'\n", scratch);
		scratch[0] = '\0';
		return NULL;
	}
	snprintf(image, sizeof(image), "%s/image", scratch);
	snprintf(mount_point, sizeof(mount_point), "%s/fs", scratch);
	made_kind = kind;
	if (mkdir(mount_point, 0700) == 0 &&
	    (kind == SCRATCHFS_PLAIN || (make_image(kind, size) && mount_image())))
		return mount_point;
	scratchfs_remove();
	return NULL;
}

static bool unmount(void)
{
	for (int try = 0; mounted && try < 600; try++) {
		if (umount2(mount_point, 0) == 0)
			mounted = false;
		else if (errno == EBUSY)
			usleep(100000);
		else
			break;
	}
	return !mounted;
}

bool scratchfs_power_cut(void)
{
	char aside[310];
	const char *const copy[] = {"cp", "--sparse=always", "--reflink=auto", image, aside, NULL};

	snprintf(aside, sizeof(aside), "%s.aside", image);
	/* The copy sees what was written to the loop device; unmounting, which
	 * writes more, comes after it. */
	return made_kind != SCRATCHFS_PLAIN && scratchfs_run(copy) && unmount() &&
	       rename(aside, image) == 0 && mount_image();
}

void scratchfs_remove(void)
{
	const char *const argv[] = {"rm", "-rf", "--one-file-system", scratch, NULL};

	if (scratch[0] == '\0')
		return;
	/* A failed assertion leaves files open: the mount then goes when the
	 * program does. */
	if (!unmount() && umount2(mount_point, MNT_DETACH) == 0)
		mounted = false;
	if (mounted)
		fprintf(stderr, "cannot unmount '%s'\n", mount_point);
	else
		scratchfs_run(argv);
	scratch[0] = '\0';
}
