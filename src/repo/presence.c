/* SPDX-License-Identifier: Apache-2.0 */

#include "repo/presence.h"

#include <inttypes.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/lock.h"
#include "base/mem.h"
#include "repo/index.h"
#include "repo/index_cache.h"
#include "repo/names.h"
#include "repo/pack_header.h"
#include "repo/repo_impl.h"

/* Takes the sizes of packs from the caches. */
static void add_cached(struct repo_index *index, uint64_t *sizes, uint32_t packs)
{
	for (size_t i = 0; i < repo_index_attached(index); i++) {
		size_t n;
		const struct repo_cached_pack *cached =
			repo_index_cache_packs(repo_index_attached_at(index, i), &n);

		for (size_t k = 0; k < n; k++) {
			uint32_t number;

			if (repo_index_pack(index, &cached[k].id, REPO_PACK_GONE, &number, NULL,
					    NULL) == 0 &&
			    number < packs && sizes[number] < cached[k].size)
				sizes[number] = cached[k].size;
		}
	}
}

int repo_pack_sizes(struct repo_index *index, uint64_t **ret, struct cairn_err *err)
{
	uint32_t packs = repo_index_packs(index), entries = repo_index_entries(index);
	cairn_auto_free uint64_t *sizes = cairn_calloc(packs, sizeof(*sizes));

	if (!sizes)
		return cairn_err_nomem(err, "sizes of packs");
	for (uint32_t i = 0; i < packs; i++)
		sizes[i] = repo_pack_header_size(NULL, 0);
	for (uint32_t i = 0; i < entries; i++) {
		struct repo_pack_blob blob;
		uint32_t pack;

		if (repo_index_at(index, i, &blob, &pack) && pack < packs)
			sizes[pack] += blob.length +
				       (blob.plain ? REPO_PACK_ENTRY_MAX : REPO_PACK_ENTRY_MIN);
	}
	add_cached(index, sizes, packs);
	*ret = cairn_take(sizes);
	return 0;
}

int repo_listing_check(struct repo_index *index, const struct repo_names *packs,
		       struct cairn_err *err)
{
	uint32_t named = 0;

	for (uint32_t i = 0; packs->n == 0 && i < repo_index_packs(index); i++) {
		struct repo_id id;

		named += repo_index_pack_at(index, i, &id) == REPO_PACK_INDEXED;
	}
	if (named == 0)
		return 0;
	return cairn_err_set(err, CAIRN_DATA_LOSS,
			     "the store lists no packs, the index names %" PRIu32
			     ": is all of the repository there?",
			     named);
}

bool repo_has_lost_packs(struct repo *repo)
{
	for (uint32_t i = 0; i < repo_index_packs(repo->index); i++) {
		struct repo_id id;

		if (repo_index_pack_at(repo->index, i, &id) == REPO_PACK_GONE)
			return true;
	}
	return false;
}

static bool is_absent(const struct repo_names *packs, const struct repo_id *id, uint64_t size)
{
	const struct repo_named *file = repo_names_find(packs, id);

	return !file || file->size < size;
}

/* Counts the packs that are missing or truncated in the listing; with `drop`, removes them
 * from the index. */
static int survey_packs(struct repo *repo, bool drop, uint64_t *ret, struct cairn_err *err)
{
	cairn_auto_free uint64_t *sizes = NULL;
	uint32_t packs = repo_index_packs(repo->index);
	uint64_t absent = 0;
	int rc = repo_pack_sizes(repo->index, &sizes, err);

	for (uint32_t i = 0; rc == 0 && i < packs; i++) {
		struct repo_id id;

		if (repo_index_pack_at(repo->index, i, &id) != REPO_PACK_INDEXED ||
		    !is_absent(&repo->packs_listed, &id, sizes[i]))
			continue;
		absent++;
		if (drop)
			repo_index_pack_set(repo->index, i, &id, REPO_PACK_GONE);
	}
	if (rc == 0)
		*ret = absent;
	return rc;
}

int repo_confirm_packs(struct repo *repo, uint64_t *ret_gone, struct cairn_err *err)
{
	uint64_t absent = 0;
	int rc = 0;

	/* Done already. Packs that this process has stored since are not in the listing and
	 * would look missing. */
	if (repo->packs_confirmed) {
		*ret_gone = 0;
		return 0;
	}
	if (!repo->has_packs_listed)
		rc = repo_names_list(repo->store, REPO_FILE_PACK, &repo->packs_listed, err);
	if (rc < 0)
		return rc;
	repo->has_packs_listed = true;
	rc = repo_listing_check(repo->index, &repo->packs_listed, err);
	if (rc == 0)
		rc = survey_packs(repo, false, &absent, err);
	/* A cache cannot mark single blobs as lost, so load the index into memory. */
	if (rc == 0 && absent > 0)
		rc = repo_load_index(repo, err);
	/* Under an early lock, a prune may have deleted the packs. It has then deleted
	 * index files that were loaded, too, which repo_settle() finds. */
	if (rc == 0 && absent > 0)
		rc = repo_settle(repo, err);
	if (rc == 0 && absent > 0)
		rc = survey_packs(repo, true, &absent, err);
	if (rc == 0) {
		repo->packs_confirmed = true;
		*ret_gone = absent;
	}
	repo->packs_whole = rc == 0 && absent == 0 && !repo_has_lost_packs(repo);
	return rc;
}

void repo_doubt_pack(struct repo *repo, const struct repo_id *pack)
{
	struct repo_named named = {.name = *pack};
	struct cairn_err why = {0};
	int rc = 0;

	{
		cairn_scoped_lock(&repo->doubt_mutex);
		for (size_t i = 0; i < repo->packs_doubted.n; i++)
			if (repo_id_equal(&repo->packs_doubted.items[i].name, pack))
				return;
		rc = repo_names_add(&repo->packs_doubted, &named, &why);
	}
	if (rc < 0) /* otherwise the pack would be trusted */
		repo_fail(repo, &why);
}

int repo_drop_doubted(struct repo *repo, struct cairn_err *err)
{
	struct repo_names *packs = &repo->packs_doubted;
	/* Cached blobs cannot be found by their pack, so load the index into memory. */
	int rc = packs->n > 0 ? repo_load_index(repo, err) : 0;

	for (size_t i = 0; rc == 0 && i < packs->n; i++) {
		const struct repo_id *id = &packs->items[i].name;
		uint32_t number;

		rc = repo_index_pack(repo->index, id, REPO_PACK_GONE, &number, NULL, err);
		if (rc == 0)
			repo_index_pack_set(repo->index, number, id, REPO_PACK_GONE);
	}
	if (rc == 0 && packs->n > 0) {
		repo->packs_whole = false;
		repo_names_done(packs);
	}
	return rc;
}
