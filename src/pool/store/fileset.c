/* SPDX-License-Identifier: Apache-2.0 */

#include "pool/store/fileset.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/err.h"
#include "base/io.h"
#include "base/mem.h"

static const char *const kind_dir[] = {[STORE_VOLUME] = "volumes", [STORE_SNAPSHOT] = "snapshots"};
static const char *const kind_noun[] = {[STORE_VOLUME] = "volume", [STORE_SNAPSHOT] = "snapshot"};

struct pool_fileset_name pool_fileset_name(const char *id, const char *suffix)
{
	struct pool_fileset_name name;

	snprintf(name.text, sizeof(name.text), "%.*s%s", (int)STORE_ID_MAX, id, suffix);
	return name;
}

static int open_kind_dirs(struct fileset *set, int dir_fd, struct cairn_err *err)
{
	for (int kind = STORE_VOLUME; kind <= STORE_SNAPSHOT; kind++) {
		int rc = 0;

		if (set->store.writable)
			rc = cairn_make_dir(dir_fd, kind_dir[kind], 0700, err);
		if (rc)
			return rc;
		set->kind_fd[kind] = openat(dir_fd, kind_dir[kind],
					    O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		if (set->kind_fd[kind] < 0)
			return cairn_err_sys(err, errno, "open '%s/%s'", set->dir, kind_dir[kind]);
	}
	return 0;
}

int pool_fileset_magic(const char *dir, uint64_t *ret_magic, struct cairn_err *err)
{
	struct statfs fs;

	if (statfs(dir, &fs) < 0)
		return cairn_err_sys(err, errno, "filesystem of '%s'", dir);
	*ret_magic = (uint64_t)fs.f_type;
	return 0;
}

int pool_fileset_new(const struct store_ops *ops, const char *dir, bool writable,
		     struct fileset **ret, struct cairn_err *err)
{
	cairn_cleanup(pool_fileset_freep) struct fileset *set = cairn_calloc(1, sizeof(*set));
	cairn_auto_fd int dir_fd = -1;
	int rc;

	if (!set)
		return cairn_err_nomem(err, "store");
	set->kind_fd[0] = set->kind_fd[1] = -1;
	set->store.ops = ops;
	set->store.writable = writable;
	set->dir = cairn_strdup(dir);
	if (!set->dir)
		return cairn_err_nomem(err, "store");
	dir_fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (dir_fd < 0)
		return cairn_err_sys(err, errno, "open '%s'", dir);
	rc = open_kind_dirs(set, dir_fd, err);
	if (rc)
		return rc;
	*ret = cairn_take(set);
	return 0;
}

void pool_fileset_free(struct fileset *set)
{
	if (!set)
		return;
	cairn_closep(&set->kind_fd[0]);
	cairn_closep(&set->kind_fd[1]);
	free(set->dir);
	free(set);
}

void pool_fileset_store_close(struct store *store)
{
	pool_fileset_free((struct fileset *)store);
}

int pool_fileset_open_disk(struct fileset *set, struct store_ref ref, int flags, int *ret_fd,
			   struct cairn_err *err)
{
	char name[STORE_ID_MAX + sizeof("/" FILESET_DISK)];
	int fd;

	snprintf(name, sizeof(name), "%s/%s", ref.id, FILESET_DISK);
	fd = openat(set->kind_fd[ref.kind], name, flags | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	if (fd < 0 && errno == ENOENT)
		return cairn_err_set(err, CAIRN_NOT_FOUND, "no data of %s '%s' in '%s'",
				     kind_noun[ref.kind], ref.id, set->dir);
	if (fd < 0)
		return cairn_err_sys(err, errno, "open %s '%s'", kind_noun[ref.kind], ref.id);
	*ret_fd = fd;
	return 0;
}

int pool_fileset_fd_size(int fd, uint64_t *ret_size, struct cairn_err *err)
{
	struct stat st;

	if (fstat(fd, &st) < 0)
		return cairn_err_sys(err, errno, "size of a disk file");
	*ret_size = (uint64_t)st.st_size;
	return 0;
}

int pool_fileset_existing_volume(struct fileset *set, const char *id, uint64_t size,
				 bool *ret_exists, struct cairn_err *err)
{
	uint64_t have = 0;
	int rc = pool_fileset_size(&set->store, (struct store_ref){STORE_VOLUME, id}, &have, err);

	if (rc == 0 && have != size)
		return cairn_err_set(err, CAIRN_EXISTS, "volume '%s' exists with another size", id);
	*ret_exists = rc == 0;
	return rc == CAIRN_NOT_FOUND ? 0 : rc;
}

int pool_fileset_no_snapshot(struct fileset *set, const char *id, struct cairn_err *err)
{
	uint64_t size = 0;
	int rc = pool_fileset_size(&set->store, (struct store_ref){STORE_SNAPSHOT, id}, &size, err);

	if (rc == 0)
		return cairn_err_set(err, CAIRN_EXISTS, "snapshot '%s' was cut before", id);
	return rc == CAIRN_NOT_FOUND ? 0 : rc;
}

int pool_fileset_grow(int fd, uint64_t size, struct cairn_err *err)
{
	uint64_t have;
	int rc = pool_fileset_fd_size(fd, &have, err);

	if (rc)
		return rc;
	if (size < have)
		return cairn_err_set(err, CAIRN_RANGE, "a volume cannot shrink");
	/* Done even if the size is right: an earlier sync may have failed, and
	 * only changed metadata is written again. */
	if (ftruncate(fd, (off_t)size) == 0)
		return 0;
	if (errno == EFBIG)
		return cairn_err_set(err, CAIRN_RANGE, "this filesystem has no files of that size");
	return cairn_err_sys(err, errno, "set the size");
}

int pool_fileset_trim(int fd, uint64_t size, struct cairn_err *err)
{
	uint64_t have;
	int rc = pool_fileset_fd_size(fd, &have, err);

	if (rc)
		return rc;
	if (have < size)
		return cairn_err_set(err, CAIRN_DATA_LOSS,
				     "a file has %llu bytes, its record says %llu",
				     (unsigned long long)have, (unsigned long long)size);
	if (have > size && ftruncate(fd, (off_t)size) < 0)
		return cairn_err_sys(err, errno, "set the size of a snapshot");
	return 0;
}

int pool_fileset_sync(int fd, struct cairn_err *err)
{
	return fsync(fd) < 0 ? cairn_err_sys(err, errno, "sync a disk file") : 0;
}

int pool_fileset_size(struct store *store, struct store_ref ref, uint64_t *ret_size,
		      struct cairn_err *err)
{
	cairn_auto_fd int fd = -1;
	int rc = pool_fileset_open_disk((struct fileset *)store, ref, O_RDONLY, &fd, err);

	return rc ? rc : pool_fileset_fd_size(fd, ret_size, err);
}

int pool_fileset_usage(struct store *store, struct store_usage *ret, struct cairn_err *err)
{
	struct fileset *set = (struct fileset *)store;
	struct statvfs fs;

	if (fstatvfs(set->kind_fd[STORE_VOLUME], &fs) < 0)
		return cairn_err_sys(err, errno, "usage of '%s'", set->dir);
	*ret = (struct store_usage){
		.total_bytes = (uint64_t)fs.f_blocks * fs.f_frsize,
		.free_bytes = (uint64_t)fs.f_bavail * fs.f_frsize,
	};
	return 0;
}

int pool_fileset_path(struct store *store, struct store_ref ref, char **ret_path,
		      struct cairn_err *err)
{
	struct fileset *set = (struct fileset *)store;
	char *path =
		cairn_printf("%s/%s/%s/%s", set->dir, kind_dir[ref.kind], ref.id, FILESET_DISK);

	if (!path)
		return cairn_err_nomem(err, "path");
	*ret_path = path;
	return 0;
}

static bool is_one_of(const char *suffix, const char *const suffixes[])
{
	for (; *suffixes; suffixes++)
		if (strcmp(*suffixes, suffix) == 0)
			return true;
	return false;
}

/* The id in a directory entry; false when it is not an id or has none of the
 * suffixes. */
static bool entry_id(const char *entry, const char *const suffixes[], char id[STORE_ID_MAX + 1])
{
	size_t n = strcspn(entry, ".");

	if (n == 0 || n > STORE_ID_MAX || !is_one_of(entry + n, suffixes))
		return false;
	if (strspn(entry, "abcdefghijklmnopqrstuvwxyz0123456789-") != n)
		return false;
	memcpy(id, entry, n);
	id[n] = '\0';
	return true;
}

static void fileset_closedirp(DIR **dir)
{
	if (*dir)
		closedir(*dir);
}

static int list_entries(struct store *store, enum store_kind kind, const char *const suffixes[],
			int (*fn)(void *arg, const char *id, struct cairn_err *err), void *arg,
			struct cairn_err *err)
{
	struct fileset *set = (struct fileset *)store;
	cairn_cleanup(fileset_closedirp) DIR *dir = NULL;
	char id[STORE_ID_MAX + 1];
	int fd = openat(set->kind_fd[kind], ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	dir = fd < 0 ? NULL : fdopendir(fd);
	if (!dir) {
		int saved = errno;

		cairn_closep(&fd);
		return cairn_err_sys(err, saved, "list '%s/%s'", set->dir, kind_dir[kind]);
	}
	for (;;) {
		struct dirent *entry;
		int rc;

		errno = 0;
		entry = readdir(dir);
		if (!entry && errno)
			return cairn_err_sys(err, errno, "list '%s/%s'", set->dir, kind_dir[kind]);
		if (!entry)
			return 0;
		if (!entry_id(entry->d_name, suffixes, id))
			continue;
		rc = fn(arg, id, err);
		if (rc < 0)
			return rc;
	}
}

int pool_fileset_list(struct store *store, enum store_kind kind,
		      int (*fn)(void *arg, const char *id, struct cairn_err *err), void *arg,
		      struct cairn_err *err)
{
	static const char *const suffixes[] = {"", ".new", ".del", NULL};

	return list_entries(store, kind, suffixes, fn, arg, err);
}

int pool_fileset_list_aside(struct store *store, enum store_kind kind,
			    int (*fn)(void *arg, const char *id, struct cairn_err *err), void *arg,
			    struct cairn_err *err)
{
	static const char *const suffixes[] = {FILESET_ASIDE, NULL};

	return list_entries(store, kind, suffixes, fn, arg, err);
}
