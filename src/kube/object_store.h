/* SPDX-License-Identifier: Apache-2.0 */

/* The objects of an informer, by key and by index. Not thread-safe. */
#ifndef CAIRN_KUBE_STORE_H
#define CAIRN_KUBE_STORE_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/cleanup.h"
#include "kube/informer.h"

struct cairn_err;
struct kube_store;

/* `indexes` as in kube_informer_options; borrowed. */
int kube_store_new(const struct kube_index *indexes, struct kube_store **ret,
		   struct cairn_err *err);

/* Accepts NULL. */
void kube_store_free(struct kube_store *store);
CAIRN_DEFINE_CLEANUP(struct kube_store, kube_store_free);

/* Stores a reference to `object` under `key`; *ret_old is the caller's reference to the
 * previous object, or NULL. When memory is short, nothing is stored under the key
 * afterwards, neither the new nor the old object. */
int kube_store_put(struct kube_store *store, const char *key, json_t *object, json_t **ret_old,
		   struct cairn_err *err);

/* Returns the caller's reference to the removed object, or NULL. */
json_t *kube_store_remove(struct kube_store *store, const char *key);

/* Borrowed. */
json_t *kube_store_get(const struct kube_store *store, const char *key);
size_t kube_store_count(const struct kube_store *store);

/* Keys and objects, as a JSON object; borrowed and read-only. */
json_t *kube_store_objects(const struct kube_store *store);

/* Returns references to the objects that an index has under `text`. CAIRN_INVALID if there
 * is no such index. */
int kube_store_find(const struct kube_store *store, const char *index, const char *text,
		    json_t ***ret, size_t *ret_n, struct cairn_err *err);

/* Returns references to all objects. */
int kube_store_list(const struct kube_store *store, json_t ***ret, size_t *ret_n,
		    struct cairn_err *err);

/* True if indexes and objects agree. For tests. */
bool kube_store_check(const struct kube_store *store);

#endif
