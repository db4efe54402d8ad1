/* SPDX-License-Identifier: Apache-2.0 */

#include "backup/create.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "backup/marks.h"
#include "backup/plan.h"
#include "backup/reading.h"
#include "backup/save.h"
#include "backup/source.h"
#include "backup/zeros.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/err.h"
#include "repo/blob.h"
#include "repo/presence.h"
#include "repo/repo.h"

/* From so many bytes on it is worth looking for what an interrupted backup left. */
#define ADOPT_BYTES (32ULL << 20)

struct making {
	struct repo *repo;
	struct backup_source *source;
	const struct backup_create_options *options;
	struct zeros *zeros;
	struct parent parent;
	struct marks *marks;
	struct plan plan;
	uint64_t begun_ns;
	uint64_t stored_before;
	struct backup_result *result;
};

static void making_done(struct making *making)
{
	zeros_freep(&making->zeros);
	parent_done(&making->parent);
	marks_freep(&making->marks);
	plan_done(&making->plan);
}

static int mark(void *arg, const struct block_extent *extent, struct cairn_err *err)
{
	(void)err;
	marks_add(arg, extent);
	return 0;
}

/* Asks the source; on failure there are no marks, and *ret_why says why. */
static int ask(struct making *making, bool changed, struct cairn_err *why)
{
	struct backup_source *source = making->source;
	cairn_cleanup(marks_freep) struct marks *marks = NULL;
	struct block_sink sink = {.emit = mark};
	int rc = marks_new(source->size, &marks, why);

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

static bool fatal(int rc)
{
	return rc == CAIRN_CANCELLED || rc == CAIRN_NO_SPACE;
}

/* What changed against the parent; 1 when that cannot be had. */
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
		snprintf(result->reason, sizeof(result->reason), "nothing tells what changed");
		return 1;
	}
	if (!parent->ancestor) {
		snprintf(result->reason, sizeof(result->reason),
			 "what changed since the last backup is not known any more");
		backup_say(&making->options->talk, "%s: reading what is allocated", result->reason);
		return 1;
	}
	rc = ask(making, true, &why);
	if (!rc) {
		marks_fill_from(making->marks, parent->map.size);
		result->mode = BACKUP_CHANGED;
		snprintf(result->reason, sizeof(result->reason), "what changed is known");
		return 0;
	}
	if (fatal(rc)) {
		*err = why;
		return rc;
	}
	snprintf(result->reason, sizeof(result->reason), "what changed cannot be told: %.160s",
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
	rc = ask(making, false, &why);
	if (!rc) {
		making->result->mode = BACKUP_ALLOCATED;
		return 0;
	}
	if (fatal(rc)) {
		*err = why;
		return rc;
	}
	snprintf(making->result->reason, sizeof(making->result->reason),
		 "what is allocated cannot be told: %.160s", why.msg);
	backup_say(&making->options->talk, "%s; reading everything", making->result->reason);
	return 1;
}

static int mark_all(struct making *making, struct cairn_err *err)
{
	int rc = marks_new(making->source->size, &making->marks, err);

	if (rc)
		return rc;
	marks_add(making->marks, &(struct block_extent){.length = making->source->size});
	making->result->mode = BACKUP_FULL;
	return 0;
}

static int choose(struct making *making, struct cairn_err *err)
{
	int rc = try_changed(making, err);

	if (rc > 0)
		rc = try_allocated(making, err);
	if (rc > 0)
		rc = mark_all(making, err);
	return rc;
}

static int make_plan(struct making *making, struct cairn_err *err)
{
	struct plan_spec spec = {
		.mode = making->result->mode == BACKUP_CHANGED ? PLAN_CHANGED : PLAN_ALLOCATED,
		.parent = making->parent.found ? &making->parent.map : NULL,
		.marks = making->marks,
		.budget = making->options->budget,
		.fixed = making->options->fixed,
		.hand = making->parent.hand,
	};
	int rc = plan_make(&spec, &making->plan, err);

	if (rc)
		return rc;
	making->result->bytes_changed = making->marks->bytes;
	marks_freep(&making->marks);
	making->marks = NULL;
	chunk_map_done(&making->parent.map);
	return 0;
}

