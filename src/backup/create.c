/* SPDX-License-Identifier: Apache-2.0 */

#include "backup/create.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "backup/changed_bitmap.h"
#include "backup/layout.h"
#include "backup/plan.h"
#include "backup/read_chunks.h"
#include "backup/segment.h"
#include "backup/segmented.h"
#include "backup/source.h"
#include "backup/write_snapshot.h"
#include "backup/zeros.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/err.h"
#include "repo/blob.h"
#include "repo/presence.h"
#include "repo/repo.h"
#include "repo/repo_cache.h"

/* Minimum of bytes for which a search for packs of an interrupted backup is worthwhile. */
#define ADOPT_BYTES (32ULL << 20)

struct making {
	struct repo *repo;
	struct backup_source *source;
	const struct backup_create_options *options;
	struct zeros *zeros;
	struct parent parent;
	struct changed_bitmap *marks;
	struct plan plan;                  /* complete without segments; only sizes with them */
	uint64_t segment;                  /* length of a segment; 0: the image is one file */
	struct segmented_result segmented; /* used with segments */
	uint64_t begun_ns;
	uint64_t stored_before;
	struct backup_result *result;
};

static void making_done(struct making *making)
{
	backup_zeros_freep(&making->zeros);
	backup_parent_done(&making->parent);
	backup_changed_bitmap_freep(&making->marks);
	backup_plan_done(&making->plan);
	backup_layout_freep(&making->segmented.layout);
}

static int create_mark(void *arg, const struct block_extent *extent, struct cairn_err *err)
{
	(void)err;
	backup_changed_bitmap_add(arg, extent);
	return 0;
}

/* Asks the source for its marks. On failure there are none, and *why contains the reason. */
static int create_ask(struct making *making, bool changed, struct cairn_err *why)
{
	struct backup_source *source = making->source;
	cairn_cleanup(backup_changed_bitmap_freep) struct changed_bitmap *marks = NULL;
	struct block_sink sink = {.emit = create_mark};
	int rc = backup_changed_bitmap_new(source->size, &marks, why);

	if (rc)
		return rc;
	sink.arg = marks;
	if (changed)
		rc = source->ops->changed(source, making->parent.snapshot_id, sink, why);
	else
		rc = source->ops->allocated(source, sink, why);
	if (!rc)
		making->marks = cairn_take(marks);
	return rc;
}

static bool create_fatal(int rc)
{
	return rc == CAIRN_CANCELLED || rc == CAIRN_NO_SPACE;
}

/* Gets the changes against the parent; 1 when they are not available. */
static int try_changed(struct making *making, struct cairn_err *err)
{
	struct backup_result *result = making->result;
	const struct parent *parent = &making->parent;
	struct cairn_err why = {0};
	int rc;

	if (making->options->best > BACKUP_CHANGED || !parent->found) {
		snprintf(result->reason, sizeof(result->reason), "%s",
			 parent->found ? "asked for" : "there is no backup to build on");
		return 1;
	}
	if (!making->source->ops->changed) {
		snprintf(result->reason, sizeof(result->reason),
			 "what changed cannot be determined");
		return 1;
	}
	if (!parent->ancestor) {
		snprintf(result->reason, sizeof(result->reason),
			 "what changed since the last backup is no longer known");
		backup_say(&making->options->talk, "%s: reading what is allocated", result->reason);
		return 1;
	}
	rc = create_ask(making, true, &why);
	if (!rc) {
		backup_changed_bitmap_fill_from(making->marks, backup_parent_size(parent));
		result->mode = BACKUP_CHANGED;
		snprintf(result->reason, sizeof(result->reason), "what changed is known");
		return 0;
	}
	if (create_fatal(rc)) {
		*err = why;
		return rc;
	}
	snprintf(result->reason, sizeof(result->reason), "the changed blocks are unknown: %.160s",
		 why.msg);
	backup_say(&making->options->talk, "%s; reading what is allocated", result->reason);
	return 1;
}

