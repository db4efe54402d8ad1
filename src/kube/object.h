/* SPDX-License-Identifier: Apache-2.0 */

/* Kubernetes objects: JSON trees, and views of what is in them.
 *
 * An object is the tree that the server sent, all of it: what these functions
 * do not know stays as it is and goes back with an update. A view tells absent
 * from zero: pointers are NULL and functions with a `ret_` return false when
 * the field is not there, is null or has another type, and then leave *ret as
 * it was.
 *
 * Texts and trees that a view returns are borrowed from the object. Paths are
 * given part by part, so that a label with dots and slashes is one part:
 *
 *     const char *handle = kube_str(content, "status", "snapshotHandle");
 *
 * Objects may be shared between threads for reading; whoever wants to change
 * one that others hold changes a copy (kube_copy).
 */
#ifndef CAIRN_KUBE_OBJECT_H
#define CAIRN_KUBE_OBJECT_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"

struct cairn_err;
struct kube_resource;

static inline void kube_json_decrefp(json_t **json)
{
	json_decref(*json);
}
#define kube_auto_json cairn_cleanup(kube_json_decrefp)

/* One object, or one event of a watch. etcd takes 1.5 MiB; JSON is larger than
 * what is stored, and aggregated servers may have more. */
#define KUBE_OBJECT_MAX (16U << 20)

/* Reads one JSON value from `n` bytes. NUL characters in texts and integers
 * beyond 64 bits (which become reals) are taken, because any user may store
 * them and one object must not make a list of thousands unreadable.
 *
 * CAIRN_INVALID   no JSON, too deep, or something follows it
 * CAIRN_NO_SPACE  out of memory
 */
int kube_json_parse(const char *text, size_t n, json_t **ret, struct cairn_err *err);

/* Compact text, NUL-terminated; NULL when memory is short. The caller frees it
 * with free(). */
char *kube_json_text(const json_t *json, size_t *ret_len);

#define KUBE_PATH_(...) ((const char *const[]){__VA_ARGS__, NULL})

#define kube_at(object, ...)        kube_at_path((object), KUBE_PATH_(__VA_ARGS__))
#define kube_str(object, ...)       kube_str_path((object), KUBE_PATH_(__VA_ARGS__))
#define kube_i64(object, ret, ...)  kube_i64_path((object), (ret), KUBE_PATH_(__VA_ARGS__))
#define kube_bool(object, ret, ...) kube_bool_path((object), (ret), KUBE_PATH_(__VA_ARGS__))

/* True when the field is there and is true. */
#define kube_is(object, ...) kube_is_path((object), KUBE_PATH_(__VA_ARGS__))

/* Sets a field, making objects on the way; takes `value` over, also on failure.
 * A NULL value (memory was short while making it) fails.
 *
 * CAIRN_INVALID   something on the way is no object
 * CAIRN_NO_SPACE  out of memory
 */
#define kube_set(object, err, value, ...) \
	kube_set_path((object), KUBE_PATH_(__VA_ARGS__), (value), (err))
#define kube_remove(object, ...) kube_remove_path((object), KUBE_PATH_(__VA_ARGS__))

json_t *kube_at_path(const json_t *object, const char *const path[]);

/* NULL also for a text with a NUL inside: no name or handle has one. */
const char *kube_str_path(const json_t *object, const char *const path[]);
bool kube_i64_path(const json_t *object, int64_t *ret, const char *const path[]);
bool kube_bool_path(const json_t *object, bool *ret, const char *const path[]);
bool kube_is_path(const json_t *object, const char *const path[]);
int kube_set_path(json_t *object, const char *const path[], json_t *value, struct cairn_err *err);
void kube_remove_path(json_t *object, const char *const path[]);

/* metadata; "" instead of NULL where it is absent. */
const char *kube_name(const json_t *object);
const char *kube_namespace(const json_t *object);
const char *kube_uid(const json_t *object);
const char *kube_resource_version(const json_t *object);

/* NULL when absent. */
const char *kube_label(const json_t *object, const char *key);
const char *kube_annotation(const json_t *object, const char *key);
bool kube_is_deleted(const json_t *object); /* deletionTimestamp is set */
bool kube_has_finalizer(const json_t *object, const char *finalizer);

/* "namespace/name", or "name" where there is no namespace: the key of a store
 * and of a queue. */
#define KUBE_KEY_MAX 520
bool kube_key(const json_t *object, char out[KUBE_KEY_MAX]);
bool kube_key_of(const char *ns, const char *name, char out[KUBE_KEY_MAX]);

/* The parts of a key; *ret_ns is "" when it has none. `buf` holds them. */
void kube_key_split(const char *key, char buf[KUBE_KEY_MAX], const char **ret_ns,
		    const char **ret_name);

/* A new object of that kind with apiVersion, kind and metadata; `ns` may be
 * NULL. NULL when memory is short. */
json_t *kube_object_new(const struct kube_resource *resource, const char *ns, const char *name);

/* A deep copy; NULL when memory is short. */
json_t *kube_copy(const json_t *object);

/* The status condition of that type; NULL when absent. */
json_t *kube_condition(const json_t *object, const char *type);

/* An ObjectReference: apiVersion, kind, namespace, name, uid, resourceVersion.
 * NULL when memory is short. */
json_t *kube_reference_to(const json_t *object);

#endif
