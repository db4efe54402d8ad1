/* SPDX-License-Identifier: Apache-2.0 */

#include "pool/copy/sparse.h"

#include <errno.h>
#include <string.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <linux/magic.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/io.h"
#include "base/mem.h"
#include "block/extent.h"
#include "pool/store/file_unchanged.h"

#define CHUNK    (1U << 20)
#define HOLE_MIN (64U << 10) /* shorter runs of zeros are written: fewer extents */
#define TRIES    3

bool copy_sparse_is_zero(const void *data, size_t n)
{
	const char *p = data;

	return n == 0 || (p[0] == 0 && memcmp(p, p + 1, n - 1) == 0);
}

static int copy_range(int from, int to, uint64_t start, uint64_t end, char *buf,
		      struct cairn_err *err)
{
	while (start < end) {
		size_t want = end - start < CHUNK ? (size_t)(end - start) : CHUNK;
		ssize_t got = cairn_pread_full(from, buf, want, start);

		if (got < 0)
			return cairn_err_sys(err, errno, "read while copying");
		for (size_t i = 0; i < (size_t)got; i += HOLE_MIN) {
			size_t n = (size_t)got - i < HOLE_MIN ? (size_t)got - i : HOLE_MIN;

			if (copy_sparse_is_zero(buf + i, n))
				continue;
			if (cairn_pwrite_full(to, buf + i, n, start + i) < 0)
				return cairn_err_sys(err, errno, "write while copying");
		}
		if ((size_t)got < want)
			break;
		start += want;
	}
	return 0;
}

int copy_sparse_copy(int from, int to, uint64_t size, struct cairn_err *err)
{
	cairn_auto_free char *buf = cairn_alloc(CHUNK);
	uint64_t at = 0;

	if (!buf)
		return cairn_err_nomem(err, "copy");
	if (ftruncate(to, (off_t)size) < 0)
		return cairn_err_sys(err, errno, "set the size of a copy");
	while (at < size) {
		off_t data = lseek(from, (off_t)at, SEEK_DATA);
		off_t hole = data < 0 ? -1 : lseek(from, data, SEEK_HOLE);
		uint64_t end;
		int rc;

		if (hole < 0 && errno == ENXIO)
			break;
		if (hole < 0)
			return cairn_err_sys(err, errno, "find data");
		end = (uint64_t)hole < size ? (uint64_t)hole : size;
		rc = copy_range(from, to, (uint64_t)data, end, buf, err);
		if (rc)
			return rc;
		at = end;
	}
	return 0;
}

static int refuse_difference(void *arg, const struct block_extent *extent, struct cairn_err *err)
{
	(void)arg;
	(void)extent;
	return cairn_err_set(err, CAIRN_ABORTED, "it is being written");
}

/* A write sets the change time when it begins and may take long. On these filesystems
 * SEEK_DATA waits for it, because both take the inode's lock; on others bytes are
 * compared. */
static int sparse_copy_wait_for_write(int from, int to, struct cairn_err *err)
{
	struct statfs fs;
	uint64_t runs;

	if (fstatfs(from, &fs) < 0)
		return cairn_err_sys(err, errno, "kind of the filesystem");
	switch ((uint64_t)fs.f_type) {
	case EXT4_SUPER_MAGIC:
	case XFS_SUPER_MAGIC:
	case BTRFS_SUPER_MAGIC:
	case TMPFS_MAGIC:
		return 0;
	default:
		return copy_sparse_compare(from, to, (struct block_sink){.emit = refuse_difference},
					   NULL, &runs, err);
	}
}

int copy_sparse_copy_still(int from, int to, struct cairn_err *err)
{
	for (int try = 0; try < TRIES; try++) {
		struct still still;
		bool changed = true;
		int rc;

		rc = pool_file_unchanged_begin(&still, from, to, err);
		if (rc == CAIRN_ABORTED)
			break; /* the write has finished */
		if (rc)
			return rc;
		if (ftruncate(to, 0) < 0)
			return cairn_err_sys(err, errno, "empty a copy");
		rc = copy_sparse_copy(from, to, still.size, err);
		if (rc)
			return rc;
		rc = sparse_copy_wait_for_write(from, to, err);
		rc = rc ? rc : pool_file_unchanged_end(&still, &changed, err);
		if (rc && rc != CAIRN_ABORTED)
			return rc;
		if (!rc && !changed)
			return 0;
	}
	return cairn_err_set(err, CAIRN_ABORTED,
			     "the volume is written while it is copied; stop its writers or freeze "
			     "its filesystem, then try again");
}
