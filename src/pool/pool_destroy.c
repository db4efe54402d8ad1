/* SPDX-License-Identifier: Apache-2.0 */

#include "pool/pool_destroy.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/io.h"
#include "base/mem.h"
#include "pool/device/volume_device.h"
#include "pool/pool.h"
#include "pool/pool_config.h"
#include "pool/pool_impl.h"
#include "pool/site.h"
#include "pool/store/belongings.h"
#include "pool/store/pool_image.h"
#include "pool/store/reserve.h"
#include "pool/store/store.h"

struct sweep {
	struct store *store;
	enum store_kind kind;
	bool remove; /* otherwise only check that it is not in use and detach it */
};

static int sweep_object(void *arg, const char *id, struct cairn_err *err)
{
	const struct sweep *sweep = arg;
	struct store_ref ref = {sweep->kind, id};
	cairn_auto_free char *path = NULL;
	int rc;

	if (!pool_belongings_is_object(id))
		return 0;
	if (sweep->remove)
		return pool_store_remove(sweep->store, ref, err);
	rc = pool_store_path(sweep->store, ref, &path, err);
	if (!rc)
		rc = pool_device_detach(path, err);
	return rc == CAIRN_NOT_FOUND ? 0 : rc; /* half-made: it cannot be in use */
}

static int drop_aside(void *arg, const char *id, struct cairn_err *err)
{
	const struct sweep *sweep = arg;

	if (!pool_belongings_is_object(id))
		return 0;
	return pool_store_drop_aside(sweep->store, (struct store_ref){sweep->kind, id}, err);
}

static int sweep_store(struct store *store, bool remove, struct cairn_err *err)
{
	static const enum store_kind kinds[] = {STORE_VOLUME, STORE_SNAPSHOT};

	for (size_t i = 0; i < 2; i++) {
		struct sweep sweep = {.store = store, .kind = kinds[i], .remove = remove};
		int rc = pool_store_list(store, kinds[i], sweep_object, &sweep, err);

		if (!rc && remove)
			rc = pool_store_list_aside(store, kinds[i], drop_aside, &sweep, err);
		if (rc)
			return rc;
	}
	return 0;
}

static int unlink_known(int fd, const char *name, int flags, struct cairn_err *err)
{
	if (unlinkat(fd, name, flags) < 0 && errno != ENOENT)
		return cairn_err_sys(err, errno, "remove '%s'", name);
	return 0;
}

