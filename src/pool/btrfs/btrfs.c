/* SPDX-License-Identifier: Apache-2.0 */

#include "pool/btrfs/btrfs.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include <linux/magic.h>

#include "base/err.h"
#include "pool/btrfs/btrfs_delta.h"
#include "pool/btrfs/btrfs_tree.h"
#include "pool/btrfs/subvolume.h"
#include "pool/store/fiemap.h"
#include "pool/store/fileset.h"
#include "pool/store/mapping.h"

static int open_subvolume(struct fileset *set, struct store_ref ref, int *ret_fd,
			  struct cairn_err *err)
{
	int fd = openat(set->kind_fd[ref.kind], ref.id,
			O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	if (fd < 0)
		return cairn_err_sys(err, errno, "open subvolume '%s'", ref.id);
	*ret_fd = fd;
	return 0;
}

/* Removes a subvolume, or a plain directory of that name. */
static int remove_named(struct fileset *set, enum store_kind kind, const char *name,
			struct cairn_err *err)
{
	int rc = btrfs_subvolume_destroy(set->kind_fd[kind], name, err);

	if (rc == CAIRN_INVALID)
		return pool_fileset_remove_named(set, kind, name, err);
	return rc == CAIRN_NOT_FOUND ? 0 : rc;
}

static int btrfs_remove(struct store *store, struct store_ref ref, struct cairn_err *err)
{
	static const char *const suffixes[] = {"", ".new", ".del"};
	struct fileset *set = (struct fileset *)store;

	for (size_t i = 0; i < sizeof(suffixes) / sizeof(suffixes[0]); i++) {
		struct pool_fileset_name name = pool_fileset_name(ref.id, suffixes[i]);
		int rc = remove_named(set, ref.kind, name.text, err);

		if (rc)
			return rc;
	}
	return pool_fileset_settle(set, ref, err);
}

static int btrfs_drop_aside(struct store *store, struct store_ref ref, struct cairn_err *err)
{
	struct fileset *set = (struct fileset *)store;
	struct pool_fileset_name aside = pool_fileset_name(ref.id, FILESET_ASIDE);
	int rc = remove_named(set, ref.kind, aside.text, err);

	return rc ? rc : pool_fileset_settle(set, ref, err);
}

/* Sets the size of the subvolume ID.new in volumes/ and keeps its first `length`
 * bytes. */
static int size_volume(struct fileset *set, const char *id, uint64_t length, uint64_t size,
		       struct cairn_err *err)
{
	int parent = set->kind_fd[STORE_VOLUME], rc;
	struct pool_fileset_name name = pool_fileset_name(id, ".new");
	cairn_auto_fd int dir = -1;
	cairn_auto_fd int fd = -1;

	dir = openat(parent, name.text, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (dir < 0 || fchmod(dir, 0700) < 0)
		return cairn_err_sys(err, errno, "open subvolume '%s'", name.text);
	fd = openat(dir, FILESET_DISK, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0)
		return cairn_err_sys(err, errno, "make the disk of '%s'", id);
	rc = pool_fileset_trim(fd, length, err);
	return rc ? rc : pool_fileset_grow(fd, size, err);
}

/* Renames ID.new to ID; with RENAME_EXCHANGE, an existing volume ID becomes
 * ID.new. */
static int name_volume(struct fileset *set, const char *id, unsigned flags, struct cairn_err *err)
{
	int parent = set->kind_fd[STORE_VOLUME], rc;
	struct pool_fileset_name name = pool_fileset_name(id, ".new");

	if (renameat2(parent, name.text, parent, id, flags) < 0)
		return cairn_err_sys(err, errno, "rename '%s' to '%s'", name.text, id);
	rc = pool_fileset_settle(set, (struct store_ref){STORE_VOLUME, id}, err);
	/* Undo a rename that cannot be made durable, so that a failure changes nothing. */
	if (rc && flags == RENAME_EXCHANGE && renameat2(parent, name.text, parent, id, flags) == 0)
		(void)pool_fileset_settle(set, (struct store_ref){STORE_VOLUME, id}, NULL);
	return rc;
}

/* Creates ID.new, as a snapshot of `source_fd` or empty (-1), then renames it
 * to the volume. */
static int build_volume(struct fileset *set, const char *id, int source_fd, uint64_t length,
			uint64_t size, struct cairn_err *err)
{
	int parent = set->kind_fd[STORE_VOLUME];
	struct pool_fileset_name name = pool_fileset_name(id, ".new");
	int rc = remove_named(set, STORE_VOLUME, name.text, err);

	if (rc)
		return rc;
	if (source_fd < 0)
		rc = btrfs_subvolume_create(parent, name.text, err);
	else
		rc = btrfs_subvolume_snapshot(parent, name.text, source_fd, false, err);
	rc = rc ? rc : size_volume(set, id, length, size, err);
	rc = rc ? rc : name_volume(set, id, 0, err);
	if (rc)
		remove_named(set, STORE_VOLUME, name.text, NULL);
	return rc;
}

static int btrfs_volume_create(struct store *store, const char *id, uint64_t size,
			       struct cairn_err *err)
{
	struct fileset *set = (struct fileset *)store;
	bool exists = false;
	int rc = pool_fileset_existing_volume(set, id, size, &exists, err);

