/* SPDX-License-Identifier: Apache-2.0 */

#include "repo/dir/dir_write.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/io.h"
#include "base/mem.h"
#include "repo/repo_limiter.h"

#define ALIGN      4096U
#define DIRECT_MIN ((size_t)1 << 20) /* smaller files go through the page cache */
#define STEP       ((size_t)1 << 20)

/* On network filesystems each direct write waits for the server. */
static bool does_direct(int fd)
{
	struct statfs fs;

	if (fstatfs(fd, &fs) < 0)
		return false;
	return fs.f_type == EXT4_SUPER_MAGIC || fs.f_type == XFS_SUPER_MAGIC ||
	       fs.f_type == BTRFS_SUPER_MAGIC;
}

static bool set_direct(int fd, bool on)
{
	int flags = fcntl(fd, F_GETFL);

	return flags >= 0 && fcntl(fd, F_SETFL, on ? flags | O_DIRECT : flags & ~O_DIRECT) == 0;
}

/* Writes from memory that is aligned for direct I/O, in one call. Returns the number of
 * bytes written. */
static size_t write_in_place(int fd, const uint8_t *data, size_t n)
{
	return cairn_pwrite_full(fd, data, n, 0) == 0 ? n : 0;
}

/* Copies through a buffer that is aligned for direct I/O. */
static size_t write_copied(int fd, const uint8_t *data, size_t n, uint8_t *aligned)
{
	size_t done = 0;

	while (done < n) {
		size_t part = n - done < STEP ? n - done : STEP;

		memcpy(aligned, data + done, part);
		if (cairn_pwrite_full(fd, aligned, part, done) < 0)
			break;
		done += part;
	}
	return done;
}

/* Writes whole blocks from the beginning with direct I/O, as far as possible. Returns the
 * number of bytes, or -1 with errno set. */
static ssize_t write_direct(int fd, const uint8_t *data, size_t n)
{
	cairn_auto_free uint8_t *memory = NULL;
	size_t done, end = n - n % ALIGN;

	if (n < DIRECT_MIN || !does_direct(fd))
		return 0;
	if ((uintptr_t)data % ALIGN != 0) {
		memory = cairn_alloc_aligned(ALIGN, STEP);
		if (!memory)
			return 0;
	}
	if (!set_direct(fd, true))
		return 0;
	done = memory ? write_copied(fd, data, end, memory) : write_in_place(fd, data, end);
	/* The disk has larger blocks than ALIGN: the caller writes this part again. */
	if (done < end && errno != EINVAL)
		return -1;
	return set_direct(fd, false) ? (ssize_t)done : -1;
}

static int write_limited(int fd, const struct dir_write *write, struct cairn_err *err)
{
	const uint8_t *data = write->data;
	size_t left = write->n;

	while (left > 0) {
		size_t part = repo_limiter_slice(write->limiter, left);

		if (!repo_limiter_wait(write->limiter, part, write->cancelled))
			return cairn_err_set(err, CAIRN_CANCELLED, "interrupted");
		if (cairn_write_full(fd, data, part) < 0)
			return cairn_err_sys(err, errno, "write");
		data += part;
		left -= part;
	}
	return 0;
}

static int dir_write_all(int fd, const struct dir_write *write, struct cairn_err *err)
{
	ssize_t done;

	if (write->limiter && write->limiter->rate > 0)
		return write_limited(fd, write, err);
	done = write_direct(fd, write->data, write->n);
	if (done < 0 || cairn_pwrite_full(fd, (const uint8_t *)write->data + done,
					  write->n - (size_t)done, (uint64_t)done) < 0)
		return cairn_err_sys(err, errno, "write");
	return 0;
}

int dir_write_file(int dir_fd, const char *name, const struct dir_write *write,
		   struct cairn_err *err)
{
	cairn_auto_fd int fd = openat(dir_fd, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0400);
	int rc;

	if (fd < 0)
		return cairn_err_sys(err, errno, "make a file");
	rc = dir_write_all(fd, write, err);
	if (rc < 0)
		return rc;
	if (write->durable && fsync(fd) < 0)
		return cairn_err_sys(err, errno, "sync");
	return 0;
}
