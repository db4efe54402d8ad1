/* SPDX-License-Identifier: Apache-2.0 */

#include "repo/repo_store.h"

#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "repo/dir/dir.h"
#include "repo/rest/rest.h"
#include "repo/s3/s3.h"

static const char *const names[REPO_FILE_KINDS] = {"config",    "keys",  "locks",
						   "snapshots", "index", "data"};

const char *repo_file_name(enum repo_file kind)
{
	return names[kind];
}

static const char *repo_store_first_of(const char *a, const char *b)
{
	const char *text = getenv(a);

	return text && *text ? text : b ? getenv(b) : NULL;
}

static void repo_store_fill(const char **field, const char *a, const char *b)
{
	if (!*field)
		*field = repo_store_first_of(a, b);
}

void repo_store_options_from_environment(struct repo_store_options *options)
{
	repo_store_fill(&options->access_key, "AWS_ACCESS_KEY_ID", NULL);
	repo_store_fill(&options->secret_key, "AWS_SECRET_ACCESS_KEY", NULL);
	repo_store_fill(&options->session_token, "AWS_SESSION_TOKEN", NULL);
	repo_store_fill(&options->region, "AWS_REGION", "AWS_DEFAULT_REGION");
	repo_store_fill(&options->user, "RESTIC_REST_USERNAME", NULL);
	repo_store_fill(&options->password, "RESTIC_REST_PASSWORD", NULL);
	repo_store_fill(&options->ca_file, "RESTIC_CACERT", NULL);
}

char *repo_store_location_shown(const char *location)
{
	const char *scheme = strstr(location, "://");
	const char *host = scheme ? scheme + 3 : location;
	const char *path = strchr(host, '/');
	const char *at = NULL;

	/* User and password end at the last '@' before the path. */
	for (const char *p = host; scheme && *p && p != path; p++)
		if (*p == '@')
			at = p;
	if (!at)
		return cairn_strdup(location);
	return cairn_printf("%.*s***@%s", (int)(host - location), location, at + 1);
}

int repo_store_open(const struct repo_store_options *options, struct repo_store **ret,
		    struct cairn_err *err)
{
	const char *location = options->location;

	if (!location || !*location)
		return cairn_err_set(err, CAIRN_INVALID, "no location of a repository");
	if (options->lock_days && strncmp(location, "s3:", 3) != 0)
		return cairn_err_set(err, CAIRN_INVALID,
				     "only a repository in S3 can be protected by object lock");
	if (strncmp(location, "local:", 6) == 0)
		return repo_dir_open(options, location + 6, ret, err);
	if (location[0] == '/' || location[0] == '.' || !strchr(location, ':'))
		return repo_dir_open(options, location, ret, err);
	if (strncmp(location, "s3:", 3) == 0)
		return repo_s3_open(options, location + 3, ret, err);
	if (strncmp(location, "rest:", 5) == 0)
		return repo_rest_open(options, location + 5, ret, err);
	if (strncmp(location, "sftp:", 5) == 0)
		return cairn_err_set(err, CAIRN_INVALID,
				     "sftp is not supported: run restic's rest-server on that host "
				     "and reach it with 'ssh -L' as rest:http://localhost:PORT/");
	return cairn_err_set(err, CAIRN_INVALID, "what kind of place is '%.*s'?",
			     (int)strcspn(location, ":"), location);
}

void repo_store_close(struct repo_store *store)
{
	if (store)
		store->ops->close(store);
}

int repo_store_create(struct repo_store *store, struct cairn_err *err)
{
	return store->ops->create(store, err);
}

static struct repo_store *repo_store_counted(struct repo_store *store)
{
	store->requests++;
	return store;
}

int repo_store_put(struct repo_store *store, enum repo_file kind, const void *data, size_t n,
		   struct repo_id *ret_name, struct cairn_err *err)
{
	struct repo_id id;
	char hex[REPO_ID_TEXT_MAX];
	int rc;

	if (!repo_id_of(data, n, &id))
		return cairn_err_nomem(err, "a hash");
	rc = repo_store_counted(store)->ops->put(store, kind, &id, data, n, &id, err);
	if (rc < 0)
		return cairn_err_wrap(err, "store %s/%s", repo_file_name(kind),
				      repo_id_format(&id, hex));
	*ret_name = id;
	return 0;
}

