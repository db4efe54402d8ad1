/* SPDX-License-Identifier: Apache-2.0 */

#include "repo/dir/dir.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/io.h"
#include "base/mem.h"
#include "repo/dir/dir_impl.h"
#include "repo/dir/dir_objects.h"
#include "repo/dir/dir_reserve.h"
#include "repo/dir/dir_write.h"
#include "repo/repo_limiter.h"
#include "repo/repo_store.h"

#define CONNECTIONS 2

/* The directory of a file, and its name. */
struct place {
	char dir[DIR_PATH_TEXT];
	char name[DIR_PATH_TEXT];
};

static struct place place_of(enum repo_file kind, const struct repo_id *name)
{
	struct place place = {.dir = "."};
	char hex[REPO_ID_TEXT_MAX];

	if (kind == REPO_FILE_CONFIG) {
		snprintf(place.name, sizeof(place.name), "config");
		return place;
	}
	repo_id_format(name, hex);
	snprintf(place.name, sizeof(place.name), "%s", hex);
	if (kind == REPO_FILE_PACK)
		snprintf(place.dir, sizeof(place.dir), "data/%.2s", hex);
	else
		snprintf(place.dir, sizeof(place.dir), "%s", repo_file_name(kind));
	return place;
}

int dir_errno(void)
{
	return errno == ENODEV || errno == ENXIO || errno == ESRCH ? EIO : errno;
}

