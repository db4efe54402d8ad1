/* SPDX-License-Identifier: Apache-2.0 */

#include "repo/repo_objects.h"

#include <string.h>

#include "base/err.h"
#include "repo/repo_store.h"

static bool part_is_valid(const char *part, size_t n)
{
	return n > 0 && !(n == 1 && part[0] == '.') &&
	       !(n == 2 && part[0] == '.' && part[1] == '.');
}

bool repo_key_valid(const char *key)
{
	size_t n = strlen(key);

	if (n == 0 || n > REPO_KEY_MAX)
		return false;
	for (const char *p = key;; p++) {
		size_t part = strcspn(p, "/");

		if (!part_is_valid(p, part))
			return false;
		p += part;
		if (!*p)
			return true;
	}
}

static int check_store(const struct repo_store *store, struct cairn_err *err)
{
	return store->ops->objects ? 0
				   : cairn_err_set(err, CAIRN_UNIMPLEMENTED,
						   "a %s store has no objects under free keys",
						   store->ops->name);
}

static int check_key(struct repo_store *store, const char *key, struct cairn_err *err)
{
	int rc = check_store(store, err);

	if (!rc && !repo_key_valid(key))
		rc = cairn_err_set(err, CAIRN_INVALID, "'%.80s' is not a key", key);
	if (!rc)
		store->requests++;
	return rc;
}

int repo_object_get(struct repo_store *store, const char *key, size_t max, uint8_t **ret_data,
		    size_t *ret_n, struct cairn_err *err)
{
	int rc = check_key(store, key, err);

	if (!rc)
		rc = store->ops->objects->get(store, key, max, ret_data, ret_n, err);
	return rc ? cairn_err_wrap(err, "read '%s'", key) : 0;
}

int repo_object_put(struct repo_store *store, const char *key, const void *data, size_t n,
		    struct cairn_err *err)
{
	int rc = check_key(store, key, err);

	if (!rc)
		rc = store->ops->objects->put(store, key, data, n, err);
	return rc ? cairn_err_wrap(err, "write '%s'", key) : 0;
}

int repo_object_remove(struct repo_store *store, const char *key, struct cairn_err *err)
{
	int rc = check_key(store, key, err);

	if (!rc)
		rc = store->ops->objects->remove(store, key, err);
	return rc ? cairn_err_wrap(err, "remove '%s'", key) : 0;
}

static bool prefix_is_valid(const char *prefix)
{
	char key[REPO_KEY_MAX + 1];
	size_t n = strlen(prefix);

	if (n == 0)
		return true;
	if (n > REPO_KEY_MAX || prefix[n - 1] != '/')
		return false;
	memcpy(key, prefix, n);
	key[n - 1] = 0;
	return repo_key_valid(key);
}

int repo_object_list(struct repo_store *store, const char *prefix, repo_object_fn *fn, void *arg,
		     struct cairn_err *err)
{
	int rc = check_store(store, err);

	if (!rc && !prefix_is_valid(prefix))
		rc = cairn_err_set(err, CAIRN_INVALID, "'%.80s' is not a prefix of keys", prefix);
	if (!rc)
		rc = store->ops->objects->list(store, prefix, fn, arg, err);
	return rc ? cairn_err_wrap(err, "list '%s'", prefix) : 0;
}
