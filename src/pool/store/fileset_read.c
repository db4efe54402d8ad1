/* SPDX-License-Identifier: Apache-2.0 */

/* Reads objects: bytes, and the ranges that hold data. */
#include "pool/store/fileset.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "base/err.h"
#include "base/io.h"
#include "base/mem.h"
#include "pool/device/open_files.h"

struct file_reader {
	struct store_reader reader;
	int fd;
};

static int fileset_read_file_read(struct store_reader *reader, uint64_t offset, void *buf, size_t n,
				  size_t *ret_n, struct cairn_err *err)
{
	ssize_t got = cairn_pread_full(((struct file_reader *)reader)->fd, buf, n, offset);

	if (got < 0)
		return cairn_err_sys(err, errno, "read %zu bytes at %llu", n,
				     (unsigned long long)offset);
	*ret_n = (size_t)got;
	return 0;
}

static void fileset_read_file_ahead(struct store_reader *reader, uint64_t offset, uint64_t n)
{
	(void)posix_fadvise(((struct file_reader *)reader)->fd, (off_t)offset, (off_t)n,
			    POSIX_FADV_WILLNEED);
}

static void fileset_read_file_reader_free(struct store_reader *reader)
{
	struct file_reader *f = (struct file_reader *)reader;

	cairn_closep(&f->fd);
	free(f);
}

static const struct store_reader_ops reader_ops = {.read = fileset_read_file_read,
						   .free = fileset_read_file_reader_free,
						   .ahead = fileset_read_file_ahead};

int pool_fileset_reader_open(struct store *store, struct store_ref ref, struct store_reader **ret,
			     struct cairn_err *err)
{
	cairn_auto_free struct file_reader *f = cairn_calloc(1, sizeof(*f));
	int rc;

	if (!f)
		return cairn_err_nomem(err, "reader");
	rc = pool_fileset_open_disk((struct fileset *)store, ref, O_RDONLY, &f->fd, err);
	if (rc)
		return rc;
	pool_open_files_mark_reader(f->fd);
	f->reader.ops = &reader_ops;
	*ret = &cairn_take(f)->reader;
	return 0;
}

int pool_fileset_allocated_seek(struct store *store, struct store_ref ref, uint64_t start,
				struct block_extent *out, size_t max, size_t *ret_n,
				struct cairn_err *err)
{
	cairn_auto_fd int fd = -1;
	size_t n = 0;
	int rc = pool_fileset_open_disk((struct fileset *)store, ref, O_RDONLY, &fd, err);

	if (rc)
		return rc;
	while (n < max) {
		off_t data = lseek(fd, (off_t)start, SEEK_DATA);
		off_t hole = data < 0 ? -1 : lseek(fd, data, SEEK_HOLE);

		if (hole < 0 && errno == ENXIO) /* no data before the end of the file */
			break;
		if (hole < 0)
			return cairn_err_sys(err, errno, "find data");
		if (hole <= data)
			break;
		out[n++] = (struct block_extent){
			.offset = (uint64_t)data,
			.length = (uint64_t)(hole - data),
		};
		start = (uint64_t)hole;
	}
	*ret_n = n;
	return 0;
}
