/* SPDX-License-Identifier: Apache-2.0 */

#include "repo/repo_check.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/mem.h"
#include "repo/check_impl.h"
#include "repo/crypt.h"
#include "repo/index.h"
#include "repo/keyfile.h"
#include "repo/load.h"
#include "repo/names.h"
#include "repo/presence.h"
#include "repo/repo_impl.h"
#include "repo/repo_snapshot.h"

/* ---- reporting ------------------------------------------------------------- */

void repo_check_problem(struct repo_checking *checking, int code, const char *text)
{
	pthread_mutex_lock(&checking->mutex);
	checking->stats.problems++;
	if (checking->options->problem)
		checking->options->problem(checking->options->arg, code, text);
	pthread_mutex_unlock(&checking->mutex);
}

int repo_check_result(struct repo_checking *checking, int rc, const struct cairn_err *why,
		      struct cairn_err *err)
{
	if (rc != CAIRN_DATA_LOSS && rc != CAIRN_NOT_FOUND && rc != CAIRN_RANGE)
		return rc < 0 ? cairn_err_set(err, rc, "%s", why->msg) : 0;
	repo_check_problem(checking, rc, why->msg);
	return 0;
}

void repo_check_progress(struct repo_checking *checking, const char *step, uint64_t done,
			 uint64_t total)
{
	if (!checking->options->progress)
		return;
	pthread_mutex_lock(&checking->mutex);
	checking->options->progress(checking->options->arg, step, done, total);
	pthread_mutex_unlock(&checking->mutex);
}

/* ---- keys and index -------------------------------------------------------- */

static int check_keys(struct repo_checking *checking, struct cairn_err *err)
{
	cairn_cleanup(repo_names_done) struct repo_names names = {0};
	struct repo_store *store = checking->repo->store;
	int rc = repo_names_list(store, REPO_FILE_KEY, &names, err);

	for (size_t i = 0; rc == 0 && i < names.n; i++) {
		cairn_auto_free uint8_t *data = NULL;
		char hex[REPO_ID_TEXT_MAX], text[128];
		struct cairn_err why = {0};
		struct repo_id got;
		size_t n = 0;

		rc = repo_store_get_all(store, REPO_FILE_KEY, &names.items[i].name,
					REPO_KEYFILE_MAX, &data, &n, &why);
		if (rc == 0 && repo_id_of(data, n, &got) &&
		    !repo_id_equal(&got, &names.items[i].name)) {
			snprintf(text, sizeof(text), "key %s is damaged",
				 repo_id_format(&names.items[i].name, hex));
			repo_check_problem(checking, CAIRN_DATA_LOSS, text);
		}
		rc = repo_check_result(checking, rc, &why, err);
	}
	return rc;
}

static int load_indexes(struct repo_checking *checking, struct cairn_err *err)
{
	struct repo_names *names = &checking->indexes;
	int rc = repo_names_list(checking->repo->store, REPO_FILE_INDEX, names, err);
	size_t loaded = 0;

	for (size_t i = 0; rc == 0 && i < names->n; i++) {
		struct cairn_err why = {0};

		repo_check_progress(checking, "index", i, names->n);
		rc = repo_go_on(checking->repo, &why);
		if (rc == 0)
			rc = repo_load_index_file(checking->repo, &names->items[i].name, &why);
		if (rc == 0)
			names->items[loaded++] = names->items[i];
		rc = repo_check_result(checking, rc, &why, err);
	}
	names->n = loaded;
	if (rc == 0)
		checking->repo->index_loaded = true;
	return rc;
}

/* ---- packs against the index ------------------------------------------------ */

int repo_check_blobs_of(struct repo_checking *checking, uint32_t pack, struct repo_pack_blob **ret,
			size_t *ret_n, struct cairn_err *err)
{
	uint32_t first = checking->order.starts[pack], end = checking->order.starts[pack + 1];
	struct repo_pack_blob *blobs = cairn_calloc(end - first, sizeof(*blobs));
	uint32_t number;

	if (!blobs)
		return cairn_err_nomem(err, "the blobs of a pack");
	for (uint32_t i = first; i < end; i++)
		repo_index_at(checking->repo->index, checking->order.order[i], &blobs[i - first],
			      &number);
	*ret = blobs;
	*ret_n = end - first;
	return 0;
}