int repo_store_put_gated(struct repo_store *store, enum repo_file kind, const void *data, size_t n,
			 const struct repo_store_gate *gate, struct repo_id *ret_name,
			 struct cairn_err *err)
{
	struct repo_id id;
	char hex[REPO_ID_TEXT_MAX];
	int rc;

	if (!repo_id_of(data, n, &id))
		return cairn_err_nomem(err, "a hash");
	if (gate->name)
		*gate->name = id;
	if (!store->ops->put_gated) {
		rc = gate->may_publish(gate->arg, err);
		return rc < 0 ? rc : repo_store_put(store, kind, data, n, ret_name, err);
	}
	rc = repo_store_counted(store)->ops->put_gated(store, kind, &id, data, n, gate, err);
	if (rc < 0)
		return cairn_err_wrap(err, "store %s/%s", repo_file_name(kind),
				      repo_id_format(&id, hex));
	*ret_name = id;
	return 0;
}

int repo_store_put_config(struct repo_store *store, const void *data, size_t n,
			  struct cairn_err *err)
{
	struct repo_id id;
	int rc;

	if (!repo_id_of(data, n, &id))
		return cairn_err_nomem(err, "a hash");
	rc = repo_store_counted(store)->ops->put(store, REPO_FILE_CONFIG, NULL, data, n, &id, err);
	return rc < 0 ? cairn_err_wrap(err, "store the config") : 0;
}

static int repo_store_wrap(struct cairn_err *err, const char *what, enum repo_file kind,
			   const struct repo_id *name)
{
	char hex[REPO_ID_TEXT_MAX];

	return cairn_err_wrap(err, "%s %s%s%s", what, repo_file_name(kind), name ? "/" : "",
			      name ? repo_id_format(name, hex) : "");
}

int repo_store_get(struct repo_store *store, enum repo_file kind, const struct repo_id *name,
		   uint64_t offset, void *out, size_t n, struct cairn_err *err)
{
	struct cairn_err why = {0};
	int rc = repo_store_counted(store)->ops->get(store, kind, name, offset, out, n,
						     err ? err : &why);

	return rc < 0 ? repo_store_wrap(err ? err : &why, "read", kind, name) : 0;
}

int repo_store_get_all(struct repo_store *store, enum repo_file kind, const struct repo_id *name,
		       size_t max, uint8_t **ret_data, size_t *ret_n, struct cairn_err *err)
{
	cairn_auto_free uint8_t *data = NULL;
	struct cairn_err why = {0};
	uint64_t size;
	int rc;

	err = err ? err : &why;
	if (store->ops->get_all) {
		rc = repo_store_counted(store)->ops->get_all(store, kind, name, max, ret_data,
							     ret_n, err);
		return rc < 0 ? repo_store_wrap(err, "read", kind, name) : 0;
	}
	rc = repo_store_size(store, kind, name, &size, err);
	if (rc < 0)
		return rc;
	if (size > max) {
		cairn_err_set(err, CAIRN_RANGE, "larger than %zu bytes", max);
		return repo_store_wrap(err, "read", kind, name);
	}
	data = cairn_alloc((size_t)size + 1);
	if (!data)
		return cairn_err_nomem(err, "a file");
	data[size] = 0;
	store->requests--; /* count size and get as one request, as other stores do */
	rc = repo_store_get(store, kind, name, 0, data, (size_t)size, err);
	if (rc < 0)
		return rc;
	*ret_data = cairn_take(data);
	*ret_n = (size_t)size;
	return 0;
}

bool repo_store_holds(struct repo_store *store, enum repo_file kind, const struct repo_id *name,
		      const void *data, size_t n)
{
	cairn_auto_free uint8_t *stored = NULL;
	size_t stored_n;

	return repo_store_get_all(store, kind, name, n, &stored, &stored_n, NULL) == 0 &&
	       stored_n == n && memcmp(stored, data, n) == 0;
}

int repo_store_size(struct repo_store *store, enum repo_file kind, const struct repo_id *name,
		    uint64_t *ret_size, struct cairn_err *err)
{
	struct cairn_err why = {0};
	int rc =
		repo_store_counted(store)->ops->size(store, kind, name, ret_size, err ? err : &why);

	return rc < 0 ? repo_store_wrap(err ? err : &why, "look for", kind, name) : 0;
}

