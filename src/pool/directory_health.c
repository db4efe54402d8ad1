/* SPDX-License-Identifier: Apache-2.0 */

#include "pool/directory_health.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/err.h"
#include "pool/device/loop_device.h"
#include "pool/pool.h"
#include "pool/pool_impl.h"
#include "pool/store/pool_image.h"
#include "pool/store/reserve.h"

/* How long to wait for a filesystem that reports EIO to shut down. */
#define STOP_TURNS    10U
#define STOP_PAUSE_MS 10U

void pool_directory_look(struct pool *pool, struct pool_condition *ret)
{
	struct statvfs fs;

	ret->abnormal = fstatvfs(pool->root_fd, &fs) < 0 || (fs.f_flag & ST_RDONLY);
	if (!ret->abnormal)
		return;
	if (fstatvfs(pool->root_fd, &fs) < 0)
		snprintf(ret->reason, sizeof(ret->reason),
			 "the pool's filesystem can not be reached: %s", strerrordesc_np(errno));
	else
		snprintf(ret->reason, sizeof(ret->reason), "the pool's filesystem is read-only");
}

/* A filesystem that has shut down opens nothing, or is read-only. */
static bool storage_works(const struct pool *pool)
{
	cairn_auto_fd int fd = openat(pool->root_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct statvfs fs;

	return fd >= 0 && fstatvfs(fd, &fs) == 0 && !(fs.f_flag & ST_RDONLY);
}

static bool image_has_stopped(const struct pool *pool)
{
	return pool->root && strcmp(pool->marker.image, "none") != 0 && !storage_works(pool) &&
	       pool_image_has_stopped(pool->root);
}

/* Calls may fail with EIO a moment before the filesystem shuts down. */
bool pool_directory_has_stopped(struct pool *pool, const struct cairn_err *err)
{
	for (unsigned turn = 0; turn < STOP_TURNS; turn++) {
		if (image_has_stopped(pool))
			return true;
		if (err->sys_errno != EIO)
			return false;
		cairn_sleep_ms(STOP_PAUSE_MS);
	}
	return false;
}

bool pool_directory_wants_reopening(struct pool *pool)
{
	struct stat reserve;

	if (!image_has_stopped(pool) || pool_loop_any_below(pool->root))
		return false;
	return !pool_reserve_host_is_low(pool) ||
	       (fstatat(pool->dir_fd, POOL_RESERVE_NAME, &reserve, AT_SYMLINK_NOFOLLOW) == 0 &&
		reserve.st_size > 0);
}
