/* SPDX-License-Identifier: Apache-2.0 */

#include "repo/prune.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/mem.h"
#include "base/parallel.h"
#include "repo/index_write.h"
#include "repo/names.h"
#include "repo/packer.h"
#include "repo/prune_copies.h"
#include "repo/prune_plan.h"
#include "repo/prune_thin.h"
#include "repo/repack.h"
#include "repo/repo_impl.h"
#include "repo/repo_snapshot.h"
#include "repo/walk.h"

#define REPACKERS_MAX 3                   /* each holds a pack */
#define ROOM_MIN      ((uint64_t)1 << 20) /* for locks and rounding */

struct pruning {
	struct repo *repo;
	const struct repo_prune_options *options;
	struct repo_names packs; /* in the store */
	struct repo_names old;   /* index files */
	struct repo_walk walk;
	struct repo_prune_plan plan;
	struct repo_prune_stats stats;
	bool short_of_room; /* no space for a second copy of the index */
	atomic_uint_fast64_t repacked;
	pthread_mutex_t mutex; /* held while the caller's function runs */
};

static void prune_progress(struct pruning *pruning, const char *step, uint64_t done, uint64_t total)
{
	if (!pruning->options->progress)
		return;
	pthread_mutex_lock(&pruning->mutex);
	pruning->options->progress(pruning->options->arg, step, done, total);
	pthread_mutex_unlock(&pruning->mutex);
}

/* ---- what is used ----------------------------------------------------------- */

static int prune_refuse(void *arg, int code, const char *text, struct cairn_err *err)
{
	(void)arg;
	return cairn_err_set(err, code, "%s; nothing was deleted", text);
}

static int prune_mark_all(struct pruning *pruning, const struct repo_snapshot_list *list,
			  struct cairn_err *err)
{
	int rc;

	if (list->damaged)
		return cairn_err_set(err, CAIRN_DATA_LOSS, "%s; nothing was deleted",
				     list->damaged_text);
	/* We hold the exclusive lock, so the reason why the snapshot disappeared
	 * must be found before its data is deleted. */
	if (list->gone)
		return cairn_err_set(
			err, CAIRN_ABORTED,
			"a snapshot was listed, but is not there; nothing was deleted");
	rc = repo_walk_init(&pruning->walk, pruning->repo, err);
	pruning->walk.problem = prune_refuse;
	for (size_t i = 0; rc == 0 && i < list->n; i++) {
		prune_progress(pruning, "snapshots", i, list->n);
		rc = repo_walk_tree(&pruning->walk, &list->items[i]->tree, err);
	}
	return rc;
}

/* A pack with used blobs must exist. A missing one without used blobs is dropped from the index. */
static int prune_check_packs(struct pruning *pruning, struct cairn_err *err)
{
	for (uint32_t p = 0; p < pruning->plan.n; p++) {
		char hex[REPO_ID_TEXT_MAX];
		struct repo_id id;

		repo_index_pack_at(pruning->repo->index, p, &id);
		if (pruning->plan.packs[p].blobs_used > 0 && !repo_names_find(&pruning->packs, &id))
			return cairn_err_set(err, CAIRN_DATA_LOSS,
					     "pack %s is missing; nothing was deleted",
					     repo_id_format(&id, hex));
	}
	for (size_t i = 0; i < pruning->packs.n; i++) {
		if (repo_index_has_pack(pruning->repo->index, &pruning->packs.items[i].name))
			continue;
		pruning->stats.packs_unknown++;
		pruning->stats.bytes_freed += pruning->packs.items[i].size;
	}
	return 0;
}

/* The space that rewritten packs may take, after that for the new index. */
static uint64_t room_to_repack(struct pruning *pruning)
{
	uint64_t space = repo_store_space(pruning->repo->store), index = ROOM_MIN;

	for (size_t i = 0; i < pruning->old.n; i++)
		index += 2 * pruning->old.items[i].size;
	pruning->short_of_room = space < index;
	return space < index ? 0 : space - index;
}

