/* SPDX-License-Identifier: Apache-2.0 */

#include "repo/keys.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/mem.h"
#include "repo/instant.h"
#include "repo/keyfile.h"
#include "repo/names.h"
#include "repo/repo_impl.h"
#include "repo/repo_json.h"

void repo_key_list_done(struct repo_key_list *list)
{
	for (size_t i = 0; i < list->n; i++) {
		free(list->items[i].hostname);
		free(list->items[i].username);
	}
	free(list->items);
	*list = (struct repo_key_list){0};
}

static char *keys_text_of(const json_t *root, const char *name)
{
	const char *text = json_string_value(json_object_get(root, name));

	return cairn_strdup(text ? text : "");
}

static int read_info(struct repo *repo, const struct repo_id *id, struct repo_key_info *ret,
		     struct cairn_err *err)
{
	cairn_auto_free uint8_t *data = NULL;
	cairn_cleanup(repo_json_freep) json_t *root = NULL;
	const char *created;
	struct repo_id got;
	size_t n;
	int rc = repo_store_get_all(repo->store, REPO_FILE_KEY, id, REPO_KEYFILE_MAX, &data, &n,
				    err);

	if (rc < 0)
		return rc;
	if (!repo_id_of(data, n, &got))
		return cairn_err_nomem(err, "a hash");
	root = json_loadb((const char *)data, n, 0, NULL);
	ret->damaged = !root || !repo_id_equal(&got, id);
	ret->hostname = keys_text_of(root, "hostname");
	ret->username = keys_text_of(root, "username");
	if (!ret->hostname || !ret->username)
		return cairn_err_nomem(err, "list of keys");
	created = json_string_value(json_object_get(root, "created"));
	if (created && !repo_instant_parse(created, strlen(created), &ret->created_ns))
		ret->created_ns = 0;
	return 0;
}

int repo_key_list(struct repo *repo, struct repo_key_list *ret, struct cairn_err *err)
{
	cairn_cleanup(repo_names_done) struct repo_names names = {0};
	struct repo_key_list list = {0};
	int rc = repo_names_list(repo->store, REPO_FILE_KEY, &names, err);

	if (rc < 0)
		return rc;
	list.items = cairn_calloc(names.n + 1, sizeof(*list.items));
	if (!list.items)
		return cairn_err_nomem(err, "list of keys");
	for (size_t i = 0; i < names.n && rc == 0; i++) {
		struct repo_key_info *info = &list.items[list.n++];

		info->id = names.items[i].name;
		info->current = repo_id_equal(&info->id, &repo->key_name);
		rc = read_info(repo, &info->id, info, err);
	}
	if (rc < 0)
		repo_key_list_done(&list);
	else
		*ret = list;
	return rc;
}

int repo_key_write(struct repo *repo, const void *password, size_t n, uint64_t kdf_n,
		   struct repo_id *ret_id, struct cairn_err *err)
{
	cairn_auto_buf struct cairn_buf json = CAIRN_BUF_INIT(REPO_KEYFILE_MAX);
	struct repo_keyfile_owner owner = {.hostname = repo->here,
					   .username = repo->username,
					   .created_ns = (int64_t)cairn_now_ns(),
					   .n = kdf_n};
	int rc = repo_keyfile_encode(&repo->codecs.key, password, n, &owner, &json, err);

	if (rc < 0)
		return rc;
	return repo_store_put(repo->store, REPO_FILE_KEY, json.data, json.len, ret_id, err);
}

/* Checks that the stored key file opens with the password and contains the same key. */
static int confirm_key(struct repo *repo, const struct repo_id *id, const void *password, size_t n,
		       struct cairn_err *err)
{
	cairn_auto_free uint8_t *data = NULL;
	struct repo_key key = {0};
	size_t length;
	int rc = repo_store_get_all(repo->store, REPO_FILE_KEY, id, REPO_KEYFILE_MAX, &data,
				    &length, err);

