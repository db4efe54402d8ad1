/* SPDX-License-Identifier: Apache-2.0 */

/* A query may read thousands of change sets at once. Small ones are read into memory;
 * of the larger ones, as many hold a descriptor as fit into a share of the process's
 * limit; the remaining ones are mapped, and read through a system call, because
 * accessing a mapping of a damaged disk would end the process.
 */

#include "pool/store/blob_dir.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/err.h"
#include "base/io.h"
#include "base/mem.h"
#include "pool/store/file_owner.h"

#define WRITE_BUFFER 65536

/* All readers of the process together hold at most one in this many of its
 * descriptors. */
#define DESCRIPTOR_SHARE 4U

#define BLOB_NAME_MAX 80

struct blob_dir {
	struct blobs base;
	int fd;
};

struct dir_writer {
	struct blob_writer base;
	int dir_fd; /* borrowed */
	int fd;
	char name[BLOB_NAME_MAX];
	bool finished;
	size_t len;
	char buf[WRITE_BUFFER];
};

struct dir_reader {
	struct blob_reader base;
	int fd;        /* -1: one of the next two has the contents */
	char *whole;   /* in memory */
	void *mapping; /* of the file */
};

/* Readers that hold a descriptor. */
static atomic_uint n_held;

static int blob_dir_fd(const struct blobs *blobs)
{
	return ((const struct blob_dir *)blobs)->fd;
}

static void blob_dir_close(struct blobs *blobs)
{
	struct blob_dir *dir = (struct blob_dir *)blobs;

	cairn_closep(&dir->fd);
	free(dir);
}

static int blob_dir_flush(struct dir_writer *writer, struct cairn_err *err)
{
	if (cairn_write_full(writer->fd, writer->buf, writer->len) < 0)
		return cairn_err_sys(err, errno, "write change set '%s'", writer->name);
	writer->len = 0;
	return 0;
}

static int blob_dir_append(struct blob_writer *base, const void *data, size_t n,
			   struct cairn_err *err)
{
	struct dir_writer *writer = (struct dir_writer *)base;
	const char *at = data;

	while (n > 0) {
		size_t part = WRITE_BUFFER - writer->len;

		part = n < part ? n : part;
		memcpy(writer->buf + writer->len, at, part);
		writer->len += part;
		at += part;
		n -= part;
		if (writer->len == WRITE_BUFFER) {
			int rc = blob_dir_flush(writer, err);

			if (rc)
				return rc;
		}
	}
	return 0;
}

static int blob_dir_finish(struct blob_writer *base, struct cairn_err *err)
{
	struct dir_writer *writer = (struct dir_writer *)base;
	int rc = blob_dir_flush(writer, err);

	if (rc)
		return rc;
	if (fsync(writer->fd) < 0)
		return cairn_err_sys(err, errno, "sync change set '%s'", writer->name);
	writer->finished = true;
	return cairn_sync_dir(writer->dir_fd, writer->name, err);
}

static void blob_dir_writer_free(struct blob_writer *base)
{
	struct dir_writer *writer = (struct dir_writer *)base;

	if (writer->fd >= 0) {
		close(writer->fd);
		if (!writer->finished)
			unlinkat(writer->dir_fd, writer->name, 0);
	}
	free(writer);
}

static const struct blob_ops blob_dir_ops;

static int blob_dir_create(struct blobs *blobs, const char *name, struct blob_writer **ret,
			   struct cairn_err *err)
{
	struct dir_writer *writer = cairn_calloc(1, sizeof(*writer));

	if (!writer)
		return cairn_err_nomem(err, "change set");
	writer->base.ops = &blob_dir_ops;
	writer->dir_fd = blob_dir_fd(blobs);
	snprintf(writer->name, sizeof(writer->name), "%s", name);
	writer->fd = pool_owner_open(writer->dir_fd, writer->name, O_WRONLY | O_TRUNC);
	if (writer->fd < 0) {
		int rc = cairn_err_sys(err, errno, "make change set '%s'", name);

		blob_dir_writer_free(&writer->base);
		return rc;
	}
	*ret = &writer->base;
	return 0;
}

static bool hold_descriptor(void)
{
	struct rlimit limit;
	unsigned before = atomic_fetch_add(&n_held, 1);

	if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && before < limit.rlim_cur / DESCRIPTOR_SHARE)
		return true;
	atomic_fetch_sub(&n_held, 1);
	return false;
}

static int blob_dir_truncated(struct cairn_err *err)
{
	return cairn_err_set(err, CAIRN_DATA_LOSS, "it is truncated");
}

/* Copies through the kernel: a page that cannot be read is then an error and
 * not a signal. */
static ssize_t read_mapping(const struct dir_reader *reader, uint64_t offset, void *data, size_t n)
{
	struct iovec to = {.iov_base = data, .iov_len = n};
	struct iovec from = {.iov_base = (char *)reader->mapping + offset, .iov_len = n};

	return process_vm_readv(getpid(), &to, 1, &from, 1, 0);
}

static int blob_dir_read(struct blob_reader *base, uint64_t offset, void *data, size_t n,
			 struct cairn_err *err)
{
	const struct dir_reader *reader = (const struct dir_reader *)base;
	ssize_t got;

	if (reader->whole) {
		memcpy(data, reader->whole + offset, n);
		return 0;
	}
	got = reader->fd >= 0 ? cairn_pread_full(reader->fd, data, n, offset)
			      : read_mapping(reader, offset, data, n);
	/* process_vm_readv() reports a page that cannot be read as EFAULT. */
	if (got < 0)
		return cairn_err_sys(err, errno == EFAULT ? EIO : errno, "read");
	return (size_t)got == n ? 0 : blob_dir_truncated(err);
}