/* Removes the set files; a file of another name is not ours and stays. */
static int remove_sets(int root_fd, struct cairn_err *err)
{
	int fd = openat(root_fd, POOL_SETS_NAME, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
	struct dirent *entry;

	if (!dir) {
		if (fd >= 0)
			close(fd);
		return errno == ENOENT ? 0 : cairn_err_sys(err, errno, "open '%s'", POOL_SETS_NAME);
	}
	while ((entry = readdir(dir)))
		if (pool_belongings_is_set(entry->d_name))
			unlinkat(dirfd(dir), entry->d_name, 0);
	closedir(dir);
	if (unlinkat(root_fd, POOL_SETS_NAME, AT_REMOVEDIR) < 0 && errno != ENOTEMPTY &&
	    errno != EEXIST)
		return cairn_err_sys(err, errno, "remove '%s'", POOL_SETS_NAME);
	return 0;
}

static int remove_plain(const char *root, int root_fd, const struct marker *marker,
			struct cairn_err *err)
{
	static const char *const files[] = {"catalogue.db",       "catalogue.db-wal",
					    "catalogue.db-shm",   "catalogue.db-journal",
					    "catalogue.db-trust", POOL_RESERVE_NAME};
	static const char *const dirs[] = {"volumes", "snapshots"};
	cairn_cleanup(pool_store_closep) struct store *store = NULL;
	int rc = pool_store_open(marker->backend, root, true, &store, err);

	if (!rc)
		do /* btrfs refuses to remove a subvolume at its quota */
			rc = sweep_store(store, true, err);
		while (rc == CAIRN_NO_SPACE && pool_reserve_yield(root_fd));
	if (!rc)
		rc = remove_sets(root_fd, err);
	for (size_t i = 0; i < sizeof(files) / sizeof(files[0]) && !rc; i++)
		rc = unlink_known(root_fd, files[i], 0, err);
	for (size_t i = 0; i < 2; i++)
		if (!rc && unlinkat(root_fd, dirs[i], AT_REMOVEDIR) < 0 && errno != ENOENT &&
		    errno != ENOTEMPTY && errno != EEXIST)
			rc = cairn_err_sys(err, errno, "remove '%s'", dirs[i]);
	return rc;
}

/* The image is removed as a whole; if it contains foreign files, it stays. */
static int refuse_foreign(const char *mount, struct cairn_err *err)
{
	cairn_auto_fd int fd = open(mount, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	cairn_auto_free char *foreign = NULL;
	int rc;

	if (fd < 0)
		return cairn_err_sys(err, errno, "open '%s'", mount);
	rc = pool_belongings_find_foreign(fd, &foreign, err);
	if (!rc && foreign)
		return cairn_err_set(err, CAIRN_PRECONDITION,
				     "'%s/%s' is not part of the pool; move it away first", mount,
				     foreign);
	return rc;
}

/* Mounts an image that is not mounted, to examine it. If that fails, its
 * contents are not accessible to any user. */
static void mount_to_look(const char *dir, const struct marker *marker, const char *mount,
			  bool *ret_mounted)
{
	cairn_auto_free char *image = cairn_printf("%s/%s", dir, POOL_IMAGE_NAME);
	enum image_fs fs = strcmp(marker->image, "btrfs") == 0 ? IMAGE_BTRFS : IMAGE_XFS;

	*ret_mounted = image && pool_image_mount(image, fs, mount, NULL) == 0;
}

/* A filesystem that has shut down, for example because its host was full, cannot
 * be read before it is mounted again. */
static int look_into_image(const char *dir, const struct marker *marker, const char *mount,
			   bool *mounted, struct cairn_err *err)
{
	int rc = refuse_foreign(mount, err);

	if (rc == 0 || rc == CAIRN_PRECONDITION)
		return rc;
	rc = pool_image_unmount_unsynced(mount, err);
	if (rc)
		return rc;
	mount_to_look(dir, marker, mount, mounted);
	return *mounted ? refuse_foreign(mount, err) : 0;
}

static int remove_image(int dir_fd, const char *mount, struct cairn_err *err)
{
	int rc = pool_image_unmount_unsynced(mount, err);

	if (!rc)
		rc = unlink_known(dir_fd, POOL_IMAGE_NAME, 0, err);
	if (!rc)
		rc = unlink_known(dir_fd, POOL_MOUNT_NAME, AT_REMOVEDIR, err);
	return rc;
}

/* Detaches every volume first: if one is in use nothing is removed. */
static int detach_all(const char *root, const struct marker *marker, struct cairn_err *err)
{
	cairn_cleanup(pool_store_closep) struct store *store = NULL;
	int rc = pool_store_open(marker->backend, root, true, &store, err);

	return rc ? rc : sweep_store(store, false, err);
}

int pool_destroy_contents(const char *dir, int dir_fd, const struct marker *marker,
			  struct cairn_err *err)
{
	bool has_image = strcmp(marker->image, "none") != 0;
	cairn_auto_free char *mount = cairn_printf("%s/%s", dir, POOL_MOUNT_NAME);
	bool mounted = false;
	int rc = 0;

	if (!mount)
		return cairn_err_nomem(err, "pool");
	if (has_image && faccessat(dir_fd, POOL_MOUNT_NAME, F_OK, 0) == 0)
		rc = pool_image_is_mounted(mount, &mounted, err);
	/* Free the reserve of a full host, so that the image can be
	 * examined. */
	if (!rc && has_image)
		rc = unlink_known(dir_fd, POOL_RESERVE_NAME, 0, err);
	if (!rc && has_image && marker->ready && !mounted)
		mount_to_look(dir, marker, mount, &mounted);
	if (!rc && mounted)
		rc = look_into_image(dir, marker, mount, &mounted, err);
	if (!rc && (mounted || !has_image))
		rc = detach_all(mounted ? mount : dir, marker, err);
	if (rc)
		return rc;
	rc = has_image ? remove_image(dir_fd, mount, err) : remove_plain(dir, dir_fd, marker, err);
	if (!rc)
		rc = unlink_known(dir_fd, MARKER_NAME ".tmp", 0, err);
	if (!rc)
		rc = unlink_known(dir_fd, MARKER_NAME, 0, err);
	return rc ? rc : cairn_sync_dir(dir_fd, MARKER_NAME, err);
}

/* It is held for a few system calls. */
#define SHELL_WAIT_MS 2000U

void pool_remove_lock_shell(int dir_fd)
{
	for (unsigned i = 0; i < SHELL_WAIT_MS && flock(dir_fd, LOCK_EX | LOCK_NB) < 0; i++) {
		if (errno != EWOULDBLOCK && errno != EINTR)
			return;
		cairn_sleep_ms(1);
	}
}

void pool_remove_unlock_shell(int dir_fd)
{
	(void)flock(dir_fd, LOCK_UN);
}

static void remove_shell_locked(const char *dir, int dir_fd, bool made_dir)
{
	struct stat st;

	if (fstatat(dir_fd, MARKER_NAME, &st, AT_SYMLINK_NOFOLLOW) == 0 ? S_ISREG(st.st_mode)
									: errno != ENOENT)
		return;
	/* Our lock file is empty; a file with contents belongs to another
	 * program. */
	if (fstatat(dir_fd, POOL_LOCK_NAME, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(st.st_mode) &&
	    st.st_size == 0)
		unlinkat(dir_fd, POOL_LOCK_NAME, 0);
	if (made_dir && dir)
		rmdir(dir);
}

void pool_destroy_shell(const char *dir, int dir_fd, bool made_dir)
{
	pool_remove_lock_shell(dir_fd);
	remove_shell_locked(dir, dir_fd, made_dir);
	pool_remove_unlock_shell(dir_fd);
}

void pool_destroy_abandoned_shell(const char *dir, int dir_fd, bool made_dir)
{
	cairn_auto_fd int lock = -1;

	if (pool_impl_lock_pool(dir_fd, true, POOL_DESTROY_WAIT_MS, &lock, NULL) == 0)
		pool_destroy_shell(dir, dir_fd, made_dir);
}

int pool_directory_destroy(const char *dir, struct cairn_err *err)
{
	cairn_auto_free char *path = realpath(dir, NULL);
	cairn_auto_fd int dir_fd = -1;
	cairn_auto_fd int lock = -1;
	struct marker marker;
	int rc;

	dir_fd = path ? open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
	rc = dir_fd < 0 ? CAIRN_NOT_FOUND : pool_config_read(dir_fd, &marker, err);
	if (rc == CAIRN_NOT_FOUND)
		return cairn_err_set(err, CAIRN_NOT_FOUND, "there is no pool in '%s'", dir);
	if (rc)
		return rc;
	rc = pool_impl_lock_pool(dir_fd, true, POOL_DESTROY_WAIT_MS, &lock, err);
	if (rc == CAIRN_ABORTED)
		return cairn_err_set(err, CAIRN_PRECONDITION,
				     "another process is using the pool '%s'", dir);
	/* Another process may have destroyed or recreated it meanwhile. */
	bool made_dir = marker.made_dir;

	if (!rc)
		rc = pool_config_read(dir_fd, &marker, err);
	if (!rc) {
		made_dir = marker.made_dir;
		rc = pool_destroy_contents(path, dir_fd, &marker, err);
	} else if (rc == CAIRN_NOT_FOUND) {
		rc = cairn_err_set(err, CAIRN_NOT_FOUND, "there is no pool in '%s'", dir);
	}
	if (lock >= 0)
		pool_destroy_shell(path, dir_fd, made_dir);
	return rc;
}
