/* SPDX-License-Identifier: Apache-2.0 */

#include "pool/copy/sparse.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/io.h"
#include "base/mem.h"
#include "pool/store/extent_merge.h"
#include "pool/store/fileset.h"

#define CHUNK  (1U << 20)
#define UNIT   4096U
#define SECTOR 512U /* the smallest granularity of a change set */

/* One file: the run of data at or after the position. Past the file's end
 * there is none; such bytes compare as zeros but count as changed. */
struct side {
	int fd;
	uint64_t size;
	uint64_t start, end; /* start == UINT64_MAX: no more data */
	char *buf;
};

struct comparison {
	struct side base, target;
	struct extent_merge joiner;
	const struct store_progress *progress;
	uint64_t runs;
};

static int side_seek(struct side *side, uint64_t pos, struct cairn_err *err)
{
	off_t data, hole;

	if (side->end > pos || side->start == UINT64_MAX)
		return 0;
	data = lseek(side->fd, (off_t)pos, SEEK_DATA);
	hole = data < 0 ? -1 : lseek(side->fd, data, SEEK_HOLE);
	if (hole < 0 && errno != ENXIO)
		return cairn_err_sys(err, errno, "find data");
	side->start = hole < 0 ? UINT64_MAX : (uint64_t)data;
	side->end = hole < 0 ? UINT64_MAX : (uint64_t)hole;
	return 0;
}

static int side_read(struct side *side, uint64_t pos, size_t n, struct cairn_err *err)
{
	ssize_t got = cairn_pread_full(side->fd, side->buf, n, pos);

	if (got < 0)
		return cairn_err_sys(err, errno, "read while comparing");
	memset(side->buf + got, 0, n - (size_t)got);
	return 0;
}

/* Adds the changed sectors of a unit that differs. A unit that is now zero is one range, so
 * that a change set with larger granules can report it as zero. */
static int add_changed(struct comparison *c, uint64_t pos, size_t at, size_t n,
		       struct cairn_err *err)
{
	const char *old = c->base.buf + at;
	const char *now = c->target.buf + at;
	int rc = 0;

	if (copy_sparse_is_zero(now, n))
		return pool_extent_merge_add(&c->joiner, pos, n, true, err);
	for (size_t i = 0, len; rc == 0 && i < n; i += len) {
		len = SECTOR - (size_t)((pos + i) % SECTOR);
		if (len > n - i)
			len = n - i;
		if (pos + i >= c->base.size || memcmp(old + i, now + i, len) != 0)
			rc = pool_extent_merge_add(&c->joiner, pos + i, len,
						   copy_sparse_is_zero(now + i, len), err);
	}
	return rc;
}

/* Compares one stretch in units that lie on the 4 KiB grid, and those that differ by sector. */
static int sparse_compare_chunk(struct comparison *c, uint64_t pos, size_t n, struct cairn_err *err)
{
	int rc = side_read(&c->base, pos, n, err);

	rc = rc ? rc : side_read(&c->target, pos, n, err);
	for (size_t i = 0, len; rc == 0 && i < n; i += len) {
		bool grown = pos + i >= c->base.size;

		len = UNIT - (size_t)((pos + i) % UNIT);
		if (len > n - i)
			len = n - i;
		if (grown || memcmp(c->base.buf + i, c->target.buf + i, len) != 0)
			rc = add_changed(c, pos + i, i, len, err);
	}
	return rc;
}

static int compare_run(struct comparison *c, uint64_t pos, uint64_t end, struct cairn_err *err)
{
	c->runs++;
	while (pos < end) {
		const struct store_progress *p = c->progress;
		size_t n = end - pos < CHUNK ? (size_t)(end - pos) : CHUNK;
		int rc;

		if (p && p->cancelled && p->cancelled(p->arg))
			return cairn_err_set(err, CAIRN_CANCELLED, "comparison cancelled");
		rc = sparse_compare_chunk(c, pos, n, err);
		if (rc)
			return rc;
		pos += n;
		if (p && p->report)
			p->report(p->arg, pos, c->target.size);
	}
	return 0;
}

static uint64_t sparse_compare_min_u64(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

/* Compares from `pos` to `limit`; where neither file has data, both are zero:
 * equal below the base's size, changed to zero above it. */
static int compare_part(struct comparison *c, uint64_t pos, uint64_t limit, struct cairn_err *err)
{
	while (pos < limit) {
		uint64_t start, end;
		int rc = side_seek(&c->base, pos, err);

		rc = rc ? rc : side_seek(&c->target, pos, err);
		if (rc)
			return rc;
		start = sparse_compare_min_u64(
			sparse_compare_min_u64(c->base.start, c->target.start), limit);
		if (start > pos) {
			if (pos >= c->base.size)
				rc = pool_extent_merge_add(&c->joiner, pos, start - pos, true, err);
			if (rc)
				return rc;
			pos = start;
			continue;
		}
		/* At least one of them has data here; continue to its end. */
		end = c->base.start <= pos ? c->base.end : c->target.end;
		end = sparse_compare_min_u64(end, limit);
		rc = compare_run(c, pos, end, err);
		if (rc)
			return rc;
		pos = end;
	}
	return 0;
}

int copy_sparse_compare(int base, int target, struct block_sink sink,
			const struct store_progress *progress, uint64_t *ret_runs,
			struct cairn_err *err)
{
	cairn_auto_free char *base_buf = cairn_alloc(CHUNK);
	cairn_auto_free char *target_buf = cairn_alloc(CHUNK);
	struct comparison c = {
		.base = {.fd = base, .buf = base_buf},
		.target = {.fd = target, .buf = target_buf},
		.joiner = {.sink = sink},
		.progress = progress,
	};
	uint64_t common;
	int rc;

	if (!base_buf || !target_buf)
		return cairn_err_nomem(err, "comparison");
	rc = pool_fileset_fd_size(base, &c.base.size, err);
	rc = rc ? rc : pool_fileset_fd_size(target, &c.target.size, err);
	if (rc)
		return rc;
	common = sparse_compare_min_u64(c.base.size, c.target.size);
	rc = compare_part(&c, 0, common, err);
	rc = rc ? rc : compare_part(&c, common, c.target.size, err);
	rc = rc ? rc : pool_extent_merge_flush(&c.joiner, err);
	if (rc == 0)
		*ret_runs = c.runs;
	return rc;
}