static int try_allocated(struct making *making, struct cairn_err *err)
{
	struct cairn_err why = {0};
	int rc;

	if (making->options->best > BACKUP_ALLOCATED || !making->source->ops->allocated)
		return 1;
	rc = create_ask(making, false, &why);
	if (!rc) {
		making->result->mode = BACKUP_ALLOCATED;
		return 0;
	}
	if (create_fatal(rc)) {
		*err = why;
		return rc;
	}
	snprintf(making->result->reason, sizeof(making->result->reason),
		 "the allocated blocks are unknown: %.160s", why.msg);
	backup_say(&making->options->talk, "%s; reading everything", making->result->reason);
	return 1;
}

static int create_mark_all(struct making *making, struct cairn_err *err)
{
	int rc = backup_changed_bitmap_new(making->source->size, &making->marks, err);

	if (rc)
		return rc;
	backup_changed_bitmap_add(making->marks,
				  &(struct block_extent){.length = making->source->size});
	making->result->mode = BACKUP_FULL;
	return 0;
}

static int create_choose(struct making *making, struct cairn_err *err)
{
	int rc = try_changed(making, err);

	if (rc > 0)
		rc = try_allocated(making, err);
	if (rc > 0)
		rc = create_mark_all(making, err);
	return rc;
}

static enum plan_mode plan_mode(const struct making *making)
{
	return making->result->mode == BACKUP_CHANGED ? PLAN_CHANGED : PLAN_ALLOCATED;
}

static uint64_t create_data_bytes(const struct making *making)
{
	const struct parent *parent = &making->parent;
	uint64_t bytes = parent->data_bytes;

	if (!parent->found || making->result->mode != BACKUP_CHANGED)
		return making->marks->bytes;
	for (size_t i = 0; i < parent->map.n; i++)
		if (parent->map.at[i].kind != CHUNK_ZERO)
			bytes += parent->map.at[i].length;
	return bytes;
}

/* The length of a segment; 0 for an image in one file. A segmented image stays segmented. */
static uint64_t choose_layout(const struct making *making)
{
	const struct backup_create_options *options = making->options;

	if (options->fixed || making->source->size == 0)
		return 0;
	if (making->parent.segmented)
		return making->parent.segments.segment;
	if (options->segment)
		return options->segment;
	return create_data_bytes(making) > PLAN_FILE_DATA ? SEGMENT_BYTES : 0;
}

static int make_plan(struct making *making, struct cairn_err *err)
{
	struct plan_spec spec = {
		.mode = plan_mode(making),
		.parent = making->parent.found ? &making->parent.map : NULL,
		.marks = making->marks,
		.budget = making->options->budget,
		.fixed = making->options->fixed,
		.hand = making->parent.hand,
	};
	int rc = backup_plan_make(&spec, &making->plan, err);

	if (rc)
		return rc;
	making->result->bytes_changed = making->marks->bytes;
	backup_changed_bitmap_freep(&making->marks);
	making->marks = NULL;
	backup_chunk_map_done(&making->parent.map);
	return 0;
}

/* Keeps what was sent, so that the next attempt need not send it again. */
static void keep_sent(struct making *making, int rc)
{
	struct cairn_err err = {0};

	if (rc == CAIRN_CANCELLED && repo_flush(making->repo, &err) == 0)
		backup_say(&making->options->talk, "what was sent is kept for the next attempt");
}

/* Adopts packs that an interrupted backup sent, if the search is worthwhile. */
static int create_adopt(struct making *making, uint64_t bytes, struct cairn_err *err)
{
	uint64_t *adopted = &making->result->packs_adopted;
	int rc = 0;

	if (bytes >= ADOPT_BYTES)
		rc = repo_adopt_packs(making->repo, adopted, NULL, err);
	if (!rc && *adopted)
		backup_say(&making->options->talk,
			   "going on with what an interrupted backup sent: %llu packs",
			   (unsigned long long)*adopted);
	return rc;
}