	if (rc || exists)
		return rc ? rc
			  : pool_fileset_settle(set, (struct store_ref){STORE_VOLUME, id}, err);
	return build_volume(set, id, -1, 0, size, err);
}

static int btrfs_volume_clone(struct store *store, const char *id, const char *snapshot_id,
			      uint64_t length, uint64_t size, struct cairn_err *err)
{
	struct fileset *set = (struct fileset *)store;
	cairn_auto_fd int source = -1;
	bool exists = false;
	int rc = pool_fileset_existing_volume(set, id, size, &exists, err);

	if (rc || exists)
		return rc ? rc
			  : pool_fileset_settle(set, (struct store_ref){STORE_VOLUME, id}, err);
	rc = open_subvolume(set, (struct store_ref){STORE_SNAPSHOT, snapshot_id}, &source, err);
	return rc ? rc : build_volume(set, id, source, length, size, err);
}

/* btrfs exchanges two subvolumes in one transaction. */
static int btrfs_volume_replace(struct store *store, const struct store_replacement *spec,
				struct cairn_err *err)
{
	struct fileset *set = (struct fileset *)store;
	struct pool_fileset_name name = pool_fileset_name(spec->id, ".new");
	cairn_auto_fd int source = -1;
	int rc = open_subvolume(set, (struct store_ref){STORE_SNAPSHOT, spec->snapshot_id}, &source,
				err);

