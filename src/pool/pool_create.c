/* SPDX-License-Identifier: Apache-2.0 */

/* Creates a pool.
 *
 * The marker is written first, as "creating", and again as "ready" at the end.
 * A pool that is only "creating" was interrupted; it is removed like any other
 * pool and created again.
 */

#include "pool/pool.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/io.h"
#include "base/mem.h"
#include "base/num.h"
#include "base/random.h"
#include "block/set.h"
#include "pool/catalogue/catalogue.h"
#include "pool/pool_destroy.h"
#include "pool/pool_impl.h"
#include "pool/site.h"
#include "pool/store/pool_image.h"
#include "pool/store/store.h"

/* Share of the free space that an image takes unless a size is given. The image
 * is sparse, so this is a bound and not a cost; the remaining space keeps the
 * host from filling up. */
#define IMAGE_SHARE_PERCENT 90

/* How long to wait for another process that is making the same pool. */
#define CREATE_WAIT_MS 30000ULL

struct creation {
	const struct pool_create_spec *spec;
	char *dir; /* absolute */
	int dir_fd;
	int lock_fd;
	struct marker marker;
	struct image_host host;
	uint64_t image_size;
	struct pool_create_result result;
};

static void pool_create_choose(struct creation *c, const char *backend, const char *image,
			       const char *why)
{
	snprintf(c->marker.backend, sizeof(c->marker.backend), "%s", backend);
	snprintf(c->marker.image, sizeof(c->marker.image), "%s", image);
	snprintf(c->result.reason, sizeof(c->result.reason), "%s", why);
}

static void choose_auto(struct creation *c)
{
	const struct image_host *host = &c->host;

	if (host->is_btrfs && host->can_tree_search)
		pool_create_choose(c, "btrfs", "none", "the directory is on btrfs");
	else if (host->is_btrfs && host->can_reflink)
		pool_create_choose(
			c, "reflink", "none",
			"the directory is on btrfs, and without root its blocks can be shared but "
			"its trees not read");
	else if (host->can_reflink)
		pool_create_choose(c, "reflink", "none",
				   "the directory is on a filesystem that shares blocks");
	else if (host->can_mount)
		pool_create_choose(
			c, "btrfs", "btrfs",
			"the directory's filesystem cannot share blocks, so a btrfs image is "
			"mounted in it");
	else
		pool_create_choose(
			c, "copy", "none",
			"the directory's filesystem cannot share blocks and mounting is not "
			"allowed here: every snapshot is a sparse copy");
}

static int choose_btrfs(struct creation *c, struct cairn_err *err)
{
	if (c->host.is_btrfs && c->host.can_tree_search)
		pool_create_choose(c, "btrfs", "none", "the directory is on btrfs");
	else if (c->host.can_mount)
		pool_create_choose(c, "btrfs", "btrfs",
				   "a btrfs image is mounted in the directory");
	else
		return cairn_err_set(err, CAIRN_PRECONDITION,
				     "the btrfs back end needs root, and a btrfs directory or the "
				     "right to mount; use --backend auto");
	return 0;
}

static int choose_reflink(struct creation *c, struct cairn_err *err)
{
	if (c->host.can_reflink)
		pool_create_choose(c, "reflink", "none",
				   "the directory is on a filesystem that shares blocks");
	else if (c->host.can_mount)
		pool_create_choose(c, "reflink", "xfs", "an XFS image is mounted in the directory");
	else
		return cairn_err_set(err, CAIRN_PRECONDITION,
				     "the reflink back end needs a filesystem that shares blocks "
				     "(btrfs, XFS) or the right to mount one; use --backend auto");
	return 0;
}

static int choose_backend(struct creation *c, struct cairn_err *err)
{
	switch (c->spec->backend) {
	case POOL_BACKEND_AUTO:
		choose_auto(c);
		return 0;
	case POOL_BACKEND_BTRFS:
		return choose_btrfs(c, err);
	case POOL_BACKEND_REFLINK:
		return choose_reflink(c, err);
	case POOL_BACKEND_COPY:
		pool_create_choose(c, "copy", "none", "asked for: every snapshot is a sparse copy");
		return 0;
	}
	return cairn_err_set(err, CAIRN_INVALID, "unknown back end");
}

