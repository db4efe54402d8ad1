/* SPDX-License-Identifier: Apache-2.0 */

/* Waits for the second check of an early lock; docs/decisions/082 explains why. */

#include "base/cleanup.h"
#include "base/err.h"
#include "base/lock.h"
#include "repo/repo_impl.h"
#include "repo/repo_lock.h"

/* A process that deletes packs first replaces the index files that name
 * them. */
static int check_names(struct repo *repo, struct cairn_err *err)
{
	cairn_cleanup(repo_names_done) struct repo_names now = {0};
	int rc = repo->early_names.n ? repo_names_list(repo->store, REPO_FILE_INDEX, &now, err) : 0;

	for (size_t i = 0; rc == 0 && i < repo->early_names.n; i++)
		if (!repo_names_find(&now, &repo->early_names.items[i].name))
			rc = cairn_err_set(err, CAIRN_ABORTED,
					   "the repository was pruned while it was opened");
	return rc;
}

int repo_settle(struct repo *repo, struct cairn_err *err)
{
	struct cairn_err why = {0};
	int rc;

	if (!repo->early)
		return 0;
	cairn_scoped_lock(&repo->settle_mutex);
	if (!repo->early)
		return 0;
	rc = repo_lock_settle(repo->lock, &why);
	if (rc == 0)
		rc = check_names(repo, &why);
	if (rc == 0) {
		repo_names_done(&repo->early_names);
		repo->early = false;
		return 0;
	}
	if (rc == CAIRN_ABORTED)
		repo->collided = true;
	repo_fail(repo, &why);
	if (err)
		*err = why;
	return rc;
}

bool repo_collided(const struct repo *repo)
{
	return repo->collided;
}
