/* SPDX-License-Identifier: Apache-2.0 */

#include "repo/prune_pass.h"

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
#include "repo/prune_late.h"
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
	struct repo_names known; /* snapshots */
	struct repo_walk walk;
	struct repo_prune_plan plan;
	struct repo_prune_stats stats;
	const struct repo_prune_how *how;
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

/* The snapshot whose blobs are marked. */
struct marking {
	const struct repo_prune_options *options;
	const struct repo_snapshot *snapshot;
};

static bool prune_may_lack(void *arg, const char *name)
{
	const struct marking *marking = arg;
	const struct repo_prune_options *options = marking->options;

	return options->may_lack && options->may_lack(options->arg, marking->snapshot, name);
}

static int prune_refuse(void *arg, int code, const char *text, struct cairn_err *err)
{
	const struct marking *marking = arg;
	char hex[REPO_ID_TEXT_MAX];

	repo_id_format(&marking->snapshot->id, hex);
	return cairn_err_set(
		err, code,
		"snapshot %.8s: %s; nothing was deleted: 'cairn backup verify' names all "
		"that is lost, 'cairn backup forget %.8s' gives this one up",
		hex, text, hex);
}

static int prune_mark(struct pruning *pruning, const struct repo_snapshot_list *list,
		      struct cairn_err *err)
{
	struct marking marking = {.options = pruning->options};
	int rc = repo_walk_init(&pruning->walk, pruning->repo, err);

	pruning->walk.problem = prune_refuse;
	pruning->walk.may_lack = prune_may_lack;
	pruning->walk.arg = &marking;
	for (size_t i = 0; rc == 0 && i < list->n; i++) {
		prune_progress(pruning, "snapshots", i, list->n);
		marking.snapshot = list->items[i];
		rc = repo_walk_tree(&pruning->walk, &list->items[i]->tree, err);
	}
	pruning->walk.arg = NULL;
	pruning->stats.files_lacking = pruning->walk.lacking;
	/* Packs in no index that later passes find were written by the ones before. */
	if (rc == 0 && pruning->walk.lacking > 0 && pruning->how->is_first)
		rc = repo_prune_refuse_strays(
			pruning->repo, &pruning->packs,
			"something that a backup needs is in no index; nothing was deleted: run "
			"'cairn backup verify --repair' first",
			err);
	return rc;
}

static int prune_mark_all(struct pruning *pruning, const struct repo_snapshot_list *list,
			  struct cairn_err *err)
{

	if (list->damaged)
		return cairn_err_set(err, CAIRN_DATA_LOSS,
				     "%s; nothing was deleted: 'cairn backup forget ID' with this "
				     "name as the id gives it up",
				     list->damaged_text);
	/* We hold the exclusive lock, so the reason why the snapshot disappeared
	 * must be found before its data is deleted. */
	if (list->gone)
		return cairn_err_set(
			err, CAIRN_ABORTED,
			"a snapshot was listed, but is not there; nothing was deleted");
	if (pruning->repo->store->no_snapshots && list->n == 0 && pruning->packs.n > 0)
		return cairn_err_set(
			err, CAIRN_DATA_LOSS,
			"the server has packs, but no directory of snapshots: is all of the "
			"repository there? Nothing was deleted");
	return prune_mark(pruning, list, err);
}

/* A pack with used blobs must exist. A missing one without used blobs is dropped from the index. */
static int prune_check_packs(struct pruning *pruning, struct cairn_err *err)
{
	for (uint32_t p = 0; p < pruning->plan.n; p++) {
		char hex[REPO_ID_TEXT_MAX];
		struct repo_id id;

		repo_index_pack_at(pruning->repo->index, p, &id);
		if (pruning->plan.packs[p].blobs_used > 0 && !repo_names_find(&pruning->packs, &id))
			return cairn_err_set(
				err, CAIRN_DATA_LOSS,
				"pack %s is missing; nothing was deleted: 'cairn backup "
				"verify' names the backups that need it",
				repo_id_format(&id, hex));
	}
	for (size_t i = 0; i < pruning->packs.n; i++) {
		if (repo_index_has_pack(pruning->repo->index, &pruning->packs.items[i].name))
			continue;
		pruning->stats.packs_unknown++;
		pruning->stats.bytes_unknown += pruning->packs.items[i].size;
	}
	return 0;
}

/* The space that the new index takes. */
static uint64_t room_for_index(const struct pruning *pruning)
{
	uint64_t index = ROOM_MIN;

	for (size_t i = 0; i < pruning->old.n; i++)
		index += 2 * pruning->old.items[i].size;
	return index;
}

