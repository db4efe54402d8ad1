/* SPDX-License-Identifier: Apache-2.0 */

#include "pool/pool_verify.h"

#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "pool/pool.h"
#include "pool/segment_walk.h"
#include "pool/store/store.h"

#define CHUNK (256U << 10)
#define BLOCK 4096U

/* One snapshot's data, read in aligned chunks: where small extents alternate, a
 * read for each would cost more than the bytes between them. */
struct side {
	const char *what;
	struct store_reader *reader;
	uint64_t size;
	uint64_t loaded; /* where the chunk begins; UINT64_MAX: nothing is loaded */
	uint8_t *bytes;
};

struct verify {
	struct side base;
	struct side target;
	uint64_t done;  /* of the target's allocated bytes */
	uint64_t total; /* these, for progress */
	const struct store_progress *progress;
	struct pool_verify_result *result;
};

static void add_fault(struct pool_verify_result *result, uint64_t offset, uint64_t length,
		      bool not_zero)
{
	struct pool_verify_fault *last =
		result->n_faults ? &result->faults[result->n_faults - 1] : NULL;

	result->fault_bytes += length;
	if (last && last->not_zero == not_zero && last->offset + last->length == offset) {
		last->length += length;
		return;
	}
	if (result->n_faults < POOL_VERIFY_FAULTS_MAX)
		result->faults[result->n_faults++] = (struct pool_verify_fault){
			.offset = offset, .length = length, .not_zero = not_zero};
}

/* Which blocks of a chunk differ; `b` NULL compares with zeros. */
static void pool_verify_compare(struct pool_verify_result *result, uint64_t offset,
				const uint8_t *a, const uint8_t *b, size_t n)
{
	static const uint8_t zeros[BLOCK];

	if (b && memcmp(a, b, n) == 0)
		return;
	for (size_t at = 0; at < n;) {
		/* Blocks of the volume, so that faults line up with what was written. */
		size_t part = BLOCK - (offset + at) % BLOCK;

		part = part < n - at ? part : n - at;
		if (memcmp(a + at, b ? b + at : zeros, part) != 0)
			add_fault(result, offset + at, part, !b);
		at += part;
	}
}

/* The bytes from `offset` on, up to the end of their chunk. */
static int side_at(struct side *side, uint64_t offset, const uint8_t **ret, struct cairn_err *err)
{
	uint64_t start = offset - offset % CHUNK;
	size_t want = side->size - start < CHUNK ? (size_t)(side->size - start) : CHUNK;
	size_t got = 0;
	int rc = 0;

	if (side->loaded != start) {
		side->loaded = UINT64_MAX;
		rc = pool_store_reader_read(side->reader, start, side->bytes, want, &got, err);
		if (!rc && got < want)
			rc = cairn_err_set(err, CAIRN_DATA_LOSS,
					   "the %s's data ends before its recorded size",
					   side->what);
		if (rc)
			return rc;
		side->loaded = start;
	}
	*ret = side->bytes + (offset - start);
	return 0;
}

static int verify_chunk(struct verify *v, const struct pool_segment *segment, uint64_t offset,
			size_t n, struct cairn_err *err)
{
	const uint8_t *target;
	const uint8_t *base;
	int rc = side_at(&v->target, offset, &target, err);

	if (rc)
		return rc;
	if (segment->reported) {
		pool_verify_compare(v->result, offset, target, NULL, n);
		return 0;
	}
	rc = side_at(&v->base, offset, &base, err);
	if (rc)
		return rc;
	v->result->compared_bytes += n;
	pool_verify_compare(v->result, offset, target, base, n);
	return 0;
}

static int pool_verify_report(const struct verify *v, struct cairn_err *err)
{
	const struct store_progress *progress = v->progress;

	if (!progress)
		return 0;
	if (progress->report)
		progress->report(progress->arg, v->done < v->total ? v->done : v->total, v->total);
	if (progress->cancelled && progress->cancelled(progress->arg))
		return cairn_err_set(err, CAIRN_CANCELLED, "interrupted");
	return 0;
}

