/* SPDX-License-Identifier: Apache-2.0 */

#include "pool/store/reserve.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/btrfs.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/io.h"
#include "base/num.h"
#include "pool/catalogue/catalogue.h"
#include "pool/pool_impl.h"
#include "pool/store/file_owner.h"
#include "pool/store/image_space.h"

/* At most this fraction of a small filesystem. */
#define SHARE 64U

/* The unit of st_blocks. */
#define STAT_BLOCK 512U

/* The reserve grows by multiples of this. */
#define REFILL_STEP (64U << 10)

/* How long to wait for background work of an image after a deletion. */
#define SETTLE_TURNS    50U
#define SETTLE_PAUSE_MS 100U

uint64_t pool_reserve_size_for(uint64_t total_bytes)
{
	uint64_t size = total_bytes / SHARE / RESERVE_SLICE * RESERVE_SLICE;

	return size < RESERVE_SLICE ? RESERVE_SLICE : size > RESERVE_MAX ? RESERVE_MAX : size;
}

/* A quota of btrfs refuses to truncate, but not to unlink; what was unlinked is free
 * after a commit of the filesystem. */
static bool reserve_remove(int dir_fd, int *fd)
{
	if (unlinkat(dir_fd, POOL_RESERVE_NAME, 0) < 0)
		return false;
	cairn_closep(fd);
	*fd = -1;
	return syncfs(dir_fd) == 0;
}

bool pool_reserve_yield(int dir_fd)
{
	cairn_auto_fd int fd = -1;
	struct stat st;

	if (dir_fd < 0 ||
	    cairn_open_regular(dir_fd, POOL_RESERVE_NAME, O_RDWR, 0, &fd, NULL) != 0 ||
	    fstat(fd, &st) < 0 || st.st_size <= 0)
		return false;
	if (ftruncate(fd, (st.st_size - 1) / RESERVE_SLICE * RESERVE_SLICE) < 0)
		return (errno == EDQUOT || errno == ENOSPC) && reserve_remove(dir_fd, &fd);
	/* The space of a truncated file may be free only after a commit. */
	return fsync(fd) == 0;
}

static bool has_image(const struct pool *pool)
{
	return strcmp(pool->marker.image, "none") != 0;
}

static int open_image(const struct pool *pool)
{
	return openat(pool->dir_fd, POOL_IMAGE_NAME, O_RDWR | O_NOFOLLOW | O_CLOEXEC);
}

/* A deletion writes to these files and to metadata. */
static bool secure_image(const struct pool *pool)
{
	static const char *const names[] = {"catalogue.db-wal", "catalogue.db-shm",
					    "catalogue.db-trust", NULL};
	cairn_auto_fd int fd = open_image(pool);

	return fd >= 0 && pool_image_space_secure(fd, pool->root_fd, names);
}

static void trim_image(const struct pool *pool)
{
	cairn_auto_fd int fd = open_image(pool);

	if (fd >= 0)
		pool_image_space_trim(fd, pool->root_fd);
}

static void trim_for_catalogue(void *arg)
{
	trim_image(arg);
}

/* Memory and descriptors that are used up have the same code. */
static bool is_about_space(int rc, const struct cairn_err *err)
{
	int why = err ? err->sys_errno : 0;

	return rc == CAIRN_NO_SPACE && why != ENOMEM && why != EMFILE && why != ENFILE &&
	       why != EFBIG;
}

bool pool_reserve_helps(struct pool *pool, int rc, const struct cairn_err *err)
{
	if (!is_about_space(rc, err) || pool->read_only)
		return false;
	if ((has_image(pool) && pool_reserve_yield(pool->dir_fd)) ||
	    pool_reserve_yield(pool->root_fd))
		return true;
	if (!pool->cat)
		return false;
	pool_catalogue_let_go(pool->cat, true);
	return pool_catalogue_make_room(pool->cat);
}

static int no_space(struct cairn_err *err)
{
	return cairn_err_set(err, CAIRN_NO_SPACE,
			     "no space left in the pool; delete snapshots or volumes");
}

/* The size of a reserve, and the free space of its filesystem. */
struct state {
	uint64_t want, have, free_bytes;
};

/* A program that copies the pool may leave a hole, as it does for any file of zeros. */
static uint64_t reserve_allocated(const struct stat *st)
{
	uint64_t size = (uint64_t)st->st_size, blocks = (uint64_t)st->st_blocks * STAT_BLOCK;

	return blocks < size ? blocks : size;
}

static int reserve_look(int dir_fd, struct state *ret, struct cairn_err *err)
{
	struct statvfs fs;
	struct stat st;

	if (fstatvfs(dir_fd, &fs) < 0)
		return cairn_err_sys(err, errno, "space of the pool");
	*ret = (struct state){
		.want = pool_reserve_size_for((uint64_t)fs.f_blocks * fs.f_frsize),
		.free_bytes = (uint64_t)fs.f_bavail * fs.f_frsize,
	};
	if (fstatat(dir_fd, POOL_RESERVE_NAME, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
	    S_ISREG(st.st_mode))
		ret->have = reserve_allocated(&st);
	return 0;
}

static int reserve_allocate(int dir_fd, uint64_t size, struct cairn_err *err)
{
	cairn_auto_fd int fd = pool_owner_open(dir_fd, POOL_RESERVE_NAME, O_RDWR);
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0)
		return cairn_err_sys(err, errno, "open the pool's reserve");
	if (!S_ISREG(st.st_mode))
		return cairn_err_set(err, CAIRN_PRECONDITION, "'%s' is not a regular file",
				     POOL_RESERVE_NAME);
	/* Where blocks cannot be allocated ahead there is no reserve. */
	if (fallocate(fd, 0, 0, (off_t)size) < 0 && errno != EOPNOTSUPP)
		return cairn_err_sys(err, errno, "allocate the pool's reserve");
	return 0;
}

