/* SPDX-License-Identifier: Apache-2.0 */

#include "repo/repo_snapshot.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/lock.h"
#include "base/mem.h"
#include "base/parallel.h"
#include "repo/blob.h"
#include "repo/load.h"
#include "repo/names.h"
#include "repo/repo_impl.h"
#include "repo/repo_lock.h"
#include "repo/snapshot_json.h"

#define PREFIX_MIN 1

/* ---- saving ---------------------------------------------------------------- */

struct publishing {
	struct repo *repo;
	uint64_t looked_ms; /* when the lock was looked for */
	bool allowed;       /* the lock was there */
	struct repo_id name;
};

static int may_publish(void *arg, struct cairn_err *err)
{
	struct publishing *publishing = arg;
	int rc;

	publishing->looked_ms = repo_lock_clock_ms();
	rc = repo_check_lock(publishing->repo, err);
	publishing->allowed = rc == 0;
	return rc;
}

/* Removes a snapshot whose lock was lost. If that fails, a user must. */
static int snapshot_take_back(struct repo *repo, const struct repo_id *name, struct cairn_err *err)
{
	struct cairn_err lost = {0}, why = {0};
	char hex[REPO_ID_TEXT_MAX];
	int rc = repo_check_lock(repo, &lost);

	if (rc == CAIRN_ABORTED &&
	    repo_store_remove(repo->store, REPO_FILE_SNAPSHOT, name, &why) < 0)
		return cairn_err_set(
			err, CAIRN_ABORTED,
			"%s; snapshot %.8s may need data that is gone, and could not be "
			"removed (%s): 'cairn backup verify' tells, 'cairn backup "
			"forget %.8s' removes it",
			lost.msg, repo_id_format(name, hex), why.msg, hex);
	if (rc < 0 && err)
		*err = lost;
	return rc;
}

/* A process that removed our lock may have deleted data that the snapshot needs: then the
 * snapshot must not exist. docs/decisions/082 explains why one look usually is enough. */
static int repo_snapshot_do_save(struct repo *repo, const void *json, size_t n, struct repo_id *ret,
				 struct cairn_err *err)
{
	struct publishing publishing = {.repo = repo};
	const struct repo_store_gate gate = {may_publish, &publishing, &publishing.name};
	struct cairn_err why = {0};
	int rc = repo_settle(repo, err);

	if (rc < 0)
		return rc;
	rc = repo_file_save_gated(repo, REPO_FILE_SNAPSHOT, json, n, &gate, ret, &why);
	if (rc == 0 && repo_lock_clock_ms() - publishing.looked_ms < REPO_LOCK_FRESH_MS)
		return 0;
	if (rc == 0)
		return snapshot_take_back(repo, &publishing.name, err);
	/* The server may have carried out a request that failed. */
	if (publishing.allowed && rc != CAIRN_CANCELLED &&
	    snapshot_take_back(repo, &publishing.name, err) == CAIRN_ABORTED)
		return CAIRN_ABORTED;
	if (err)
		*err = why;
	return rc;
}

int repo_snapshot_save(struct repo *repo, const struct repo_snapshot *snapshot,
		       struct repo_id *ret_id, struct cairn_err *err)
{
	cairn_auto_buf struct cairn_buf json = CAIRN_BUF_INIT(REPO_SNAPSHOT_MAX);
	char hex[REPO_ID_TEXT_MAX];
	struct repo_id id;
	int rc = repo_flush(repo, err);

	if (rc == 0)
		rc = repo_adopted_verify(repo, err);
	if (rc < 0)
		return rc;
	if (!repo_blob_has(repo, REPO_BLOB_TREE, &snapshot->tree))
		return cairn_err_set(err, CAIRN_NOT_FOUND, "tree %s is not in the repository",
				     repo_id_format(&snapshot->tree, hex));
	repo_snapshot_encode(snapshot, repo->hostname, &json);
	if (cairn_buf_failed(&json))
		return cairn_err_set(err, CAIRN_NO_SPACE,
				     "a snapshot of more than %zu bytes, or memory is short",
				     REPO_SNAPSHOT_MAX);
	rc = repo_snapshot_do_save(repo, json.data, json.len, &id, err);
	if (rc == 0)
		*ret_id = id;
	return rc;
}

/* ---- loading --------------------------------------------------------------- */

int repo_snapshot_load(struct repo *repo, const struct repo_id *id, struct repo_snapshot **ret,
		       struct cairn_err *err)
{
	cairn_auto_buf struct cairn_buf json = CAIRN_BUF_INIT(REPO_SNAPSHOT_MAX);
	struct repo_snapshot *snapshot;
	char hex[REPO_ID_TEXT_MAX];
	int rc = repo_file_load(repo, REPO_FILE_SNAPSHOT, id, &json, err);

	if (rc < 0)
		return rc;
	rc = repo_snapshot_decode((const char *)json.data, json.len, &snapshot, err);
	if (rc < 0)
		return err ? cairn_err_wrap(err, "snapshot %s", repo_id_format(id, hex)) : rc;
	snapshot->id = *id;
	*ret = snapshot;
	return 0;
}

void repo_snapshot_list_done(struct repo_snapshot_list *list)
{
	for (size_t i = 0; i < list->n; i++)
		repo_snapshot_free(list->items[i]);
	free(list->items);
	*list = (struct repo_snapshot_list){0};
}

struct loading {
	struct repo *repo;
	const struct repo_names *names;
	pthread_mutex_t mutex; /* guards `list`, except its items */
	struct repo_snapshot_list *list;
};

/* A snapshot that disappeared meanwhile was forgotten; a damaged one is
 * counted. */
