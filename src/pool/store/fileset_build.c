/* SPDX-License-Identifier: Apache-2.0 */

/* Creates and removes objects that are plain directories. */
#include "pool/store/fileset.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/io.h"
#include "pool/store/file_owner.h"

int pool_fileset_remove_named(struct fileset *set, enum store_kind kind, const char *name,
			      struct cairn_err *err)
{
	int parent = set->kind_fd[kind];
	cairn_auto_fd int dir =
		openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	if (dir < 0 && errno == ENOENT)
		return 0;
	if (dir < 0)
		return cairn_err_sys(err, errno, "open '%s'", name);
	if (unlinkat(dir, FILESET_DISK, 0) < 0 && errno != ENOENT)
		return cairn_err_sys(err, errno, "remove the data of '%s'", name);
	if (unlinkat(parent, name, AT_REMOVEDIR) < 0 && errno != ENOENT)
		return cairn_err_sys(err, errno, "remove '%s'", name);
	return 0;
}

int pool_fileset_remove(struct store *store, struct store_ref ref, struct cairn_err *err)
{
	struct fileset *set = (struct fileset *)store;
	struct pool_fileset_name gone = pool_fileset_name(ref.id, ".del");
	struct pool_fileset_name half = pool_fileset_name(ref.id, ".new");
	int parent = set->kind_fd[ref.kind];
	int rc = pool_fileset_remove_named(set, ref.kind, gone.text, err);

	rc = rc ? rc : pool_fileset_remove_named(set, ref.kind, half.text, err);
	if (rc)
		return rc;
	/* Under the other name it is not an object any more, however far the removal gets. */
	if (renameat(parent, ref.id, parent, gone.text) == 0)
		rc = pool_fileset_remove_named(set, ref.kind, gone.text, err);
	else if (errno == ENOSPC || errno == EDQUOT)
		/* A full disk has no space for a second name. If interrupted, this
		 * leaves an empty directory, which is not an object and does not prevent
		 * a new one. */
		rc = pool_fileset_remove_named(set, ref.kind, ref.id, err);
	else if (errno != ENOENT)
		return cairn_err_sys(err, errno, "remove '%s'", ref.id);
	return rc ? rc : cairn_sync_dir(parent, ref.id, err);
}

/* Renames within the directory; an existing object at the new name is never
 * replaced. */
static int rename_object(struct fileset *set, struct store_ref ref, const char *from,
			 const char *to, struct cairn_err *err)
{
	int parent = set->kind_fd[ref.kind];

	if (renameat2(parent, from, parent, to, RENAME_NOREPLACE) < 0)
		return cairn_err_sys(err, errno, "rename '%s' to '%s'", from, to);
	return cairn_sync_dir(parent, ref.id, err);
}

int pool_fileset_set_aside(struct store *store, struct store_ref ref, struct cairn_err *err)
{
	struct pool_fileset_name aside = pool_fileset_name(ref.id, FILESET_ASIDE);

	return rename_object((struct fileset *)store, ref, ref.id, aside.text, err);
}

int pool_fileset_bring_back(struct store *store, struct store_ref ref, struct cairn_err *err)
{
	struct pool_fileset_name aside = pool_fileset_name(ref.id, FILESET_ASIDE);

	return rename_object((struct fileset *)store, ref, aside.text, ref.id, err);
}

int pool_fileset_drop_aside(struct store *store, struct store_ref ref, struct cairn_err *err)
{
	struct fileset *set = (struct fileset *)store;
	struct pool_fileset_name aside = pool_fileset_name(ref.id, FILESET_ASIDE);
	int rc = pool_fileset_remove_named(set, ref.kind, aside.text, err);

	return rc ? rc : pool_fileset_settle(set, ref, err);
}

int pool_fileset_build(struct fileset *set, struct store_ref ref, int *ret_fd,
		       struct cairn_err *err)
{
	struct pool_fileset_name name = pool_fileset_name(ref.id, ".new");
	int rc = pool_fileset_remove_named(set, ref.kind, name.text, err);
	cairn_auto_fd int dir = -1;
	int fd;

