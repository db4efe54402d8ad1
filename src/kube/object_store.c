/* SPDX-License-Identifier: Apache-2.0 */

#include "kube/object_store.h"

#include <string.h>

#include "base/err.h"
#include "base/mem.h"

struct kube_store {
	json_t *objects; /* key: object */
	const struct kube_index *indexes;
	size_t n_indexes;
	json_t *maps[KUBE_INFORMER_INDEXES_MAX]; /* text: {key: null} */
};

int kube_store_new(const struct kube_index *indexes, struct kube_store **ret, struct cairn_err *err)
{
	cairn_cleanup(kube_store_freep) struct kube_store *store = cairn_calloc(1, sizeof(*store));

	if (!store)
		return cairn_err_nomem(err, "store");
	store->indexes = indexes;
	store->objects = json_object();
	while (indexes && indexes[store->n_indexes].name) {
		if (store->n_indexes == KUBE_INFORMER_INDEXES_MAX)
			return cairn_err_set(err, CAIRN_INVALID, "more than %d indexes",
					     KUBE_INFORMER_INDEXES_MAX);
		store->maps[store->n_indexes] = json_object();
		if (!store->maps[store->n_indexes++])
			return cairn_err_nomem(err, "store");
	}
	if (!store->objects)
		return cairn_err_nomem(err, "store");
	*ret = cairn_take(store);
	return 0;
}

void kube_store_free(struct kube_store *store)
{
	if (!store)
		return;
	json_decref(store->objects);
	for (size_t i = 0; i < store->n_indexes; i++)
		json_decref(store->maps[i]);
	free(store);
}

/* Context of an index function's emit callback. */
struct indexing {
	json_t *map;
	const char *key;
	bool failed;
	bool missing; /* for the check */
};

static void object_store_insert(void *to, const char *text)
{
	struct indexing *in = to;
	json_t *keys = json_object_get(in->map, text);

	if (!keys) {
		keys = json_object();
		if (!keys || json_object_set_new_nocheck(in->map, text, keys) < 0) {
			in->failed = true;
			return;
		}
	}
	if (json_object_set_new_nocheck(keys, in->key, json_null()) < 0)
		in->failed = true;
}

static void object_store_erase(void *to, const char *text)
{
	struct indexing *in = to;
	json_t *keys = json_object_get(in->map, text);

	json_object_del(keys, in->key);
	if (keys && json_object_size(keys) == 0)
		json_object_del(in->map, text);
}

static bool index_add(struct kube_store *store, const char *key, const json_t *object)
{
	for (size_t i = 0; i < store->n_indexes; i++) {
		struct indexing in = {.map = store->maps[i], .key = key};

		store->indexes[i].texts(object, object_store_insert, &in);
		if (in.failed)
			return false;
	}
	return true;
}

static void index_remove(struct kube_store *store, const char *key, const json_t *object)
{
	for (size_t i = 0; i < store->n_indexes; i++) {
		struct indexing in = {.map = store->maps[i], .key = key};

		store->indexes[i].texts(object, object_store_erase, &in);
	}
}

json_t *kube_store_get(const struct kube_store *store, const char *key)
{
	return json_object_get(store->objects, key);
}

size_t kube_store_count(const struct kube_store *store)
{
	return json_object_size(store->objects);
}

json_t *kube_store_objects(const struct kube_store *store)
{
	return store->objects;
}

json_t *kube_store_remove(struct kube_store *store, const char *key)
{
	json_t *old = json_incref(kube_store_get(store, key));

	if (!old)
		return NULL;
	index_remove(store, key, old);
	json_object_del(store->objects, key);
	return old;
}

int kube_store_put(struct kube_store *store, const char *key, json_t *object, json_t **ret_old,
		   struct cairn_err *err)
{
	json_t *old = kube_store_remove(store, key);

	if (json_object_set_new_nocheck(store->objects, key, json_incref(object)) < 0 ||
	    !index_add(store, key, object)) {
		/* Removing a partial insertion needs no memory. */
		index_remove(store, key, object);
		json_object_del(store->objects, key);
		json_decref(old);
		return cairn_err_nomem(err, "object");
	}
	*ret_old = old;
	return 0;
}

/* Returns references to the objects of the keys in `keys`, whose values are ignored. */
static int object_store_collect(const struct kube_store *store, json_t *keys, json_t ***ret,
				size_t *ret_n, struct cairn_err *err)
{
	size_t n = json_object_size(keys), at = 0;
	json_t **objects = cairn_calloc(n + 1, sizeof(json_t *));
	const char *key;
	json_t *value;

	if (!objects)
		return cairn_err_nomem(err, "list");
	json_object_foreach(keys, key, value)
	{
		objects[at++] = json_incref(kube_store_get(store, key));
	}
	*ret = objects;
	*ret_n = n;
	return 0;
}

int kube_store_find(const struct kube_store *store, const char *index, const char *text,
		    json_t ***ret, size_t *ret_n, struct cairn_err *err)
{
	for (size_t i = 0; i < store->n_indexes; i++)
		if (strcmp(store->indexes[i].name, index) == 0)
			return object_store_collect(store, json_object_get(store->maps[i], text),
						    ret, ret_n, err);
	return cairn_err_set(err, CAIRN_INVALID, "no index '%s'", index);
}

int kube_store_list(const struct kube_store *store, json_t ***ret, size_t *ret_n,
		    struct cairn_err *err)
{
	return object_store_collect(store, store->objects, ret, ret_n, err);
}

static void object_store_look(void *to, const char *text)
{
	struct indexing *in = to;

	if (!json_object_get(json_object_get(in->map, text), in->key))
		in->missing = true;
}

/* Checks that every key in an index exists. */
static bool no_stranger(const struct kube_store *store, json_t *map)
{
	const char *text, *key;
	json_t *keys, *value;

	json_object_foreach(map, text, keys)
	{
		if (json_object_size(keys) == 0)
			return false;
		json_object_foreach(keys, key, value)
		{
			if (!kube_store_get(store, key))
				return false;
		}
	}
	return true;
}

bool kube_store_check(const struct kube_store *store)
{
	for (size_t i = 0; i < store->n_indexes; i++) {
		const char *key;
		json_t *object;

		json_object_foreach(store->objects, key, object)
		{
			struct indexing in = {.map = store->maps[i], .key = key};

			store->indexes[i].texts(object, object_store_look, &in);
			if (in.missing)
				return false;
		}
		if (!no_stranger(store, store->maps[i]))
			return false;
	}
	return true;
}