static int dir_open_root(const struct dir *dir, int *ret, struct cairn_err *err)
{
	*ret = open(dir->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (*ret < 0)
		return cairn_err_sys(err, dir_errno(), "open '%s'", dir->path);
	return 0;
}

int dir_open_dir(const struct dir *dir, const char *name, int *ret, struct cairn_err *err)
{
	cairn_auto_fd int root = -1;
	int rc = dir_open_root(dir, &root, err);

	if (rc < 0)
		return rc;
	*ret = openat(root, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (*ret < 0)
		return cairn_err_sys(err, dir_errno(), "open '%s/%s'", dir->path, name);
	return 0;
}

/* Creates the directory if it is missing: not every program creates all of data/00 to
 * data/ff in advance. */
static int open_dir_to_write(const struct dir *dir, const char *name, int *ret,
			     struct cairn_err *err)
{
	cairn_auto_fd int root = -1;
	int rc = dir_open_dir(dir, name, ret, err);

	if (rc != CAIRN_NOT_FOUND)
		return rc;
	rc = dir_open_root(dir, &root, err);
	if (rc == 0 && strncmp(name, "data/", 5) == 0)
		rc = cairn_make_dir(root, "data", 0700, err);
	if (rc == 0)
		rc = cairn_make_dir(root, name, 0700, err);
	if (rc < 0)
		return rc;
	return dir_open_dir(dir, name, ret, err);
}

/* Makes the entries of the directory `name` durable. A directory that we may not
 * read was written by another user, who has synced it. */
static int sync_dir_at(int root, const char *name, struct cairn_err *err)
{
	cairn_auto_fd int fd = openat(root, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (fd < 0)
		return errno == EACCES ? 0 : cairn_err_sys(err, errno, "open '%s'", name);
	return cairn_sync_dir(fd, name, err);
}

static int dir_create(struct repo_store *store, struct cairn_err *err)
{
	struct dir *dir = (struct dir *)store;
	cairn_auto_fd int root = -1;
	char name[DIR_PATH_TEXT];
	int rc = cairn_make_dir(AT_FDCWD, dir->path, 0700, err);

	if (rc == 0)
		rc = dir_open_root(dir, &root, err);
	for (int kind = REPO_FILE_KEY; rc == 0 && kind < REPO_FILE_KINDS; kind++)
		rc = cairn_make_dir(root, repo_file_name((enum repo_file)kind), 0700, err);
	for (unsigned i = 0; rc == 0 && i < 256; i++) {
		snprintf(name, sizeof(name), "data/%02x", i);
		if (mkdirat(root, name, 0700) < 0 && errno != EEXIST)
			rc = cairn_err_sys(err, errno, "make '%s/%s'", dir->path, name);
	}
	if (rc == 0)
		rc = sync_dir_at(root, "data", err);
	return rc < 0 ? rc : sync_dir_at(root, "..", err);
}

/* The config must not be replaced. All other names are hashes of their contents, so
 * replacing a file does not change it. */
static int dir_rename_new(int fd, enum repo_file kind, const char *from, const char *to,
			  struct cairn_err *err)
{
	if (kind == REPO_FILE_CONFIG) {
		if (renameat2(fd, from, fd, to, RENAME_NOREPLACE) == 0)
			return 0;
		if (errno == EEXIST)
			return cairn_err_set(err, CAIRN_EXISTS, "there is one already");
		if (errno != EINVAL && errno != ENOSYS)
			return cairn_err_sys(err, errno, "rename '%s'", from);
		/* linkat() does not replace a file either. */
		if (linkat(fd, from, fd, to, 0) == 0)
			return unlinkat(fd, from, 0) < 0
				       ? cairn_err_sys(err, errno, "unlink '%s'", from)
				       : 0;
		if (errno == EEXIST)
			return cairn_err_set(err, CAIRN_EXISTS, "there is one already");
	}
	if (renameat(fd, from, fd, to) < 0)
		return cairn_err_sys(err, errno, "rename '%s'", from);
	return 0;
}

/* A sweep may have removed the temporary file while the gate was asked. */
static int dir_publish(int fd, enum repo_file kind, const char *from, const char *to,
		       const struct repo_store_gate *gate, struct cairn_err *err)
{
	int rc = gate ? gate->may_publish(gate->arg, err) : 0;

	if (rc < 0)
		return rc;
	rc = dir_rename_new(fd, kind, from, to, err);
	return gate && rc == CAIRN_NOT_FOUND
		       ? cairn_err_set(err, CAIRN_ABORTED,
				       "removed by a process that deletes unfinished files")
		       : rc;
}

static int dir_put_gated(struct repo_store *store, enum repo_file kind, const struct repo_id *name,
			 const void *data, size_t n, const struct repo_store_gate *gate,
			 struct cairn_err *err)
{
	struct dir *dir = (struct dir *)store;
	struct place place = place_of(kind, name);
	cairn_auto_fd int fd = -1;
	/* A lock need not survive the process, so it is not synced. */
	bool durable = kind != REPO_FILE_LOCK;
	struct dir_write write = {.data = data,
				  .n = n,
				  .durable = durable,
				  .limiter = dir->limits ? &dir->limits->upload : NULL,
				  .cancelled = dir->cancelled};
	char temporary[2 * DIR_PATH_TEXT];
	int rc = open_dir_to_write(dir, place.dir, &fd, err);

	if (rc < 0)
		return rc;
	snprintf(temporary, sizeof(temporary), "%s-tmp-%d-%" PRIuFAST64, place.name, (int)getpid(),
		 dir->counter++);
	unlinkat(fd, temporary, 0); /* a dead process with our pid may have left it */
	rc = dir_write_file(fd, temporary, &write, err);
	if (rc == 0)
		rc = dir_publish(fd, kind, temporary, place.name, gate, err);
	if (rc < 0) {
		unlinkat(fd, temporary, 0);
		return rc == CAIRN_EXISTS ? rc
					  : cairn_err_wrap(err, "'%s/%s'", dir->path, place.dir);
	}
	return durable ? cairn_sync_dir(fd, place.dir, err) : 0;
}

static int dir_put(struct repo_store *store, enum repo_file kind, const struct repo_id *name,
		   const void *data, size_t n, const struct repo_id *id_of_data,
		   struct cairn_err *err)
{
	(void)id_of_data;
	return dir_put_gated(store, kind, name, data, n, NULL, err);
}

/* Opens the directory of a file. */
static int dir_open_place(const struct dir *dir, enum repo_file kind, const struct repo_id *name,
			  struct place *ret, int *ret_fd, struct cairn_err *err)
{
	*ret = place_of(kind, name);
	return dir_open_dir(dir, ret->dir, ret_fd, err);
}

/* Opens a regular file. With O_PATH only its size can be read, which needs no right to its
 * contents. */
static int dir_open_file(const struct dir *dir, int flags, enum repo_file kind,
			 const struct repo_id *name, int *ret, struct stat *ret_st,
			 struct cairn_err *err)
{
	struct place place;
	cairn_auto_fd int fd = -1;
	int rc = dir_open_place(dir, kind, name, &place, &fd, err);

	if (rc < 0)
		return rc;
	*ret = openat(fd, place.name, flags | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	/* ENXIO: a socket */
	if (*ret < 0 && errno != ELOOP && errno != ENXIO)
		return cairn_err_sys(err, dir_errno(), "open '%s/%s/%s'", dir->path, place.dir,
				     place.name);
	/* O_PATH opens a symbolic link itself, which is not a regular file either. */
	if (*ret < 0 || fstat(*ret, ret_st) < 0 || !S_ISREG(ret_st->st_mode))
		return cairn_err_set(err, CAIRN_DATA_LOSS, "'%s/%s/%s' is not a regular file",
				     dir->path, place.dir, place.name);
	return 0;
}

static int dir_get(struct repo_store *store, enum repo_file kind, const struct repo_id *name,
		   uint64_t offset, void *out, size_t n, struct cairn_err *err)
{
	struct dir *dir = (struct dir *)store;
	struct repo_limiter *limiter = dir->limits ? &dir->limits->download : NULL;
	cairn_auto_fd int fd = -1;
	struct stat st;
	int rc = dir_open_file(dir, O_RDONLY, kind, name, &fd, &st, err);

	for (size_t part, done = 0; rc == 0 && done < n; done += part) {
		ssize_t got;

		part = repo_limiter_slice(limiter, n - done);
		if (!repo_limiter_wait(limiter, part, dir->cancelled))
			return cairn_err_set(err, CAIRN_CANCELLED, "interrupted");
		got = cairn_pread_full(fd, (uint8_t *)out + done, part, offset + done);
		if (got < 0)
			return cairn_err_sys(err, dir_errno(), "read");
		if ((size_t)got != part)
			return cairn_err_set(err, CAIRN_RANGE, "the file is shorter");
	}
	return rc;
}

static int dir_size(struct repo_store *store, enum repo_file kind, const struct repo_id *name,
		    uint64_t *ret_size, struct cairn_err *err)
{
	cairn_auto_fd int fd = -1;
	struct stat st;
	int rc = dir_open_file((struct dir *)store, O_PATH, kind, name, &fd, &st, err);

	if (rc == 0)
		*ret_size = (uint64_t)st.st_size;
	return rc;
}

static int dir_remove(struct repo_store *store, enum repo_file kind, const struct repo_id *name,
		      struct cairn_err *err)
{
	struct place place;
	cairn_auto_fd int fd = -1;
	int rc = dir_open_place((struct dir *)store, kind, name, &place, &fd, err);

	if (rc == CAIRN_NOT_FOUND)
		return 0;
	if (rc < 0)
		return rc;
	if (unlinkat(fd, place.name, 0) < 0)
		return errno == ENOENT ? 0 : cairn_err_sys(err, errno, "unlink '%s'", place.name);
	/* A lock that reappears after a power failure is stale anyway. Other deletions must
	 * be durable: an index must not outlive the packs that it names. */
	return kind == REPO_FILE_LOCK ? 0 : cairn_sync_dir(fd, place.dir, err);
}

/* ---- the reserve --------------------------------------------------------------- */

static int dir_space(struct repo_store *store, uint64_t *ret_free, struct cairn_err *err)
{
	return dir_space_at(((struct dir *)store)->path, ret_free, err);
}

static int dir_reserve_keep(struct repo_store *store, struct cairn_err *err)
{
	struct dir *dir = (struct dir *)store;
	cairn_auto_fd int root = -1;
	int rc = dir_open_root(dir, &root, err);

	return rc < 0 ? rc : dir_reserve_keep_at(root, dir->path, dir->released, err);
}

static int dir_reserve_release(struct repo_store *store, bool *ret_released, struct cairn_err *err)
{
	struct dir *dir = (struct dir *)store;
	cairn_auto_fd int root = -1;
	int rc = dir_open_root(dir, &root, err);

	if (rc == 0)
		rc = dir_reserve_release_at(root, ret_released, err);
	if (*ret_released)
		dir->released = true;
	return rc;
}

/* ---- objects under arbitrary keys ------------------------------------------------ */

static int dir_object_get(struct repo_store *store, const char *key, size_t max, uint8_t **ret_data,
			  size_t *ret_n, struct cairn_err *err)
{
	return dir_object_get_at(((struct dir *)store)->path, key, max, ret_data, ret_n, err);
}

static int dir_object_put(struct repo_store *store, const char *key, const void *data, size_t n,
			  struct cairn_err *err)
{
	return dir_object_put_at(((struct dir *)store)->path, key, data, n, err);
}

static int dir_object_remove(struct repo_store *store, const char *key, struct cairn_err *err)
{
	return dir_object_remove_at(((struct dir *)store)->path, key, err);
}

static int dir_object_list(struct repo_store *store, const char *prefix, repo_object_fn *fn,
			   void *arg, struct cairn_err *err)
{
	return dir_object_list_at(((struct dir *)store)->path, prefix, fn, arg, err);
}

static const struct repo_object_ops dir_object_ops = {
	.get = dir_object_get,
	.put = dir_object_put,
	.remove = dir_object_remove,
	.list = dir_object_list,
};

static void dir_close(struct repo_store *store)
{
	struct dir *dir = (struct dir *)store;

	free(dir->path);
	free(dir);
}

static const struct repo_store_ops dir_ops = {
	.name = "directory",
	.close = dir_close,
	.create = dir_create,
	.put = dir_put,
	.put_gated = dir_put_gated,
	.get = dir_get,
	.size = dir_size,
	.remove = dir_remove,
	.list = dir_list,
	.list_rest = dir_list_rest,
	.sweep = dir_sweep,
	.space = dir_space,
	.reserve_keep = dir_reserve_keep,
	.reserve_release = dir_reserve_release,
	.objects = &dir_object_ops,
};

int repo_dir_open(const struct repo_store_options *options, const char *path,
		  struct repo_store **ret, struct cairn_err *err)
{
	struct dir *dir = cairn_calloc(1, sizeof(*dir));

	if (!dir)
		return cairn_err_nomem(err, "a store");
	dir->store.ops = &dir_ops;
	dir->store.connections = options->connections ? options->connections : CONNECTIONS;
	dir->limits = options->limits;
	dir->cancelled = options->cancelled;
	dir->path = cairn_strdup(path);
	if (!dir->path) {
		dir_close(&dir->store);
		return cairn_err_nomem(err, "a store");
	}
	*ret = &dir->store;
	return 0;
}