void repo_check_mark_pack(struct repo_checking *checking, uint32_t pack)
{
	pthread_mutex_lock(&checking->mutex);
	checking->bad_packs[pack] = true;
	pthread_mutex_unlock(&checking->mutex);
}

void repo_check_mark_blob(struct repo_checking *checking, uint32_t pack, size_t i)
{
	uint32_t entry = checking->order.order[checking->order.starts[pack] + i];

	pthread_mutex_lock(&checking->mutex);
	checking->bad_entries[entry / 64] |= (uint64_t)1 << (entry % 64);
	pthread_mutex_unlock(&checking->mutex);
}

bool repo_check_is_bad(const struct repo_checking *checking, uint32_t entry)
{
	return entry < checking->entries && (checking->bad_entries[entry / 64] >> (entry % 64) & 1);
}

bool repo_check_has_blob(struct repo_checking *checking, enum repo_blob_type type,
			 const struct repo_id *id, bool any, uint64_t *ret_size)
{
	struct repo_index *index = checking->repo->index;
	uint32_t entry, gone = 0;

	*ret_size = 0;
	for (unsigned i = 0; repo_index_entry_copy(index, type, id, i, &entry); i++) {
		struct repo_pack_blob blob;
		uint32_t pack;

		if (!repo_index_at(index, entry, &blob, &pack))
			continue;
		*ret_size = blob.plain ? blob.plain : blob.length - REPO_SEAL;
		if (!repo_check_is_bad(checking, entry) &&
		    (any || pack >= checking->order.packs || !checking->bad_packs[pack]))
			return true;
	}
	if (*ret_size == 0 && repo_index_find_gone(index, type, id, &gone))
		*ret_size = gone;
	return false;
}

static int make_marks(struct repo_checking *checking, struct cairn_err *err)
{
	checking->entries = repo_index_entries(checking->repo->index);
	checking->bad_entries =
		cairn_calloc(checking->entries / 64 + 1, sizeof(*checking->bad_entries));
	checking->bad_packs =
		cairn_calloc((size_t)checking->order.packs + 1, sizeof(*checking->bad_packs));
	return checking->bad_entries && checking->bad_packs ? 0 : cairn_err_nomem(err, "marks");
}

static int check_pack(struct repo_checking *checking, uint32_t pack, struct cairn_err *err)
{
	cairn_auto_free struct repo_pack_blob *blobs = NULL;
	char hex[REPO_ID_TEXT_MAX], text[160];
	const struct repo_named *file;
	struct repo_id id;
	uint64_t size;
	size_t n;
	int rc;

	if (repo_index_pack_at(checking->repo->index, pack, &id) != REPO_PACK_INDEXED)
		return 0;
	rc = repo_check_blobs_of(checking, pack, &blobs, &n, err);
	if (rc < 0)
		return rc;
	checking->stats.packs++;
	checking->stats.blobs += n;
	file = repo_names_find(&checking->packs, &id);
	size = repo_pack_header_size(blobs, n);
	for (size_t i = 0; i < n; i++)
		size += blobs[i].length;
	if (file && file->size == size)
		return 0;
	repo_check_mark_pack(checking, pack);
	for (size_t i = 0; i < n; i++)
		if (!file || (uint64_t)blobs[i].offset + blobs[i].length > file->size)
			repo_check_mark_blob(checking, pack, i);
	snprintf(text, sizeof(text), "pack %s %s", repo_id_format(&id, hex),
		 file ? "has not the size that its blobs need" : "is missing");
	repo_check_problem(checking, CAIRN_DATA_LOSS, text);
	return 0;
}