/* Called before space is consumed: the reserve is not created from the last
 * bytes. */
static int reserve_do_require(int dir_fd, struct cairn_err *err)
{
	struct state state;
	int rc = reserve_look(dir_fd, &state, err);

	if (rc)
		return rc;
	if (state.have >= state.want)
		return state.free_bytes >= RESERVE_SLICE ? 0 : no_space(err);
	if (state.free_bytes < 2 * (state.want - state.have))
		return no_space(err);
	return reserve_allocate(dir_fd, state.want, err);
}

/* Called after space was freed: takes back yielded slices. True when the reserve
 * is complete. A filesystem needs some of its free space itself, so half is enough; a
 * quota does not, and its free space is not known: as much as it allows is taken. */
static bool reserve_do_refill(int dir_fd)
{
	bool limited = false, taken = false;
	struct state state;
	uint64_t n;

	if (reserve_look(dir_fd, &state, NULL) != 0)
		return false;
	n = state.have < state.want ? state.want - state.have : 0;
	if (n > state.free_bytes)
		n = state.free_bytes;
	for (n -= n % REFILL_STEP; n > 0 && state.have < state.want && (limited || !taken);
	     n = n / 2 - n / 2 % REFILL_STEP) {
		struct cairn_err err = {0};

		taken = reserve_allocate(dir_fd, state.have + n, &err) == 0;
		state.have += taken ? n : 0;
		limited = limited || err.sys_errno == EDQUOT;
	}
	return state.have >= state.want;
}

int pool_reserve_require(struct pool *pool, struct cairn_err *err)
{
	int rc = reserve_do_require(pool->root_fd, err);

	if (!rc && has_image(pool))
		rc = reserve_do_require(pool->dir_fd, err);
	if (!rc && has_image(pool))
		(void)secure_image(pool);
	if (!rc)
		pool_catalogue_let_go(pool->cat, false);
	/* If only the creation of the file failed, the operation may still
	 * succeed. */
	return rc == CAIRN_NO_SPACE ? rc : 0;
}

/* btrfs removes the trees of a deleted subvolume in the background, and writes
 * while doing so. True while it does; older kernels do not report it. */
static bool has_dead_subvolumes(int fd)
{
	struct {
		uint64_t subvolid;
		uint32_t mode, count;
	} wait = {.mode = 2}; /* BTRFS_SUBVOL_SYNC_COUNT, Linux 6.13 */

	return ioctl(fd, _IOW(BTRFS_IOCTL_MAGIC, 65, wait), &wait) == 0 && wait.count > 0;
}

/* On btrfs the ioctl also wakes the thread that removes those trees. */
static void sync_image(int fd)
{
	if (ioctl(fd, BTRFS_IOC_SYNC) < 0)
		(void)syncfs(fd);
}

/* Lets the image complete its writes while its host has space, and returns its
 * free space to the host. */
static void settle_image(struct pool *pool)
{
	sync_image(pool->root_fd);
	for (unsigned i = 0; i < SETTLE_TURNS && has_dead_subvolumes(pool->root_fd); i++) {
		cairn_sleep_ms(SETTLE_PAUSE_MS);
		sync_image(pool->root_fd);
	}
	trim_image(pool);
	sync_image(pool->root_fd);
}

void pool_reserve_expect(struct pool *pool)
{
	struct state state;

	if (!pool->read_only && reserve_look(pool->root_fd, &state, NULL) == 0 && state.have == 0)
		pool_catalogue_let_go(pool->cat, true);
}

void pool_reserve_refill(struct pool *pool)
{
	struct state host;

	(void)reserve_do_refill(pool->root_fd);
	if (!has_image(pool) || reserve_look(pool->dir_fd, &host, NULL) != 0 ||
	    host.have >= host.want)
		return;
	settle_image(pool);
	(void)reserve_do_refill(pool->dir_fd);
}

bool pool_reserve_host_is_low(const struct pool *pool)
{
	struct statvfs host;

	return fstatvfs(pool->dir_fd, &host) == 0 &&
	       (uint64_t)host.f_bavail * host.f_frsize < RESERVE_MAX / 2;
}

void pool_reserve_trim(const struct pool *pool)
{
	if (has_image(pool) && !pool->read_only && pool_reserve_host_is_low(pool))
		trim_image(pool);
}

void pool_reserve_prepare(struct pool *pool)
{
	if (!has_image(pool) || pool->read_only)
		return;
	while (pool_reserve_host_is_low(pool) && pool_reserve_yield(pool->dir_fd))
		;
	if (!pool->cat)
		return;
	if (!pool_reserve_host_is_low(pool)) {
		pool_catalogue_prefer_room(pool->cat, NULL, NULL);
		return;
	}
	/* There is no reserve, or no more: the image may still have blocks that it does
	 * not use. It is not synced before, because that would write. */
	trim_image(pool);
	if (pool_reserve_host_is_low(pool) && !secure_image(pool))
		pool_catalogue_prefer_room(pool->cat, trim_for_catalogue, pool);
}
