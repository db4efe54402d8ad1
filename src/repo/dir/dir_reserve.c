/* SPDX-License-Identifier: Apache-2.0 */

#include "repo/dir/dir_reserve.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/io.h"
#include "base/random.h"

/* Enough for a lock and an index file of REPO_INDEX_BLOBS. */
#define RESERVE_BYTES ((uint64_t)4 << 20)
#define RESERVE_PART  64 /* the reserve takes at most this fraction of the disk */
#define RESERVE_NAME  ".cairn-reserve"

int dir_space_at(const char *path, uint64_t *ret_free, struct cairn_err *err)
{
	struct statvfs fs;

	if (statvfs(path, &fs) < 0)
		return cairn_err_sys(err, errno, "free space of '%s'", path);
	*ret_free = (uint64_t)fs.f_bavail * fs.f_frsize;
	return 0;
}

/* Random bytes, because a filesystem could compress others and reserve less. *at is how much of the
 * file is written. */
static int fill_reserve(int fd, uint64_t size, uint64_t *at, struct cairn_err *err)
{
	uint8_t block[16384];

	for (; *at < size; *at += sizeof(block)) {
		int rc = cairn_random_bytes(block, sizeof(block), err);

		if (rc < 0)
			return rc;
		if (cairn_pwrite_full(fd, block, sizeof(block), *at) < 0)
			return cairn_err_sys(err, errno, "write the reserve");
	}
	return fsync(fd) < 0 ? cairn_err_sys(err, errno, "sync the reserve") : 0;
}

/* A smaller reserve is better than none: `at` bytes were written before the disk was full. */
static bool reserve_stays(int fd, uint64_t at)
{
	return at > 0 && ftruncate(fd, (off_t)at) == 0 && fsync(fd) == 0;
}

int dir_reserve_keep_at(int root, const char *path, bool again, struct cairn_err *err)
{
	cairn_auto_fd int fd = -1;
	struct statvfs fs;
	struct stat st;
	uint64_t size, at;
	int rc;

	if (fstatvfs(root, &fs) < 0)
		return cairn_err_sys(err, errno, "size of the disk of '%s'", path);
	size = (uint64_t)fs.f_blocks * fs.f_frsize / RESERVE_PART;
	size = size < RESERVE_BYTES ? size : RESERVE_BYTES;
	fd = openat(root, RESERVE_NAME, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0 || fstat(fd, &st) < 0)
		return cairn_err_sys(err, errno, "make the reserve");
	if ((uint64_t)st.st_size >= size)
		return 0;
	/* Completes the one of a killed process, or of a disk that had less space. */
	again |= st.st_size > 0;
	at = (uint64_t)st.st_size;
	rc = fill_reserve(fd, size, &at, err);
	if (rc < 0 && !(again && rc == CAIRN_NO_SPACE && reserve_stays(fd, at)))
		unlinkat(root, RESERVE_NAME, 0);
	return rc;
}

int dir_reserve_release_at(int root, bool *ret_released, struct cairn_err *err)
{
	if (unlinkat(root, RESERVE_NAME, 0) < 0)
		return errno == ENOENT ? 0 : cairn_err_sys(err, errno, "free the reserve");
	*ret_released = true;
	/* Some filesystems free the space only with the next commit. */
	return cairn_sync_dir(root, ".", err);
}
