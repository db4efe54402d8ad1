/* SPDX-License-Identifier: Apache-2.0 */

/* Kubernetes objects: JSON trees and accessors for their fields.
 *
 * An object is the complete tree that the server sent: unknown fields are preserved and
 * sent back with an update. Accessors distinguish absent from zero: they return NULL, or
 * false for functions with a `ret_`, if the field is absent, null or of another type, and
 * then leave *ret unchanged.
 *
 * Strings and trees that an accessor returns are borrowed from the object. Paths are given
 * part by part, so that a label with dots and slashes is one part:
 *
 *     const char *handle = kube_str(content, "status", "snapshotHandle");
 *
 * Threads may share an object for reading; to change a shared object, change a copy
 * (kube_copy).
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

/* Limit of one object or watch event. etcd accepts 1.5 MiB; JSON is larger than the stored
 * form, and aggregated servers may allow more. */
#define KUBE_OBJECT_MAX (16U << 20)

/* Parses one JSON value from `n` bytes. NUL characters in strings and integers beyond 64
 * bits (which become reals) are accepted, because any user may store them and one object
 * must not make a list of thousands unreadable.
 *
 * CAIRN_INVALID   not JSON, nested too deeply, or followed by other text
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

/* True if the field exists and is true. */
#define kube_is(object, ...) kube_is_path((object), KUBE_PATH_(__VA_ARGS__))

/* Sets a field and creates missing parent objects; takes ownership of `value`, also on
 * failure. Fails if `value` is NULL, so a failed allocation can be passed on.
 *
 * CAIRN_INVALID   a parent is not an object
 * CAIRN_NO_SPACE  out of memory
 */
#define kube_set(object, err, value, ...) \
	kube_set_path((object), KUBE_PATH_(__VA_ARGS__), (value), (err))
#define kube_remove(object, ...) kube_remove_path((object), KUBE_PATH_(__VA_ARGS__))

json_t *kube_at_path(const json_t *object, const char *const path[]);

/* NULL also for a string that contains NUL: no valid name or handle does. */
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

/* "namespace/name", or "name" for a cluster-scoped object: the key in stores and queues. */
#define KUBE_KEY_MAX 520
bool kube_key(const json_t *object, char out[KUBE_KEY_MAX]);
bool kube_key_of(const char *ns, const char *name, char out[KUBE_KEY_MAX]);

/* Splits a key; *ret_ns is "" if it has no namespace. The parts are stored in `buf`. */
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
