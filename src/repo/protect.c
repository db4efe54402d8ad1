/* SPDX-License-Identifier: Apache-2.0 */

#include "repo/protect.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/io.h"
#include "base/lock.h"
#include "base/mem.h"
#include "base/parallel.h"
#include "repo/cache_impl.h"
#include "repo/names.h"
#include "repo/repo_impl.h"

#define DAY_SECONDS    86400
#define REMEMBERED     "protected-until"
#define REMEMBERED_MAX ((size_t)64 << 20)

struct protecting {
	struct repo *repo;
	enum repo_file kind;
	struct repo_names names;
	int64_t until;           /* the wanted end of protection */
	int64_t enough;          /* a file protected until here is left alone */
	struct repo_names known; /* remembered from the last run; `size` is the end of protection */
	pthread_mutex_t mutex;   /* guards what follows */
	struct repo_names now;   /* remembered for the next run */
	struct repo_protection found;
};

static void protecting_done(struct protecting *p)
{
	repo_names_done(&p->names);
	repo_names_done(&p->known);
	repo_names_done(&p->now);
}

static int64_t protect_now_seconds(void)
{
	return (int64_t)(cairn_now_ns() / CAIRN_NS_PER_SEC);
}

/* The name of file `i`; NULL for the config, which has none. */
static const struct repo_id *protect_name_at(const struct protecting *p, size_t i)
{
	return p->kind == REPO_FILE_CONFIG ? NULL : &p->names.items[i].name;
}

static void take_until(struct protecting *p, int64_t until)
{
	if (!p->found.until || until < p->found.until)
		p->found.until = until;
}

/* Sets the wanted end of protection. If the server refuses because the file is already
 * protected for longer, that is a success. */
static int protect_renew(const struct protecting *p, size_t i, int64_t *ret, struct cairn_err *err)
{
	struct repo_store *store = p->repo->store;
	int64_t have = 0;
	int rc = repo_store_protect(store, p->kind, protect_name_at(p, i), p->until, err);

	*ret = p->until;
	if (rc != CAIRN_DENIED ||
	    repo_store_protected_until(store, p->kind, protect_name_at(p, i), &have, NULL) != 0 ||
	    have < p->enough)
		return rc;
	*ret = have;
	return 0;
}

static int renew_one(void *arg, size_t i, struct cairn_err *err)
{
	struct protecting *p = arg;
	const struct repo_id none = {{0}}, *name = protect_name_at(p, i);
	struct repo_named named = {.name = name ? *name : none};
	const struct repo_named *known = repo_names_find(&p->known, &named.name);
	bool due = !known || (int64_t)known->size < p->enough;
	int64_t until = known ? (int64_t)known->size : 0;
	int rc = repo_go_on(p->repo, err);

	if (rc == 0 && due)
		rc = protect_renew(p, i, &until, err);
	if (rc < 0)
		return rc;
	named.size = (uint64_t)until;
	cairn_scoped_lock(&p->mutex);
	p->found.files += due;
	take_until(p, until);
	return repo_names_add(&p->now, &named, err);
}

static int look_at_one(void *arg, size_t i, struct cairn_err *err)
{
	struct protecting *p = arg;
	int64_t until = 0;
	int rc = repo_go_on(p->repo, err);

	if (rc == 0)
		rc = repo_store_protected_until(p->repo->store, p->kind, protect_name_at(p, i),
						&until, err);
	if (rc < 0)
		return rc;
	cairn_scoped_lock(&p->mutex);
	p->found.files++;
	if (until <= protect_now_seconds())
		p->found.open++;
	else
		take_until(p, until);
	return 0;
}

/* Calls `fn` for each file of a kind; the config counts as one file without a name. */
static int each_of(struct protecting *p, enum repo_file kind,
		   int (*fn)(void *arg, size_t i, struct cairn_err *err), struct cairn_err *err)
{
	size_t n = 1;
	int rc = 0;

	p->kind = kind;
	repo_names_done(&p->names);
	p->names = (struct repo_names){0};
	if (kind != REPO_FILE_CONFIG) {
		rc = repo_names_list(p->repo->store, kind, &p->names, err);
		n = p->names.n;
	}
	return rc < 0 ? rc : cairn_parallel_each(n, p->repo->store->connections, fn, p, err);
}

