/* SPDX-License-Identifier: Apache-2.0 */

#include "repo/prune_thin.h"

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
	const struct repo_prune_plan *plan;
	struct cairn_buf json;
	struct repo_id pack;
	struct repo_pack_blob *blobs; /* of `pack`, if it is kept; n == 0: none yet */
	size_t n, cap;
	bool stays;
	uint64_t kept, dropped; /* number of packs */
};

static void end_pack(struct thinning *thinning)
{
	if (thinning->n > 0)
		repo_index_file_pack(&thinning->json, &thinning->pack, thinning->blobs,
				     thinning->n);
	thinning->n = 0;
}

static int thin_pack(void *arg, const struct repo_id *id, struct cairn_err *err)
{
	struct thinning *thinning = arg;
	uint32_t p;
	int rc = repo_index_pack(thinning->repo->index, id, REPO_PACK_OPEN, &p, NULL, err);

	end_pack(thinning);
	if (rc < 0)
		return rc;
	thinning->pack = *id;
	thinning->stays = p >= thinning->plan->n || thinning->plan->packs[p].fate == REPO_FATE_KEEP;
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

/* The new file is durable before the old one is deleted. A file of which every pack is kept
 * is left unchanged. */
static int thin_file(struct repo *repo, const struct repo_prune_plan *plan,
		     const struct repo_id *name, struct cairn_err *err)
{
	cairn_auto_buf struct cairn_buf old = CAIRN_BUF_INIT(REPO_INDEX_JSON_MAX);
	struct thinning thinning = {
		.repo = repo, .plan = plan, .json = CAIRN_BUF_INIT(REPO_INDEX_JSON_MAX)};
	const struct repo_index_visitor visitor = {thin_pack, thin_blob, &thinning};
	int rc = repo_file_load(repo, REPO_FILE_INDEX, name, &old, err);

	repo_index_file_begin(&thinning.json);
	if (rc == 0)
		rc = repo_index_file_parse((const char *)old.data, old.len, &visitor, err);
	end_pack(&thinning);
	if (rc == 0 && thinning.dropped > 0 && thinning.kept > 0)
		rc = save_thinned(&thinning, err);
	if (rc == 0 && thinning.dropped > 0)
		rc = repo_store_remove(repo->store, REPO_FILE_INDEX, name, err);
	free(thinning.blobs);
	cairn_buf_done(&thinning.json);
	return rc;
}

int repo_prune_thin(struct repo *repo, const struct repo_prune_plan *plan,
		    const struct repo_names *files, struct cairn_err *err)
{
	int rc = repo_may_delete(repo, err);

	for (size_t i = 0; rc == 0 && i < files->n; i++)
		rc = thin_file(repo, plan, &files->items[i].name, err);
	return rc;
}