/* Keeps what was sent, so that the next attempt need not send it again. */
static void keep_sent(struct making *making, int rc)
{
	struct cairn_err err = {0};

	if (rc == CAIRN_CANCELLED && repo_flush(making->repo, &err) == 0)
		backup_say(&making->options->talk, "what was sent is kept for the next attempt");
}

static int read_all(struct making *making, struct cairn_err *err)
{
	struct reading_result got = {0};
	int rc = 0;

	if (making->plan.read_bytes >= ADOPT_BYTES)
		rc = repo_adopt_packs(making->repo, &making->result->packs_adopted, NULL, err);
	if (!rc && making->result->packs_adopted)
		backup_say(&making->options->talk,
			   "going on with what an interrupted backup sent: %llu packs",
			   (unsigned long long)making->result->packs_adopted);
	if (!rc)
		rc = reading_run(making->repo, making->source, &making->plan.map,
				 making->options->threads, &making->options->progress, &got, err);
	if (rc) {
		keep_sent(making, rc);
		return rc;
	}
	making->result->bytes_read = got.bytes_read;
	making->result->bytes_new = got.bytes_new;
	making->result->chunks_new = got.chunks_new;
	making->result->chunks = making->plan.chunks;
	making->result->bytes_merged = making->plan.merged_bytes;
	return 0;
}

static int save(struct making *making, struct cairn_err *err)
{
	struct save_spec spec = {
		.source = making->source,
		.options = making->options,
		.plan = &making->plan,
		.zeros = making->zeros,
		.parent_snapshot_id = making->parent.snapshot_id,
		.begun_ns = making->begun_ns,
		.stored_before = making->stored_before,
	};

	return save_backup(making->repo, &spec, making->result, err);
}

/* The index, less what it says of packs that are not there. */
static int load_index(struct making *making, struct cairn_err *err)
{
	uint64_t gone = 0;
	int rc = repo_load_index(making->repo, err);

	if (!rc)
		rc = repo_confirm_packs(making->repo, &gone, err);
	if (rc || !gone)
		return rc;
	making->result->packs_gone = gone;
	backup_say(&making->options->talk,
		   "%" PRIu64
		   " %s of the repository %s missing or cut short: what this backup needs "
		   "of %s is stored again; 'cairn backup verify --repair' tells what else is lost",
		   gone, gone == 1 ? "pack" : "packs", gone == 1 ? "is" : "are",
		   gone == 1 ? "it" : "them");
	return 0;
}

static int make(struct making *making, struct cairn_err *err)
{
	struct backup_result *result = making->result;
	struct repo_stats stats;
	int rc = zeros_new(&making->zeros, err);

	if (!rc)
		rc = load_index(making, err);
	if (rc)
		return rc;
	repo_get_stats(making->repo, &stats);
	making->stored_before = stats.bytes_stored;
	rc = parent_find(making->repo, making->source, making->options->parent, making->zeros,
			 &making->options->talk, &making->parent, err);
	if (!rc)
		rc = choose(making, err);
	if (rc)
		return rc;
	result->size = making->source->size;
	result->has_parent = making->parent.found;
	if (result->has_parent) {
		result->parent = making->parent.backup;
		snprintf(result->parent_snapshot, sizeof(result->parent_snapshot), "%s",
			 making->parent.snapshot_name);
	}
	rc = make_plan(making, err);
	if (!rc)
		rc = read_all(making, err);
	if (!rc && making->source->ops->settled)
		rc = making->source->ops->settled(making->source, err);
	return rc ? rc : save(making, err);
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
	int rc = make(&making, &why);

	if (rc) {
		if (err)
			*err = why;
		return rc;
	}
	*ret = result;
	return 0;
}
