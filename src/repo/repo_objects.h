/* SPDX-License-Identifier: Apache-2.0 */

/* Objects under arbitrary keys in the place of a repository's store: the files of other
 * programs that share the bucket, such as Velero's.
 *
 * A key is relative to the location with which the store was opened ("backups/b1/b1.tar.gz").
 * It has 1 to REPO_KEY_MAX bytes in parts separated by '/'; no part is empty, "." or "..".
 * A put replaces the object as a whole: readers find the old bytes or the new. Threads and
 * retries as in repo/repo_store.h. A store without these operations (restic's REST server)
 * returns CAIRN_UNIMPLEMENTED.
 */
#ifndef CAIRN_REPO_OBJECTS_H
#define CAIRN_REPO_OBJECTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct cairn_err;
struct repo_store;

#define REPO_KEY_MAX 1024

/* Called for each object of a listing, in any order. A negative return ends the listing and
 * is returned. */
typedef int repo_object_fn(void *arg, const char *key, uint64_t size, struct cairn_err *err);

/* Slots of a store; the wrappers check keys. */
struct repo_object_ops {
	int (*get)(struct repo_store *store, const char *key, size_t max, uint8_t **ret_data,
		   size_t *ret_n, struct cairn_err *err);
	int (*put)(struct repo_store *store, const char *key, const void *data, size_t n,
		   struct cairn_err *err);
	int (*remove)(struct repo_store *store, const char *key, struct cairn_err *err);
	int (*list)(struct repo_store *store, const char *prefix, repo_object_fn *fn, void *arg,
		    struct cairn_err *err);
};

/* Is it a key as described above? */
bool repo_key_valid(const char *key);

/* A whole object of at most `max` bytes; free() it.
 *
 * CAIRN_NOT_FOUND  there is none
 * CAIRN_RANGE      it is larger
 */
int repo_object_get(struct repo_store *store, const char *key, size_t max, uint8_t **ret_data,
		    size_t *ret_n, struct cairn_err *err);

/* Creates or replaces. */
int repo_object_put(struct repo_store *store, const char *key, const void *data, size_t n,
		    struct cairn_err *err);

/* Succeeds when there is none. */
int repo_object_remove(struct repo_store *store, const char *key, struct cairn_err *err);

/* Every object whose key begins with `prefix`, which is "" or ends with '/'. */
int repo_object_list(struct repo_store *store, const char *prefix, repo_object_fn *fn, void *arg,
		     struct cairn_err *err);

#endif