static int nothing_fits(const struct pruning *pruning, struct cairn_err *err)
{
	const struct repo_prune_stats *stats = &pruning->stats;

	if (stats->packs_put_off == 0 ||
	    stats->packs_deleted + stats->packs_repacked + stats->packs_unknown > 0)
		return 0;
	return cairn_err_set(err, CAIRN_NO_SPACE,
			     "no pack is without use, and there is no room to write %" PRIu64
			     " packs anew; nothing was deleted",
			     stats->packs_put_off);
}

static int prune_survey(struct pruning *pruning, struct cairn_err *err)
{
	cairn_cleanup(repo_snapshot_list_done) struct repo_snapshot_list list = {0};
	struct repo *repo = pruning->repo;
	/* During a dry run others may add snapshots. The index is loaded after the
	 * snapshots were listed, so it contains everything that these need. */
	int rc = repo_snapshot_list(repo, &list, err);

	if (rc == 0)
		rc = repo_load_index(repo, err);
	if (rc == 0)
		rc = repo_names_list(repo->store, REPO_FILE_INDEX, &pruning->old, err);
	if (rc == 0)
		rc = repo_names_list(repo->store, REPO_FILE_PACK, &pruning->packs, err);
	if (rc == 0)
		rc = prune_mark_all(pruning, &list, err);
	if (rc == 0)
		rc = repo_prune_choose_copies(repo, &pruning->walk, err);
	if (rc == 0)
		rc = repo_prune_plan(repo->index, &pruning->walk, repo->pack_size,
				     room_to_repack(pruning), pruning->options, &pruning->plan,
				     &pruning->stats, err);
	if (rc == 0)
		rc = prune_check_packs(pruning, err);
	return rc < 0 ? rc : nothing_fits(pruning, err);
}

/* ---- new packs --------------------------------------------------------------- */

static int repack_one(void *arg, size_t i, struct cairn_err *err)
{
	struct pruning *pruning = arg;
	const struct repo_index_order *order = &pruning->plan.order;
	cairn_auto_free struct repo_pack_blob *blobs = NULL;
	uint32_t number;
	size_t n = 0;
	int rc = repo_go_on(pruning->repo, err);

	if (rc < 0 || pruning->plan.packs[i].fate != REPO_FATE_REPACK)
		return rc;
	blobs = cairn_calloc(order->starts[i + 1] - order->starts[i], sizeof(*blobs));
	if (!blobs)
		return cairn_err_nomem(err, "the blobs of a pack");
	for (uint32_t k = order->starts[i]; k < order->starts[i + 1]; k++)
		if (repo_walk_marked(&pruning->walk, order->order[k]))
			repo_index_at(pruning->repo->index, order->order[k], &blobs[n++], &number);
	prune_progress(pruning, "repack", pruning->repacked++, pruning->stats.packs_repacked);
	return repo_repack(pruning->repo, (uint32_t)i, blobs, n, err);
}

/* ---- new index --------------------------------------------------------------- */

static bool prune_is_kept(void *arg, uint32_t pack)
{
	const struct pruning *pruning = arg;

	return pruning->plan.packs[pack].fate == REPO_FATE_KEEP;
}

/* Writes the packs that are kept into new index files; rewritten ones are in
 * the files of the flush. */
static int prune_write_indexes(struct pruning *pruning, struct cairn_err *err)
{
	return repo_index_write(pruning->repo, &pruning->plan.order, prune_is_kept, pruning, false,
				err);
}

/* ---- deleting ---------------------------------------------------------------- */

static int remove_index(void *arg, size_t i, struct cairn_err *err)
{
	struct pruning *pruning = arg;

	return repo_store_remove(pruning->repo->store, REPO_FILE_INDEX, &pruning->old.items[i].name,
				 err);
}