/* The space that rewritten packs may take, after that for the new index. */
static uint64_t room_to_repack(struct pruning *pruning)
{
	uint64_t space = repo_store_space(pruning->repo->store), index = room_for_index(pruning);

	pruning->short_of_room = pruning->how->room == 0 || space < index;
	if (pruning->short_of_room)
		return 0;
	return space - index < pruning->how->room ? space - index : pruning->how->room;
}

static int prune_survey(struct pruning *pruning, struct cairn_err *err)
{
	cairn_cleanup(repo_snapshot_list_done) struct repo_snapshot_list list = {0};
	struct repo *repo = pruning->repo;
	/* During a dry run others may add snapshots. The index is loaded after the
	 * snapshots were listed, so it contains everything that these need. */
	int rc = repo_snapshot_list(repo, &list, err);

	if (rc == 0)
		rc = repo_prune_names_of(&list, &pruning->known, err);
	/* Listed before they are loaded: a file that is written in between is not deleted unread. */
	if (rc == 0)
		rc = repo_names_list(repo->store, REPO_FILE_INDEX, &pruning->old, err);
	if (rc == 0)
		rc = pruning->how->is_first ? repo_load_index(repo, err)
					    : repo_prune_renew_index(repo, err);
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
	pruning->stats.room_needed =
		pruning->plan.need ? pruning->plan.need + room_for_index(pruning) : 0;
	return rc;
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
	int rc = repo_may_delete_more(pruning->repo, err);

	return rc < 0 ? rc
		      : repo_store_remove(pruning->repo->store, REPO_FILE_INDEX,
					  &pruning->old.items[i].name, err);
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
	rc = repo_may_delete_more(pruning->repo, err);
	return rc < 0 ? rc : repo_store_remove(pruning->repo->store, REPO_FILE_PACK, name, err);
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
		rc = repo_prune_refuse_late(repo, &pruning->known, err);
	if (rc == 0)
		rc = repo_may_delete(repo, err);
	return rc < 0 ? rc
		      : cairn_parallel_each(pruning->old.n, threads, remove_index, pruning, err);
}

/* Without space for a second copy of the index, its files are replaced one by one. */
static int thin_indexes(struct pruning *pruning, struct cairn_err *err)
{
	uint64_t kept = 0;
	int rc = repo_prune_thin(pruning->repo, &pruning->plan, &pruning->old, &kept, err);

	repo_prune_plan_count(&pruning->plan, &pruning->stats);
	pruning->stats.packs_put_off += kept;
	return rc;
}

static int carry_out(struct pruning *pruning, struct cairn_err *err)
{
	struct repo *repo = pruning->repo;
	unsigned threads = repo->store->connections;
	bool change = pruning->stats.packs_deleted > 0 || pruning->stats.packs_repacked > 0;
	int rc = repo_prune_refuse_late(repo, &pruning->known, err);

	if (rc == 0 && change)
		rc = pruning->short_of_room ? thin_indexes(pruning, err)
					    : replace_indexes(pruning, err);
	if (rc == 0)
		rc = repo_may_delete(repo, err);
	if (rc == 0 && (change || pruning->stats.packs_unknown > 0))
		rc = cairn_parallel_each(pruning->packs.n, threads, remove_pack, pruning, err);
	return rc;
}

/* ---- all of it --------------------------------------------------------------- */

int repo_prune_pass(struct repo *repo, const struct repo_prune_options *options,
		    const struct repo_prune_how *how, struct repo_prune_stats *ret,
		    struct cairn_err *err)
{
	struct pruning pruning = {
		.repo = repo, .options = options, .how = how, .mutex = PTHREAD_MUTEX_INITIALIZER};
	bool dry_run = options->dry_run;
	int rc = prune_survey(&pruning, err);

	if (rc == 0 && !dry_run)
		rc = carry_out(&pruning, err);
	if (rc == 0 && !dry_run)
		rc = repo_prune_renew_index(repo, err);
	if (rc == 0 && !dry_run)
		rc = repo_prune_remove_late(repo, &pruning.known, &pruning.stats.snapshots_late,
					    err);
	pruning.stats.bytes_freed += pruning.stats.bytes_unknown;
	repo_walk_done(&pruning.walk);
	repo_prune_plan_done(&pruning.plan);
	repo_names_done(&pruning.old);
	repo_names_done(&pruning.known);
	if (how->ret_packs)
		*how->ret_packs = pruning.packs;
	else
		repo_names_done(&pruning.packs);
	*ret = pruning.stats;
	return rc;
}
