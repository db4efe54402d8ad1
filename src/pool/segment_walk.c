/* SPDX-License-Identifier: Apache-2.0 */

#include "pool/segment_walk.h"

#include <stdlib.h>

#include "base/err.h"
#include "base/mem.h"
#include "pool/pool.h"

#define BATCH 512 /* extents fetched at once from each stream */

/* A stream of extents. Only the first one that ends after the position of the
 * walk is examined. */
struct stream {
	struct pool_delta *delta; /* NULL: an empty stream */
	bool ended;
	size_t n;
	size_t at;
	struct block_extent batch[BATCH];
};

enum { STREAM_CHANGES, STREAM_TARGET, STREAM_BASE, STREAMS };

struct pool_segment_walk {
	uint64_t capacity;
	uint64_t position;
	struct stream streams[STREAMS];
};

static int stream_open(struct pool *pool, const char *base, const char *target,
		       const struct store_progress *progress, struct stream *stream,
		       struct cairn_err *err)
{
	struct pool_delta_spec spec = {.base = base, .target = target, .progress = progress};

	return pool_delta_open(pool, &spec, &stream->delta, err);
}

int pool_segment_walk_open(struct pool *pool, const struct pool_segment_walk_spec *spec,
			   struct pool_segment_walk **ret, struct cairn_err *err)
{
	cairn_cleanup(pool_segment_walk_freep) struct pool_segment_walk *survey = NULL;
	struct stream *streams;
	int rc = 0;

	survey = cairn_calloc(1, sizeof(*survey));
	if (!survey)
		return cairn_err_nomem(err, "survey");
	streams = survey->streams;
	if (spec->base)
		rc = stream_open(pool, spec->base, spec->target, spec->progress,
				 &streams[STREAM_CHANGES], err);
	if (!rc)
		rc = stream_open(pool, NULL, spec->target, spec->progress, &streams[STREAM_TARGET],
				 err);
	if (!rc && spec->base && spec->with_base_allocation)
		rc = stream_open(pool, NULL, spec->base, spec->progress, &streams[STREAM_BASE],
				 err);
	if (rc)
		return rc;
	survey->capacity = pool_delta_info(streams[STREAM_TARGET].delta)->capacity;
	*ret = cairn_take(survey);
	return 0;
}

void pool_segment_walk_free(struct pool_segment_walk *survey)
{
	if (!survey)
		return;
	for (int i = 0; i < STREAMS; i++)
		if (survey->streams[i].delta)
			pool_delta_free(survey->streams[i].delta);
	free(survey);
}

const struct pool_delta_info *pool_segment_walk_info(const struct pool_segment_walk *survey)
{
	const struct stream *changes = &survey->streams[STREAM_CHANGES];

	return pool_delta_info(changes->delta ? changes->delta
					      : survey->streams[STREAM_TARGET].delta);
}

/* The first extent that ends after `position`, or NULL. */
static int stream_at(struct stream *stream, uint64_t position, const struct block_extent **ret,
		     struct cairn_err *err)
{
	*ret = NULL;
	while (stream->delta && !stream->ended) {
		if (stream->at == stream->n) {
			int rc = pool_delta_next(stream->delta, stream->batch, BATCH, &stream->n,
						 err);

			if (rc)
				return rc;
			stream->at = 0;
			stream->ended = stream->n == 0;
		} else if (block_extent_end(&stream->batch[stream->at]) > position) {
			*ret = &stream->batch[stream->at];
			return 0;
		} else {
			stream->at++;
		}
	}
	return 0;
}

int pool_segment_walk_next(struct pool_segment_walk *survey, struct pool_segment *ret,
			   struct cairn_err *err)
{
	uint64_t end = survey->capacity;
	bool inside[STREAMS] = {false};
	bool zero = false;

	for (int i = 0; i < STREAMS; i++) {
		const struct block_extent *extent;
		uint64_t border;
		int rc = stream_at(&survey->streams[i], survey->position, &extent, err);

		if (rc)
			return rc;
		if (!extent)
			continue;
		inside[i] = extent->offset <= survey->position;
		border = inside[i] ? block_extent_end(extent) : extent->offset;
		end = border < end ? border : end;
		zero = zero || (i == STREAM_CHANGES && inside[i] && extent->zero);
	}
	*ret = (struct pool_segment){
		.offset = survey->position,
		.length = end - survey->position,
		.reported = inside[STREAM_CHANGES],
		.zero = zero,
		.base_allocated = inside[STREAM_BASE],
		.target_allocated = inside[STREAM_TARGET],
	};
	survey->position = end;
	return 0;
}
