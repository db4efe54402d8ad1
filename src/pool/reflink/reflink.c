/* SPDX-License-Identifier: Apache-2.0 */

#include "pool/reflink/reflink.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <linux/fs.h>
#include <linux/magic.h>

#include "base/err.h"
#include "base/mem.h"
#include "pool/btrfs_relocation.h"
#include "pool/reflink/twostep.h"
#include "pool/store/fiemap.h"
#include "pool/store/fileset.h"
#include "pool/store/mapping.h"

static int clone_file(int from, int to, struct cairn_err *err)
{
	/* Flush dirty pages first, so that little is left to write while the
	 * clone blocks the file's writers. */
	if (fsync(from) < 0)
		return cairn_err_sys(err, errno, "sync the source of a clone");
	while (ioctl(to, FICLONE, from) < 0) {
		if (errno != EINTR)
			return cairn_err_sys(err, errno, "clone");
	}
	return 0;
}

/* The second step of a prepared cut; otherwise, or if the file was written during it,
 * one FICLONE, which is atomic with respect to writes. */
static int cut_file(int from, int to, struct cairn_err *err)
{
	uint64_t prepared = 0;
	bool done = false;
	int rc = pool_fileset_fd_size(to, &prepared, err);

	if (rc == 0 && prepared > 0) {
		rc = reflink_twostep_end(from, to, &done, err);
		if (rc == 0 && !done && ftruncate(to, 0) < 0)
			rc = cairn_err_sys(err, errno, "empty a clone");
	}
	return rc || done ? rc : clone_file(from, to, err);
}

static int prepare_file(int from, int to, struct cairn_err *err)
{
	bool worth = false;
	int rc = reflink_twostep_is_worth(from, TWOSTEP_EXTENTS_MIN, &worth, err);

	return rc || !worth ? rc : reflink_twostep_begin(from, to, err);
}

static int reflink_snapshot_prepare(struct store *store, const char *volume_id,
				    const char *snapshot_id, struct cairn_err *err)
{
	return pool_fileset_prepare((struct fileset *)store, volume_id, snapshot_id, prepare_file,
				    err);
}

static int reflink_snapshot_cut(struct store *store, const char *volume_id, const char *snapshot_id,
				uint64_t size, struct cairn_err *err)
{
	return pool_fileset_cut((struct fileset *)store, volume_id, snapshot_id, size, cut_file,
				err);
}

static int reflink_volume_clone(struct store *store, const char *id, const char *snapshot_id,
				uint64_t length, uint64_t size, struct cairn_err *err)
{
	return pool_fileset_clone((struct fileset *)store, id, snapshot_id, length, size,
				  clone_file, err);
}

static int reflink_volume_replace(struct store *store, const struct store_replacement *spec,
				  struct cairn_err *err)
{
	return pool_fileset_replace((struct fileset *)store, spec, clone_file, err);
}

/* One side of a comparison. */
struct side {
	int fd;
	uint64_t size;
	struct mapping_source *source;
};

static int reflink_side_open(struct fileset *set, const char *id, struct side *side,
			     struct cairn_err *err)
{
	int rc = pool_fileset_open_disk(set, (struct store_ref){STORE_SNAPSHOT, id}, O_RDONLY,
					&side->fd, err);

	rc = rc ? rc : pool_fileset_fd_size(side->fd, &side->size, err);
	return rc ? rc : pool_fiemap_source_new(side->fd, 0, &side->source, err);
}

static void reflink_side_done(struct side *side)
{
	pool_fiemap_source_free(side->source);
	cairn_closep(&side->fd);
}

/* Both sides, for filesystems that move data in the background. */
struct pair {
	struct side base, target;
};

static void pair_done(struct pair *pair)
{
	reflink_side_done(&pair->base);
	reflink_side_done(&pair->target);
}

static int pair_epoch(void *arg, uint64_t *ret, struct cairn_err *err)
{
	const struct pair *pair = arg;

	return pool_relocation_epoch(pair->target.fd, ret, err);
}

static int pair_restart(void *arg, uint64_t start, uint64_t end, struct cairn_err *err)
{
	struct pair *pair = arg;

	(void)end;
	(void)err;
	pool_fiemap_source_seek(pair->base.source, start);
	pool_fiemap_source_seek(pair->target.source, start);
	return 0;
}

static int reflink_delta(struct store *store, const char *base_id, const char *target_id,
			 struct block_sink sink, const struct store_progress *progress,
			 struct store_delta_stats *ret_stats, struct cairn_err *err)
{
	struct fileset *set = (struct fileset *)store;
	cairn_cleanup(pair_done) struct pair pair = {.base.fd = -1, .target.fd = -1};
	const struct mapping_guard guard = {pair_epoch, pair_restart, &pair};
	cairn_auto_free struct mapping_compare *compare = cairn_alloc(sizeof(*compare));
	struct extent_merge joiner = {.sink = sink};
	bool done;
	int rc;