static int repo_check_packs(struct repo_checking *checking, struct cairn_err *err)
{
	int rc = repo_names_list(checking->repo->store, REPO_FILE_PACK, &checking->packs, err);

	if (rc == 0 && checking->options->repair)
		rc = repo_listing_check(checking->repo->index, &checking->packs, err);
	if (rc == 0)
		rc = repo_index_sort(checking->repo->index, &checking->order, err);
	if (rc == 0)
		rc = make_marks(checking, err);
	for (uint32_t i = 0; rc == 0 && i < checking->order.packs; i++)
		rc = check_pack(checking, i, err);
	for (size_t i = 0; rc == 0 && i < checking->packs.n; i++)
		checking->stats.packs_unknown +=
			!repo_index_has_pack(checking->repo->index, &checking->packs.items[i].name);
	return rc;
}

/* ---- snapshots and trees ---------------------------------------------------- */

/* If there is a function for damage, it reports the files concerned. */
static int tree_problem(void *arg, int code, const char *text, struct cairn_err *err)
{
	struct repo_checking *checking = arg;

	(void)err;
	if (checking->options->damage)
		checking->stats.problems++;
	else
		repo_check_problem(checking, code, text);
	return 0;
}

static int repo_check_snapshot(struct repo_checking *checking, const struct repo_id *id,
			       struct cairn_err *err)
{
	cairn_cleanup(repo_snapshot_freep) struct repo_snapshot *snapshot = NULL;
	struct cairn_err why = {0};
	int rc = repo_snapshot_load(checking->repo, id, &snapshot, &why);

	if (rc < 0)
		return repo_check_result(checking, rc, &why, err);
	checking->stats.snapshots++;
	return repo_walk_tree(&checking->walk, &snapshot->tree, err);
}

static int check_snapshots(struct repo_checking *checking, struct cairn_err *err)
{
	const struct repo_names *names = &checking->snapshots;
	int rc = repo_walk_init(&checking->walk, checking->repo, err);

	checking->walk.problem = tree_problem;
	checking->walk.arg = checking;
	if (rc == 0 && checking->options->snapshot)
		return repo_check_snapshot(checking, checking->options->snapshot, err);
	for (size_t i = 0; rc == 0 && i < names->n; i++) {
		repo_check_progress(checking, "snapshots", i, names->n);
		rc = repo_check_snapshot(checking, &names->items[i].name, err);
	}
	return rc;
}

int repo_check(struct repo *repo, const struct repo_check_options *options,
	       struct repo_check_stats *ret, struct cairn_err *err)
{
	struct repo_checking checking = {
		.repo = repo, .options = options, .mutex = PTHREAD_MUTEX_INITIALIZER};
	int rc = options->repair ? repo_may_delete(repo, err) : 0;

	if (rc == 0)
		rc = check_keys(&checking, err);

	/* Other processes may add snapshots meanwhile. The snapshots listed here are
	 * covered by index files that exist by now; later snapshots are not checked. */
	if (rc == 0)
		rc = repo_names_list(repo->store, REPO_FILE_SNAPSHOT, &checking.snapshots, err);
	if (rc == 0)
		rc = load_indexes(&checking, err);
	if (rc == 0)
		rc = repo_check_packs(&checking, err);
	if (rc == 0)
		rc = check_snapshots(&checking, err);
	if (rc == 0 && options->read_data)
		rc = repo_check_data(&checking, err);
	if (rc == 0 && options->damage && checking.stats.problems > 0)
		rc = repo_check_damage(&checking, err);
	if (rc == 0 && options->repair)
		rc = repo_repair_packs(&checking, err);
	checking.stats.trees = checking.walk.trees;
	checking.stats.files = checking.walk.files;
	repo_walk_done(&checking.walk);
	free(checking.bad_entries);
	free(checking.bad_packs);
	free(checking.chosen);
	repo_index_order_done(&checking.order);
	repo_names_done(&checking.packs);
	repo_names_done(&checking.indexes);
	repo_names_done(&checking.snapshots);
	if (rc == 0)
		*ret = checking.stats;
	return rc;
}