static int blob_dir_read_whole(struct dir_reader *reader, int fd, struct cairn_err *err)
{
	ssize_t got;

	reader->whole = cairn_alloc(reader->base.size + 1);
	if (!reader->whole)
		return cairn_err_nomem(err, "change set");
	got = cairn_pread_full(fd, reader->whole, reader->base.size, 0);
	if (got < 0)
		return cairn_err_sys(err, errno, "read");
	return (size_t)got == reader->base.size ? 0 : blob_dir_truncated(err);
}

static int map_whole(struct dir_reader *reader, int fd, struct cairn_err *err)
{
	void *mapping = mmap(NULL, reader->base.size, PROT_READ, MAP_PRIVATE, fd, 0);

	if (mapping == MAP_FAILED)
		return cairn_err_sys(err, errno, "map");
	reader->mapping = mapping;
	return 0;
}

static int hold_contents(struct dir_reader *reader, int *fd, size_t whole_max,
			 struct cairn_err *err)
{
	struct stat st;

	if (fstat(*fd, &st) < 0)
		return cairn_err_sys(err, errno, "stat");
	reader->base.size = (uint64_t)st.st_size;
	if (reader->base.size <= whole_max)
		return blob_dir_read_whole(reader, *fd, err);
	if (!hold_descriptor())
		return map_whole(reader, *fd, err);
	reader->fd = cairn_take_fd(fd);
	return 0;
}

static void blob_dir_reader_free(struct blob_reader *base)
{
	struct dir_reader *reader = (struct dir_reader *)base;

	if (reader->fd >= 0) {
		close(reader->fd);
		atomic_fetch_sub(&n_held, 1);
	}
	if (reader->mapping)
		munmap(reader->mapping, reader->base.size);
	free(reader->whole);
	free(reader);
}

static int blob_dir_open(struct blobs *blobs, const char *name, size_t whole_max,
			 struct blob_reader **ret, struct cairn_err *err)
{
	struct dir_reader *reader = cairn_calloc(1, sizeof(*reader));
	cairn_auto_fd int fd = -1;
	int rc;

	if (!reader)
		return cairn_err_nomem(err, "change set");
	reader->base.ops = &blob_dir_ops;
	reader->fd = -1;
	rc = cairn_open_regular(blob_dir_fd(blobs), name, O_RDONLY, 0, &fd, err);
	if (!rc)
		rc = hold_contents(reader, &fd, whole_max, err);
	if (rc)
		blob_dir_reader_free(&reader->base);
	else
		*ret = &reader->base;
	return rc;
}

static int blob_dir_remove(struct blobs *blobs, const char *name, bool durable,
			   struct cairn_err *err)
{
	if (unlinkat(blob_dir_fd(blobs), name, 0) < 0 && errno != ENOENT)
		return cairn_err_sys(err, errno, "remove change set '%s'", name);
	return durable ? cairn_sync_dir(blob_dir_fd(blobs), name, err) : 0;
}

static int blob_dir_check(struct blobs *blobs, const char *name, struct cairn_err *err)
{
	if (faccessat(blob_dir_fd(blobs), name, F_OK, AT_SYMLINK_NOFOLLOW) < 0)
		return cairn_err_sys(err, errno, "change set '%s'", name);
	return 0;
}

static int blob_dir_rename(struct blobs *blobs, const char *from, const char *to,
			   struct cairn_err *err)
{
	int fd = blob_dir_fd(blobs);

	if (renameat2(fd, from, fd, to, RENAME_NOREPLACE) < 0)
		return cairn_err_sys(err, errno, "rename '%s' to '%s'", from, to);
	return cairn_sync_dir(fd, to, err);
}

static int blob_dir_list(struct blobs *blobs,
			 int (*fn)(void *arg, const char *name, struct cairn_err *err), void *arg,
			 struct cairn_err *err)
{
	int fd = openat(blob_dir_fd(blobs), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
	struct dirent *entry;
	int rc = 0;

	if (!dir) {
		rc = cairn_err_sys(err, errno, "read the change sets");
		cairn_closep(&fd);
		return rc;
	}
	while (rc >= 0 && (errno = 0, entry = readdir(dir)))
		rc = fn(arg, entry->d_name, err);
	if (rc >= 0 && errno)
		rc = cairn_err_sys(err, errno, "read the change sets");
	closedir(dir);
	return rc < 0 ? rc : 0;
}

static const struct blob_ops blob_dir_ops = {
	.name = "directory",
	.close = blob_dir_close,
	.create = blob_dir_create,
	.append = blob_dir_append,
	.finish = blob_dir_finish,
	.writer_free = blob_dir_writer_free,
	.open = blob_dir_open,
	.read = blob_dir_read,
	.reader_free = blob_dir_reader_free,
	.remove = blob_dir_remove,
	.check = blob_dir_check,
	.rename = blob_dir_rename,
	.list = blob_dir_list,
};

int pool_blob_dir_open(int fd, struct blobs **ret, struct cairn_err *err)
{
	struct blob_dir *dir = cairn_calloc(1, sizeof(*dir));

	if (!dir) {
		cairn_closep(&fd);
		return cairn_err_nomem(err, "change sets");
	}
	dir->base.ops = &blob_dir_ops;
	dir->fd = fd;
	*ret = &dir->base;
	return 0;
}