static int load_one(void *arg, size_t i, struct cairn_err *err)
{
	struct loading *loading = arg;
	struct cairn_err why = {0};
	int rc = repo_snapshot_load(loading->repo, &loading->names->items[i].name,
				    &loading->list->items[i], &why);

	if (rc == 0)
		return 0;
	if (rc != CAIRN_DATA_LOSS && rc != CAIRN_NOT_FOUND)
		return cairn_err_set(err, rc, "%s", why.msg);
	cairn_scoped_lock(&loading->mutex);
	if (rc == CAIRN_NOT_FOUND) {
		loading->list->gone++;
		return 0;
	}
	if (loading->list->damaged++ == 0) {
		loading->list->damaged_code = rc;
		snprintf(loading->list->damaged_text, sizeof(loading->list->damaged_text), "%.*s",
			 (int)sizeof(loading->list->damaged_text) - 1, why.msg);
	}
	return 0;
}

static int by_time(const void *a, const void *b)
{
	const struct repo_snapshot *const *x = a, *const *y = b;

	if ((*x)->time_ns != (*y)->time_ns)
		return (*x)->time_ns < (*y)->time_ns ? -1 : 1;
	return repo_id_compare(&(*x)->id, &(*y)->id);
}

/* Closes the gaps that snapshots left which disappeared meanwhile. */
static void close_gaps(struct repo_snapshot_list *list)
{
	size_t n = 0;

	for (size_t i = 0; i < list->n; i++)
		if (list->items[i])
			list->items[n++] = list->items[i];
	list->n = n;
	if (n > 0)
		qsort(list->items, n, sizeof(list->items[0]), by_time);
}

int repo_snapshot_list(struct repo *repo, struct repo_snapshot_list *ret, struct cairn_err *err)
{
	cairn_cleanup(repo_names_done) struct repo_names names = {0};
	cairn_cleanup(repo_snapshot_list_done) struct repo_snapshot_list list = {0};
	struct loading loading = {
		.repo = repo, .names = &names, .mutex = PTHREAD_MUTEX_INITIALIZER, .list = &list};
	bool surveyed = (repo->early || !repo->lock) &&
			repo_survey_use(&repo->opened, REPO_FILE_SNAPSHOT, &names);
	int rc = surveyed ? 0 : repo_names_list(repo->store, REPO_FILE_SNAPSHOT, &names, err);

	if (rc < 0)
		return rc;
	list.items = cairn_calloc(names.n, sizeof(*list.items));
	if (!list.items)
		return cairn_err_nomem(err, "snapshots");
	list.n = names.n;
	rc = cairn_parallel_each(names.n, repo->store->connections, load_one, &loading, err);
	if (rc < 0)
		return rc;
	close_gaps(&list);
	*ret = list;
	list = (struct repo_snapshot_list){0};
	return 0;
}

/* ---- finding --------------------------------------------------------------- */

/* The index of a child of the snapshot at `i` whose time says that it is older than
 * its parent; `i` if there is no such child. */
static size_t mistimed_child(struct repo_snapshot *const *items, size_t i)
{
	size_t child = 0;

	while (child < i &&
	       !(items[child]->has_parent && repo_id_equal(&items[child]->parent, &items[i]->id)))
		child++;
	return child;
}

size_t repo_snapshot_newest(struct repo_snapshot *const *items, size_t n)
{
	int64_t now = (int64_t)cairn_now_ns();
	size_t newest = n - 1, child;

	while (newest > 0 && items[newest]->time_ns > now)
		newest--;
	if (items[newest]->time_ns > now)
		return n - 1;
	/* Each step moves down the list, so the loop ends. */
	while ((child = mistimed_child(items, newest)) < newest)
		newest = child;
	return newest;
}

static bool is_prefix(const char *text)
{
	size_t n = strlen(text);

	return n >= PREFIX_MIN && n <= REPO_ID_TEXT_LEN && strspn(text, "0123456789abcdef") == n;
}

int repo_snapshot_find_name(struct repo *repo, const char *prefix, struct repo_id *ret,
			    struct cairn_err *err)
{
	cairn_cleanup(repo_names_done) struct repo_names names = {0};
	const struct repo_named *found = NULL;
	int rc;

	if (!is_prefix(prefix))
		return cairn_err_set(err, CAIRN_INVALID, "'%s' is not a snapshot's id", prefix);
	rc = repo_names_list(repo->store, REPO_FILE_SNAPSHOT, &names, err);
	if (rc < 0)
		return rc;
	for (size_t i = 0; i < names.n; i++) {
		char hex[REPO_ID_TEXT_MAX];

		repo_id_format(&names.items[i].name, hex);
		if (strncmp(hex, prefix, strlen(prefix)) != 0)
			continue;
		if (found)
			return cairn_err_set(err, CAIRN_INVALID,
					     "more than one snapshot's id begins with '%s'",
					     prefix);
		found = &names.items[i];
	}
	if (!found)
		return cairn_err_set(err, CAIRN_NOT_FOUND, "no snapshot's id begins with '%s'",
				     prefix);
	*ret = found->name;
	return 0;
}

int repo_snapshot_find(struct repo *repo, const char *prefix, struct repo_snapshot **ret,
		       struct cairn_err *err)
{
	struct repo_id id;
	int rc = repo_snapshot_find_name(repo, prefix, &id, err);

	return rc < 0 ? rc : repo_snapshot_load(repo, &id, ret, err);
}

int repo_snapshot_remove(struct repo *repo, const struct repo_id *id, struct cairn_err *err)
{
	int rc = repo_may_delete(repo, err);

	return rc < 0 ? rc : repo_store_remove(repo->store, REPO_FILE_SNAPSHOT, id, err);
}
