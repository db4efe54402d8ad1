/* SPDX-License-Identifier: Apache-2.0 */

#include "pool/rbd/rbd_diff.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/mem.h"
#include "pool/rbd/rbd_cluster.h"
#include "pool/rbd/rbd_image.h"
#include "pool/store/store.h"

/* Extents are rounded outwards to this. */
#define BLOCK 4096ULL

/* One comparison of data. */
#define CHUNK (1U << 20)

/* Ranges of the first step that are kept at once. */
#define RANGES_MAX 4096U

struct range_list {
	struct block_extent *list;
	size_t n;
	bool full;
};

/* The second step: rounds, merges and passes on. */
struct rounding {
	struct block_sink sink;
	struct block_extent pending; /* length 0: none */
	uint64_t done;               /* everything before is passed on */
	uint64_t size;
	bool has_parent;
	struct cairn_err *err;
	int rc;
	uint64_t walked;
};

static int keep_range(uint64_t offset, size_t length, int exists, void *arg)
{
	struct range_list *ranges = arg;

	(void)exists;
	if (length == 0)
		return 0;
	if (ranges->n > 0) {
		struct block_extent *last = &ranges->list[ranges->n - 1];

		if (block_extent_end(last) >= offset) {
			if (offset + length > block_extent_end(last))
				last->length = offset + length - last->offset;
			return 0;
		}
	}
	if (ranges->n == RANGES_MAX) {
		ranges->full = true;
		return -ECANCELED;
	}
	ranges->list[ranges->n++] = (struct block_extent){.offset = offset, .length = length};
	return 0;
}

static int rounding_flush(struct rounding *rounding)
{
	struct block_extent extent = rounding->pending;

	rounding->pending.length = 0;
	if (extent.length == 0)
		return 0;
	rounding->done = block_extent_end(&extent);
	return rounding->sink.emit(rounding->sink.arg, &extent, rounding->err);
}

/* An object that does not exist reads as zeros, unless it has a parent to be read
 * instead. */
static int round_extent(uint64_t offset, size_t length, int exists, void *arg)
{
	struct rounding *rounding = arg;
	uint64_t start = offset - offset % BLOCK;
	uint64_t end = (offset + length + BLOCK - 1) / BLOCK * BLOCK;
	bool whole = start == offset && end == offset + length;
	bool zero = !exists && !rounding->has_parent && whole;
	struct block_extent *last = &rounding->pending;

	rounding->walked++;
	end = end < rounding->size ? end : rounding->size;
	start = start < rounding->done ? rounding->done : start;
	if (last->length > 0 && start < block_extent_end(last)) {
		/* A block that two extents share is not known to be zero. */
		last->zero = last->zero && zero;
		start = block_extent_end(last);
	}
	if (start >= end)
		return 0;
	if (last->length > 0 && start == block_extent_end(last) && last->zero == zero) {
		last->length = end - last->offset;
		return 0;
	}
	rounding->rc = rounding_flush(rounding);
	*last = (struct block_extent){.offset = start, .length = end - start, .zero = zero};
	return rounding->rc ? -ECANCELED : 0;
}

static bool diff_is_cancelled(const struct store_progress *progress)
{
	return progress && progress->cancelled && progress->cancelled(progress->arg);
}

/* The bytes inside the ranges. */
static int walk_ranges(struct rbd_image_handle *handle, const char *from,
		       const struct range_list *ranges, struct rounding *rounding,
		       const struct store_progress *progress, struct cairn_err *err)
{
	for (size_t i = 0; i < ranges->n; i++) {
		const struct block_extent *range = &ranges->list[i];
		int rc;

		if (diff_is_cancelled(progress))
			return cairn_err_set(err, CAIRN_CANCELLED, "interrupted");
		rc = handle->api->rbd_diff_iterate2(handle->image, from, range->offset,
						    range->length, 1, 0, round_extent, rounding);
		if (rounding->rc)
			return rounding->rc;
		if (rc < 0)
			return rbd_api_err(err, rc, "changes of image '%s'", handle->name);
		if (progress && progress->report)
			progress->report(progress->arg, block_extent_end(range), rounding->size);
	}
	return 0;
}

static bool image_has_parent(struct rbd_image_handle *handle)
{
	rbd_linked_image_spec_t image = {0};
	rbd_snap_spec_t snap = {0};
	int rc = handle->api->rbd_get_parent(handle->image, &image, &snap);

	if (rc < 0)
		return rc != -ENOENT;
	handle->api->rbd_linked_image_spec_cleanup(&image);
	handle->api->rbd_snap_spec_cleanup(&snap);
	return true;
}

