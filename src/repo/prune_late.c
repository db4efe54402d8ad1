/* SPDX-License-Identifier: Apache-2.0 */

#include "repo/prune_late.h"

#include "base/cleanup.h"
#include "base/err.h"
#include "repo/index.h"
#include "repo/names.h"
#include "repo/pack_header.h"
#include "repo/presence.h"
#include "repo/repo_impl.h"
#include "repo/repo_snapshot.h"
#include "repo/repo_store.h"
#include "repo/walk.h"

int repo_prune_names_of(const struct repo_snapshot_list *list, struct repo_names *ret,
			struct cairn_err *err)
{
	int rc = 0;

	for (size_t i = 0; rc == 0 && i < list->n; i++) {
		struct repo_named named = {.name = list->items[i]->id};

		rc = repo_names_add(ret, &named, err);
	}
	repo_names_sort(ret);
	return rc;
}

int repo_prune_refuse_late(struct repo *repo, const struct repo_names *known, struct cairn_err *err)
{
	cairn_cleanup(repo_names_done) struct repo_names now = {0};
	int rc = repo_names_list(repo->store, REPO_FILE_SNAPSHOT, &now, err);

	for (size_t i = 0; rc == 0 && i < now.n; i++) {
		struct cairn_err lock = {0};

		if (repo_names_find(known, &now.items[i].name))
			continue;
		rc = repo_may_delete(repo, &lock);
		rc = cairn_err_set(err, CAIRN_ABORTED, "%s; nothing was deleted",
				   rc == CAIRN_ABORTED ? lock.msg
						       : "a snapshot was saved in spite of the "
							 "exclusive lock");
	}
	return rc;
}

static int late_problem(void *arg, int code, const char *text, struct cairn_err *err)
{
	(void)arg;
	return cairn_err_set(err, code, "%s", text);
}

/* True if a copy of the blob is within its pack, as far as the listing tells. */
static bool is_whole(struct repo *repo, const struct repo_pack_blob *blob,
		     const struct repo_names *packs)
{
	struct repo_place place;
	unsigned i = 0;

	for (; repo_index_find_copy(repo->index, (enum repo_blob_type)blob->type, &blob->id, i,
				    &place);
	     i++) {
		const struct repo_named *file = repo_names_find(packs, &place.pack_id);

		/* Not listed, but there: late_drop_missing() asked for it. */
		if (!file || (uint64_t)place.offset + place.length <= file->size)
			return true;
	}
	return false;
}

/* CAIRN_DATA_LOSS if the pack of a marked blob was cut short. */
static int check_marked(struct repo *repo, const struct repo_walk *walk,
			const struct repo_names *packs, struct cairn_err *err)
{
	for (uint32_t i = 0; i < walk->entries; i++) {
		struct repo_pack_blob blob;
		char hex[REPO_ID_TEXT_MAX];
		struct repo_id id;
		uint32_t pack;

		if (!repo_walk_marked(walk, i) || !repo_index_at(repo->index, i, &blob, &pack) ||
		    is_whole(repo, &blob, packs))
			continue;
		repo_index_pack_at(repo->index, pack, &id);
		return cairn_err_set(err, CAIRN_DATA_LOSS, "pack %s is cut short",
				     repo_id_format(&id, hex));
	}
	return 0;
}

int repo_prune_refuse_strays(struct repo *repo, const struct repo_names *packs, const char *why,
			     struct cairn_err *err)
{
	for (size_t i = 0; i < packs->n; i++) {
		const struct repo_id *name = &packs->items[i].name;
		char hex[REPO_ID_TEXT_MAX];
		struct repo_id id;
		uint32_t p;
		int rc;

		if (repo_index_has_pack(repo->index, name)) {
			rc = repo_index_pack(repo->index, name, REPO_PACK_GONE, &p, NULL, err);
			if (rc < 0)
				return rc;
			if (repo_index_pack_at(repo->index, p, &id) == REPO_PACK_INDEXED)
				continue;
		}
		return cairn_err_set(err, CAIRN_DATA_LOSS,
				     "%s; pack %s, which is in no index, may have it", why,
				     repo_id_format(name, hex));
	}
	return 0;
}

/* *ret_incomplete: something that the snapshot needs is missing. CAIRN_NOT_FOUND if the snapshot has
 * been removed meanwhile. One that cannot be read, or that is damaged, is an error: nothing
 * is known about its data. */
static int check_late(struct repo *repo, const struct repo_id *name, const struct repo_names *packs,
		      bool *ret_incomplete, struct cairn_err *err)
{
	struct repo_snapshot *snapshot = NULL;
	struct repo_walk walk = {0};
	struct cairn_err why = {0};
	int rc = repo_snapshot_load(repo, name, &snapshot, err);

	if (rc < 0)
		return rc;
	rc = repo_walk_init(&walk, repo, &why);
	walk.problem = late_problem;
	if (rc == 0)
		rc = repo_walk_tree(&walk, &snapshot->tree, &why);
	if (rc == 0)
		rc = check_marked(repo, &walk, packs, &why);
	if (rc == CAIRN_DATA_LOSS && walk.missing) {
		rc = repo_prune_refuse_strays(repo, packs, why.msg, err);
		*ret_incomplete = rc == 0;
	} else if (rc < 0) {
		/* The snapshot is there: CAIRN_NOT_FOUND would say that it is not. */
		rc = cairn_err_set(err, rc == CAIRN_NOT_FOUND ? CAIRN_DATA_LOSS : rc, "%s",
				   why.msg);
	}
	repo_walk_done(&walk);
	repo_snapshot_free(snapshot);
	return rc;
}

