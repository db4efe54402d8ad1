/* SPDX-License-Identifier: Apache-2.0 */

#include "base/io.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/mem.h"

#define IO_HERE (-1) /* at the descriptor's own position */

static ssize_t io_read(int fd, void *buf, size_t n, off_t offset)
{
	return offset == IO_HERE ? read(fd, buf, n) : pread(fd, buf, n, offset);
}

static ssize_t io_write(int fd, const void *buf, size_t n, off_t offset)
{
	return offset == IO_HERE ? write(fd, buf, n) : pwrite(fd, buf, n, offset);
}

static ssize_t io_read_full(int fd, void *buf, size_t n, off_t offset)
{
	size_t done = 0;

	while (done < n) {
		off_t at = offset == IO_HERE ? IO_HERE : offset + (off_t)done;
		ssize_t got = io_read(fd, (char *)buf + done, n - done, at);

		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return -1;
		if (got == 0)
			break;
		done += (size_t)got;
	}
	return (ssize_t)done;
}

static int io_write_full(int fd, const void *buf, size_t n, off_t offset)
{
	size_t done = 0;

	while (done < n) {
		off_t at = offset == IO_HERE ? IO_HERE : offset + (off_t)done;
		ssize_t put = io_write(fd, (const char *)buf + done, n - done, at);

		if (put < 0 && errno == EINTR)
			continue;
		if (put == 0) /* without an errno; trying again could go on for ever */
			errno = EIO;
		if (put <= 0)
			return -1;
		done += (size_t)put;
	}
	return 0;
}

/* An offset that off_t cannot hold must not become IO_HERE. */
static bool io_offset_fits(uint64_t offset)
{
	if (offset <= INT64_MAX)
		return true;
	errno = EINVAL;
	return false;
}

ssize_t cairn_pread_full(int fd, void *buf, size_t n, uint64_t offset)
{
	return io_offset_fits(offset) ? io_read_full(fd, buf, n, (off_t)offset) : -1;
}

ssize_t cairn_read_full(int fd, void *buf, size_t n)
{
	return io_read_full(fd, buf, n, IO_HERE);
}

int cairn_pwrite_full(int fd, const void *buf, size_t n, uint64_t offset)
{
	return io_offset_fits(offset) ? io_write_full(fd, buf, n, (off_t)offset) : -1;
}

int cairn_write_full(int fd, const void *buf, size_t n)
{
	return io_write_full(fd, buf, n, IO_HERE);
}

/* The size from stat() is only a hint: procfs and sysfs files report 0 or a page, and
 * other files may grow meanwhile. */
static int read_to_end(int fd, const char *name, size_t hint, struct cairn_buf *buf,
		       struct cairn_err *err)
{
	for (size_t room = hint + 1;; room = buf->len) {
		size_t left = buf->max - buf->len;
		void *at;
		ssize_t got;

		if (room > left)
			room = left;
		at = cairn_buf_reserve(buf, room);
		if (!at)
			return cairn_err_nomem(err, name);
		got = cairn_pread_full(fd, at, room, buf->len);
		if (got < 0)
			return cairn_err_sys(err, errno, "read '%s'", name);
		buf->len += (size_t)got;
		if ((size_t)got < room || buf->len == buf->max)
			return 0;
	}
}

static int open_regular(int dir_fd, const char *name, int flags, unsigned mode, int *ret_fd,
			struct stat *ret_st, struct cairn_err *err)
{
	/* O_NOFOLLOW: a link could lead out of the directory. O_NONBLOCK: opening a FIFO
	 * would wait for its other end. */
	cairn_auto_fd int fd =
		openat(dir_fd, name, flags | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, mode);

	/* ENXIO: a FIFO or socket without a peer. */
	if (fd < 0 && (errno == ELOOP || errno == ENXIO || errno == EISDIR))
		return cairn_err_set(err, CAIRN_PRECONDITION, "'%s' is not a regular file", name);
	if (fd < 0)
		return cairn_err_sys(err, errno, "open '%s'", name);
	if (fstat(fd, ret_st) < 0)
		return cairn_err_sys(err, errno, "stat '%s'", name);
	if (!S_ISREG(ret_st->st_mode))
		return cairn_err_set(err, CAIRN_PRECONDITION, "'%s' is not a regular file", name);
	*ret_fd = cairn_take_fd(&fd);
	return 0;
}

int cairn_open_regular(int dir_fd, const char *name, int flags, unsigned mode, int *ret_fd,
		       struct cairn_err *err)
{
	struct stat st;

	return open_regular(dir_fd, name, flags, mode, ret_fd, &st, err);
}