	rc = rc ? rc : remove_named(set, STORE_VOLUME, name.text, err);
	rc = rc ? rc
		: btrfs_subvolume_snapshot(set->kind_fd[STORE_VOLUME], name.text, source, false,
					   err);
	rc = rc ? rc : size_volume(set, spec->id, spec->length, spec->size, err);
	rc = rc ? rc : pool_fileset_ready(set, spec, err);
	return rc ? rc : name_volume(set, spec->id, RENAME_EXCHANGE, err);
}

static int btrfs_volume_sweep(struct store *store, const char *id, struct cairn_err *err)
{
	struct fileset *set = (struct fileset *)store;
	struct store_ref ref = {STORE_VOLUME, id};
	struct pool_fileset_name name = pool_fileset_name(id, ".new");
	/* The last exchange must be durable before the other one is removed. */
	int rc = pool_fileset_settle(set, ref, err);

	rc = rc ? rc : remove_named(set, STORE_VOLUME, name.text, err);
	return rc ? rc : pool_fileset_settle(set, ref, err);
}

/* Trims the subvolume ID.new in snapshots/, makes it read-only and renames it. */
static int finish_trimmed(struct fileset *set, const char *id, uint64_t size, struct cairn_err *err)
{
	int parent = set->kind_fd[STORE_SNAPSHOT], rc;
	struct pool_fileset_name name = pool_fileset_name(id, ".new");
	cairn_auto_fd int dir = -1;
	cairn_auto_fd int fd = -1;

	dir = openat(parent, name.text, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	fd = dir < 0 ? -1 : openat(dir, FILESET_DISK, O_RDWR | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return cairn_err_sys(err, errno, "open subvolume '%s'", name.text);
	rc = pool_fileset_trim(fd, size, err);
	rc = rc ? rc : pool_fileset_sync(fd, err);
	rc = rc ? rc : btrfs_subvolume_protect(dir, err);
	if (rc)
		return rc;
	if (renameat(parent, name.text, parent, id) < 0)
		return cairn_err_sys(err, errno, "rename '%s' to '%s'", name.text, id);
	return pool_fileset_settle(set, (struct store_ref){STORE_SNAPSHOT, id}, err);
}

/* A volume's file is longer than its record after an expansion that failed, or
 * when it was grown by hand. The snapshot ends where the record does. */
static int cut_trimmed(struct fileset *set, const char *id, int source, uint64_t size,
		       struct cairn_err *err)
{
	struct pool_fileset_name name = pool_fileset_name(id, ".new");
	int rc = remove_named(set, STORE_SNAPSHOT, name.text, err);

	rc = rc ? rc
		: btrfs_subvolume_snapshot(set->kind_fd[STORE_SNAPSHOT], name.text, source, false,
					   err);
	rc = rc ? rc : finish_trimmed(set, id, size, err);
	if (rc)
		remove_named(set, STORE_SNAPSHOT, name.text, NULL);
	return rc;
}

/* Detects a volume that was resized by hand between the size check and the
 * cut. */
static int check_cut(struct fileset *set, const char *id, uint64_t size, struct cairn_err *err)
{
	struct store_ref ref = {STORE_SNAPSHOT, id};
	uint64_t have = 0;
	int rc = pool_fileset_size(&set->store, ref, &have, err);

	if (rc == 0 && have != size)
		rc = cairn_err_set(err, CAIRN_DATA_LOSS,
				   "the volume's file has %llu bytes, its record says %llu",
				   (unsigned long long)have, (unsigned long long)size);
	if (rc)
		remove_named(set, STORE_SNAPSHOT, id, NULL);
	return rc;
}

static int btrfs_snapshot_cut(struct store *store, const char *volume_id, const char *snapshot_id,
			      uint64_t size, struct cairn_err *err)
{
	struct fileset *set = (struct fileset *)store;
	struct store_ref volume = {STORE_VOLUME, volume_id};
	cairn_auto_fd int file = -1;
	cairn_auto_fd int source = -1;
	uint64_t have = 0;
	int rc = pool_fileset_no_snapshot(set, snapshot_id, err);

	rc = rc ? rc : pool_fileset_open_disk(set, volume, O_RDONLY, &file, err);
	rc = rc ? rc : pool_fileset_fd_size(file, &have, err);
	rc = rc ? rc : open_subvolume(set, volume, &source, err);
	/* The ioctl flushes too, but blocks every writer of the filesystem
	 * while its transaction commits. */
	rc = rc ? rc : pool_fileset_sync(file, err);
	if (rc)
		return rc;
	if (have > size)
		return cut_trimmed(set, snapshot_id, source, size, err);
	rc = btrfs_subvolume_snapshot(set->kind_fd[STORE_SNAPSHOT], snapshot_id, source, true, err);
	return rc ? rc : check_cut(set, snapshot_id, size, err);
}

static int btrfs_side_open(struct fileset *set, const char *id, struct btrfs_side *side,
			   struct cairn_err *err)
{
	struct store_ref ref = {STORE_SNAPSHOT, id};
	int rc = pool_fileset_open_disk(set, ref, O_RDONLY, &side->file_fd, err);

	rc = rc ? rc : open_subvolume(set, ref, &side->subvolume_fd, err);
	return rc ? rc : pool_fileset_fd_size(side->file_fd, &side->size, err);
}

static void btrfs_side_done(struct btrfs_side *side)
{
	cairn_closep(&side->file_fd);
	cairn_closep(&side->subvolume_fd);
}

static int btrfs_compare(struct fileset *set, const char *base_id, const char *target_id,
			 struct btrfs_delta delta, struct store_delta_stats *ret_stats,
			 struct cairn_err *err)
{
	cairn_cleanup(btrfs_side_done) struct btrfs_side base = {-1, -1, 0};
	cairn_cleanup(btrfs_side_done) struct btrfs_side target = {-1, -1, 0};
	int rc = btrfs_side_open(set, base_id, &base, err);

	rc = rc ? rc : btrfs_side_open(set, target_id, &target, err);
	if (rc)
		return rc;
	delta.base = &base;
	delta.target = &target;
	delta.path = FILESET_DISK;
	return btrfs_delta_run(&delta, ret_stats, err);
}

static int btrfs_delta(struct store *store, const char *base_id, const char *target_id,
		       struct block_sink sink, const struct store_progress *progress,
		       struct store_delta_stats *ret_stats, struct cairn_err *err)
{
	struct btrfs_delta delta = {.sink = sink, .progress = progress};

	return btrfs_compare((struct fileset *)store, base_id, target_id, delta, ret_stats, err);
}

int btrfs_store_delta(struct store *store, enum btrfs_method method, const char *base_id,
		      const char *target_id, struct block_sink sink,
		      struct store_delta_stats *ret_stats, struct cairn_err *err)
{
	struct btrfs_delta delta = {.sink = sink, .method = method};

	return btrfs_compare((struct fileset *)store, base_id, target_id, delta, ret_stats, err);
}

/* Six times cheaper than FIEMAP. */
static int allocated_tree(int fd, uint64_t start, uint64_t size, struct block_extent *out,
			  size_t max, size_t *ret_n, struct cairn_err *err)
{
	cairn_cleanup(btrfs_tree_source_freep) struct mapping_source *source = NULL;
	int rc = btrfs_tree_source_new(fd, &source, err);

	rc = rc ? rc : btrfs_tree_source_seek(source, start, size, err);
	return rc ? rc : pool_mapping_allocated(source, start, size, out, max, ret_n, err);
}

static int allocated_fiemap(int fd, uint64_t start, uint64_t size, struct block_extent *out,
			    size_t max, size_t *ret_n, struct cairn_err *err)
{
	cairn_cleanup(pool_fiemap_source_freep) struct mapping_source *source = NULL;
	int rc = pool_fiemap_source_new(fd, start, &source, err);

	return rc ? rc : pool_mapping_allocated(source, start, size, out, max, ret_n, err);
}

static int btrfs_allocated(struct store *store, struct store_ref ref, uint64_t start,
			   struct block_extent *out, size_t max, size_t *ret_n,
			   struct cairn_err *err)
{
	cairn_auto_fd int fd = -1;
	uint64_t size = 0;
	int rc = pool_fileset_open_disk((struct fileset *)store, ref, O_RDONLY, &fd, err);

	rc = rc ? rc : pool_fileset_fd_size(fd, &size, err);
	if (rc || start >= size) {
		*ret_n = 0;
		return rc;
	}
	/* The data of a volume may not be in the tree yet; and without
	 * permission to search trees, FIEMAP works too. */
	if (ref.kind == STORE_SNAPSHOT) {
		rc = allocated_tree(fd, start, size, out, max, ret_n, err);
		if (rc != CAIRN_DENIED)
			return rc;
	}
	return allocated_fiemap(fd, start, size, out, max, ret_n, err);
}

static const struct store_ops ops = {
	.name = "btrfs",
	.close = pool_fileset_store_close,
	.volume_create = btrfs_volume_create,
	.volume_clone = btrfs_volume_clone,
	.volume_resize = pool_fileset_volume_resize,
	.volume_replace = btrfs_volume_replace,
	.volume_sweep = btrfs_volume_sweep,
	.remove = btrfs_remove,
	.snapshot_cut = btrfs_snapshot_cut,
	.delta = btrfs_delta,
	.allocated = btrfs_allocated,
	.size = pool_fileset_size,
	.usage = pool_fileset_usage,
	.list = pool_fileset_list,
	.set_aside = pool_fileset_set_aside,
	.bring_back = pool_fileset_bring_back,
	.drop_aside = btrfs_drop_aside,
	.list_aside = pool_fileset_list_aside,
	.reader_open = pool_fileset_reader_open,
	.path = pool_fileset_path,
	.cut_is_atomic = true,
};

/* Tests the permission to search trees by a search: inside a user namespace
 * having the capability is not enough. */
static int check_rights(const char *dir, struct cairn_err *err)
{
	cairn_auto_fd int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	uint64_t n;
	int rc;

	if (fd < 0)
		return cairn_err_sys(err, errno, "open '%s'", dir);
	rc = btrfs_tree_count_newer(fd, 0, 0, 1, &n, err);
	if (rc == CAIRN_DENIED)
		return cairn_err_set(err, CAIRN_PRECONDITION,
				     "back end btrfs needs the right to search the filesystem's "
				     "trees; run as root (CAP_SYS_ADMIN), or use back end reflink");
	return rc;
}

int btrfs_store_open(const char *dir, bool writable, struct store **ret, struct cairn_err *err)
{
	struct fileset *set = NULL;
	uint64_t magic = 0;
	int rc = pool_fileset_magic(dir, &magic, err);

	if (rc == 0 && magic != BTRFS_SUPER_MAGIC)
		rc = cairn_err_set(err, CAIRN_PRECONDITION,
				   "back end btrfs needs btrfs, and '%s' is on another filesystem; "
				   "use a directory on btrfs, or back end reflink or copy",
				   dir);
	/* Reading needs only permission to read the files. */
	if (rc == 0 && writable)
		rc = check_rights(dir, err);
	rc = rc ? rc : pool_fileset_new(&ops, dir, writable, &set, err);
	if (rc == 0)
		*ret = &set->store;
	return rc;
}