static int walk_counted(struct rbd_image_handle *handle, const char *from, uint64_t start,
			struct block_sink sink, const struct store_progress *progress,
			uint64_t *ret_walked, struct cairn_err *err)
{
	struct rounding rounding = {.sink = sink,
				    .done = start - start % BLOCK,
				    .has_parent = image_has_parent(handle),
				    .err = err};
	cairn_auto_free struct block_extent *list = cairn_calloc(RANGES_MAX, sizeof(*list));
	struct range_list ranges = {.list = list, .full = true};
	uint64_t at = rounding.done;
	int rc = handle->api->rbd_get_size(handle->image, &rounding.size);

	if (!list)
		return cairn_err_nomem(err, "changes");
	if (rc < 0)
		return rbd_api_err(err, rc, "size of image '%s'", handle->name);
	while (ranges.full && at < rounding.size) {
		ranges.full = false;
		ranges.n = 0;
		rc = handle->api->rbd_diff_iterate2(handle->image, from, at, rounding.size - at, 1,
						    1, keep_range, &ranges);
		if (rc < 0 && !ranges.full)
			return rbd_api_err(err, rc, "changes of image '%s'", handle->name);
		rc = walk_ranges(handle, from, &ranges, &rounding, progress, err);
		if (rc)
			return rc;
		at = ranges.n > 0 ? block_extent_end(&ranges.list[ranges.n - 1]) : rounding.size;
	}
	*ret_walked += rounding.walked;
	return rounding_flush(&rounding);
}

int rbd_diff_walk(struct rbd_image_handle *handle, const char *from, uint64_t start,
		  struct block_sink sink, const struct store_progress *progress,
		  struct cairn_err *err)
{
	uint64_t walked = 0;

	return walk_counted(handle, from, start, sink, progress, &walked, err);
}

static int add_used(uint64_t offset, size_t length, int exists, void *arg)
{
	(void)offset;
	if (exists)
		*(uint64_t *)arg += length;
	return 0;
}

int rbd_diff_used(struct rbd_image_handle *handle, uint64_t *ret, struct cairn_err *err)
{
	uint64_t size, used = 0;
	int rc = handle->api->rbd_get_size(handle->image, &size);

	if (rc >= 0)
		rc = handle->api->rbd_diff_iterate2(handle->image, NULL, 0, size, 0, 1, add_used,
						    &used);
	if (rc < 0)
		return rbd_api_err(err, rc, "space of image '%s'", handle->name);
	*ret = used;
	return 0;
}

/* ---- snapshots in two images ------------------------------------------------ */

/* Compares the data wherever one of them has some. */
struct comparison {
	struct rbd_image_handle *base, *target;
	uint64_t base_size, target_size;
	struct block_sink sink;
	uint8_t *bytes; /* a chunk of each */
	uint64_t done;  /* everything before was compared */
	const struct store_progress *progress;
	struct block_extent pending;
};

static int compare_read(struct rbd_image_handle *handle, uint64_t size, uint64_t offset, size_t n,
			uint8_t *out, struct cairn_err *err)
{
	size_t have = offset >= size ? 0 : size - offset < n ? (size_t)(size - offset) : n;
	ssize_t got = have == 0 ? 0
				: handle->api->rbd_read2(handle->image, offset, have, (char *)out,
							 LIBRADOS_OP_FLAG_FADVISE_SEQUENTIAL);

	if (got < 0)
		return rbd_api_err(err, (int)got, "read image '%s'", handle->name);
	memset(out + got, 0, n - (size_t)got);
	return 0;
}

static int compare_emit(struct comparison *c, uint64_t offset, uint64_t length,
			struct cairn_err *err)
{
	struct block_extent *last = &c->pending;
	struct block_extent extent = *last;

	if (last->length > 0 && block_extent_end(last) == offset) {
		last->length += length;
		return 0;
	}
	*last = (struct block_extent){.offset = offset, .length = length};
	return extent.length > 0 ? c->sink.emit(c->sink.arg, &extent, err) : 0;
}

static int compare_chunk(struct comparison *c, uint64_t offset, size_t n, struct cairn_err *err)
{
	uint8_t *base = c->bytes, *target = c->bytes + CHUNK;
	int rc = compare_read(c->base, c->base_size, offset, n, base, err);

	if (!rc)
		rc = compare_read(c->target, c->target_size, offset, n, target, err);
	for (size_t at = 0; at < n && !rc; at += BLOCK) {
		size_t part = n - at < BLOCK ? n - at : BLOCK;

		if (memcmp(base + at, target + at, part) != 0)
			rc = compare_emit(c, offset + at, part, err);
	}
	return rc;
}

