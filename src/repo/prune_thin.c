/* SPDX-License-Identifier: Apache-2.0 */

#include "repo/prune_thin.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/mem.h"
#include "repo/index.h"
#include "repo/index_file.h"
#include "repo/names.h"
#include "repo/prune_plan.h"
#include "repo/repo_impl.h"

/* An index file that is rewritten without the packs that are removed. */
struct thinning {
	struct repo *repo;
	struct repo_prune_plan *plan;
	struct cairn_buf json;
	struct repo_id pack;
	struct repo_pack_blob *blobs; /* of `pack`, if it is kept; n == 0: none yet */
	size_t n, cap;
	bool stays;
	uint64_t kept, dropped; /* number of packs of the file */
	uint64_t reverted;      /* number of packs that stay, because their file does */
};

static void end_pack(struct thinning *thinning)
{
	if (thinning->n > 0)
		repo_index_file_pack(&thinning->json, &thinning->pack, thinning->blobs,
				     thinning->n);
	thinning->n = 0;
}

/* Finds the pack's plan; NULL for a pack that is newer than the plan. */
static int thin_plan_of(struct thinning *thinning, const struct repo_id *id,
			struct repo_pack_plan **ret, struct cairn_err *err)
{
	uint32_t p;
	int rc = repo_index_pack(thinning->repo->index, id, REPO_PACK_OPEN, &p, NULL, err);

	if (rc == 0)
		*ret = p < thinning->plan->n ? &thinning->plan->packs[p] : NULL;
	return rc;
}

static int thin_pack(void *arg, const struct repo_id *id, struct cairn_err *err)
{
	struct thinning *thinning = arg;
	struct repo_pack_plan *pack = NULL;
	int rc = thin_plan_of(thinning, id, &pack, err);

	end_pack(thinning);
	if (rc < 0)
		return rc;
	thinning->pack = *id;
	thinning->stays = !pack || pack->fate == REPO_FATE_KEEP;
	thinning->kept += thinning->stays;
	thinning->dropped += !thinning->stays;
	return 0;
}

static int thin_blob(void *arg, const struct repo_pack_blob *blob, struct cairn_err *err)
{
	struct thinning *thinning = arg;

	if (!thinning->stays)
		return 0;
	if (thinning->n == thinning->cap) {
		size_t cap = thinning->cap ? 2 * thinning->cap : 256;
		struct repo_pack_blob *blobs =
			cairn_realloc_array(thinning->blobs, cap, sizeof(*blobs));

		if (!blobs)
			return cairn_err_nomem(err, "the blobs of a pack");
		thinning->blobs = blobs;
		thinning->cap = cap;
	}
	thinning->blobs[thinning->n++] = *blob;
	return 0;
}

static int save_thinned(struct thinning *thinning, struct cairn_err *err)
{
	struct repo_id name;

	repo_index_file_end(&thinning->json);
	if (cairn_buf_failed(&thinning->json))
		return cairn_err_nomem(err, "an index");
	return repo_file_save(thinning->repo, REPO_FILE_INDEX, thinning->json.data,
			      thinning->json.len, &name, err);
}

static int thin_keep_pack(void *arg, const struct repo_id *id, struct cairn_err *err)
{
	struct thinning *thinning = arg;
	struct repo_pack_plan *pack = NULL;
	int rc = thin_plan_of(thinning, id, &pack, err);

	if (rc == 0 && pack && pack->fate != REPO_FATE_KEEP) {
		pack->fate = REPO_FATE_KEEP;
		thinning->reverted++;
	}
	return rc;
}

static int thin_skip_blob(void *arg, const struct repo_pack_blob *blob, struct cairn_err *err)
{
	(void)arg;
	(void)blob;
	(void)err;
	return 0;
}

/* Saves the new file. If there is no space for it, the old one stays. */
static int thin_replace(struct thinning *thinning, const struct cairn_buf *old,
			struct cairn_err *err)
{
	const struct repo_index_visitor keeper = {
		.pack = thin_keep_pack, .blob = thin_skip_blob, .arg = thinning};
	struct cairn_err why = {0};
	int rc = thinning->kept > 0 ? save_thinned(thinning, &why) : 0;

	if (rc == CAIRN_NO_SPACE && why.sys_errno != ENOMEM)
		return repo_index_file_parse((const char *)old->data, old->len, &keeper, err);
	if (rc < 0 && err)
		*err = why;
	return rc;
}

/* The new file is durable before the old one is deleted. A file of which every pack is kept
 * is left unchanged. With `only_whole`, so is one that needs a new file. */
static int thin_file(struct thinning *thinning, const struct repo_id *name, bool only_whole,
		     struct cairn_err *err)
{
	cairn_auto_buf struct cairn_buf old = CAIRN_BUF_INIT(REPO_INDEX_JSON_MAX);
	const struct repo_index_visitor visitor = {
		.pack = thin_pack, .blob = thin_blob, .arg = thinning};
	struct repo *repo = thinning->repo;
	uint64_t reverted = thinning->reverted;
	int rc = repo_file_load(repo, REPO_FILE_INDEX, name, &old, err);

	thinning->kept = thinning->dropped = 0;
	cairn_buf_reset(&thinning->json);
	repo_index_file_begin(&thinning->json);
	if (rc == 0)
		rc = repo_index_file_parse((const char *)old.data, old.len, &visitor, err);
	end_pack(thinning);
	if (rc < 0 || thinning->dropped == 0 || (only_whole && thinning->kept > 0))
		return rc;
	rc = thin_replace(thinning, &old, err);
	if (rc < 0 || thinning->reverted > reverted)
		return rc;
	rc = repo_may_delete_more(repo, err);
	return rc < 0 ? rc : repo_store_remove(repo->store, REPO_FILE_INDEX, name, err);
}

/* Files that need no successor go first: that makes space for the others. */
int repo_prune_thin(struct repo *repo, struct repo_prune_plan *plan, const struct repo_names *files,
		    uint64_t *ret_kept, struct cairn_err *err)
{
	struct thinning thinning = {
		.repo = repo, .plan = plan, .json = CAIRN_BUF_INIT(REPO_INDEX_JSON_MAX)};
	cairn_auto_free bool *gone = cairn_calloc(files->n, sizeof(*gone));
	int rc = gone ? repo_may_delete(repo, err) : cairn_err_nomem(err, "a plan");

	for (size_t i = 0; rc == 0 && i < files->n; i++) {
		rc = thin_file(&thinning, &files->items[i].name, true, err);
		gone[i] = thinning.dropped > 0 && thinning.kept == 0;
	}
	for (size_t i = 0; rc == 0 && i < files->n; i++)
		if (!gone[i])
			rc = thin_file(&thinning, &files->items[i].name, false, err);
	free(thinning.blobs);
	cairn_buf_done(&thinning.json);
	*ret_kept = thinning.reverted;
	return rc;
}
