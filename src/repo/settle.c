/* SPDX-License-Identifier: Apache-2.0 */

/* Waits for the second check of an early lock; docs/decisions/082 explains why. */

#include "base/cleanup.h"
#include "base/err.h"
#include "base/lock.h"
#include "repo/repo_impl.h"
#include "repo/repo_lock.h"

/* True if the second check listed exactly the index files that were loaded before it. In S3 they
 * precede the locks in that answer: a prune that deletes them and removes its lock while the
 * server makes the answer is not seen. repo_check_lock() therefore looks for them once more. */
static bool is_unchanged(const struct repo *repo)
{
	const struct repo_names *now = &repo->settled.names[REPO_FILE_INDEX];
	bool same = repo->early_surveyed && repo->settled.has[REPO_FILE_INDEX] &&
		    repo->settled.at_once && now->n == repo->early_names.n;

	for (size_t i = 0; same && i < now->n; i++)
		same = repo_id_equal(&now->items[i].name, &repo->early_names.items[i].name);
	return same;
}

/* A process that deletes packs first replaces the index files that name
 * them. */
static int compare_names(const struct repo_names *loaded, const struct repo_names *now,
			 struct cairn_err *err)
{
	for (size_t i = 0; i < loaded->n; i++)
		if (!repo_names_find(now, &loaded->items[i].name))
			return cairn_err_set(err, CAIRN_ABORTED,
					     "the repository was pruned while it was opened");
	return 0;
}

static int check_names(struct repo *repo, struct cairn_err *err)
{
	cairn_cleanup(repo_names_done) struct repo_names now = {0};
	int rc;

	if (repo->early_names.n == 0)
		return 0;
	if (is_unchanged(repo)) {
		repo->unsure_names = repo->early_names;
		repo->early_names = (struct repo_names){0};
		return 0;
	}
	rc = repo_names_list(repo->store, REPO_FILE_INDEX, &now, err);
	return rc < 0 ? rc : compare_names(&repo->early_names, &now, err);
}

static int settle_collide(struct repo *repo, const struct cairn_err *why)
{
	if (why->code == CAIRN_ABORTED)
		repo->collided = true;
	return repo_fail(repo, why);
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
	settle_collide(repo, &why);
	if (err)
		*err = why;
	return rc;
}

/* One listing instead of the request for the lock alone. It begins after the second check ended, so
 * a prune that this one missed has removed index files by now. */
static int check_unsure(struct repo *repo, struct cairn_err *err)
{
	static const enum repo_file kinds[] = {REPO_FILE_LOCK, REPO_FILE_INDEX};
	cairn_cleanup(repo_survey_done) struct repo_survey now = {0};
	struct cairn_err why = {0};
	int rc = repo_survey_take(repo->store, kinds, 2, &now, err);

	if (rc == 0 && compare_names(&repo->unsure_names, &now.names[REPO_FILE_INDEX], &why) < 0) {
		if (err)
			*err = why;
		return settle_collide(repo, &why);
	}
	if (rc == 0)
		rc = repo_lock_verify(repo->lock, &now.names[REPO_FILE_LOCK], err);
	if (rc == 0)
		repo_names_done(&repo->unsure_names);
	return rc;
}

int repo_check_lock(struct repo *repo, struct cairn_err *err)
{
	int rc = repo_settle(repo, err);

	if (rc < 0 || !repo->lock)
		return rc;
	cairn_scoped_lock(&repo->settle_mutex);
	return repo->unsure_names.n > 0 ? check_unsure(repo, err)
					: repo_lock_verify(repo->lock, NULL, err);
}

bool repo_collided(const struct repo *repo)
{
	return repo->collided;
}