static int compare_range(struct comparison *c, const struct block_extent *extent,
			 struct cairn_err *err)
{
	uint64_t end = block_extent_end(extent);
	uint64_t at = extent->offset > c->done ? extent->offset : c->done;
	int rc = 0;

	end = end < c->target_size ? end : c->target_size;
	while (at < end && !rc) {
		size_t n = end - at < CHUNK ? (size_t)(end - at) : CHUNK;

		if (diff_is_cancelled(c->progress))
			return cairn_err_set(err, CAIRN_CANCELLED, "interrupted");
		rc = compare_chunk(c, at, n, err);
		at += n;
	}
	if (end > c->done)
		c->done = end;
	return rc;
}

struct extent_list {
	struct block_extent *list;
	size_t n, max;
};

static int keep_extent(void *arg, const struct block_extent *extent, struct cairn_err *err)
{
	struct extent_list *extents = arg;

	if (extents->n == extents->max) {
		size_t max = extents->max ? 2 * extents->max : 1024;
		struct block_extent *grown =
			cairn_realloc_array(extents->list, max, sizeof(*grown));

		if (!grown)
			return cairn_err_nomem(err, "changes");
		extents->list = grown;
		extents->max = max;
	}
	extents->list[extents->n++] = *extent;
	return 0;
}

static int by_offset(const void *a, const void *b)
{
	const struct block_extent *left = a, *right = b;

	return left->offset < right->offset ? -1 : left->offset > right->offset;
}

static int compare_images(struct comparison *c, struct cairn_err *err)
{
	struct extent_list extents = {0};
	struct block_sink keep = {.emit = keep_extent, .arg = &extents};
	int rc = rbd_diff_walk(c->base, NULL, 0, keep, c->progress, err);

	if (!rc)
		rc = rbd_diff_walk(c->target, NULL, 0, keep, c->progress, err);
	if (!rc && extents.n > 0)
		qsort(extents.list, extents.n, sizeof(extents.list[0]), by_offset);
	for (size_t i = 0; i < extents.n && !rc; i++)
		rc = compare_range(c, &extents.list[i], err);
	if (!rc && c->pending.length > 0)
		rc = c->sink.emit(c->sink.arg, &c->pending, err);
	free(extents.list);
	return rc;
}

static int compare_apart(struct rbd_image_handle *base, struct rbd_image_handle *target,
			 struct block_sink sink, const struct store_progress *progress,
			 struct cairn_err *err)
{
	cairn_auto_free uint8_t *bytes = cairn_alloc(2 * (size_t)CHUNK);
	struct comparison c = {
		.base = base, .target = target, .sink = sink, .bytes = bytes, .progress = progress};
	int rc;

	if (!bytes)
		return cairn_err_nomem(err, "comparison");
	rc = base->api->rbd_get_size(base->image, &c.base_size);
	if (rc >= 0)
		rc = base->api->rbd_get_size(target->image, &c.target_size);
	return rc < 0 ? rbd_api_err(err, rc, "size of an image") : compare_images(&c, err);
}

int rbd_diff_snapshots(struct rbd_cluster *cluster, const char *base_id, const char *target_id,
		       struct block_sink sink, const struct store_progress *progress,
		       struct store_delta_stats *ret_stats, struct cairn_err *err)
{
	cairn_cleanup(rbd_image_done) struct rbd_image_handle target = {0}, base = {0};
	char origin[RBD_IMAGE_NAME_MAX];
	const char *from = NULL;
	int rc = rbd_image_open_ref(cluster, (struct store_ref){STORE_SNAPSHOT, target_id}, &target,
				    err);

	if (rc)
		return rc;
	snprintf(origin, sizeof(origin), RBD_IMAGE_ORIGIN "%.64s", base_id);
	rc = rbd_image_has_snapshot(&target, base_id, err);
	if (rc > 0)
		from = base_id;
	else if (rc == 0 && (rc = rbd_image_has_snapshot(&target, origin, err)) > 0)
		from = origin;
	if (rc < 0)
		return rc;
	ret_stats->method = from ? "diff" : "compare";
	if (from)
		return walk_counted(&target, from, 0, sink, progress, &ret_stats->extents_walked,
				    err);
	rc = rbd_image_open_ref(cluster, (struct store_ref){STORE_SNAPSHOT, base_id}, &base, err);
	return rc ? rc : compare_apart(&base, &target, sink, progress, err);
}