/* Reads what the segment promises something about. */
static int verify_segment(struct verify *v, const struct pool_segment *segment,
			  struct cairn_err *err)
{
	uint64_t end = segment->offset + segment->length;
	uint64_t offset = segment->offset;

	if (segment->reported) {
		v->result->reported_bytes += segment->length;
		v->result->zero_bytes += segment->zero ? segment->length : 0;
		if (!segment->zero || !segment->target_allocated) {
			v->done += segment->target_allocated ? segment->length : 0;
			return 0;
		}
	} else {
		/* What the volume grew by must be in the delta. */
		if (end > v->base.size) {
			uint64_t from = offset > v->base.size ? offset : v->base.size;

			add_fault(v->result, from, end - from, false);
			end = from;
		}
		if (!segment->base_allocated && !segment->target_allocated) {
			v->result->hole_bytes += end - offset;
			return 0;
		}
	}
	while (offset < end) {
		size_t room = CHUNK - (size_t)(offset % CHUNK);
		size_t n = end - offset < room ? (size_t)(end - offset) : room;
		int rc = verify_chunk(v, segment, offset, n, err);

		offset += n;
		v->done += segment->target_allocated ? n : 0;
		if (!rc)
			rc = pool_verify_report(v, err);
		if (rc)
			return rc;
	}
	return 0;
}

static int pool_verify_walk(struct verify *v, struct pool_segment_walk *survey,
			    struct cairn_err *err)
{
	const struct pool_delta_info *info = pool_segment_walk_info(survey);
	struct pool_segment segment;
	int rc;

	v->result->capacity = info->capacity;
	v->base.size = info->base.size;
	v->target.size = info->capacity;
	for (;;) {
		rc = pool_segment_walk_next(survey, &segment, err);
		if (rc || segment.length == 0)
			return rc;
		rc = verify_segment(v, &segment, err);
		if (!rc)
			rc = pool_verify_report(v, err);
		if (rc)
			return rc;
	}
}

/* A deleted snapshot has no data to compare with, though its delta answers. */
static int need_data(struct pool *pool, const char *name, struct cairn_err *err)
{
	struct pool_snapshot snapshot;
	int rc = pool_snapshot_get(pool, name, &snapshot, err);

	if (rc || !snapshot.deleted)
		return rc;
	return cairn_err_set(err, CAIRN_PRECONDITION,
			     "snapshot '%s' is deleted, its data is gone and cannot be compared; "
			     "verify before deleting",
			     name);
}

int pool_verify(struct pool *pool, const char *base, const char *target,
		const struct store_progress *progress, struct pool_verify_result *ret,
		struct cairn_err *err)
{
	cairn_cleanup(pool_segment_walk_freep) struct pool_segment_walk *survey = NULL;
	cairn_auto_free uint8_t *bytes = cairn_alloc((size_t)2 * CHUNK);
	struct pool_segment_walk_spec spec = {
		.base = base, .target = target, .with_base_allocation = true, .progress = progress};
	struct pool_verify_result result = {0};
	struct verify v = {
		.base = {.what = "base", .loaded = UINT64_MAX},
		.target = {.what = "target", .loaded = UINT64_MAX},
		.progress = progress,
		.result = &result,
	};
	int rc;

	if (!bytes)
		return cairn_err_nomem(err, "buffers");
	v.base.bytes = bytes;
	v.target.bytes = bytes + CHUNK;
	rc = need_data(pool, base, err);
	if (!rc)
		rc = need_data(pool, target, err);
	if (!rc)
		rc = pool_allocated_bytes(pool, target, &v.total, err);
	if (!rc)
		rc = pool_segment_walk_open(pool, &spec, &survey, err);
	if (!rc)
		rc = pool_snapshot_reader(pool, base, &v.base.reader, err);
	if (!rc)
		rc = pool_snapshot_reader(pool, target, &v.target.reader, err);
	if (!rc)
		rc = pool_verify_walk(&v, survey, err);
	pool_store_reader_freep(&v.base.reader);
	pool_store_reader_freep(&v.target.reader);
	if (!rc)
		*ret = result;
	return rc;
}
