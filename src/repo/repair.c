/* SPDX-License-Identifier: Apache-2.0 */

#include <stdlib.h>

#include "base/cleanup.h"
#include "base/mem.h"
#include "repo/blob.h"
#include "repo/index.h"
#include "repo/load.h"
#include "repo/names.h"
#include "repo/repo_impl.h"

/* Loads what can be; sets damaged[i] for what can not. */
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

static int remove_damaged(struct repo *repo, const struct repo_names *names, const bool *damaged,
			  uint64_t *ret_files, struct cairn_err *err)
{
	int rc = 0;

	for (size_t i = 0; rc == 0 && i < names->n; i++) {
		if (!damaged[i])
			continue;
		rc = repo_store_remove(repo->store, REPO_FILE_INDEX, &names->items[i].name, err);
		*ret_files += rc == 0;
	}
	return rc;
}

int repo_repair_index(struct repo *repo, uint64_t *ret_files, uint64_t *ret_packs,
		      struct cairn_err *err)
{
	cairn_cleanup(repo_names_done) struct repo_names names = {0};
	cairn_auto_free bool *damaged = NULL;
	uint64_t files = 0, packs = 0;
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
		rc = repo_adopt_packs(repo, &packs, NULL, err);
	if (rc == 0)
		rc = repo_flush(repo, err);
	if (rc == 0)
		rc = repo_may_delete(repo, err);
	if (rc == 0)
		rc = remove_damaged(repo, &names, damaged, &files, err);
	if (ret_files)
		*ret_files = files;
	if (ret_packs)
		*ret_packs = packs;
	return rc;
}
