/* SPDX-License-Identifier: Apache-2.0 */

/* Packs that no index names: a writer that died left them. */

#include "base/err.h"
#include "repo/index.h"
#include "repo/load.h"
#include "repo/names.h"
#include "repo/repo.h"
#include "repo/repo_impl.h"

/* The pack was never read back after it was sent, so its blobs can be damaged even if its
 * header is valid. */
static int check_hash(struct repo *repo, const struct repo_named *pack, struct cairn_err *err)
{
	bool intact;
	int rc = repo_pack_is_intact(repo, pack, &intact, err);

	if (rc < 0 || intact)
		return rc;
	return cairn_err_set(err, CAIRN_DATA_LOSS, "its bytes do not hash to its name");
}

int repo_adopt_packs(struct repo *repo, uint64_t *ret_packs, uint64_t *ret_blobs,
		     struct cairn_err *err)
{
	cairn_cleanup(repo_names_done) struct repo_names own = {0};
	const struct repo_names *names = repo->has_packs_listed ? &repo->packs_listed : &own;
	uint64_t packs = 0, blobs = 0;
	int rc = repo_may_write(repo, err);

	if (rc == 0 && names == &own)
		rc = repo_names_list(repo->store, REPO_FILE_PACK, &own, err);
	for (size_t i = 0; rc == 0 && i < names->n; i++) {
		struct cairn_err why = {0};

		if (repo_index_has_pack(repo->index, &names->items[i].name))
			continue;
		/* Until the lock is certain, another process may still be deleting the pack. */
		rc = repo_settle(repo, &why);
		if (rc == 0)
			rc = check_hash(repo, &names->items[i], &why);
		if (rc == 0)
			rc = repo_adopt_pack(repo, &names->items[i], &blobs, &why);
		if (rc == 0)
			rc = repo_names_add(&repo->adopted, &names->items[i], &why);
		packs += rc == 0;
		/* A damaged pack is left alone: prune deletes it. */
		if (rc == CAIRN_DATA_LOSS)
			rc = 0;
		if (rc < 0)
			rc = cairn_err_set(err, rc, "%s", why.msg);
	}
	if (ret_packs)
		*ret_packs = packs;
	if (ret_blobs)
		*ret_blobs = blobs;
	return rc;
}

/* A prune that lost its lock may have had one deletion under way for each of its connections. */
int repo_adopted_verify(struct repo *repo, struct cairn_err *err)
{
	cairn_cleanup(repo_names_done) struct repo_names now = {0};
	char hex[REPO_ID_TEXT_MAX];
	int rc;

	if (repo->adopted.n == 0)
		return 0;
	rc = repo_names_list(repo->store, REPO_FILE_PACK, &now, err);
	for (size_t i = 0; rc == 0 && i < repo->adopted.n; i++) {
		const struct repo_id *name = &repo->adopted.items[i].name;

		if (!repo_names_find(&now, name))
			rc = cairn_err_set(
				err, CAIRN_ABORTED,
				"pack %s of an interrupted backup was deleted meanwhile; "
				"try again",
				repo_id_format(name, hex));
	}
	return rc;
}
