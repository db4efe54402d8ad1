/* SPDX-License-Identifier: Apache-2.0 */

#include "pool/reflink/twostep.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <linux/fs.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/mem.h"
#include "block/extent.h"
#include "pool/store/fiemap.h"
#include "pool/store/file_unchanged.h"
#include "pool/store/fileset.h"
#include "pool/store/mapping.h"

#define PIECE_EXTENTS 512U /* cloned at a time: some 10 ms */
#define PIECE_PAUSE   1U   /* ms in which others get the file */

/* Maximum number of differing ranges after the first step; with more, one FICLONE is
 * as fast. */
#define RANGES_MAX (1U << 18)

struct ranges {
	struct block_extent *items;
	size_t n, cap;
};

/* Clones whole blocks of the filesystem, except at the end of the file. */
static int clone_range(int from, int to, uint64_t offset, uint64_t end, uint64_t size,
		       struct cairn_err *err)
{
	struct file_clone_range range = {.src_fd = from};
	struct statfs fs;
	uint64_t block;

	if (fstatfs(from, &fs) < 0)
		return cairn_err_sys(err, errno, "block size");
	if (offset >= size)
		return 0;
	block = (uint64_t)fs.f_bsize;
	range.src_offset = range.dest_offset = offset / block * block;
	end = (end + block - 1) / block * block;
	range.src_length = end >= size ? 0 : end - range.src_offset;
	while (ioctl(to, FICLONERANGE, &range) < 0)
		if (errno != EINTR)
			return cairn_err_sys(err, errno, "clone a range");
	return 0;
}

int reflink_twostep_is_worth(int from, uint64_t min, bool *ret_worth, struct cairn_err *err)
{
	cairn_cleanup(pool_fiemap_source_freep) struct mapping_source *source = NULL;
	cairn_auto_free struct mapping *batch = cairn_calloc(PIECE_EXTENTS, sizeof(*batch));
	uint64_t seen = 0;
	size_t n = 1;
	int rc = batch ? pool_fiemap_source_new(from, 0, &source, err)
		       : cairn_err_nomem(err, "extent map");

	for (; rc == 0 && n > 0 && seen < min; seen += n)
		rc = source->next(source, batch, PIECE_EXTENTS, &n, err);
	*ret_worth = seen >= min;
	return rc;
}

int reflink_twostep_begin(int from, int to, struct cairn_err *err)
{
	cairn_cleanup(pool_fiemap_source_freep) struct mapping_source *source = NULL;
	cairn_auto_free struct mapping *batch = cairn_calloc(PIECE_EXTENTS, sizeof(*batch));
	uint64_t at = 0, size = 0;
	size_t n = 1;
	int rc =
		batch ? pool_fileset_fd_size(from, &size, err) : cairn_err_nomem(err, "extent map");

	rc = rc ? rc : pool_fiemap_source_new(from, 0, &source, err);
	while (rc == 0 && n > 0 && at < size) {
		uint64_t end;

		rc = source->next(source, batch, PIECE_EXTENTS, &n, err);
		if (rc || n == 0)
			break;
		end = batch[n - 1].offset + batch[n - 1].length;
		rc = clone_range(from, to, at, end, size, err);
		at = end;
		cairn_sleep_ms(PIECE_PAUSE);
	}
	if (rc == 0 && ftruncate(to, (off_t)size) < 0)
		rc = cairn_err_sys(err, errno, "set the size of a clone");
	return rc;
}

static int note_range(void *arg, const struct block_extent *extent, struct cairn_err *err)
{
	struct ranges *ranges = arg;

	if (ranges->n == ranges->cap) {
		size_t cap = ranges->cap ? 2 * ranges->cap : 1024;
		struct block_extent *items =
			cap > RANGES_MAX ? NULL
					 : cairn_realloc_array(ranges->items, cap, sizeof(*items));

		if (!items)
			return cairn_err_set(err, CAIRN_NO_SPACE, "too much differs");
		ranges->items = items;
		ranges->cap = cap;
	}
	ranges->items[ranges->n++] = *extent;
	return 0;
}

static int find_differences(int from, int to, uint64_t size, struct ranges *ranges,
			    struct cairn_err *err)
{
	cairn_cleanup(pool_fiemap_source_freep) struct mapping_source *base = NULL, *target = NULL;
	cairn_auto_free struct mapping_compare *compare = cairn_alloc(sizeof(*compare));
	struct extent_merge joiner = {.sink = {.emit = note_range, .arg = ranges}};
	uint64_t have = 0;
	bool done;
	int rc =
		compare ? pool_fileset_fd_size(to, &have, err) : cairn_err_nomem(err, "comparison");

	rc = rc ? rc : pool_fiemap_source_new(to, 0, &base, err);
	rc = rc ? rc : pool_fiemap_source_new(from, 0, &target, err);
	if (rc)
		return rc;
	pool_mapping_compare_init(compare, base, have, target, size);
	rc = pool_mapping_compare_run(compare, UINT64_MAX, &joiner, NULL, &done, err);
	return rc ? rc : pool_extent_merge_flush(&joiner, err);
}

static int clone_differences(int from, int to, uint64_t size, struct cairn_err *err)
{
	struct ranges ranges = {0};
	int rc = find_differences(from, to, size, &ranges, err);

	for (size_t i = 0; rc == 0 && i < ranges.n; i++)
		rc = clone_range(from, to, ranges.items[i].offset,
				 block_extent_end(&ranges.items[i]), size, err);
	free(ranges.items);
	if (rc == 0 && ftruncate(to, (off_t)size) < 0)
		rc = cairn_err_sys(err, errno, "set the size of a clone");
	return rc;
}

/* A write in progress does not set the change time again. Cloning takes the inode's
 * lock and so waits for the write, whose data is then flushed, because a map shows
 * only blocks that have been allocated. */
static int twostep_wait_for_write(int from, int to, uint64_t size, struct cairn_err *err)
{
	int rc = clone_range(from, to, 0, 1, size, err);

	if (rc == 0 && fsync(from) < 0)
		rc = cairn_err_sys(err, errno, "sync the source of a clone");
	return rc;
}

int reflink_twostep_end(int from, int to, bool *ret_done, struct cairn_err *err)
{
	struct still still;
	bool changed = true;
	int rc = pool_file_unchanged_begin(&still, from, to, err);

	*ret_done = false;
	if (rc == CAIRN_ABORTED)
		return 0;
	rc = rc ? rc : twostep_wait_for_write(from, to, still.size, err);
	if (rc)
		return rc; /* a failed sync of the source is reported once: do not clone after it */
	rc = clone_differences(from, to, still.size, err);
	if (rc == CAIRN_NO_SPACE)
		return 0; /* one clone of the whole file may need less */
	rc = rc ? rc : pool_file_unchanged_end(&still, &changed, err);
	*ret_done = rc == 0 && !changed;
	return rc;
}