int repo_store_remove(struct repo_store *store, enum repo_file kind, const struct repo_id *name,
		      struct cairn_err *err)
{
	struct cairn_err why = {0};
	int rc = repo_store_counted(store)->ops->remove(store, kind, name, err ? err : &why);

	return rc < 0 ? repo_store_wrap(err ? err : &why, "remove", kind, name) : 0;
}

static int cannot_protect(struct cairn_err *err)
{
	return cairn_err_set(err, CAIRN_UNIMPLEMENTED,
			     "only a repository in S3 can be protected by object lock");
}

int repo_store_protect(struct repo_store *store, enum repo_file kind, const struct repo_id *name,
		       int64_t until, struct cairn_err *err)
{
	struct cairn_err why = {0};
	int rc;

	if (!store->ops->protect)
		return cannot_protect(err);
	rc = repo_store_counted(store)->ops->protect(store, kind, name, until, err ? err : &why);
	return rc < 0 ? repo_store_wrap(err ? err : &why, "protect", kind, name) : 0;
}

int repo_store_protected_until(struct repo_store *store, enum repo_file kind,
			       const struct repo_id *name, int64_t *ret, struct cairn_err *err)
{
	struct cairn_err why = {0};
	int rc;

	if (!store->ops->protected_until)
		return cannot_protect(err);
	rc = repo_store_counted(store)->ops->protected_until(store, kind, name, ret,
							     err ? err : &why);
	return rc < 0 ? repo_store_wrap(err ? err : &why, "protection of", kind, name) : 0;
}

/* Names that S3 lists with one request. */
#define LIST_PAGE 1000

struct listing {
	repo_store_list_fn *fn;
	void *arg;
	uint64_t n;
};

static int count_name(void *arg, const struct repo_id *name, uint64_t size, struct cairn_err *err)
{
	struct listing *listing = arg;

	listing->n++;
	return listing->fn(listing->arg, name, size, err);
}

int repo_store_list(struct repo_store *store, enum repo_file kind, repo_store_list_fn *fn,
		    void *arg, struct cairn_err *err)
{
	struct cairn_err why = {0};
	struct listing listing = {.fn = fn, .arg = arg};
	int rc = store->ops->list(store, kind, count_name, &listing, err ? err : &why);

	store->requests += 1 + listing.n / LIST_PAGE;
	return rc < 0 ? cairn_err_wrap(err ? err : &why, "list %s", repo_file_name(kind)) : 0;
}

struct rest_listing {
	repo_store_list_rest_fn *fn;
	void *arg;
	uint64_t n;
};

static int count_rest(void *arg, enum repo_file kind, const struct repo_id *name, uint64_t size,
		      struct cairn_err *err)
{
	struct rest_listing *listing = arg;

	listing->n++;
	return listing->fn(listing->arg, kind, name, size, err);
}

int repo_store_list_rest(struct repo_store *store, repo_store_list_rest_fn *fn, void *arg,
			 bool *ret_at_once, struct cairn_err *err)
{
	struct rest_listing listing = {.fn = fn, .arg = arg};
	int rc;

	if (!store->ops->list_rest)
		return cairn_err_set(err, CAIRN_UNIMPLEMENTED, "one listing of several kinds");
	rc = store->ops->list_rest(store, count_rest, &listing, ret_at_once, err);
	store->requests += 1 + listing.n / LIST_PAGE;
	return rc;
}

int repo_store_sweep(struct repo_store *store, struct repo_swept *ret, struct cairn_err *err)
{
	struct repo_swept swept = {0};
	int rc = store->ops->sweep ? store->ops->sweep(store, &swept, err) : 0;

	*ret = swept;
	return rc;
}

uint64_t repo_store_space(struct repo_store *store)
{
	uint64_t space = UINT64_MAX;

	if (store->ops->space && store->ops->space(store, &space, NULL) < 0)
		return UINT64_MAX;
	return space;
}

int repo_store_reserve_keep(struct repo_store *store, struct cairn_err *err)
{
	return store->ops->reserve_keep ? store->ops->reserve_keep(store, err) : 0;
}

bool repo_store_reserve_release(struct repo_store *store)
{
	bool released = false;

	return store->ops->reserve_release &&
	       store->ops->reserve_release(store, &released, NULL) == 0 && released;
}