/* Goes by the listing, not by the index, so that packs in no index are deleted too. */
static int remove_pack(void *arg, size_t i, struct cairn_err *err)
{
	struct pruning *pruning = arg;
	const struct repo_id *name = &pruning->packs.items[i].name;
	int rc = repo_go_on(pruning->repo, err);
	uint32_t p;

	if (rc < 0)
		return rc;
	if (repo_index_has_pack(pruning->repo->index, name)) {
		rc = repo_index_pack(pruning->repo->index, name, REPO_PACK_OPEN, &p, NULL, err);
		if (rc < 0)
			return rc;
		if (p >= pruning->plan.n || pruning->plan.packs[p].fate == REPO_FATE_KEEP)
			return 0;
	}
	prune_progress(pruning, "delete", i, pruning->packs.n);
	return repo_store_remove(pruning->repo->store, REPO_FILE_PACK, name, err);
}

/* The exclusive lock guarantees that no process is writing these files. */
static int prune_sweep(struct pruning *pruning, struct cairn_err *err)
{
	struct repo_swept swept;
	int rc = repo_store_sweep(pruning->repo->store, &swept, err);

	pruning->stats.files_half = swept.files;
	pruning->stats.bytes_freed += swept.bytes;
	return rc;
}

/* Repacks, then replaces the old index by the new one. */
static int replace_indexes(struct pruning *pruning, struct cairn_err *err)
{
	struct repo *repo = pruning->repo;
	unsigned threads = repo->store->connections;
	int rc = cairn_parallel_each(pruning->plan.n,
				     threads < REPACKERS_MAX ? threads : REPACKERS_MAX, repack_one,
				     pruning, err);

	if (rc == 0)
		rc = repo_packer_flush(repo->packer, err);
	if (rc == 0)
		rc = prune_write_indexes(pruning, err);
	if (rc == 0)
		rc = repo_may_delete(repo, err);
	return rc < 0 ? rc
		      : cairn_parallel_each(pruning->old.n, threads, remove_index, pruning, err);
}

/* ---- all of it --------------------------------------------------------------- */

static int carry_out(struct pruning *pruning, struct cairn_err *err)
{
	struct repo *repo = pruning->repo;
	unsigned threads = repo->store->connections;
	bool change = pruning->stats.packs_deleted > 0 || pruning->stats.packs_repacked > 0;
	int rc = 0;

	if (change)
		rc = pruning->short_of_room
			     ? repo_prune_thin(repo, &pruning->plan, &pruning->old, err)
			     : replace_indexes(pruning, err);
	if (rc == 0)
		rc = repo_may_delete(repo, err);
	if (rc == 0 && (change || pruning->stats.packs_unknown > 0))
		rc = cairn_parallel_each(pruning->packs.n, threads, remove_pack, pruning, err);
	return rc < 0 ? rc : prune_sweep(pruning, err);
}

/* The index in memory no longer describes the repository. */
static int renew_index(struct repo *repo, struct cairn_err *err)
{
	struct repo_index *index = repo_index_new();

	if (!index)
		return cairn_err_nomem(err, "an index");
	repo_index_free(repo->index);
	repo->index = index;
	repo->index_loaded = false;
	return repo_load_index(repo, err);
}

int repo_prune(struct repo *repo, const struct repo_prune_options *options,
	       struct repo_prune_stats *ret, struct cairn_err *err)
{
	struct pruning pruning = {
		.repo = repo, .options = options, .mutex = PTHREAD_MUTEX_INITIALIZER};
	int rc = options->dry_run ? 0 : repo_may_delete(repo, err);

	/* Blobs that this process stored before must be in an index first. */
	if (rc == 0 && repo->index_loaded)
		rc = repo_packer_flush(repo->packer, err);
	if (rc == 0)
		rc = prune_survey(&pruning, err);
	if (rc == 0 && !options->dry_run) {
		rc = carry_out(&pruning, err);
		if (rc == 0)
			rc = renew_index(repo, err);
	}
	repo_walk_done(&pruning.walk);
	repo_prune_plan_done(&pruning.plan);
	repo_names_done(&pruning.old);
	repo_names_done(&pruning.packs);
	if (rc == 0)
		*ret = pruning.stats;
	return rc;
}
