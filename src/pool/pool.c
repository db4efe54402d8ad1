/* SPDX-License-Identifier: Apache-2.0 */

#include "pool/pool.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/err.h"
#include "base/mem.h"
#include "pool/catalogue/catalogue.h"
#include "pool/catalogue/records.h"
#include "pool/check/pool_config_rebuild.h"
#include "pool/cleanup_queue.h"
#include "pool/pool_destroy.h"
#include "pool/pool_impl.h"
#include "pool/store/pool_image.h"
#include "pool/store/reserve.h"
#include "pool/store/store.h"

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

/* Mounts the image. One that has shut down is mounted again, with space for its
 * pending writes; if another process uses it, it is left as it is. */
static int mount_image(struct pool *pool, struct cairn_err *err)
{
	enum image_fs fs = strcmp(pool->marker.image, "btrfs") == 0 ? IMAGE_BTRFS : IMAGE_XFS;
	cairn_auto_free char *image = cairn_printf("%s/%s", pool->dir, POOL_IMAGE_NAME);
	bool stopped = false;
	int rc;

	if (!image)
		return cairn_err_nomem(err, "pool");
	rc = pool_image_mount_look(image, fs, pool->root, &stopped, err);
	if (!rc && stopped && !pool->read_only) {
		pool_reserve_prepare(pool);
		if (pool_image_unmount_unsynced(pool->root, NULL) == 0)
			rc = pool_image_mount(image, fs, pool->root, err);
	}
	return rc;
}

/* Mounts the image if there is one, and opens the data directory. */
static int pool_open_root(struct pool *pool, struct cairn_err *err)
{
	bool has_image = strcmp(pool->marker.image, "none") != 0;
	struct statvfs vfs;
	int rc = 0;

	pool->root = has_image ? cairn_printf("%s/%s", pool->dir, POOL_MOUNT_NAME)
			       : cairn_strdup(pool->dir);
	if (!pool->root)
		return cairn_err_nomem(err, "pool");
	if (has_image)
		rc = mount_image(pool, err);
	if (rc)
		return cairn_err_wrap(err, "pool '%s'", pool->dir);
	pool->root_fd = open(pool->root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (pool->root_fd < 0)
		return cairn_err_sys(err, errno, "open '%s'", pool->root);
	if (fstatvfs(pool->root_fd, &vfs) < 0)
		return cairn_err_sys(err, errno, "statvfs '%s'", pool->root);
	if ((vfs.f_flag & ST_RDONLY) || faccessat(pool->root_fd, ".", W_OK, AT_EACCESS) < 0)
		pool->read_only = pool->read_only_fs = true;
	pool->sets_fd = openat(pool->root_fd, POOL_SETS_NAME,
			       O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (pool->sets_fd < 0)
		return cairn_err_sys(err, errno, "open '%s/%s'", pool->root, POOL_SETS_NAME);
	return 0;
}

int pool_open(const struct pool_open_spec *spec, struct pool **ret, struct cairn_err *err)
{
	cairn_cleanup(pool_closep) struct pool *pool = cairn_calloc(1, sizeof(*pool));
	int (*open_catalogue)(const char *, bool, struct catalogue **, struct cairn_err *) =
		spec->for_check ? pool_catalogue_open_lossy : pool_catalogue_open;
	int rc;

	if (!pool)
		return cairn_err_nomem(err, "pool");
	pool->dir_fd = pool->root_fd = pool->sets_fd = pool->lock_fd = -1;
	pool->read_only = spec->read_only;
	pool->lock_wait_ms = spec->lock_wait_ms;
	rc = pool_open_dir(pool, spec->dir, err);
	if (!rc)
		rc = lock_and_read_marker(pool, spec->for_check, err);
	if (!rc)
		rc = pool_open_root(pool, err);
	if (!rc)
		rc = open_catalogue(pool->root, !pool->read_only, &pool->cat, err);
	while (pool_reserve_helps(pool, rc, err))
		rc = open_catalogue(pool->root, !pool->read_only, &pool->cat, err);
	if (!rc)
		rc = pool_store_open(pool->marker.backend, pool->root, !pool->read_only,
				     &pool->store, err);
	if (!rc && !spec->settle_later && !pool_catalogue_log_fault(pool->cat))
		rc = pool_settle(pool, NULL, err);
	if (rc)
		return rc;
	*ret = cairn_take(pool);
	return 0;
}

int pool_settle(struct pool *pool, const struct store_progress *progress, struct cairn_err *err)
{
	return pool->read_only ? 0 : pool_cleanup_settle_all(pool, progress, err);
}

void pool_close(struct pool *pool)
{
	pool_store_closep(&pool->store);
	pool_catalogue_closep(&pool->cat);
	cairn_closep(&pool->sets_fd);
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

int pool_space_get(struct pool *pool, struct pool_space *ret, struct cairn_err *err)
{
	struct store_usage usage;
	int rc = pool_store_usage_get(pool->store, &usage, err);

	if (rc)
		return rc;
	/* An image is sparse: space that its host does not have is not free. */
	if (strcmp(pool->marker.image, "none") != 0) {
		struct statvfs host;
		uint64_t host_free;

		if (fstatvfs(pool->dir_fd, &host) < 0)
			return cairn_err_sys(err, errno, "statvfs '%s'", pool->dir);
		host_free = (uint64_t)host.f_bavail * host.f_frsize;
		if (host_free < usage.free_bytes)
			usage.free_bytes = host_free;
	}
	*ret = (struct pool_space){usage.total_bytes, usage.free_bytes};
	return 0;
}

static int pool_count_volume(void *arg, const struct record_volume *volume, struct cairn_err *err)
{
	struct pool_info *info = arg;

	(void)err;
	if (!volume->deleted)
		info->volumes++;
	return 0;
}

static int count_snapshot(void *arg, const struct record_snapshot *snapshot, struct cairn_err *err)
{
	struct pool_info *info = arg;

	(void)err;
	if (snapshot->deleted)
		info->tombstones++;
	else
		info->snapshots++;
	return 0;
}

const char *pool_id(const struct pool *pool)
{
	return pool->marker.id;
}

const char *pool_directory(const struct pool *pool)
{
	return pool->dir;
}

int pool_info_get(struct pool *pool, struct pool_info *ret, struct cairn_err *err)
{
	struct pool_info info = {
		.backend = pool_store_backend(pool->store),
		.image = strcmp(pool->marker.image, "none") != 0,
		.read_only = pool->read_only_fs,
		.retention_ms = pool->marker.retention_ms,
		.granularity = pool->marker.granularity,
	};
	struct ledger_walk walk = {
		.volume = pool_count_volume, .snapshot = count_snapshot, .arg = &info};
	struct pool_space space;
	int rc = pool_space_get(pool, &space, err);

	if (!rc)
		rc = pool_records_walk_volumes(pool->cat, &walk, err);
	if (!rc)
		rc = pool_records_walk_snapshots(pool->cat, &walk, err);
	if (rc)
		return rc;
	snprintf(info.dir, sizeof(info.dir), "%s", pool->dir);
	info.total_bytes = space.total_bytes;
	info.free_bytes = space.free_bytes;
	*ret = info;
	return 0;
}