/* ---- what is remembered ------------------------------------------------------- */

/* The file contains an array and its hash. If it is missing or damaged, the protection of
 * all files is set again. */
static void load_known(struct protecting *p)
{
	cairn_auto_free char *path = repo_cache_path(p->repo, REMEMBERED);
	cairn_auto_free char *data = NULL;
	const struct repo_named *names;
	struct repo_id sum;
	size_t n;

	if (!path || cairn_file_read(AT_FDCWD, path, REMEMBERED_MAX, &data, &n, NULL) != 0 ||
	    n < sizeof(sum) || (n - sizeof(sum)) % sizeof(*names) != 0)
		return;
	n = (n - sizeof(sum)) / sizeof(*names);
	names = (const struct repo_named *)data;
	if (!repo_id_of(names, n * sizeof(*names), &sum) ||
	    memcmp(&names[n], &sum, sizeof(sum)) != 0)
		return;
	for (size_t i = 0; i < n; i++)
		(void)repo_names_add(&p->known, &names[i], NULL);
	repo_names_sort(&p->known);
}

/* A repository can be copied to another place, or put back into a new bucket, and be protected
 * by nothing there. The config goes with it: if the server does not say of it what is
 * remembered, nothing is. */
static void protect_check_known(struct protecting *p)
{
	const struct repo_id none = {{0}};
	const struct repo_named *config = repo_names_find(&p->known, &none);
	int64_t have = 0;

	if (config &&
	    repo_store_protected_until(p->repo->store, REPO_FILE_CONFIG, NULL, &have, NULL) == 0 &&
	    have >= (int64_t)config->size)
		return;
	repo_names_done(&p->known);
	p->known = (struct repo_names){0};
}

static void save_known(const struct protecting *p)
{
	cairn_auto_free char *path = repo_cache_path(p->repo, REMEMBERED);
	size_t n = p->now.n * sizeof(*p->now.items);
	cairn_auto_free uint8_t *data = cairn_alloc(n + sizeof(struct repo_id));
	struct repo_id sum;

	if (!path || !data || n == 0 || !repo_cache_make_dir(p->repo))
		return;
	memcpy(data, p->now.items, n);
	if (!repo_id_of(data, n, &sum))
		return;
	memcpy(data + n, &sum, sizeof(sum));
	(void)cairn_file_replace(AT_FDCWD, path, data, n + sizeof(sum), NULL);
}

/* ---- doors -------------------------------------------------------------------- */

int repo_protect(struct repo *repo, uint64_t days, struct repo_protection *ret,
		 struct cairn_err *err)
{
	static const enum repo_file kinds[] = {REPO_FILE_PACK, REPO_FILE_INDEX, REPO_FILE_KEY,
					       REPO_FILE_CONFIG};
	int64_t now = protect_now_seconds(), span = (int64_t)days * DAY_SECONDS;
	cairn_cleanup(protecting_done) struct protecting p = {.repo = repo,
							      .until = now + span,
							      .enough = now + span / 2,
							      .mutex = PTHREAD_MUTEX_INITIALIZER};
	int rc = 0;

	load_known(&p);
	protect_check_known(&p);
	for (size_t i = 0; rc == 0 && i < sizeof(kinds) / sizeof(kinds[0]); i++)
		rc = each_of(&p, kinds[i], renew_one, err);
	if (rc < 0)
		return rc;
	save_known(&p);
	*ret = p.found;
	return 0;
}

int repo_protection_survey(struct repo *repo, struct repo_protection *ret, struct cairn_err *err)
{
	static const enum repo_file kinds[] = {REPO_FILE_PACK, REPO_FILE_INDEX, REPO_FILE_SNAPSHOT,
					       REPO_FILE_KEY, REPO_FILE_CONFIG};
	cairn_cleanup(protecting_done) struct protecting p = {.repo = repo,
							      .mutex = PTHREAD_MUTEX_INITIALIZER};
	int rc = 0;

	for (size_t i = 0; rc == 0 && i < sizeof(kinds) / sizeof(kinds[0]); i++)
		rc = each_of(&p, kinds[i], look_at_one, err);
	if (rc == 0)
		*ret = p.found;
	return rc;
}
