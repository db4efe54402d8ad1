/* SPDX-License-Identifier: Apache-2.0 */

/* Prunes until nothing is left to do, or nothing more fits. */

#include "repo/prune.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/num.h"
#include "repo/names.h"
#include "repo/packer.h"
#include "repo/prune_pass.h"
#include "repo/repo_impl.h"
#include "repo/repo_store.h"

#define PASSES_MAX 100U /* each makes room for the next */
#define FAILURES_MAX \
	20U /* of passes for which the store had no space; each halves what is written */

/* The exclusive lock guarantees that no process is writing these files. A writer that lost its lock
 * cannot publish a swept file, so its snapshot is in the next listing or never. */
static int prune_sweep(struct repo *repo, struct repo_prune_stats *total, struct cairn_err *err)
{
	struct repo_swept swept;
	int rc = repo_store_sweep(repo->store, &swept, err);

	total->files_half = swept.files;
	total->bytes_freed += swept.bytes;
	return rc;
}

static uint64_t prune_done(const struct repo_prune_stats *stats)
{
	return stats->packs_deleted + stats->packs_repacked + stats->packs_unknown;
}

/* What is there now is that of the last pass; what was deleted is the sum. */
static void prune_sum_up(struct repo_prune_stats *total, const struct repo_prune_stats *pass)
{
	struct repo_prune_stats before = *total;

	*total = *pass;
	total->packs_deleted += before.packs_deleted;
	total->packs_repacked += before.packs_repacked;
	total->packs_unknown += before.packs_unknown;
	total->bytes_unknown += before.bytes_unknown;
	total->snapshots_late += before.snapshots_late;
	total->bytes_freed += before.bytes_freed;
	total->bytes_repacked += before.bytes_repacked;
	total->files_half = before.files_half;
}

static int nothing_fits(const struct repo_prune_stats *stats, struct cairn_err *err)
{
	char need[CAIRN_SIZE_TEXT_MAX];

	if (stats->packs_put_off == 0 || prune_done(stats) + stats->files_half > 0)
		return 0;
	return cairn_err_set(
		err, CAIRN_NO_SPACE,
		"no pack is without use, and there is no room to write %" PRIu64
		" packs anew; nothing was deleted: %s must be free for one of them, or "
		"more backups be forgotten",
		stats->packs_put_off,
		stats->room_needed ? cairn_format_size(stats->room_needed, need) : "more space");
}

/* The store had less space than it said, or cannot say: what was rewritten so far is deleted by the
 * next pass, which writes no packs. */
static int prune_start_over(struct repo *repo, struct cairn_err *err)
{
	repo_packer_free(repo->packer);
	repo->packer = NULL;
	repo->failed = false;
	return repo_packer_new(repo, &repo->packer, err);
}

/* Packs that the pass before wrote and could not use are not garbage that this one found. */
static void prune_disown(struct repo_prune_stats *stats, const struct repo_prune_stats *failed)
{
	if (stats->packs_unknown > failed->packs_unknown)
		stats->packs_unknown = failed->packs_unknown;
	if (stats->bytes_unknown > failed->bytes_unknown) {
		stats->bytes_freed -= stats->bytes_unknown - failed->bytes_unknown;
		stats->bytes_unknown = failed->bytes_unknown;
	}
}

/* What is left to try: how much the next pass may write, and what it follows. */
struct prune_course {
	uint64_t room;    /* of this pass; 0: it only deletes */
	uint64_t smaller; /* of the pass after one that only deletes */
	unsigned failures;
	struct repo_prune_stats failed; /* of the last failure */
};

static void prune_try_less(struct prune_course *course, const struct repo_prune_stats *failed)
{
	course->failures++;
	course->failed = *failed;
	course->smaller = course->failures < FAILURES_MAX ? failed->bytes_repacked / 2 : 0;
	course->room = 0;
}

/* True if another pass may get further: this one made room, or the next is to write less. */
static bool prune_goes_on(struct prune_course *course, struct repo *repo,
			  const struct repo_prune_stats *stats)
{
	bool again = stats->packs_put_off > 0 && (prune_done(stats) > 0 || course->smaller > 0 ||
						  repo_store_reserve_release(repo->store));

	if (course->room == 0)
		course->room = course->smaller;
	else if (course->room <= UINT64_MAX / 2)
		course->room *= 2; /* what was written freed about as much */
	course->smaller = 0;
	return again;
}

/* After a failed pass, what the others deleted may be what it had written: then what was there before
 * is compared with what is there now. `freed` are bytes that no pack took. */
static int prune_recount(struct repo *repo, const struct repo_names *before, uint64_t freed,
			 struct repo_prune_stats *total, struct cairn_err *err)
{
	cairn_cleanup(repo_names_done) struct repo_names now = {0};
	uint64_t gone = 0, gone_bytes = 0, new_bytes = 0, others;
	int rc = repo_names_list(repo->store, REPO_FILE_PACK, &now, err);

	if (rc < 0)
		return rc;
	for (size_t i = 0; i < before->n; i++)
		if (!repo_names_find(&now, &before->items[i].name)) {
			gone++;
			gone_bytes += before->items[i].size;
		}
	for (size_t i = 0; i < now.n; i++)
		if (!repo_names_find(before, &now.items[i].name))
			new_bytes += now.items[i].size;
	others = total->packs_repacked + total->packs_unknown;
	total->packs_deleted = gone > others ? gone - others : 0;
	total->bytes_freed = freed + (gone_bytes > new_bytes ? gone_bytes - new_bytes : 0);
	return 0;
}

/* Where space is short, a pass makes room for the next one. */
static int prune_passes(struct repo *repo, const struct repo_prune_options *options,
			struct repo_prune_stats *total, struct cairn_err *err)
{
	cairn_cleanup(repo_names_done) struct repo_names before = {0};
	struct prune_course course = {.room = UINT64_MAX};
	uint64_t freed = total->bytes_freed;
	bool again = true;
	int rc = 0;

	for (unsigned i = 0; rc == 0 && again && i < PASSES_MAX; i++) {
		const struct repo_prune_how how = {.is_first = i == 0,
						   .room = course.room,
						   .ret_packs = i == 0 ? &before : NULL};
		struct repo_prune_stats stats = {0};

		rc = repo_prune_pass(repo, options, &how, &stats, err);
		if (rc == CAIRN_NO_SPACE && course.room > 0 && !options->dry_run) {
			prune_try_less(&course, &stats);
			rc = prune_start_over(repo, err);
			continue;
		}
		if (rc < 0)
			break;
		if (course.room == 0)
			prune_disown(&stats, &course.failed);
		prune_sum_up(total, &stats);
		again = !options->dry_run && prune_goes_on(&course, repo, &stats);
	}
	return rc == 0 && course.failures > 0 ? prune_recount(repo, &before, freed, total, err)
					      : rc;
}

int repo_prune(struct repo *repo, const struct repo_prune_options *options,
	       struct repo_prune_stats *ret, struct cairn_err *err)
{
	struct repo_prune_stats total = {0};
	int rc = options->dry_run ? 0 : repo_may_delete(repo, err);

	/* Blobs that this process stored before must be in an index first. */
	if (rc == 0 && repo->index_loaded)
		rc = repo_packer_flush(repo->packer, err);
	if (rc == 0 && !options->dry_run)
		rc = prune_sweep(repo, &total, err);
	if (rc == 0)
		rc = prune_passes(repo, options, &total, err);
	if (rc == 0)
		rc = nothing_fits(&total, err);
	if (rc == 0)
		*ret = total;
	return rc;
}