static void count_read(struct making *making, const struct reading_result *got)
{
	making->result->bytes_read = got->bytes_read;
	making->result->bytes_new = got->bytes_new;
	making->result->chunks_new = got->chunks_new;
}

static int read_file(struct making *making, struct cairn_err *err)
{
	struct reading_result got = {0};
	int rc = make_plan(making, err);

	if (!rc)
		rc = create_adopt(making, making->plan.read_bytes, err);
	if (!rc)
		rc = backup_read_chunks(making->repo, making->source, &making->plan.map,
					making->options->threads, &making->options->progress, &got,
					err);
	if (rc)
		return rc;
	count_read(making, &got);
	making->result->chunks = making->plan.chunks;
	making->result->bytes_merged = making->plan.merged_bytes;
	return 0;
}

static int read_segments(struct making *making, struct cairn_err *err)
{
	struct segmented_result *done = &making->segmented;
	uint64_t base = backup_plan_segment_base(create_data_bytes(making));
	struct segmented_spec spec = {
		.source = making->source,
		.zeros = making->zeros,
		.parent = &making->parent,
		.marks = making->marks,
		.mode = plan_mode(making),
		.segment = making->segment,
		.base = base < making->segment ? base : making->segment,
		.threads = making->options->threads,
		.progress = &making->options->progress,
	};
	int rc = create_adopt(making, making->marks->bytes, err);

	if (!rc)
		rc = backup_segmented_run(making->repo, &spec, done, err);
	if (rc)
		return rc;
	count_read(making, &done->got);
	making->result->bytes_changed = making->marks->bytes;
	making->result->chunks = done->chunks;
	making->result->bytes_merged = done->tally.merged_bytes;
	making->plan.base = spec.base;
	making->plan.leaf = CHUNK_DATA_MIN;
	making->plan.hand = done->hand;
	return 0;
}

/* A list of the parent that was not read before is damaged: repeat the planning without the
 * parent. */
static int create_read_again(struct making *making, struct cairn_err *err)
{
	int rc;

	backup_say(&making->options->talk, "the backup before cannot be built upon: %s", err->msg);
	*err = (struct cairn_err){0};
	backup_parent_done(&making->parent);
	backup_changed_bitmap_freep(&making->marks);
	making->marks = NULL;
	making->result->has_parent = false;
	rc = repo_drop_doubted(making->repo, err);
	if (!rc)
		rc = create_choose(making, err);
	return rc ? rc : read_segments(making, err);
}

static int create_read_all(struct making *making, struct cairn_err *err)
{
	struct cairn_err why = {0};
	int rc;

	making->segment = choose_layout(making);
	rc = making->segment ? read_segments(making, &why) : read_file(making, &why);
	/* Blobs hidden by a damaged cache of the index may exist after all. */
	if ((rc == CAIRN_DATA_LOSS || rc == CAIRN_NOT_FOUND) && making->segment &&
	    repo_cache_mend(making->repo, NULL) > 0)
		rc = read_segments(making, &why);
	if ((rc == CAIRN_DATA_LOSS || rc == CAIRN_NOT_FOUND) && making->parent.segmented)
		rc = create_read_again(making, &why);
	if (rc) {
		keep_sent(making, rc);
		if (err)
			*err = why;
	}
	return rc;
}

static int create_save(struct making *making, struct cairn_err *err)
{
	struct save_spec spec = {
		.source = making->source,
		.options = making->options,
		.plan = &making->plan,
		.segmented = making->segment ? &making->segmented : NULL,
		.segment = making->segment,
		.zeros = making->zeros,
		.parent_snapshot_id = making->parent.snapshot_id,
		.parent_tree = making->parent.found ? &making->parent.tree : NULL,
		.begun_ns = making->begun_ns,
		.stored_before = making->stored_before,
	};
	int rc = backup_write_snapshot(making->repo, &spec, making->result, err);

	if (rc)
		return rc;
	if (making->segment && making->segmented.layout)
		backup_layout_save(making->repo, &making->segmented.top,
				   making->parent.segmented ? &making->parent.segments.top : NULL,
				   making->segmented.layout);
	repo_cache_save(making->repo);
	return 0;
}

