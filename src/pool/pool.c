/* SPDX-License-Identifier: Apache-2.0 */

#include "pool/pool.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/mem.h"
#include "pool/catalogue/catalogue.h"
#include "pool/check/pool_config_rebuild.h"
#include "pool/cleanup_queue.h"
#include "pool/device/attacher.h"
#include "pool/device/loop_device.h"
#include "pool/directory_health.h"
#include "pool/locks.h"
#include "pool/pool_destroy.h"
#include "pool/pool_impl.h"
#include "pool/site.h"
#include "pool/store/blob_dir.h"
#include "pool/store/pool_image.h"
#include "pool/store/reserve.h"
#include "pool/store/store.h"

/* How long a writer waits for other programs to close files of an image that has shut down. */
#define UNMOUNT_WAIT_NS  (2 * CAIRN_NS_PER_SEC)
#define UNMOUNT_PAUSE_MS 10U

static int pool_open_dir(struct pool *pool, const char *dir, struct cairn_err *err)
{
	pool->dir = realpath(dir, NULL);
	if (!pool->dir && errno == ENOENT)
		return cairn_err_set(err, CAIRN_NOT_FOUND,
				     "there is no pool in '%s'; make one with: cairn pool create "
				     "'%s'",
				     dir, dir);
	if (!pool->dir)
		return cairn_err_sys(err, errno, "pool '%s'", dir);
	pool->dir_fd = open(pool->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (pool->dir_fd < 0)
		return cairn_err_sys(err, errno, "open pool '%s'", dir);
	return 0;
}

static int rebuild_marker(struct pool *pool, struct cairn_err *err)
{
	struct marker_rebuilt made;
	int rc = pool_config_rebuild(pool->dir_fd, pool->dir, &made, err);

	if (rc)
		return rc;
	pool->marker = made.marker;
	free(pool->marker_fault);
	pool->marker_fault = cairn_strdup(made.fault);
	return pool->marker_fault ? 0 : cairn_err_nomem(err, "pool");
}

static int read_marker(struct pool *pool, bool for_check, struct cairn_err *err)
{
	int rc = pool_config_read(pool->dir_fd, &pool->marker, err);

	if (for_check &&
	    (rc == CAIRN_DATA_LOSS || rc == CAIRN_NOT_FOUND || rc == CAIRN_UNIMPLEMENTED))
		rc = rebuild_marker(pool, err);
	if (rc && rc != CAIRN_NOT_FOUND)
		return cairn_err_wrap(err, "pool '%s'", pool->dir);
	return rc;
}

/* The marker is read again under the lock: the pool may have been destroyed, or
 * made anew, while this waited. A lock file that was made in a directory without
 * a pool is removed again. */
static int lock_and_read_marker(struct pool *pool, bool for_check, struct cairn_err *err)
{
	int rc = read_marker(pool, for_check, err);

	if (!rc) {
		bool made_dir = pool->marker.made_dir;

		rc = pool_impl_lock_pool(pool->dir_fd, false, pool->lock_wait_ms, &pool->lock_fd,
					 err);
		if (!rc)
			rc = read_marker(pool, for_check, err);
		if (rc == CAIRN_NOT_FOUND) {
			cairn_closep(&pool->lock_fd);
			pool->lock_fd = -1;
			pool_destroy_abandoned_shell(pool->dir, pool->dir_fd, made_dir);
		}
	}
	if (rc == CAIRN_NOT_FOUND)
		return cairn_err_set(err, CAIRN_NOT_FOUND,
				     "there is no pool in '%s'; make one with: cairn pool create "
				     "'%s'",
				     pool->dir, pool->dir);
	if (rc)
		return rc;
	if (!pool->marker.ready)
		return cairn_err_set(err, CAIRN_PRECONDITION,
				     "making the pool '%s' was interrupted; run again: cairn pool "
				     "create '%s'",
				     pool->dir, pool->dir);
	return 0;
}

static bool can_be_read(const char *dir)
{
	cairn_auto_fd int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	return fd >= 0;
}

/* Replaying the log of an image that was not unmounted takes space of its host. A loop device
 * reports EIO where its file's filesystem is full. */
static int mount_with_reserve(struct pool *pool, const char *image, bool *ret_stopped,
			      struct cairn_err *err)
{
	enum image_fs fs = strcmp(pool->marker.image, "btrfs") == 0 ? IMAGE_BTRFS : IMAGE_XFS;
	int rc;

	do {
		rc = pool_image_mount_look(image, fs, pool->root, ret_stopped, err);
		if (rc && err->sys_errno == EIO && pool_reserve_host_is_low(pool))
			rc = cairn_err_set(err, CAIRN_NO_SPACE,
					   "mounting '%s' failed with an I/O error, and the "
					   "filesystem that it is on is full; free some MiB there",
					   image);
	} while (rc == CAIRN_NO_SPACE && pool_reserve_yield(pool->dir_fd));
	return rc;
}

/* A program may have opened it for a moment. An attached volume stays. */
static int unmount_stopped(const struct pool *pool, const char *image)
{
	uint64_t end = cairn_monotonic_ns() + UNMOUNT_WAIT_NS;

	for (;;) {
		int rc = pool_image_unmount_stopped(image, pool->root, NULL);

		if (rc != CAIRN_PRECONDITION || pool->read_only || cairn_monotonic_ns() >= end ||
		    pool_loop_any_below(pool->root))
			return rc;
		cairn_sleep_ms(UNMOUNT_PAUSE_MS);
	}
}

/* Mounts the image. One that has shut down is mounted again, with space for its
 * pending writes; if another process uses it, it is left as it is. Where a btrfs that has
 * shut down can still be listed in part, a reader mounts it again only if the host has
 * that space, or if it failed. */
static int mount_image(struct pool *pool, bool *ret_again, struct cairn_err *err)
{
	cairn_auto_free char *image = cairn_printf("%s/%s", pool->dir, POOL_IMAGE_NAME);
	bool stopped = false;
	int rc;

	if (!image)
		return cairn_err_nomem(err, "pool");
	rc = mount_with_reserve(pool, image, &stopped, err);
	if (rc || !stopped ||
	    (pool->read_only && !pool->has_stopped_before && pool_reserve_host_is_low(pool) &&
	     can_be_read(pool->root)))
		return rc;
	pool_reserve_prepare(pool);
	if (unmount_stopped(pool, image) != 0)
		return 0;
	*ret_again = true;
	return mount_with_reserve(pool, image, &stopped, err);
}

/* Mounts the image if there is one, and opens the data directory. */
static int pool_open_root(struct pool *pool, struct cairn_err *err)
{
	bool has_image = strcmp(pool->marker.image, "none") != 0;
	struct statvfs vfs;
	bool mounted_again = false;
	int sets_fd, rc = 0;

	pool->root = has_image ? cairn_printf("%s/%s", pool->dir, POOL_MOUNT_NAME)
			       : cairn_strdup(pool->dir);
	if (!pool->root)
		return cairn_err_nomem(err, "pool");
	if (has_image)
		rc = mount_image(pool, &mounted_again, err);
	if (rc)
		return cairn_err_wrap(err, "pool '%s'", pool->dir);
	pool->root_fd = open(pool->root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (pool->root_fd < 0 && errno == EIO && has_image)
		return pool_impl_has_shut_down(pool, err);
	if (pool->root_fd < 0)
		return cairn_err_sys(err, errno, "open '%s'", pool->root);
	if (fstatvfs(pool->root_fd, &vfs) < 0)
		return cairn_err_sys(err, errno, "statvfs '%s'", pool->root);
	if ((vfs.f_flag & ST_RDONLY) || faccessat(pool->root_fd, ".", W_OK, AT_EACCESS) < 0)
		pool->read_only = pool->read_only_fs = true;
	if (mounted_again)
		pool_reserve_trim(pool);
	sets_fd = openat(pool->root_fd, POOL_SETS_NAME,
			 O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (sets_fd < 0)
		return cairn_err_sys(err, errno, "open '%s/%s'", pool->root, POOL_SETS_NAME);
	return pool_blob_dir_open(sets_fd, &pool->sets, err);
}

static int directory_open(struct pool *pool, const struct pool_open_spec *spec,
			  struct cairn_err *err)
{
	int (*open_catalogue)(const char *, bool, struct catalogue **, struct cairn_err *) =
		spec->for_check ? pool_catalogue_open_lossy : pool_catalogue_open;
	int rc = pool_open_dir(pool, spec->dir, err);

	if (!rc)
		rc = lock_and_read_marker(pool, spec->for_check, err);
	if (!rc)
		rc = pool_open_root(pool, err);
	if (!rc)
		rc = open_catalogue(pool->root, !pool->read_only, &pool->cat, err);
	while (pool_reserve_helps(pool, rc, err))
		rc = open_catalogue(pool->root, !pool->read_only, &pool->cat, err);
	if (!rc)
		pool_reserve_expect(pool);
	if (!rc)
		rc = pool_store_open(pool->marker.backend, pool->root, !pool->read_only,
				     &pool->store, err);
	if (!rc)
		rc = pool_attacher_open_files(pool->store, &pool->attacher, err);
	return rc ? rc : pool_locks_open_file(pool->dir_fd, POOL_LOCK_NAME, &pool->locks, err);
}

/* *stopped: whether the last attempt failed because the image's filesystem shut down. */
static int pool_open_once(const struct pool_open_spec *spec, bool *stopped, struct pool **ret,
			  struct cairn_err *err)
{
	cairn_cleanup(pool_closep) struct pool *pool = cairn_calloc(1, sizeof(*pool));
	int rc;

	if (!pool)
		return cairn_err_nomem(err, "pool");
	pool->site = pool_site_of(spec->dir);
	pool->dir_fd = pool->root_fd = pool->lock_fd = -1;
	pool->read_only = spec->read_only;
	pool->has_stopped_before = *stopped;
	pool->lock_wait_ms = spec->lock_wait_ms;
	rc = pool->site->open(pool, spec, err);
	if (!rc && !spec->settle_later && !pool_catalogue_log_fault(pool->cat))
		rc = pool_settle(pool, NULL, err);
	*stopped = rc && pool_has_stopped(pool, err);
	if (rc)
		return rc;
	*ret = cairn_take(pool);
	return 0;
}

/* Again for an image whose filesystem shut down after it was looked at: its host may be full. */
int pool_open(const struct pool_open_spec *spec, struct pool **ret, struct cairn_err *err)
{
	struct cairn_err why = {0};
	bool stopped = false;
	int rc = pool_open_once(spec, &stopped, ret, &why);

	for (unsigned try = 1; try < POOL_STOP_TRIES && rc && stopped; try++) {
		why = (struct cairn_err){0};
		rc = pool_open_once(spec, &stopped, ret, &why);
	}
	if (rc && err)
		*err = why;
	return rc;
}

int pool_settle(struct pool *pool, const struct store_progress *progress, struct cairn_err *err)
{
	return pool->read_only ? 0 : pool_cleanup_settle_all(pool, progress, err);
}

void pool_close(struct pool *pool)
{
	pool_attacher_closep(&pool->attacher);
	pool_store_closep(&pool->store);
	pool_catalogue_closep(&pool->cat);
	pool_blobs_closep(&pool->sets);
	pool_locks_closep(&pool->locks);
	if (pool->site->close)
		pool->site->close(pool);
	cairn_closep(&pool->root_fd);
	cairn_closep(&pool->lock_fd);
	cairn_closep(&pool->dir_fd);
	free(pool->marker_fault);
	free(pool->root);
	free(pool->dir);
	free(pool);
}

struct pool_hold pool_hold_take(struct pool *pool)
{
	return (struct pool_hold){
		.lock_fd = fcntl(pool->lock_fd, F_DUPFD_CLOEXEC, 3),
		.index_fd = pool_catalogue_hold(pool->cat),
	};
}

void pool_hold_release(struct pool_hold *hold)
{
	cairn_closep(&hold->index_fd);
	cairn_closep(&hold->lock_fd);
	*hold = (struct pool_hold){-1, -1};
}

/* An image is sparse: space that its host does not have is not free. */
static int directory_limit_space(struct pool *pool, struct store_usage *usage,
				 struct cairn_err *err)
{
	struct statvfs host;
	uint64_t host_free;

	if (strcmp(pool->marker.image, "none") == 0)
		return 0;
	if (fstatvfs(pool->dir_fd, &host) < 0)
		return cairn_err_sys(err, errno, "statvfs '%s'", pool->dir);
	host_free = (uint64_t)host.f_bavail * host.f_frsize;
	if (host_free < usage->free_bytes)
		usage->free_bytes = host_free;
	return 0;
}

static int directory_absolute(const char *dir, char *ret, size_t n, struct cairn_err *err)
{
	cairn_auto_free char *path = realpath(dir, NULL);

	if (!path || strlen(path) >= n)
		return cairn_err_sys(err, path ? ENAMETOOLONG : errno, "find '%s'", dir);
	memcpy(ret, path, strlen(path) + 1);
	return 0;
}

const struct pool_site_ops pool_directory_site = {
	.name = "directory",
	.create = pool_directory_create,
	.destroy = pool_directory_destroy,
	.open = directory_open,
	.absolute = directory_absolute,
	.limit_space = directory_limit_space,
	.has_stopped = pool_directory_has_stopped,
	.wants_reopening = pool_directory_wants_reopening,
	.look = pool_directory_look,
};

bool pool_has_stopped(struct pool *pool, const struct cairn_err *err)
{
	return pool->site->has_stopped && pool->site->has_stopped(pool, err);
}

bool pool_wants_reopening(struct pool *pool)
{
	return pool->site->wants_reopening && pool->site->wants_reopening(pool);
}

int pool_space_get(struct pool *pool, struct pool_space *ret, struct cairn_err *err)
{
	struct store_usage usage;
	int rc = pool_store_usage_get(pool->store, &usage, err);

	if (!rc && pool->site->limit_space)
		rc = pool->site->limit_space(pool, &usage, err);
	if (!rc)
		*ret = (struct pool_space){usage.total_bytes, usage.free_bytes};
	return rc;
}

const char *pool_id(const struct pool *pool)
{
	return pool->marker.id;
}

const char *pool_directory(const struct pool *pool)
{
	return pool->dir;
}