	if (!compare)
		return cairn_err_nomem(err, "comparison");
	rc = reflink_side_open(set, base_id, &pair.base, err);
	rc = rc ? rc : reflink_side_open(set, target_id, &pair.target, err);
	if (rc)
		return rc;
	pool_mapping_compare_init(compare, pair.base.source, pair.base.size, pair.target.source,
				  pair.target.size);
	rc = pool_mapping_compare_set_guard(compare, &guard, err);
	rc = rc ? rc : pool_mapping_compare_run(compare, UINT64_MAX, &joiner, progress, &done, err);
	rc = rc ? rc : pool_extent_merge_flush(&joiner, err);
	ret_stats->extents_walked = pool_mapping_compare_seen(compare);
	ret_stats->method = "fiemap";
	return rc;
}

static int reflink_allocated_fiemap(struct store *store, struct store_ref ref, uint64_t start,
				    struct block_extent *out, size_t max, size_t *ret_n,
				    struct cairn_err *err)
{
	cairn_cleanup(pool_fiemap_source_freep) struct mapping_source *source = NULL;
	cairn_auto_fd int fd = -1;
	uint64_t size = 0;
	int rc = pool_fileset_open_disk((struct fileset *)store, ref, O_RDONLY, &fd, err);

	rc = rc ? rc : pool_fileset_fd_size(fd, &size, err);
	rc = rc ? rc : pool_fiemap_source_new(fd, start, &source, err);
	return rc ? rc : pool_mapping_allocated(source, start, size, out, max, ret_n, err);
}

#define REFLINK_OPS(allocated_fn, prepare_fn)                                                      \
	{                                                                                          \
		.name = "reflink", .close = pool_fileset_store_close,                              \
		.volume_create = pool_fileset_volume_create, .volume_clone = reflink_volume_clone, \
		.volume_resize = pool_fileset_volume_resize,                                       \
		.volume_replace = reflink_volume_replace,                                          \
		.volume_sweep = pool_fileset_volume_sweep, .remove = pool_fileset_remove,          \
		.snapshot_cut = reflink_snapshot_cut, .delta = reflink_delta,                      \
		.snapshot_prepare = (prepare_fn), .allocated = (allocated_fn),                     \
		.size = pool_fileset_size, .usage = pool_fileset_usage, .list = pool_fileset_list, \
		.set_aside = pool_fileset_set_aside, .bring_back = pool_fileset_bring_back,        \
		.drop_aside = pool_fileset_drop_aside, .list_aside = pool_fileset_list_aside,      \
		.reader_open = pool_fileset_reader_open, .path = pool_fileset_path,                \
		.cut_is_atomic = true,                                                             \
	}

/* Measured: SEEK_DATA is twice as fast on XFS, FIEMAP on btrfs. Cuts in two steps are for
 * XFS, where a clone is slow, and which never moves blocks by itself. */
static const struct store_ops ops_seek =
	REFLINK_OPS(pool_fileset_allocated_seek, reflink_snapshot_prepare);
static const struct store_ops ops_fiemap = REFLINK_OPS(reflink_allocated_fiemap, NULL);

static int reflink_check_filesystem(const char *dir, uint64_t *ret_magic, struct cairn_err *err)
{
	int rc = pool_fileset_magic(dir, ret_magic, err);

	if (rc == 0 && *ret_magic != XFS_SUPER_MAGIC && *ret_magic != BTRFS_SUPER_MAGIC)
		rc = cairn_err_set(err, CAIRN_PRECONDITION,
				   "back end reflink needs XFS or btrfs, and '%s' is on neither; "
				   "use a directory on one of them, or back end copy",
				   dir);
	return rc;
}

static int try_clone(const char *dir, struct cairn_err *err)
{
	cairn_auto_fd int from = open(dir, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
	cairn_auto_fd int to = open(dir, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);

	if (from < 0 || to < 0)
		return cairn_err_sys(err, errno, "make a file in '%s'", dir);
	if (ioctl(to, FICLONE, from) == 0)
		return 0;
	if (errno == EOPNOTSUPP || errno == ENOTTY || errno == EINVAL)
		return cairn_err_set(err, CAIRN_PRECONDITION,
				     "the filesystem of '%s' was made without reflinks; make it "
				     "with mkfs.xfs -m reflink=1, or use back end copy",
				     dir);
	return cairn_err_sys(err, errno, "share blocks in '%s'", dir);
}

int reflink_store_probe(const char *dir, struct cairn_err *err)
{
	uint64_t magic = 0;
	int rc = reflink_check_filesystem(dir, &magic, err);

	return rc ? rc : try_clone(dir, err);
}

int reflink_store_open(const char *dir, bool writable, struct store **ret, struct cairn_err *err)
{
	struct fileset *set = NULL;
	uint64_t magic = 0;
	int rc = reflink_check_filesystem(dir, &magic, err);

	rc = rc ? rc
		: pool_fileset_new(magic == BTRFS_SUPER_MAGIC ? &ops_fiemap : &ops_seek, dir,
				   writable, &set, err);
	if (rc == 0)
		*ret = &set->store;
	return rc;
}