	if (rc == 0)
		rc = repo_keyfile_decode((const char *)data, length, password, n, &key, err);
	if (rc == 0 && (memcmp(key.encrypt, repo->codecs.key.encrypt, sizeof(key.encrypt)) != 0 ||
			memcmp(key.mac_k, repo->codecs.key.mac_k, sizeof(key.mac_k)) != 0 ||
			memcmp(key.mac_r, repo->codecs.key.mac_r, sizeof(key.mac_r)) != 0))
		rc = cairn_err_set(err, CAIRN_DATA_LOSS, "it holds another key");
	repo_key_clear(&key);
	return rc < 0 ? cairn_err_wrap(err, "the new key, read back") : 0;
}

int repo_key_add(struct repo *repo, const void *password, size_t n, struct repo_id *ret_id,
		 struct cairn_err *err)
{
	struct repo_id id;
	int rc = repo_key_write(repo, password, n, 0, &id, err);

	if (rc == 0)
		rc = confirm_key(repo, &id, password, n, err);
	if (rc == 0)
		*ret_id = id;
	return rc;
}

static int pick_key(const struct repo_names *names, const char *prefix, struct repo_id *ret,
		    struct cairn_err *err)
{
	size_t n = strlen(prefix), found = 0;

	for (size_t i = 0; i < names->n; i++) {
		char hex[REPO_ID_TEXT_MAX];

		if (n == 0 || strncmp(repo_id_format(&names->items[i].name, hex), prefix, n) != 0)
			continue;
		*ret = names->items[i].name;
		found++;
	}
	if (found == 1)
		return 0;
	if (found == 0)
		return cairn_err_set(err, CAIRN_NOT_FOUND, "there is no key '%s'", prefix);
	return cairn_err_set(err, CAIRN_INVALID, "%zu keys begin with '%s'", found, prefix);
}

/* The key in use was read before the lock was taken: another process may have removed it
 * since, and the key to be removed may now be the last one. */
static int check_in_use(const struct repo *repo, const struct repo_names *names,
			const struct repo_id *id, struct cairn_err *err)
{
	bool there = false;

	for (size_t i = 0; i < names->n; i++)
		there |= repo_id_equal(&names->items[i].name, &repo->key_name);
	if (repo_id_equal(id, &repo->key_name))
		return cairn_err_set(err, CAIRN_PRECONDITION,
				     "it is the key of the password in use: remove it with the "
				     "password of another key, or replace it with 'passwd'");
	if (!there)
		return cairn_err_set(err, CAIRN_PRECONDITION,
				     "the key of the password in use was removed meanwhile, so no "
				     "other is removed");
	return 0;
}

int repo_key_remove(struct repo *repo, const char *prefix, struct repo_id *ret_id,
		    struct cairn_err *err)
{
	cairn_cleanup(repo_names_done) struct repo_names names = {0};
	struct repo_id id;
	int rc = repo_may_delete(repo, err);

	if (rc == 0)
		rc = repo_names_list(repo->store, REPO_FILE_KEY, &names, err);
	if (rc == 0)
		rc = pick_key(&names, prefix, &id, err);
	if (rc == 0)
		rc = check_in_use(repo, &names, &id, err);
	if (rc == 0)
		rc = repo_store_remove(repo->store, REPO_FILE_KEY, &id, err);
	if (rc == 0)
		*ret_id = id;
	return rc;
}

int repo_key_change(struct repo *repo, const void *password, size_t n, struct repo_id *ret_id,
		    struct cairn_err *err)
{
	struct repo_id old = repo->key_name;
	struct repo_id id;
	int rc = repo_may_delete(repo, err);

	if (rc == 0)
		rc = repo_key_add(repo, password, n, &id, err);
	if (rc < 0)
		return rc;
	repo->key_name = id;
	*ret_id = id;
	rc = repo_store_remove(repo->store, REPO_FILE_KEY, &old, err);
	return rc < 0 ? cairn_err_wrap(err, "the new password is good, and so is the old one still")
		      : 0;
}
