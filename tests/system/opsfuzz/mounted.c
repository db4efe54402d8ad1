/* SPDX-License-Identifier: Apache-2.0 */

/* A filesystem on an attached volume, and changes through it. What it puts on
 * the volume is its own affair, so the truth is then what the snapshot holds. */

#include "world.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/io.h"
#include "base/process.h"

#define FILES     12
#define PIECE_MAX (64U << 10)

void mounted_path(const struct world *world, const struct vol *vol, char out[PATH_TEXT_MAX])
{
	snprintf(out, PATH_TEXT_MAX, "%.400s/mnt-%s", world->dir, vol->name);
}

void mounted_begin(struct world *world, struct vol *vol)
{
	char path[PATH_TEXT_MAX];

	mounted_path(world, vol, path);
	if (!vol->formatted)
		must(world, cairn_run((const char *const[]){"mkfs.ext4", "-q", "-F", "-E",
							    "lazy_itable_init=0,nodiscard",
							    vol->device, NULL},
				      &world->err));
	if (mkdir(path, 0700) != 0 && errno != EEXIST)
		world_fail(world, "mkdir %s: errno %d", path, errno);
	if (mount(vol->device, path, "ext4", 0, "") != 0)
		world_fail(world, "mount %s: errno %d", vol->device, errno);
	vol->formatted = true;
	vol->known = false;
	vol->use = USE_MOUNTED;
}

void mounted_end(struct world *world, struct vol *vol)
{
	char path[PATH_TEXT_MAX];

	mounted_path(world, vol, path);
	if (umount(path) != 0)
		world_fail(world, "umount %s: errno %d", path, errno);
	rmdir(path);
	vol->use = USE_DEVICE;
	vol->known = false;
}

static void change_file(struct world *world, const char *path)
{
	static uint8_t buf[PIECE_MAX];
	struct dice *dice = &world->dice;
	uint64_t offset = dice_below(dice, 1U << 20);
	size_t n = 1 + dice_below(dice, PIECE_MAX);
	cairn_auto_fd int fd = -1;
	int rc;

	if (dice_one_in(dice, 5)) {
		unlink(path);
		return;
	}
	fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	if (fd < 0)
		return; /* full */
	dice_fill(dice, buf, n);
	switch (dice_below(dice, 6)) {
	case 0:
		rc = ftruncate(fd, (off_t)offset);
		break;
	case 1:
		rc = fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)offset,
			       (off_t)n);
		break;
	case 2:
		rc = fallocate(fd, 0, (off_t)offset, (off_t)n);
		break;
	default:
		rc = cairn_pwrite_full(fd, buf, n, offset);
	}
	if (rc != 0 && errno != ENOSPC)
		world_fail(world, "change %s: errno %d", path, errno);
	if (dice_one_in(dice, 6))
		fsync(fd);
}

void mounted_change(struct world *world, struct vol *vol)
{
	char dir[PATH_TEXT_MAX], path[PATH_TEXT_MAX + 8];
	uint64_t n = 1 + dice_below(&world->dice, 20);

	mounted_path(world, vol, dir);
	for (uint64_t i = 0; i < n; i++) {
		snprintf(path, sizeof(path), "%s/f%u", dir,
			 (unsigned)dice_below(&world->dice, FILES));
		change_file(world, path);
	}
	if (dice_one_in(&world->dice, 6)) {
		cairn_auto_fd int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		struct fstrim_range range = {.len = UINT64_MAX};

		(void)ioctl(fd, FITRIM, &range);
	}
}

struct mounted_writer {
	pthread_t thread;
	atomic_bool stop;
	struct dice dice;
	char path[PATH_TEXT_MAX + 8];
};

static void *write_on(void *arg)
{
	struct mounted_writer *writer = arg;
	uint8_t buf[BLOCK];

	while (!writer->stop) {
		cairn_auto_fd int fd = open(writer->path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);

		dice_fill(&writer->dice, buf, sizeof(buf));
		if (fd >= 0)
			(void)cairn_pwrite_full(fd, buf, sizeof(buf),
						dice_below(&writer->dice, 200) * BLOCK);
	}
	return NULL;
}

struct mounted_writer *mounted_writer_start(struct world *world, struct vol *vol)
{
	struct mounted_writer *writer = calloc(1, sizeof(*writer));
	char dir[PATH_TEXT_MAX];

	if (!writer)
		world_fail(world, "out of memory");
	mounted_path(world, vol, dir);
	snprintf(writer->path, sizeof(writer->path), "%s/busy", dir);
	writer->dice.state = dice_next(&world->dice);
	if (pthread_create(&writer->thread, NULL, write_on, writer) != 0)
		world_fail(world, "no thread");
	return writer;
}

void mounted_writer_stop(struct mounted_writer *writer)
{
	writer->stop = true;
	pthread_join(writer->thread, NULL);
	free(writer);
}