static int choose_image_size(struct creation *c, struct cairn_err *err)
{
	char text[CAIRN_SIZE_TEXT_MAX];

	if (strcmp(c->marker.image, "none") == 0) {
		if (c->spec->image_size && c->spec->backend != POOL_BACKEND_AUTO)
			return cairn_err_set(err, CAIRN_INVALID,
					     "a size was given, but no image is needed: %s",
					     c->result.reason);
		return 0;
	}
	c->image_size = c->spec->image_size ? c->spec->image_size
					    : c->host.free_bytes / 100 * IMAGE_SHARE_PERCENT;
	c->image_size -= c->image_size % (1U << 20);
	if (c->spec->image_size > c->host.free_bytes && !c->spec->thin)
		return cairn_err_set(err, CAIRN_NO_SPACE,
				     "there are only %s free for the pool's image; give a smaller "
				     "--size, or --thin if space is added before it fills up",
				     cairn_format_size(c->host.free_bytes, text));
	if (c->image_size < IMAGE_SIZE_MIN)
		return cairn_err_set(err, c->spec->image_size ? CAIRN_INVALID : CAIRN_NO_SPACE,
				     "the pool's image must have at least %s",
				     cairn_format_size(IMAGE_SIZE_MIN, text));
	return 0;
}

/* Also syncs a directory that existed: its creator may have been killed before
 * the sync. A parent that this user may not read was not written by this user
 * either. */
