/* SPDX-License-Identifier: Apache-2.0 */

/* Reads sets. A query reads all sets of its lineage in parallel, a driver answers
 * many queries at once, and a merge removes files that are being read. So each
 * reader must keep its file, but not all can have a descriptor. Small files are
 * read into memory. Of the others, as many have a descriptor as fit into a share
 * of the process's limit; the remaining ones are mapped, and read through a system
 * call, because accessing a mapping of a damaged disk would end the process.
 */

#include "pool/store/changeset_file.h"

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

/* Maximum size that is read into memory when the caller names no buffer. */
#define WHOLE_DEFAULT 32768U

/* All readers of the process together hold at most one in this many of its
 * descriptors. */
#define DESCRIPTOR_SHARE 4U

struct setfile_reader {
	int fd;        /* -1: one of the next two has the contents */
	char *whole;   /* in memory */
	void *mapping; /* of the file */
	size_t size;
	char name[SETFILE_NAME_MAX];
	struct block_set_reader *set;
};

/* Readers that hold a descriptor. */
static atomic_uint n_held;

static bool hold_descriptor(void)
{
	struct rlimit limit;
	unsigned before = atomic_fetch_add(&n_held, 1);

	if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && before < limit.rlim_cur / DESCRIPTOR_SHARE)
		return true;
	atomic_fetch_sub(&n_held, 1);
	return false;
}

static int changeset_read_truncated(const struct setfile_reader *reader, struct cairn_err *err)
{
	return cairn_err_set(err, CAIRN_DATA_LOSS, "change set '%s' is truncated", reader->name);
}

/* Copies through the kernel: a page that cannot be read is then an error and
 * not a signal. */
static ssize_t read_mapping(const struct setfile_reader *reader, uint64_t offset, void *data,
			    size_t n)
{
	struct iovec to = {.iov_base = data, .iov_len = n};
	struct iovec from = {.iov_base = (char *)reader->mapping + offset, .iov_len = n};

	return process_vm_readv(getpid(), &to, 1, &from, 1, 0);
}

static int read_bytes(void *arg, uint64_t offset, void *data, size_t n, struct cairn_err *err)
{
	const struct setfile_reader *reader = arg;
	ssize_t got;

	if (offset > reader->size || n > reader->size - offset)
		return changeset_read_truncated(reader, err);
	if (reader->whole) {
		memcpy(data, reader->whole + offset, n);
		return 0;
	}
	got = reader->fd >= 0 ? cairn_pread_full(reader->fd, data, n, offset)
			      : read_mapping(reader, offset, data, n);
	if (got < 0)
		return cairn_err_sys(err, errno == EFAULT ? EIO : errno, "read change set '%s'",
				     reader->name);
	return (size_t)got == n ? 0 : changeset_read_truncated(reader, err);
}

static int changeset_read_whole(struct setfile_reader *reader, int fd, struct cairn_err *err)
{
	ssize_t got;

	reader->whole = cairn_alloc(reader->size + 1);
	if (!reader->whole)
		return cairn_err_nomem(err, "change set");
	got = cairn_pread_full(fd, reader->whole, reader->size, 0);
	if (got < 0)
		return cairn_err_sys(err, errno, "read change set '%s'", reader->name);
	return (size_t)got == reader->size ? 0 : changeset_read_truncated(reader, err);
}

static int map_whole(struct setfile_reader *reader, int fd, struct cairn_err *err)
{
	void *mapping = mmap(NULL, reader->size, PROT_READ, MAP_PRIVATE, fd, 0);

	if (mapping == MAP_FAILED)
		return cairn_err_sys(err, errno, "map change set '%s'", reader->name);
	reader->mapping = mapping;
	return 0;
}

static int hold_contents(struct setfile_reader *reader, int *fd, size_t whole_max,
			 struct cairn_err *err)
{
	struct stat st;

	if (fstat(*fd, &st) < 0)
		return cairn_err_sys(err, errno, "stat change set '%s'", reader->name);
	reader->size = (size_t)st.st_size;
	if (reader->size <= whole_max)
		return changeset_read_whole(reader, *fd, err);
	if (!hold_descriptor())
		return map_whole(reader, *fd, err);
	reader->fd = cairn_take_fd(fd);
	return 0;
}

int pool_changeset_file_reader_new(int sets_fd, const char *name, size_t buffer_size,
				   struct setfile_reader **ret, struct cairn_err *err)
{
	cairn_cleanup(pool_changeset_file_reader_freep) struct setfile_reader *reader =
		cairn_calloc(1, sizeof(*reader));
	struct block_input input = {.read_at = read_bytes, .arg = reader};
	cairn_auto_fd int fd = -1;
	int rc;

	if (!reader)
		return cairn_err_nomem(err, "change set");
	reader->fd = -1;
	snprintf(reader->name, sizeof(reader->name), "%s", name);
	rc = cairn_open_regular(sets_fd, name, O_RDONLY, 0, &fd, err);
	if (rc)
		return cairn_err_wrap(err, "change set");
	rc = hold_contents(reader, &fd, buffer_size ? buffer_size : WHOLE_DEFAULT, err);
	if (rc)
		return rc;
	input.size = reader->size;
	rc = block_set_reader_new(input, buffer_size, &reader->set, err);
	if (rc)
		return cairn_err_wrap(err, "change set '%s'", name);
	*ret = cairn_take(reader);
	return 0;
}

void pool_changeset_file_reader_free(struct setfile_reader *reader)
{
	block_set_reader_freep(&reader->set);
	if (reader->fd >= 0) {
		close(reader->fd);
		atomic_fetch_sub(&n_held, 1);
	}
	if (reader->mapping)
		munmap(reader->mapping, reader->size);
	free(reader->whole);
	free(reader);
}

struct block_set_reader *pool_changeset_file_reader_set(struct setfile_reader *reader)
{
	return reader->set;
}

struct block_set_reader *pool_changeset_file_reader_take(struct setfile_reader *reader)
{
	return cairn_take(reader->set);
}
