/* SPDX-License-Identifier: Apache-2.0 */

#include "world.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/falloc.h>
#include <linux/fs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/io.h"

#define RUN_MAX (256U << 10)

/* One volume that is open for changes. */
struct target {
	struct world *world;
	struct vol *vol;
	int fd;
	char path[PATH_TEXT_MAX]; /* of the file or device */
};

static uint8_t *buffer(void)
{
	static uint8_t bytes[RUN_MAX + BLOCK] __attribute__((aligned(4096)));

	return bytes;
}

static void open_target(struct world *world, struct vol *vol, struct target *ret)
{
	ret->world = world;
	ret->vol = vol;
	if (vol->use == USE_FILE) {
		cairn_auto_free char *path = NULL;

		must(world, pool_volume_path(world->pool, vol->name, &path, &world->err));
		snprintf(ret->path, sizeof(ret->path), "%s", path);
	} else {
		snprintf(ret->path, sizeof(ret->path), "%s", vol->device);
	}
	ret->fd = open(ret->path, O_RDWR | O_CLOEXEC);
	if (ret->fd < 0)
		world_fail(world, "open %s: errno %d", ret->path, errno);
}

static void must_io(struct target *t, bool good, const char *what)
{
	if (!good)
		world_fail(t->world, "%s on %s: errno %d", what, t->path, errno);
}

/* A range of whole units inside the volume, short ones more often. */
static void pick_range(struct target *t, uint64_t unit, uint64_t most, uint64_t *ret_offset,
		       uint64_t *ret_n)
{
	struct dice *dice = &t->world->dice;
	uint64_t units = t->vol->content.size / unit;
	uint64_t n = 1ULL << dice_below(dice, 7);
	uint64_t offset = dice_below(dice, units);

	n = 1 + dice_below(dice, n);
	if (n * unit > most)
		n = most / unit;
	if (offset + n > units)
		n = units - offset;
	*ret_offset = offset * unit;
	*ret_n = n * unit;
}

static void fill(struct target *t, uint8_t *out, size_t n)
{
	struct dice *dice = &t->world->dice;
	/* A few patterns that come again and again make data move and return. */
	struct dice pattern = {dice_below(dice, 12)};

	switch (dice_below(dice, 8)) {
	case 0:
		dice_fill(&pattern, out, n);
		break;
	case 1: /* compresses well */
		memset(out, (int)dice_below(dice, 256), n);
		break;
	case 2: /* zeros between data */
		dice_fill(dice, out, n);
		for (size_t i = 0; i + BLOCK <= n; i += 2 * (size_t)BLOCK)
			memset(out + i, 0, BLOCK);
		break;
	default:
		dice_fill(dice, out, n);
	}
}

static void write_blocks(struct target *t)
{
	uint64_t offset, n;
	uint8_t *buf = buffer();
	int fd = t->fd;

	pick_range(t, dice_one_in(&t->world->dice, 4) ? SECTOR : BLOCK, RUN_MAX, &offset, &n);
	fill(t, buf, n);
	if (offset % BLOCK == 0 && n % BLOCK == 0 && dice_one_in(&t->world->dice, 16)) {
		fd = open(t->path, O_WRONLY | O_DIRECT | O_CLOEXEC);
		if (fd < 0)
			fd = t->fd;
	}
	must_io(t, cairn_pwrite_full(fd, buf, n, offset) == 0, "write");
	if (fd != t->fd)
		close(fd);
	content_write(&t->vol->content, offset, buf, n);
}

/* Single blocks all over the volume. */
static void scatter(struct target *t)
{
	uint64_t most = dice_one_in(&t->world->dice, 8) ? 3000 : 100 * t->world->scale;
	uint64_t n = 1 + dice_below(&t->world->dice, most);
	uint64_t blocks = t->vol->content.size / BLOCK;
	uint8_t *buf = buffer();

	for (uint64_t i = 0; i < n; i++) {
		uint64_t offset = dice_below(&t->world->dice, blocks) * BLOCK;

		dice_fill(&t->world->dice, buf, BLOCK);
		must_io(t, cairn_pwrite_full(t->fd, buf, BLOCK, offset) == 0, "write");
		content_write(&t->vol->content, offset, buf, BLOCK);
	}
}

/* Megabytes at once, as a restore would: only in runs that ask for more. */
static void sweep(struct target *t)
{
	uint64_t offset = dice_below(&t->world->dice, t->vol->content.size / BLOCK) * BLOCK;
	uint64_t end = offset + (1 + dice_below(&t->world->dice, 64 * t->world->scale)) * BLOCK;
	uint64_t last = t->vol->content.size / BLOCK * BLOCK;

	if (t->world->scale < 2)
		return;
	for (end = end < last ? end : last; offset < end; offset += RUN_MAX) {
		size_t n = end - offset < RUN_MAX ? end - offset : RUN_MAX;

		dice_fill(&t->world->dice, buffer(), n);
		must_io(t, cairn_pwrite_full(t->fd, buffer(), n, offset) == 0, "write");
		content_write(&t->vol->content, offset, buffer(), n);
	}
}

/* Any offset, any length: the sectors at both ends are read back. */
static void write_bytes(struct target *t)
{
	struct content *content = &t->vol->content;
	uint64_t offset = dice_below(&t->world->dice, content->size);
	uint64_t n = 1 + dice_below(&t->world->dice, 9000);
	uint8_t *buf = buffer();

	n = offset + n > content->size ? content->size - offset : n;
	dice_fill(&t->world->dice, buf, n);
	must_io(t, cairn_pwrite_full(t->fd, buf, n, offset) == 0, "write");
	uint64_t from = offset / SECTOR * SECTOR;
	uint64_t to = (offset + n + SECTOR - 1) / SECTOR * SECTOR;

	must_io(t, cairn_pread_full(t->fd, buf, to - from, from) == (ssize_t)(to - from), "read");
	content_write(content, from, buf, to - from);
}

