/* SPDX-License-Identifier: Apache-2.0 */

/* Lists the files of a repository in a directory, and removes temporary ones. */

#include "repo/dir/dir_impl.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/err.h"

static void close_dirp(DIR **dir)
{
	if (*dir)
		closedir(*dir);
}

/* NULL if the directory does not exist. */
static int dir_open_stream(struct dir *dir, const char *name, DIR **ret, struct cairn_err *err)
{
	int fd = -1, rc = dir_open_dir(dir, name, &fd, err);

	if (rc < 0)
		return rc == CAIRN_NOT_FOUND ? 0 : rc;
	*ret = fdopendir(fd);
	if (*ret)
		return 0;
	close(fd);
	return cairn_err_nomem(err, "a directory");
}

static int dir_list_one(struct dir *dir, const char *name, bool needed, repo_store_list_fn *fn,
			void *arg, struct cairn_err *err)
{
	cairn_cleanup(close_dirp) DIR *stream = NULL;
	struct dirent *entry;
	int rc = dir_open_stream(dir, name, &stream, err);

	if (rc < 0)
		return rc;
	if (!stream)
		return needed ? cairn_err_set(err, CAIRN_DATA_LOSS,
					      "the directory '%s/%s' is missing", dir->path, name)
			      : 0;
	while ((errno = 0, entry = readdir(stream))) {
		struct repo_id id;
		struct stat st;

		if (!repo_id_parse(entry->d_name, strlen(entry->d_name), &id))
			continue;
		if (fstatat(dirfd(stream), entry->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0) {
			if (errno == ENOENT)
				continue;
			return cairn_err_sys(err, dir_errno(), "'%s/%s/%s'", dir->path, name,
					     entry->d_name);
		}
		/* A link, even a dangling one, is listed: to a prune, a snapshot that is left
		 * out would not exist. Reading it fails with CAIRN_DATA_LOSS. */
		rc = fn(arg, &id, S_ISREG(st.st_mode) ? (uint64_t)st.st_size : 0, err);
		if (rc < 0)
			return rc;
	}
	return errno ? cairn_err_sys(err, errno, "read '%s/%s'", dir->path, name) : 0;
}

int dir_list(struct repo_store *store, enum repo_file kind, repo_store_list_fn *fn, void *arg,
	     struct cairn_err *err)
{
	struct dir *dir = (struct dir *)store;
	char name[DIR_PATH_TEXT];
	int rc = 0;

	/* If a missing directory were listed as empty, a prune would delete all data. It is
	 * created with the repository, so its absence is an error: something is not
	 * mounted, or a copy was interrupted. */
	if (kind == REPO_FILE_SNAPSHOT)
		return dir_list_one(dir, repo_file_name(kind), true, fn, arg, err);
	if (kind != REPO_FILE_PACK)
		return dir_list_one(dir, repo_file_name(kind), false, fn, arg, err);
	for (unsigned i = 0; rc == 0 && i < 256; i++) {
		snprintf(name, sizeof(name), "data/%02x", i);
		rc = dir_list_one(dir, name, false, fn, arg, err);
	}
	return rc;
}

struct dir_rest {
	repo_store_list_rest_fn *fn;
	void *arg;
	enum repo_file kind;
};

static int dir_take_rest(void *arg, const struct repo_id *name, uint64_t size,
			 struct cairn_err *err)
{
	const struct dir_rest *rest = arg;

	return rest->fn(rest->arg, rest->kind, name, size, err);
}

/* Costs the same as single listings; the number of requests is then that of S3. */
int dir_list_rest(struct repo_store *store, repo_store_list_rest_fn *fn, void *arg,
		  bool *ret_at_once, struct cairn_err *err)
{
	static const enum repo_file kinds[] = {REPO_FILE_LOCK, REPO_FILE_INDEX, REPO_FILE_KEY,
					       REPO_FILE_SNAPSHOT};
	struct dir_rest rest = {.fn = fn, .arg = arg};
	int rc = 0;

	for (size_t i = 0; rc == 0 && i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		rest.kind = kinds[i];
		rc = dir_list(store, kinds[i], dir_take_rest, &rest, err);
	}
	*ret_at_once = true;
	return rc;
}

/* ---- temporary files of killed processes --------------------------------------- */

/* "<name>-tmp-…", as this program and restic name them. */
static bool is_temporary(const char *name)
{
	const char *mark = strstr(name, "-tmp-");
	struct repo_id id;

	if (!mark)
		return false;
	return repo_id_parse(name, (size_t)(mark - name), &id) ||
	       strncmp(name, "config-", strlen("config-")) == 0;
}

static int dir_sweep_one(struct dir *dir, const char *name, struct repo_swept *swept,
			 struct cairn_err *err)
{
	cairn_cleanup(close_dirp) DIR *stream = NULL;
	struct dirent *entry;
	int rc = dir_open_stream(dir, name, &stream, err);

	if (rc < 0 || !stream)
		return rc;
	while ((errno = 0, entry = readdir(stream))) {
		int fd = dirfd(stream);
		struct stat st;

		if (!is_temporary(entry->d_name) ||
		    fstatat(fd, entry->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0 ||
		    !S_ISREG(st.st_mode))
			continue;
		if (unlinkat(fd, entry->d_name, 0) < 0 && errno != ENOENT)
			return cairn_err_sys(err, errno, "unlink '%s/%s/%s'", dir->path, name,
					     entry->d_name);
		swept->files++;
		swept->bytes += (uint64_t)st.st_size;
	}
	return errno ? cairn_err_sys(err, errno, "read '%s/%s'", dir->path, name) : 0;
}

int dir_sweep(struct repo_store *store, struct repo_swept *swept, struct cairn_err *err)
{
	struct dir *dir = (struct dir *)store;
	char name[DIR_PATH_TEXT];
	int rc = dir_sweep_one(dir, ".", swept, err);

	for (int kind = REPO_FILE_KEY; rc == 0 && kind < REPO_FILE_PACK; kind++)
		rc = dir_sweep_one(dir, repo_file_name((enum repo_file)kind), swept, err);
	for (unsigned i = 0; rc == 0 && i < 256; i++) {
		snprintf(name, sizeof(name), "data/%02x", i);
		rc = dir_sweep_one(dir, name, swept, err);
	}
	return rc;
}
