/* SPDX-License-Identifier: Apache-2.0 */

#include "world.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/io.h"
#include "pool/device/volume_device.h"
#include "pool/store/pool_image.h"

#define IMAGE_SIZE (12ULL << 30) /* sparse */

/* The kernel slows writers down where it finds a device slow; under load that
 * hits loop devices, and only makes the test longer. */
static void do_not_throttle(const char *image)
{
	char device[DEVICE_PATH_MAX] = "", path[PATH_TEXT_MAX];
	cairn_auto_fd int fd = -1;

	if (pool_device_find(image, device, NULL) != 0 || strncmp(device, "/dev/", 5) != 0)
		return;
	snprintf(path, sizeof(path), "/sys/block/%s/queue/wbt_lat_usec", device + 5);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd >= 0)
		(void)cairn_write_full(fd, "0", 1);
}

static bool make_base(struct world *world, struct cairn_err *err)
{
	enum image_fs fs = world->place->base == BASE_XFS ? IMAGE_XFS : IMAGE_BTRFS;
	char file[PATH_TEXT_MAX];

	if (world->place->base == BASE_PLAIN) {
		snprintf(world->base, sizeof(world->base), "%s", world->dir);
		return true;
	}
	snprintf(file, sizeof(file), "%.400s/base.img", world->dir);
	snprintf(world->base, sizeof(world->base), "%.400s/base", world->dir);
	if (pool_image_make(file, fs, IMAGE_SIZE, err) != 0 ||
	    pool_image_mount(file, fs, world->base, err) != 0)
		return false;
	do_not_throttle(file);
	if (world->place->base == BASE_BTRFS_COMPRESSED &&
	    mount(NULL, world->base, NULL, MS_REMOUNT, "compress-force=zstd:1") != 0) {
		cairn_err_set(err, CAIRN_UNIMPLEMENTED, "btrfs cannot compress here");
		return false;
	}
	return true;
}

static bool make_pool(struct world *world, bool in_image, struct cairn_err *err)
{
	struct pool_create_result made = {0};
	struct pool_create_spec spec = {
		.dir = world->pool_dir,
		.backend = world->place->backend,
		.image_size = in_image ? IMAGE_SIZE : 0,
		.retention_ms = world->retention_ms,
	};
	const struct pool_open_spec open_spec = {.dir = world->pool_dir,
						 .lock_wait_ms = POOL_LOCK_WAIT_DEFAULT_MS};
	struct pool_info info;

	snprintf(world->pool_dir, sizeof(world->pool_dir), "%.400s/pool", world->base);
	if (pool_create(&spec, &made, err) != 0 || pool_open(&open_spec, &world->pool, err) != 0)
		return false;
	/* An image of the pool's own is what a balance has to work on. */
	if (made.image && pool_info_get(world->pool, &info, err) == 0) {
		char file[PATH_TEXT_MAX];

		snprintf(world->base, sizeof(world->base), "%.400s/data", info.dir);
		snprintf(file, sizeof(file), "%.400s/pool.img", info.dir);
		do_not_throttle(file);
	}
	return true;
}

bool world_begin(struct world *world, const char *scratch, char *reason, size_t n)
{
	struct cairn_err err = {0};
	struct image_host host = {0};

	if (pool_image_probe(scratch, &host, &err) != 0 ||
	    (world->place->needs_mount && !host.can_mount)) {
		snprintf(reason, n, "%s", err.code ? err.msg : "this process may not mount");
		return false;
	}
	world->can_attach = host.can_mount;
	snprintf(world->dir, sizeof(world->dir), "%.300s/cairn-opsfuzz-XXXXXX", scratch);
	if (!mkdtemp(world->dir)) {
		world->dir[0] = '\0';
		snprintf(reason, n, "no directory can be made in %s", scratch);
		return false;
	}
	bool in_image =
		world->place->base == BASE_PLAIN && world->place->is_btrfs && !host.is_btrfs;

	if (make_base(world, &err) && make_pool(world, in_image, &err)) {
		act_create_volume(world, 20U << 20);
		act_create_volume(world, (6U << 20) + 3 * SECTOR);
		return true;
	}
	snprintf(reason, n, "%s", err.msg);
	world_end(world);
	return false;
}

static void stop_using(struct world *world, struct vol *vol)
{
	char path[PATH_TEXT_MAX];

	mounted_path(world, vol, path);
	if (vol->use == USE_MOUNTED && umount(path) == 0)
		rmdir(path);
	if (vol->hold >= 0)
		close(vol->hold);
	if (vol->use != USE_FILE && world->pool)
		(void)pool_volume_detach(world->pool, vol->name, NULL);
	content_done(&vol->content);
}

void world_end(struct world *world)
{
	char path[PATH_TEXT_MAX];

	if (world->balancing)
		pthread_join(world->balance, NULL);
	world->balancing = false;
	for (size_t i = 0; i < world->n_vols; i++)
		stop_using(world, &world->vols[i]);
	pool_closep(&world->pool);
	world->pool = NULL;
	for (size_t i = 0; i < world->n_shots; i++) {
		content_done(&world->shots[i]->content);
		free(world->shots[i]);
	}
	free(world->shots);
	if (!world->dir[0] || world->keep)
		return;
	(void)pool_destroy(world->pool_dir, NULL);
	snprintf(path, sizeof(path), "%.400s/base", world->dir);
	(void)pool_image_unmount(path, NULL);
	rmdir(path);
	snprintf(path, sizeof(path), "%.400s/base.img", world->dir);
	unlink(path);
	if (rmdir(world->dir) != 0)
		fprintf(stderr, "opsfuzz: %s is not empty\n", world->dir);
}

void world_fail(struct world *world, const char *fmt, ...)
{
	va_list args;

	fprintf(stderr,
		"FAILED on %s, step %" PRIu64 ", retention %" PRIu64 " ms: ", world->place->name,
		world->step, world->retention_ms);
	va_start(args, fmt);
	vfprintf(stderr, fmt, args);
	va_end(args);
	fprintf(stderr, "\nseen again with: --backend %s --seed %" PRIu64 " --scale %" PRIu64 "\n",
		world->place->name, world->seed, world->scale);
	if (world->keep)
		fprintf(stderr, "kept: %s\n", world->dir);
	world_end(world);
	exit(1);
}