/* Loads the index, without entries of packs that are missing in the store. */
static int create_load_index(struct making *making, struct cairn_err *err)
{
	uint64_t gone = 0;
	int rc = repo_load_index_cached(making->repo, err);

	if (!rc)
		rc = repo_confirm_packs(making->repo, &gone, err);
	if (rc || !gone)
		return rc;
	making->result->packs_gone = gone;
	backup_say(
		&making->options->talk,
		"%" PRIu64 " %s of the repository %s missing or cut short: what this backup needs "
		"of %s is stored again; 'cairn backup verify --repair' reports what else is lost",
		gone, gone == 1 ? "pack" : "packs", gone == 1 ? "is" : "are",
		gone == 1 ? "it" : "them");
	return 0;
}

static int create_find_parent(struct making *making, struct cairn_err *err)
{
	const struct backup_create_options *options = making->options;
	int rc = backup_parent_find(making->repo, making->source, options->parent, making->zeros,
				    &options->talk, &making->parent, err);

	if (!rc)
		rc = repo_cache_mend(making->repo, err);
	if (rc > 0) {
		backup_parent_done(&making->parent);
		rc = backup_parent_find(making->repo, making->source, options->parent,
					making->zeros, &options->talk, &making->parent, err);
	}
	/* An image of equal chunks is one file: the lists of segments do not show what to
	 * keep. */
	if (!rc && options->fixed && making->parent.segmented)
		backup_parent_done(&making->parent);
	return rc;
}

static int create_make(struct making *making, struct cairn_err *err)
{
	struct backup_result *result = making->result;
	struct repo_stats stats;
	int rc = backup_zeros_new(&making->zeros, err);

	if (!rc)
		rc = create_load_index(making, err);
	if (rc)
		return rc;
	repo_get_stats(making->repo, &stats);
	making->stored_before = stats.bytes_stored;
	rc = create_find_parent(making, err);
	if (!rc)
		rc = create_choose(making, err);
	if (!rc)
		rc = repo_cache_check(making->repo, making->marks->bytes == 0, err);
	if (rc)
		return rc;
	result->size = making->source->size;
	result->has_parent = making->parent.found;
	if (result->has_parent) {
		result->parent = making->parent.backup;
		snprintf(result->parent_snapshot, sizeof(result->parent_snapshot), "%s",
			 making->parent.snapshot_name);
	}
	repo_expect(making->repo, making->marks->bytes);
	rc = create_read_all(making, err);
	if (!rc && making->source->ops->settled)
		rc = making->source->ops->settled(making->source, err);
	return rc ? rc : create_save(making, err);
}

static int create_check_options(const struct backup_create_options *options, struct cairn_err *err)
{
	uint64_t segment = options->segment;

	if (segment &&
	    (segment < SEGMENT_MIN || segment > SEGMENT_BYTES || (segment & (segment - 1)) != 0))
		return cairn_err_set(err, CAIRN_INVALID,
				     "a segment is a power of two from %u to %u bytes long",
				     SEGMENT_MIN, SEGMENT_BYTES);
	return 0;
}

int backup_create(struct repo *repo, struct backup_source *source,
		  const struct backup_create_options *options, struct backup_result *ret,
		  struct cairn_err *err)
{
	struct backup_result result = {0};
	struct cairn_err why = {0};
	cairn_cleanup(making_done) struct making making = {
		.repo = repo,
		.source = source,
		.options = options,
		.begun_ns = cairn_now_ns(),
		.result = &result,
	};
	int rc = create_check_options(options, &why);

	if (!rc)
		rc = create_make(&making, &why);

	if (rc) {
		if (err)
			*err = why;
		return rc;
	}
	*ret = result;
	return 0;
}
