/* SPDX-License-Identifier: Apache-2.0 */

#include "backup/device_file.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/io.h"
#include "base/mem.h"
#include "pool/store/store.h"

struct file_reader {
	struct store_reader base;
	int fd; /* the file's range */
};

static int device_file_read(struct store_reader *reader, uint64_t offset, void *buf, size_t n,
			    size_t *ret_n, struct cairn_err *err)
{
	ssize_t got = cairn_pread_full(((struct file_reader *)reader)->fd, buf, n, offset);

	if (got < 0)
		return cairn_err_sys(err, errno, "read the device");
	*ret_n = (size_t)got;
	return 0;
}

static void device_file_ahead(struct store_reader *reader, uint64_t offset, uint64_t n)
{
	(void)posix_fadvise(((struct file_reader *)reader)->fd, (off_t)offset, (off_t)n,
			    POSIX_FADV_WILLNEED);
}

static void device_file_reader_free(struct store_reader *reader)
{
	free(reader);
}

static const struct store_reader_ops reader_ops = {
	.read = device_file_read,
	.free = device_file_reader_free,
	.ahead = device_file_ahead,
};

int backup_device_file_reader(const struct device_file *file, struct store_reader **ret,
			      struct cairn_err *err)
{
	struct file_reader *reader = cairn_calloc(1, sizeof(*reader));

	if (!reader)
		return cairn_err_nomem(err, "reader");
	reader->base.ops = &reader_ops;
	reader->fd = file->fd;
	*ret = &reader->base;
	return 0;
}

int backup_device_file_open(const char *path, int flags, struct device_file *ret,
			    struct cairn_err *err)
{
	/* Without O_NONBLOCK, opening a pipe would block. */
	cairn_auto_fd int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY | flags);
	struct device_file file = {.fd = -1};
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0)
		return cairn_err_sys(err, errno, "open '%s'", path);
	file.size = (uint64_t)st.st_size;
	file.block = S_ISBLK(st.st_mode);
	if (!file.block && !S_ISREG(st.st_mode))
		return cairn_err_set(err, CAIRN_INVALID, "'%s' is neither a device nor a file",
				     path);
	if (file.block && ioctl(fd, BLKGETSIZE64, &file.size) < 0)
		return cairn_err_sys(err, errno, "size of '%s'", path);
	file.fd = cairn_take_fd(&fd);
	*ret = file;
	return 0;
}
