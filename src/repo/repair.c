/* SPDX-License-Identifier: Apache-2.0 */

#include <stdlib.h>

#include "base/cleanup.h"
#include "base/mem.h"
#include "repo/blob.h"
#include "repo/index.h"
#include "repo/load.h"
#include "repo/names.h"
#include "repo/presence.h"
#include "repo/repo_impl.h"
#include "repo/salvage.h"

/* Loads all readable index files; sets damaged[i] for the others. */
static int load_readable(struct repo *repo, const struct repo_names *names, bool *damaged,
			 struct cairn_err *err)
{
	for (size_t i = 0; i < names->n; i++) {
		struct cairn_err why = {0};
		int rc = repo_load_index_file(repo, &names->items[i].name, &why);

		if (rc < 0 && rc != CAIRN_DATA_LOSS && rc != CAIRN_RANGE)
			return cairn_err_set(err, rc, "%s", why.msg);
		damaged[i] = rc < 0;
	}
	repo->index_loaded = true;
	return 0;
}

/* Trusts a pack that was lost and is in the store again only if its bytes hash to its name. */
static int repair_take_back(struct repo *repo, const struct repo_named *pack, uint64_t *ret_packs,
			    struct cairn_err *err)
{
	uint64_t blobs = 0;
	bool intact;
	int rc = repo_pack_is_intact(repo, pack, &intact, err);

	if (rc < 0 || !intact)
		return rc;
	rc = repo_adopt_pack(repo, pack, &blobs, err);
	*ret_packs += rc == 0;
	return rc;
}

static int take_back_lost(struct repo *repo, uint64_t *ret_packs, struct cairn_err *err)
{
	cairn_cleanup(repo_names_done) struct repo_names names = {0};
	int rc = repo_has_lost_packs(repo)
			 ? repo_names_list(repo->store, REPO_FILE_PACK, &names, err)
			 : 0;

	for (uint32_t i = 0; rc == 0 && i < repo_index_packs(repo->index); i++) {
		const struct repo_named *pack;
		struct cairn_err why = {0};
		struct repo_id id;

		if (repo_index_pack_at(repo->index, i, &id) != REPO_PACK_GONE)
			continue;
		pack = repo_names_find(&names, &id);
		rc = pack ? repair_take_back(repo, pack, ret_packs, &why) : 0;
		if (rc < 0)
			rc = cairn_err_set(err, rc, "%s", why.msg);
	}
	return rc;
}

static int remove_damaged(struct repo *repo, const struct repo_names *names, const bool *damaged,
			  uint64_t *ret_files, struct cairn_err *err)
{
	int rc = 0;

	for (size_t i = 0; rc == 0 && i < names->n; i++) {
		if (!damaged[i])
			continue;
		rc = repo_may_delete_more(repo, err);
		if (rc == 0)
			rc = repo_store_remove(repo->store, REPO_FILE_INDEX, &names->items[i].name,
					       err);
		*ret_files += rc == 0;
	}
	return rc;
}

int repo_repair_index(struct repo *repo, struct repo_repair_stats *ret, struct cairn_err *err)
{
	cairn_cleanup(repo_names_done) struct repo_names names = {0};
	cairn_auto_free bool *damaged = NULL;
	struct repo_repair_stats stats = {0};
	int rc = repo_may_delete(repo, err);

	if (rc == 0)
		rc = repo_names_list(repo->store, REPO_FILE_INDEX, &names, err);
	if (rc < 0)
		return rc;
	damaged = cairn_calloc(names.n, sizeof(*damaged));
	if (!damaged)
		return cairn_err_nomem(err, "a repair");
	rc = load_readable(repo, &names, damaged, err);
	if (rc == 0)
		rc = repo_adopt_packs(repo, &stats.packs, NULL, err);
	if (rc == 0)
		rc = take_back_lost(repo, &stats.packs, err);
	if (rc == 0)
		rc = repo_flush(repo, err);
	if (rc == 0)
		rc = repo_salvage_packs(repo, &stats, err);
	if (rc == 0)
		rc = repo_may_delete(repo, err);
	if (rc == 0)
		rc = remove_damaged(repo, &names, damaged, &stats.files, err);
	if (ret)
		*ret = stats;
	return rc;
}