/* The index in memory no longer describes the repository. */
int repo_prune_renew_index(struct repo *repo, struct cairn_err *err)
{
	struct repo_index *index = repo_index_new();

	if (!index)
		return cairn_err_nomem(err, "an index");
	repo_index_free(repo->index);
	repo->index = index;
	repo->index_loaded = false;
	return repo_load_index(repo, err);
}

/* Blobs of packs that are not in the store are no longer found. A listing may be wrong, so the store
 * is asked for each of them: only its clear answer makes a pack missing. */
static int late_drop_missing(struct repo *repo, const struct repo_names *packs,
			     struct cairn_err *err)
{
	int rc = repo_listing_check(repo->index, packs, err);

	for (uint32_t i = 0; rc == 0 && i < repo_index_packs(repo->index); i++) {
		struct cairn_err why = {0};
		struct repo_id id;
		uint64_t size;

		if (repo_index_pack_at(repo->index, i, &id) != REPO_PACK_INDEXED ||
		    repo_names_find(packs, &id))
			continue;
		rc = repo_store_size(repo->store, REPO_FILE_PACK, &id, &size, &why);
		if (rc == CAIRN_NOT_FOUND) {
			repo_index_pack_set(repo->index, i, &id, REPO_PACK_GONE);
			rc = 0;
		}
		if (rc < 0)
			rc = cairn_err_set(err, rc, "%s", why.msg);
	}
	return rc;
}

/* Loaded after the snapshots were listed, the index has everything that these need; so has the
 * listing of packs. */
static int late_load(struct repo *repo, struct repo_names *ret_packs, struct cairn_err *err)
{
	int rc = repo_prune_renew_index(repo, err);

	if (rc == 0)
		rc = repo_names_list(repo->store, REPO_FILE_PACK, ret_packs, err);
	return rc < 0 ? rc : late_drop_missing(repo, ret_packs, err);
}

static int remove_incomplete(struct repo *repo, const struct repo_id *name,
			     const struct repo_names *packs, uint64_t *ret_removed,
			     struct cairn_err *err)
{
	bool incomplete = false;
	int rc = check_late(repo, name, packs, &incomplete, err);

	if (rc < 0 || !incomplete)
		return rc == CAIRN_NOT_FOUND ? 0 : rc;
	rc = repo_may_delete(repo, err);
	if (rc == 0)
		rc = repo_store_remove(repo->store, REPO_FILE_SNAPSHOT, name, err);
	*ret_removed += rc == 0;
	return rc;
}

/* Names the snapshot that stays. If it is this prune whose lock was lost, the writer of the snapshot
 * may have had a valid one: then the error is that of the lock, CAIRN_ABORTED. */
static int late_tell(struct repo *repo, const struct repo_id *name, const struct cairn_err *why,
		     struct cairn_err *err)
{
	struct cairn_err lock = {0};
	char hex[REPO_ID_TEXT_MAX];

	if (repo_may_delete(repo, &lock) == CAIRN_ABORTED)
		return cairn_err_set(err, CAIRN_ABORTED,
				     "the prune lost its lock: %s; snapshot %.8s was saved "
				     "meanwhile, and stays: 'cairn backup verify' tells whether it "
				     "is whole",
				     lock.msg, repo_id_format(name, hex));
	return cairn_err_set(err, why->code,
			     "snapshot %.8s was saved meanwhile without a valid lock, and stays, "
			     "because it cannot be judged: %s; 'cairn backup verify' tells what is "
			     "lost, 'cairn backup forget %.8s' gives it up",
			     repo_id_format(name, hex), why->msg, hex);
}

int repo_prune_remove_late(struct repo *repo, const struct repo_names *known, uint64_t *ret_removed,
			   struct cairn_err *err)
{
	cairn_cleanup(repo_names_done) struct repo_names now = {0}, packs = {0};
	bool is_ready = false;
	int rc = repo_names_list(repo->store, REPO_FILE_SNAPSHOT, &now, err), first = rc;

	for (size_t i = 0; i < now.n && (rc == 0 || rc == CAIRN_DATA_LOSS); i++) {
		const struct repo_id *name = &now.items[i].name;
		struct cairn_err why = {0};

		if (repo_names_find(known, name))
			continue;
		rc = is_ready ? 0 : late_load(repo, &packs, &why);
		if (rc < 0)
			return late_tell(repo, name, &why, err);
		is_ready = true;
		rc = remove_incomplete(repo, name, &packs, ret_removed, &why);
		/* A damaged one says nothing about the others; without the lock nothing more is
		 * done. */
		if (rc < 0 && (first == 0 || rc == CAIRN_ABORTED))
			first = late_tell(repo, name, &why, err);
		if (first == CAIRN_ABORTED)
			break;
	}
	return first;
}
