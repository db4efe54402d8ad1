/* SPDX-License-Identifier: Apache-2.0 */

#include "pool/verify.h"

#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "pool/pool.h"
#include "pool/store.h"
#include "pool/survey.h"

#define CHUNK (1U << 20)
#define BLOCK 4096U

struct verify {
	struct store_reader *base;
	struct store_reader *target;
	uint8_t *base_bytes;
	uint8_t *target_bytes;
	uint64_t base_size;
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
static void compare(struct pool_verify_result *result, uint64_t offset, const uint8_t *a,
		    const uint8_t *b, size_t n)
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

static int read_exactly(struct store_reader *reader, uint64_t offset, void *buf, size_t n,
			const char *what, struct cairn_err *err)
{
	size_t got = 0;
	int rc = store_reader_read(reader, offset, buf, n, &got, err);

	if (rc)
		return rc;
	if (got < n)
		return cairn_err_set(err, CAIRN_DATA_LOSS,
				     "the %s's data ends before its recorded size", what);
	return 0;
}

static int verify_chunk(struct verify *v, const struct pool_segment *segment, uint64_t offset,
			size_t n, struct cairn_err *err)
{
	int rc = read_exactly(v->target, offset, v->target_bytes, n, "target", err);

	if (rc)
		return rc;
	if (segment->reported) {
		compare(v->result, offset, v->target_bytes, NULL, n);
		return 0;
	}
	rc = read_exactly(v->base, offset, v->base_bytes, n, "base", err);
	if (rc)
		return rc;
	v->result->compared_bytes += n;
	compare(v->result, offset, v->target_bytes, v->base_bytes, n);
	return 0;
}

static int report(const struct verify *v, struct cairn_err *err)
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
		if (end > v->base_size) {
			uint64_t from = offset > v->base_size ? offset : v->base_size;

			add_fault(v->result, from, end - from, false);
			end = from;
		}
		if (!segment->base_allocated && !segment->target_allocated) {
			v->result->hole_bytes += end - offset;
			return 0;
		}
	}
	while (offset < end) {
		size_t n = end - offset < CHUNK ? (size_t)(end - offset) : CHUNK;
		int rc = verify_chunk(v, segment, offset, n, err);

		offset += n;
		v->done += segment->target_allocated ? n : 0;
		if (!rc)
			rc = report(v, err);
		if (rc)
			return rc;
	}
	return 0;
}

static int walk(struct verify *v, struct pool_survey *survey, struct cairn_err *err)
{
	const struct pool_delta_info *info = pool_survey_info(survey);
	struct pool_segment segment;
	int rc;

	v->result->capacity = info->capacity;
	v->base_size = info->base.size;
	for (;;) {
		rc = pool_survey_next(survey, &segment, err);
		if (rc || segment.length == 0)
			return rc;
		rc = verify_segment(v, &segment, err);
		if (!rc)
			rc = report(v, err);
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
	cairn_cleanup(pool_survey_freep) struct pool_survey *survey = NULL;
	cairn_cleanup(store_reader_freep) struct store_reader *base_reader = NULL;
	cairn_cleanup(store_reader_freep) struct store_reader *target_reader = NULL;
	cairn_auto_free uint8_t *bytes = NULL;
	struct pool_survey_spec spec = {
		.base = base, .target = target, .with_base_allocation = true, .progress = progress};
	struct pool_verify_result result = {0};
	struct verify v = {.progress = progress, .result = &result};
	int rc = need_data(pool, base, err);

	if (!rc)
		rc = need_data(pool, target, err);
	if (!rc)
		rc = pool_allocated_bytes(pool, target, &v.total, err);
	if (!rc)
		rc = pool_survey_open(pool, &spec, &survey, err);
	if (!rc)
		rc = pool_snapshot_reader(pool, base, &base_reader, err);
	if (!rc)
		rc = pool_snapshot_reader(pool, target, &target_reader, err);
	if (rc)
		return rc;
	bytes = cairn_alloc((size_t)2 * CHUNK);
	if (!bytes)
		return cairn_err_nomem(err, "buffers");
	v.base = base_reader;
	v.target = target_reader;
	v.base_bytes = bytes;
	v.target_bytes = bytes + CHUNK;
	rc = walk(&v, survey, err);
	if (!rc)
		*ret = result;
	return rc;
}