static int io_read_whole(int fd, const char *name, const struct stat *st, size_t max,
			 char **ret_data, size_t *ret_len, struct cairn_err *err)
{
	/* Read one byte more than allowed, to detect a larger file. */
	cairn_auto_buf struct cairn_buf buf = CAIRN_BUF_INIT(max < SIZE_MAX ? max + 1 : max);
	size_t len;
	int rc = 0;

	if ((uint64_t)st->st_size <= max)
		rc = read_to_end(fd, name, st->st_size > 0 ? (size_t)st->st_size : 4096, &buf, err);
	if (rc != 0)
		return rc;
	if ((uint64_t)st->st_size > max || buf.len > max)
		return cairn_err_set(err, CAIRN_RANGE, "'%s' has more than %zu bytes", name, max);
	len = buf.len;
	*ret_data = cairn_buf_take_string(&buf);
	*ret_len = len;
	return 0;
}

static int open_readable(int dir_fd, const char *name, int *ret_fd, struct stat *ret_st,
			 struct cairn_err *err)
{
	cairn_auto_fd int fd = openat(dir_fd, name, O_RDONLY | O_NONBLOCK | O_CLOEXEC);

	if (fd < 0)
		return cairn_err_sys(err, errno, "open '%s'", name);
	if (fstat(fd, ret_st) < 0)
		return cairn_err_sys(err, errno, "stat '%s'", name);
	if (S_ISFIFO(ret_st->st_mode))
		return cairn_err_set(err, CAIRN_PRECONDITION, "'%s' is a pipe, not a file", name);
	*ret_fd = cairn_take_fd(&fd);
	return 0;
}

int cairn_open_readable(int dir_fd, const char *name, int *ret_fd, struct cairn_err *err)
{
	struct stat st;

	return open_readable(dir_fd, name, ret_fd, &st, err);
}

int cairn_file_read(int dir_fd, const char *name, size_t max, char **ret_data, size_t *ret_len,
		    struct cairn_err *err)
{
	cairn_auto_fd int fd = -1;
	struct stat st;
	int rc = open_readable(dir_fd, name, &fd, &st, err);

	return rc ? rc : io_read_whole(fd, name, &st, max, ret_data, ret_len, err);
}

int cairn_file_read_regular(int dir_fd, const char *name, size_t max, char **ret_data,
			    size_t *ret_len, struct cairn_err *err)
{
	cairn_auto_fd int fd = -1;
	struct stat st;
	int rc = open_regular(dir_fd, name, O_RDONLY, 0, &fd, &st, err);

	return rc ? rc : io_read_whole(fd, name, &st, max, ret_data, ret_len, err);
}

int cairn_sync_dir(int dir_fd, const char *what, struct cairn_err *err)
{
	if (fsync(dir_fd) < 0)
		return cairn_err_sys(err, errno, "sync directory of '%s'", what);
	return 0;
}

static int write_synced(int dir_fd, const char *name, const void *data, size_t n,
			struct cairn_err *err)
{
	cairn_auto_fd int fd = -1;

	/* A killed process may have left the file. Truncating it would also change what other
	 * links to it show. */
	if (unlinkat(dir_fd, name, 0) < 0 && errno != ENOENT)
		return cairn_err_sys(err, errno, "remove '%s'", name);
	fd = openat(dir_fd, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0)
		return cairn_err_sys(err, errno, "make '%s'", name);
	if (cairn_write_full(fd, data, n) < 0)
		return cairn_err_sys(err, errno, "write '%s'", name);
	if (fsync(fd) < 0)
		return cairn_err_sys(err, errno, "sync '%s'", name);
	return 0;
}

int cairn_file_replace(int dir_fd, const char *name, const void *data, size_t n,
		       struct cairn_err *err)
{
	cairn_auto_free char *temporary = cairn_printf("%s.tmp", name);
	int rc;

	if (!temporary)
		return cairn_err_nomem(err, name);
	rc = write_synced(dir_fd, temporary, data, n, err);
	if (rc == 0 && renameat(dir_fd, temporary, dir_fd, name) < 0)
		rc = cairn_err_sys(err, errno, "rename '%s' to '%s'", temporary, name);
	if (rc) {
		unlinkat(dir_fd, temporary, 0);
		return rc;
	}
	/* Readers see the new file already; only this keeps it over a power failure. */
	return cairn_sync_dir(dir_fd, name, err);
}

int cairn_make_dir(int parent_fd, const char *name, unsigned mode, struct cairn_err *err)
{
	if (mkdirat(parent_fd, name, mode) < 0) {
		struct stat st;

		if (errno == EEXIST && fstatat(parent_fd, name, &st, 0) == 0 && S_ISDIR(st.st_mode))
			return 0;
		return cairn_err_sys(err, errno, "make directory '%s'", name);
	}
	if (parent_fd >= 0) /* AT_FDCWD cannot be synced */
		return cairn_sync_dir(parent_fd, name, err);
	return 0;
}