static int pool_create_sync_parent(const struct creation *c, struct cairn_err *err)
{
	cairn_auto_fd int parent = openat(c->dir_fd, "..", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (parent < 0 && errno == EACCES)
		return 0;
	if (parent < 0)
		return cairn_err_sys(err, errno, "open the directory of '%s'", c->dir);
	return cairn_sync_dir(parent, c->dir, err);
}

/* Creates the directory if it does not exist.
 *
 * CAIRN_NOT_FOUND  another process removed it just now, or its parent is missing
 */
static int enter_dir(struct creation *c, struct cairn_err *err)
{
	const char *dir = c->spec->dir;

	cairn_closep(&c->dir_fd);
	free(cairn_take(c->dir));
	c->marker.made_dir = mkdir(dir, 0700) == 0;
	if (!c->marker.made_dir && errno != EEXIST)
		return cairn_err_sys(err, errno, "make directory '%s'", dir);
	c->dir = realpath(dir, NULL);
	c->dir_fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (!c->dir || c->dir_fd < 0)
		return cairn_err_sys(err, errno, "open '%s'", dir);
	return pool_create_sync_parent(c, err);
}

/* Destroying the outer pool would destroy the inner one with it. A marker that
 * belongs to another user is ignored: it could be in /tmp. */
static int refuse_inside_pool(const struct creation *c, struct cairn_err *err)
{
	cairn_auto_free char *path = cairn_strdup(c->dir);
	char *slash;

	if (!path)
		return cairn_err_nomem(err, "pool");
	while ((slash = strrchr(path, '/'))) {
		cairn_auto_free char *marker = NULL;
		struct stat st;

		*slash = '\0';
		marker = cairn_printf("%s/" MARKER_NAME, path);
		if (!marker)
			return cairn_err_nomem(err, "pool");
		if (lstat(marker, &st) == 0 && S_ISREG(st.st_mode) &&
		    (st.st_uid == 0 || st.st_uid == geteuid()))
			return cairn_err_set(
				err, CAIRN_PRECONDITION,
				"'%s' is inside the pool '%s'; choose another directory", c->dir,
				path[0] ? path : "/");
	}
	return 0;
}

/* mkdir() fails permanently with ENOENT when the parent directory does not
 * exist. */
static bool is_parent_missing(const struct creation *c)
{
	cairn_auto_free char *copy = cairn_strdup(c->spec->dir);

	return !copy || access(dirname(copy), F_OK) < 0;
}

/* True if another process has made the pool already. */
static bool is_made(const struct creation *c)
{
	struct marker other;

	return pool_config_read(c->dir_fd, &other, NULL) == 0 && other.ready;
}

static int pool_create_try_lock(struct creation *c, struct cairn_err *err)
{
	int rc;

	pool_remove_lock_shell(c->dir_fd);
	rc = pool_impl_lock_pool(c->dir_fd, true, 0, &c->lock_fd, err);
	pool_remove_unlock_shell(c->dir_fd);
	return rc;
}

/* Takes the pool's lock in a directory that other processes may be creating and
 * removing. A process that created the directory also waits for a finished
 * pool, because its marker must then record who created the directory. */
static int enter_and_lock(struct creation *c, struct cairn_err *err)
{
	uint64_t deadline = cairn_monotonic_ns() + CREATE_WAIT_MS * CAIRN_NS_PER_MS;
	uint64_t pause = 1;
	int rc = enter_dir(c, err);

	for (;;) {
		if (!rc)
			rc = refuse_inside_pool(c, err);
		if (!rc)
			rc = pool_create_try_lock(c, err);
		if (rc != CAIRN_ABORTED && rc != CAIRN_NOT_FOUND)
			return rc;
		bool late = cairn_monotonic_ns() >= deadline;

		if (rc == CAIRN_ABORTED && (late || !c->marker.made_dir) && is_made(c))
			return cairn_err_set(err, CAIRN_EXISTS, "there is a pool in '%s' already",
					     c->dir);
		if (late && rc == CAIRN_ABORTED)
			return cairn_err_set(err, CAIRN_ABORTED,
					     "another process is using the pool in '%s'",
					     c->spec->dir);
		if (late || (rc == CAIRN_NOT_FOUND && c->dir_fd < 0 && is_parent_missing(c)))
			return rc;
		cairn_sleep_ms(pause);
		pause = pause < 50 ? pause * 2 : pause;
		rc = rc == CAIRN_NOT_FOUND ? enter_dir(c, err) : 0;
	}
}

/* Removes an unfinished pool; a finished one is an error. */
static int clear_old(struct creation *c, struct cairn_err *err)
{
	struct marker old;
	int rc = pool_config_read(c->dir_fd, &old, err);

	if (rc == CAIRN_NOT_FOUND)
		return 0;
	if (rc)
		return rc;
	if (old.ready && c->marker.made_dir && !old.made_dir) {
		old.made_dir = true;
		rc = pool_config_write(c->dir_fd, &old, err);
	}
	if (rc)
		return rc;
	if (old.ready)
		return cairn_err_set(err, CAIRN_EXISTS, "there is a pool in '%s' already", c->dir);
	c->marker.made_dir = c->marker.made_dir || old.made_dir;
	return pool_destroy_contents(c->dir, c->dir_fd, &old, err);
}

/* True for the file that an older version leaves when it destroys a pool:
 * allocated space that was never written. */
static bool is_old_reserve(int dir_fd)
{
	cairn_auto_fd int fd = -1;

	return cairn_open_regular(dir_fd, POOL_RESERVE_NAME, O_RDONLY, 0, &fd, NULL) == 0 &&
	       lseek(fd, 0, SEEK_DATA) < 0 && errno == ENXIO;
}

/* Names that are ours must be free: nothing foreign is ever overwritten. */
static int check_names_free(struct creation *c, struct cairn_err *err)
{
	static const char *const names[] = {POOL_IMAGE_NAME,  POOL_MOUNT_NAME, POOL_SETS_NAME,
					    "catalogue.db",   "volumes",       "snapshots",
					    POOL_RESERVE_NAME};
	struct stat st;

	/* The lock file is empty when it is ours. */
	if (fstat(c->lock_fd, &st) < 0)
		return cairn_err_sys(err, errno, "stat '%s'", POOL_LOCK_NAME);
	if (st.st_size > 0)
		return cairn_err_set(err, CAIRN_EXISTS,
				     "'%s/%s' exists already and is not part of a pool; choose "
				     "another directory",
				     c->dir, POOL_LOCK_NAME);
	if (is_old_reserve(c->dir_fd))
		(void)unlinkat(c->dir_fd, POOL_RESERVE_NAME, 0);
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (faccessat(c->dir_fd, names[i], F_OK, AT_SYMLINK_NOFOLLOW) == 0)
			return cairn_err_set(err, CAIRN_EXISTS,
					     "'%s/%s' exists already and is not part of a pool; "
					     "choose another directory",
					     c->dir, names[i]);
	return 0;
}

static int make_contents(struct creation *c, struct cairn_err *err)
{
	bool has_image = strcmp(c->marker.image, "none") != 0;
	enum image_fs fs = strcmp(c->marker.image, "btrfs") == 0 ? IMAGE_BTRFS : IMAGE_XFS;
	cairn_auto_free char *image = cairn_printf("%s/%s", c->dir, POOL_IMAGE_NAME);
	cairn_auto_free char *root =
		has_image ? cairn_printf("%s/%s", c->dir, POOL_MOUNT_NAME) : cairn_strdup(c->dir);
	cairn_cleanup(pool_store_closep) struct store *store = NULL;
	cairn_auto_fd int root_fd = -1;
	int rc = 0;

	if (!image || !root)
		return cairn_err_nomem(err, "pool");
	if (has_image)
		rc = pool_image_make(image, fs, c->image_size, err);
	if (!rc && has_image)
		rc = pool_image_mount(image, fs, root, err);
	if (rc)
		return rc;
	root_fd = open(root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (root_fd < 0)
		return cairn_err_sys(err, errno, "open '%s'", root);
	rc = cairn_make_dir(root_fd, POOL_SETS_NAME, 0700, err);
	if (!rc)
		rc = pool_catalogue_create(root, err);
	if (!rc)
		rc = pool_store_make(c->marker.backend, root, &store, err);
	return rc;
}

static int pool_create_prepare(struct creation *c, struct cairn_err *err)
{
	uint32_t granularity = c->spec->granularity;
	int rc;

	c->marker.retention_ms =
		c->spec->retention_ms ? c->spec->retention_ms : POOL_RETENTION_DEFAULT_MS;
	c->marker.granularity = granularity ? granularity : BLOCK_GRANULARITY_DEFAULT;
	rc = pool_impl_check_granularity(c->marker.granularity, err);
	if (!rc)
		rc = pool_image_probe(c->dir, &c->host, err);
	if (!rc)
		rc = choose_backend(c, err);
	if (!rc)
		rc = choose_image_size(c, err);
	if (!rc)
		rc = check_names_free(c, err);
	if (!rc)
		rc = cairn_random_hex(c->marker.id, 16, err);
	return rc;
}

static int create_locked(struct creation *c, struct cairn_err *err)
{
	struct cairn_err ignored;
	int rc = clear_old(c, err);

	if (!rc)
		rc = pool_create_prepare(c, err);
	if (!rc)
		rc = pool_config_write(c->dir_fd, &c->marker, err);
	if (rc)
		return rc;
	rc = make_contents(c, err);
	if (!rc) {
		c->marker.ready = true;
		rc = pool_config_write(c->dir_fd, &c->marker, err);
	}
	if (rc)
		(void)pool_destroy_contents(c->dir, c->dir_fd, &c->marker, &ignored);
	return rc;
}

int pool_directory_create(const struct pool_create_spec *spec, struct pool_create_result *ret,
			  struct cairn_err *err)
{
	struct creation c = {.spec = spec, .dir_fd = -1, .lock_fd = -1};
	int rc;

	if (spec->ceph_conf || spec->ceph_user)
		return cairn_err_set(err, CAIRN_INVALID,
				     "--ceph-conf and --ceph-user are for pools on Ceph, whose "
				     "address begins with rbd:");
	rc = enter_and_lock(&c, err);

	if (!rc)
		rc = create_locked(&c, err);
	if (rc && c.lock_fd >= 0)
		pool_destroy_shell(c.dir, c.dir_fd, c.marker.made_dir);
	else if (rc && c.dir && c.marker.made_dir)
		rmdir(c.dir); /* fails if the directory is not empty */
	if (!rc) {
		c.result.backend = strcmp(c.marker.backend, "btrfs") == 0     ? "btrfs"
				   : strcmp(c.marker.backend, "reflink") == 0 ? "reflink"
									      : "copy";
		c.result.image = strcmp(c.marker.image, "none") != 0;
		*ret = c.result;
	}
	cairn_closep(&c.lock_fd);
	cairn_closep(&c.dir_fd);
	free(c.dir);
	return rc;
}