static void write_same(struct target *t)
{
	uint64_t offset, n;
	uint8_t *buf = buffer();

	pick_range(t, SECTOR, RUN_MAX, &offset, &n);
	must_io(t, cairn_pread_full(t->fd, buf, n, offset) == (ssize_t)n, "read");
	must_io(t, cairn_pwrite_full(t->fd, buf, n, offset) == 0, "write");
	content_write(&t->vol->content, offset, buf, n);
}

static void write_zeros(struct target *t)
{
	uint64_t offset, n;
	uint8_t *buf = buffer();

	pick_range(t, SECTOR, RUN_MAX, &offset, &n);
	memset(buf, 0, n);
	must_io(t, cairn_pwrite_full(t->fd, buf, n, offset) == 0, "write");
	content_zero(&t->vol->content, offset, n);
}

static void map_and_write(struct target *t)
{
	uint64_t offset, n;
	uint8_t *map;

	pick_range(t, BLOCK, RUN_MAX, &offset, &n);
	map = mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_SHARED, t->fd, (off_t)offset);
	must_io(t, map != MAP_FAILED, "mmap");
	dice_fill(&t->world->dice, map, n);
	content_write(&t->vol->content, offset, map, n);
	munmap(map, n);
}

/* Punch, zero or preallocate; discard and zero-out on a device. */
static void deallocate(struct target *t)
{
	static const int modes[] = {
		FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
		FALLOC_FL_ZERO_RANGE | FALLOC_FL_KEEP_SIZE,
		FALLOC_FL_KEEP_SIZE, /* preallocates, changes nothing */
	};
	size_t how = dice_below(&t->world->dice, 3);
	uint64_t offset, n;
	int rc;

	pick_range(t, dice_one_in(&t->world->dice, 3) ? SECTOR : BLOCK, 4U << 20, &offset, &n);
	if (t->vol->use == USE_DEVICE) {
		uint64_t range[2] = {offset, n};

		if (how == 2)
			return;
		/* What was discarded may read as anything, so it is zeroed. */
		rc = ioctl(t->fd, BLKZEROOUT, range);
	} else {
		rc = fallocate(t->fd, modes[how], (off_t)offset, (off_t)n);
	}
	if (rc < 0 && (errno == EOPNOTSUPP || errno == EINVAL))
		return;
	must_io(t, rc == 0, "fallocate");
	if (how != 2)
		content_zero(&t->vol->content, offset, n);
}

/* Shares blocks with another place of the volume, or with an old snapshot. */
static void share(struct target *t)
{
	struct world *world = t->world;
	struct shot *shot =
		world->n_shots ? world->shots[dice_below(&world->dice, world->n_shots)] : NULL;
	bool inside = dice_one_in(&world->dice, 2);
	cairn_auto_free char *path = NULL;
	cairn_auto_fd int fd = -1;
	struct file_clone_range range = {.src_fd = t->fd};
	uint64_t offset, n, from;

	pick_range(t, BLOCK, 1U << 20, &offset, &n);
	from = dice_one_in(&world->dice, 2)
		       ? offset
		       : dice_below(&world->dice, t->vol->content.size / BLOCK) * BLOCK;
	if (!inside) {
		if (!shot || shot->deleted || !shot->content.sums ||
		    pool_snapshot_path(world->pool, shot->id, &path, NULL) != 0)
			return;
		fd = open(path, O_RDONLY | O_CLOEXEC);
		range.src_fd = fd;
	}
	const struct content *source = inside ? &t->vol->content : &shot->content;

	if (t->vol->use != USE_FILE || from + n > source->size)
		return;
	range.src_offset = from;
	range.src_length = n;
	range.dest_offset = offset;
	/* EINVAL: the ranges overlap, or one of them is not on whole blocks. */
	if (ioctl(t->fd, FICLONERANGE, &range) < 0)
		return;
	content_move(&t->vol->content, source, from, offset, n);
}

void change_volume(struct world *world, struct vol *vol)
{
	static void (*const ways[])(struct target *) = {
		write_blocks,  write_blocks, write_blocks, scatter,    write_bytes,
		write_same,    write_zeros,  deallocate,   deallocate, share,
		map_and_write, sweep,        sweep};
	struct target t;
	uint64_t n = 1 + dice_below(&world->dice, 30);

	if (vol->use == USE_MOUNTED) {
		mounted_change(world, vol);
		return;
	}
	if (!vol->known)
		change_learn(world, vol);
	vol->formatted = false;
	open_target(world, vol, &t);
	for (uint64_t i = 0; i < n; i++)
		ways[dice_below(&world->dice, sizeof(ways) / sizeof(ways[0]))](&t);
	if (dice_one_in(&world->dice, 10))
		must_io(&t, fsync(t.fd) == 0, "fsync");
	close(t.fd);
}

void change_learn(struct world *world, struct vol *vol)
{
	struct target t;
	uint64_t size = vol->content.size;

	open_target(world, vol, &t);
	for (uint64_t at = 0; at < size; at += RUN_MAX) {
		size_t n = size - at < RUN_MAX ? size - at : RUN_MAX;

		must_io(&t, cairn_pread_full(t.fd, buffer(), n, at) == (ssize_t)n, "read");
		content_write(&vol->content, at, buffer(), n);
	}
	close(t.fd);
	vol->known = true;
}
