/* SPDX-License-Identifier: Apache-2.0 */

#include "pool/store/file_owner.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/io.h"
#include "base/mem.h"

#define OPEN_TRIES 10

/* True with the owner of the directory, if root has to give something to them. */
static bool is_foreign(int dir_fd, struct stat *ret)
{
	return geteuid() == 0 && fstat(dir_fd, ret) == 0 && ret->st_uid != 0;
}

void pool_owner_adopt(int fd, int dir_fd)
{
	struct stat dir;

	if (is_foreign(dir_fd, &dir) && fchown(fd, dir.st_uid, dir.st_gid) < 0)
		return;
}

int pool_owner_open(int dir_fd, const char *name, int flags)
{
	int fd = -1;

	for (int try = 0; try < OPEN_TRIES && fd < 0; try++) {
		fd = openat(dir_fd, name, flags | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
		if (fd >= 0 || errno != ENOENT)
			break;
		fd = openat(dir_fd, name, flags | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
		if (fd >= 0)
			pool_owner_adopt(fd, dir_fd);
		else if (errno != EEXIST)
			break;
	}
	return fd;
}

int pool_owner_mkdir(int dir_fd, const char *name)
{
	int fd;

	if (mkdirat(dir_fd, name, 0700) < 0)
		return -1;
	fd = openat(dir_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd >= 0)
		pool_owner_adopt(fd, dir_fd);
	return fd;
}

int pool_owner_replace(int dir_fd, const char *name, const void *data, size_t n,
		       struct cairn_err *err)
{
	int rc = cairn_file_replace(dir_fd, name, data, n, err);
	cairn_auto_free char *found = NULL;
	cairn_auto_fd int fd = -1;
	struct stat dir;

	if (rc || !is_foreign(dir_fd, &dir))
		return rc;
	/* Only what holds just these bytes is what was written. */
	found = cairn_calloc(1, n + 1);
	if (found && cairn_open_regular(dir_fd, name, O_RDONLY, 0, &fd, NULL) == 0 &&
	    cairn_pread_full(fd, found, n + 1, 0) == (ssize_t)n && memcmp(found, data, n) == 0)
		pool_owner_adopt(fd, dir_fd);
	return 0;
}
