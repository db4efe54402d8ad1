/* SPDX-License-Identifier: Apache-2.0 */

#include "repo/dir/dir_objects.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/io.h"
#include "base/mem.h"

#define DEPTH_MAX 64 /* stops recursion in a tree that another program made */

static int open_below(int fd, const char *name, int *ret, struct cairn_err *err)
{
	*ret = openat(fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	return *ret < 0 ? cairn_err_sys(err, errno, "open '%s'", name) : 0;
}

/* Opens the directory of a key, part by part, so that no symbolic link leads out of the root.
 * *ret_name is the last part, borrowed from `key`. */
static int open_parent(const char *root, const char *key, bool create, int *ret,
		       const char **ret_name, struct cairn_err *err)
{
	cairn_auto_fd int fd = open(root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int rc = fd < 0 ? cairn_err_sys(err, errno, "open '%s'", root) : 0;

	while (!rc) {
		size_t n = strcspn(key, "/");
		cairn_auto_free char *part = NULL;
		int below = -1;

		if (!key[n])
			break;
		part = cairn_strndup(key, n);
		if (!part)
			return cairn_err_nomem(err, "a path");
		if (create)
			rc = cairn_make_dir(fd, part, 0700, err);
		if (!rc)
			rc = open_below(fd, part, &below, err);
		if (rc)
			break;
		close(fd);
		fd = below;
		key += n + 1;
	}
	if (rc)
		return rc;
	*ret = cairn_take_fd(&fd);
	*ret_name = key;
	return 0;
}

int dir_object_get_at(const char *root, const char *key, size_t max, uint8_t **ret_data,
		      size_t *ret_n, struct cairn_err *err)
{
	cairn_auto_fd int fd = -1;
	const char *name;
	char *data = NULL;
	int rc = open_parent(root, key, false, &fd, &name, err);

	if (!rc)
		rc = cairn_file_read_regular(fd, name, max, &data, ret_n, err);
	if (!rc)
		*ret_data = (uint8_t *)data;
	return rc;
}

int dir_object_put_at(const char *root, const char *key, const void *data, size_t n,
		      struct cairn_err *err)
{
	cairn_auto_fd int fd = -1;
	const char *name;
	int rc = open_parent(root, key, true, &fd, &name, err);

	return rc ? rc : cairn_file_replace(fd, name, data, n, err);
}

/* Directories that became empty go too, as in a bucket, which has none. */
static void remove_empty_parents(const char *root, const char *key)
{
	cairn_auto_free char *path = cairn_strdup(key);

	for (char *slash; path && (slash = strrchr(path, '/')); *slash = 0) {
		cairn_auto_free char *full = NULL;

		*slash = 0;
		full = cairn_printf("%s/%s", root, path);
		if (!full || rmdir(full) < 0)
			return;
	}
}

int dir_object_remove_at(const char *root, const char *key, struct cairn_err *err)
{
	cairn_auto_fd int fd = -1;
	const char *name;
	int rc = open_parent(root, key, false, &fd, &name, err);

	if (rc)
		return rc == CAIRN_NOT_FOUND ? 0 : rc;
	if (unlinkat(fd, name, 0) < 0)
		return errno == ENOENT ? 0 : cairn_err_sys(err, errno, "unlink '%s'", name);
	rc = cairn_sync_dir(fd, name, err);
	if (!rc)
		remove_empty_parents(root, key);
	return rc;
}

struct walk {
	repo_object_fn *fn;
	void *arg;
};

static void close_streamp(DIR **dir)
{
	if (*dir)
		closedir(*dir);
}

static int walk_dir(const struct walk *walk, int fd, const char *path, unsigned depth,
		    struct cairn_err *err);

static int walk_entry(const struct walk *walk, int fd, const char *path, const char *name,
		      unsigned depth, struct cairn_err *err)
{
	cairn_auto_free char *key = cairn_printf("%s%s", path, name);
	struct stat st;
	int below = -1, rc;

	if (!key)
		return cairn_err_nomem(err, "a key");
	if (fstatat(fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return errno == ENOENT ? 0 : cairn_err_sys(err, errno, "'%s'", key);
	if (S_ISREG(st.st_mode))
		return walk->fn(walk->arg, key, (uint64_t)st.st_size, err);
	if (!S_ISDIR(st.st_mode))
		return 0;
	rc = open_below(fd, name, &below, err);
	if (rc)
		return rc == CAIRN_NOT_FOUND ? 0 : rc;
	cairn_auto_free char *inside = cairn_printf("%s/", key);

	if (!inside) {
		close(below);
		return cairn_err_nomem(err, "a key");
	}
	return walk_dir(walk, below, inside, depth + 1, err);
}

/* Takes `fd`. */
static int walk_dir(const struct walk *walk, int fd, const char *path, unsigned depth,
		    struct cairn_err *err)
{
	cairn_cleanup(close_streamp) DIR *stream = fdopendir(fd);
	struct dirent *entry;
	int rc = 0;

	if (!stream) {
		close(fd);
		return cairn_err_nomem(err, "a directory");
	}
	if (depth > DEPTH_MAX)
		return cairn_err_set(err, CAIRN_RANGE, "'%s' is too deep", path);
	while (!rc && (errno = 0, entry = readdir(stream))) {
		if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
			continue;
		rc = walk_entry(walk, dirfd(stream), path, entry->d_name, depth, err);
	}
	return rc || !errno ? rc : cairn_err_sys(err, errno, "read '%s'", path);
}

int dir_object_list_at(const char *root, const char *prefix, repo_object_fn *fn, void *arg,
		       struct cairn_err *err)
{
	const struct walk walk = {fn, arg};
	cairn_auto_free char *inside = cairn_printf("%s.", prefix);
	int fd = -1, rc;
	const char *name;

	if (!inside)
		return cairn_err_nomem(err, "a path");
	rc = open_parent(root, inside, false, &fd, &name, err);
	/* A root that is missing is an error: something is not mounted. */
	if (rc == CAIRN_NOT_FOUND && access(root, F_OK) == 0)
		return 0;
	return rc ? rc : walk_dir(&walk, fd, prefix, 0, err);
}