	if (rc)
		return rc;
	dir = pool_owner_mkdir(set->kind_fd[ref.kind], name.text);
	if (dir < 0)
		return cairn_err_sys(err, errno, "make '%s'", name.text);
	fd = openat(dir, FILESET_DISK, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (fd < 0) {
		rc = cairn_err_sys(err, errno, "make '%s/%s'", name.text, FILESET_DISK);
		pool_fileset_abandon(set, ref);
		return rc;
	}
	pool_owner_adopt(fd, set->kind_fd[ref.kind]);
	*ret_fd = fd;
	return 0;
}

int pool_fileset_continue(struct fileset *set, struct store_ref ref, int *ret_fd,
			  struct cairn_err *err)
{
	struct pool_fileset_name name = pool_fileset_name(ref.id, ".new");
	cairn_auto_fd int dir = openat(set->kind_fd[ref.kind], name.text,
				       O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	*ret_fd = dir < 0 ? -1 : openat(dir, FILESET_DISK, O_RDWR | O_NOFOLLOW | O_CLOEXEC);
	if (*ret_fd >= 0)
		return 0;
	/* A killed cut may have left it without write permission. */
	if (errno == ENOENT || errno == EACCES)
		return pool_fileset_build(set, ref, ret_fd, err);
	return cairn_err_sys(err, errno, "open the data of '%s'", name.text);
}

int pool_fileset_finish(struct fileset *set, struct store_ref ref, int fd, struct cairn_err *err)
{
	struct pool_fileset_name name = pool_fileset_name(ref.id, ".new");
	int parent = set->kind_fd[ref.kind], rc;
	cairn_auto_fd int dir = -1;

	/* The data, then its entry, then the rename: after a crash the object is complete or it
	 * does not exist. */
	if (fsync(fd) < 0)
		return cairn_err_sys(err, errno, "sync the data of '%s'", ref.id);
	dir = openat(parent, name.text, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (dir < 0)
		return cairn_err_sys(err, errno, "open '%s'", name.text);
	rc = cairn_sync_dir(dir, name.text, err);
	if (rc)
		return rc;
	/* An existing directory is only replaced when it is empty: by this rule
	 * of rename() no object can be overwritten. */
	if (renameat(parent, name.text, parent, ref.id) < 0)
		return cairn_err_sys(err, errno, "rename '%s' to '%s'", name.text, ref.id);
	return cairn_sync_dir(parent, ref.id, err);
}

int pool_fileset_settle(struct fileset *set, struct store_ref ref, struct cairn_err *err)
{
	return cairn_sync_dir(set->kind_fd[ref.kind], ref.id, err);
}

void pool_fileset_abandon(struct fileset *set, struct store_ref ref)
{
	struct pool_fileset_name name = pool_fileset_name(ref.id, ".new");

	pool_fileset_remove_named(set, ref.kind, name.text, NULL);
}

int pool_fileset_volume_create(struct store *store, const char *id, uint64_t size,
			       struct cairn_err *err)
{
	struct fileset *set = (struct fileset *)store;
	struct store_ref ref = {STORE_VOLUME, id};
	cairn_auto_fd int fd = -1;
	bool exists = false;
	int rc = pool_fileset_existing_volume(set, id, size, &exists, err);

	if (rc || exists)
		return rc ? rc : pool_fileset_settle(set, ref, err);
	rc = pool_fileset_build(set, ref, &fd, err);
	if (rc)
		return rc;
	rc = pool_fileset_grow(fd, size, err);
	rc = rc ? rc : pool_fileset_finish(set, ref, fd, err);
	if (rc)
		pool_fileset_abandon(set, ref);
	return rc;
}

int pool_fileset_volume_resize(struct store *store, const char *id, uint64_t size,
			       struct cairn_err *err)
{
	cairn_auto_fd int fd = -1;
	int rc = pool_fileset_open_disk((struct fileset *)store,
					(struct store_ref){STORE_VOLUME, id}, O_RDWR, &fd, err);

	rc = rc ? rc : pool_fileset_grow(fd, size, err);
	return rc ? rc : pool_fileset_sync(fd, err);
}

/* Opens the volume's file, and that of the snapshot ID.new: the one from
 * pool_fileset_prepare(), or an empty one. */
static int open_pair(struct fileset *set, const char *volume_id, const char *snapshot_id,
		     bool is_prepared, int *ret_from, int *ret_to, struct cairn_err *err)
{
	struct store_ref ref = {STORE_SNAPSHOT, snapshot_id};
	int rc = pool_fileset_no_snapshot(set, snapshot_id, err);

	rc = rc ? rc
		: pool_fileset_open_disk(set, (struct store_ref){STORE_VOLUME, volume_id}, O_RDONLY,
					 ret_from, err);
	if (rc)
		return rc;
	return is_prepared ? pool_fileset_continue(set, ref, ret_to, err)
			   : pool_fileset_build(set, ref, ret_to, err);
}

int pool_fileset_prepare(struct fileset *set, const char *volume_id, const char *snapshot_id,
			 fileset_copy copy, struct cairn_err *err)
{
	cairn_auto_fd int from = -1;
	cairn_auto_fd int to = -1;
	int rc = open_pair(set, volume_id, snapshot_id, false, &from, &to, err);

	if (rc)
		return rc;
	rc = copy(from, to, err);
	if (rc)
		pool_fileset_abandon(set, (struct store_ref){STORE_SNAPSHOT, snapshot_id});
	return rc;
}

int pool_fileset_cut(struct fileset *set, const char *volume_id, const char *snapshot_id,
		     uint64_t size, fileset_copy copy, struct cairn_err *err)
{
	struct store_ref ref = {STORE_SNAPSHOT, snapshot_id};
	cairn_auto_fd int from = -1;
	cairn_auto_fd int to = -1;
	int rc = open_pair(set, volume_id, snapshot_id, set->store.ops->snapshot_prepare != NULL,
			   &from, &to, err);

	if (rc)
		return rc;
	rc = copy(from, to, err);
	rc = rc ? rc : pool_fileset_trim(to, size, err);
	if (rc == 0 && fchmod(to, 0400) < 0)
		rc = cairn_err_sys(err, errno, "protect snapshot '%s'", snapshot_id);
	rc = rc ? rc : pool_fileset_finish(set, ref, to, err);
	if (rc)
		pool_fileset_abandon(set, ref);
	return rc;
}

/* Builds ID.new of volumes/ from the first `length` bytes of a snapshot. */
static int build_from_snapshot(struct fileset *set, const char *id, const char *snapshot_id,
			       uint64_t length, uint64_t size, fileset_copy copy, int *ret_fd,
			       struct cairn_err *err)
{
	cairn_auto_fd int from = -1;
	int rc = pool_fileset_open_disk(set, (struct store_ref){STORE_SNAPSHOT, snapshot_id},
					O_RDONLY, &from, err);

	rc = rc ? rc : pool_fileset_build(set, (struct store_ref){STORE_VOLUME, id}, ret_fd, err);
	rc = rc ? rc : copy(from, *ret_fd, err);
	rc = rc ? rc : pool_fileset_trim(*ret_fd, length, err);
	return rc ? rc : pool_fileset_grow(*ret_fd, size, err);
}

int pool_fileset_clone(struct fileset *set, const char *id, const char *snapshot_id,
		       uint64_t length, uint64_t size, fileset_copy copy, struct cairn_err *err)
{
	struct store_ref ref = {STORE_VOLUME, id};
	cairn_auto_fd int to = -1;
	bool exists = false;
	int rc = pool_fileset_existing_volume(set, id, size, &exists, err);

	if (rc || exists)
		return rc ? rc : pool_fileset_settle(set, ref, err);
	rc = build_from_snapshot(set, id, snapshot_id, length, size, copy, &to, err);
	rc = rc ? rc : pool_fileset_finish(set, ref, to, err);
	if (rc)
		pool_fileset_abandon(set, ref);
	return rc;
}

static int open_object_dir(struct fileset *set, struct store_ref ref, int *ret_fd,
			   struct cairn_err *err)
{
	*ret_fd = openat(set->kind_fd[ref.kind], ref.id,
			 O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	return *ret_fd < 0 ? cairn_err_sys(err, errno, "open '%s'", ref.id) : 0;
}

/* Exchanges the files of ID and ID.new, so that a change that cannot be made durable
 * can be undone. If the filesystem does not support that, the new one replaces the old,
 * which is also atomic. */
static int exchange_disks(struct fileset *set, const char *id, int dir, struct cairn_err *err)
{
	struct pool_fileset_name name = pool_fileset_name(id, ".new");
	char from[sizeof(name.text) + sizeof("/" FILESET_DISK)];
	int parent = set->kind_fd[STORE_VOLUME];

	snprintf(from, sizeof(from), "%s/%s", name.text, FILESET_DISK);
	if (renameat2(parent, from, dir, FILESET_DISK, RENAME_EXCHANGE) == 0)
		return 0;
	if ((errno == EINVAL || errno == ENOSYS || errno == EOPNOTSUPP) &&
	    renameat(parent, from, dir, FILESET_DISK) == 0)
		return 0;
	return cairn_err_sys(err, errno, "replace the data of '%s'", id);
}

static int move_disk_over(struct fileset *set, const char *id, struct cairn_err *err)
{
	cairn_auto_fd int dir = -1;
	int rc = open_object_dir(set, (struct store_ref){STORE_VOLUME, id}, &dir, err);

	rc = rc ? rc : exchange_disks(set, id, dir, err);
	if (rc)
		return rc;
	rc = cairn_sync_dir(dir, id, err);
	/* The caller reports a failure, so the volume must keep its old contents. */
	if (rc && exchange_disks(set, id, dir, NULL) == 0)
		(void)cairn_sync_dir(dir, id, NULL);
	return rc;
}

int pool_fileset_ready(struct fileset *set, const struct store_replacement *spec,
		       struct cairn_err *err)
{
	struct pool_fileset_name name = pool_fileset_name(spec->id, ".new");
	cairn_auto_free char *path = NULL;
	int rc;

	if (!spec->ready)
		return 0;
	rc = pool_fileset_path(&set->store, (struct store_ref){STORE_VOLUME, name.text}, &path,
			       err);
	return rc ? rc : spec->ready(spec->arg, path, err);
}

int pool_fileset_replace(struct fileset *set, const struct store_replacement *spec,
			 fileset_copy copy, struct cairn_err *err)
{
	cairn_auto_fd int to = -1;
	int rc = build_from_snapshot(set, spec->id, spec->snapshot_id, spec->length, spec->size,
				     copy, &to, err);

	/* Durable before the exchange: a crash leaves the old contents or the new ones. */
	rc = rc ? rc : pool_fileset_sync(to, err);
	rc = rc ? rc : pool_fileset_ready(set, spec, err);
	return rc ? rc : move_disk_over(set, spec->id, err);
}

/* The last exchange must be durable before the other file is removed. */
int pool_fileset_volume_sweep(struct store *store, const char *id, struct cairn_err *err)
{
	struct fileset *set = (struct fileset *)store;
	struct store_ref ref = {STORE_VOLUME, id};
	struct pool_fileset_name name = pool_fileset_name(id, ".new");
	cairn_auto_fd int dir = -1;
	int rc = open_object_dir(set, ref, &dir, err);

	rc = rc ? rc : cairn_sync_dir(dir, id, err);
	rc = rc ? rc : pool_fileset_remove_named(set, STORE_VOLUME, name.text, err);
	return rc ? rc : pool_fileset_settle(set, ref, err);
}
