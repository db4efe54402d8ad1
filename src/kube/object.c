/* SPDX-License-Identifier: Apache-2.0 */

#include "kube/object.h"

#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "kube/kube_resource.h"

json_t *kube_at_path(const json_t *object, const char *const path[])
{
	json_t *found = NULL;

	for (; *path; path++) {
		found = json_object_get(object, *path);
		if (!found)
			return NULL;
		object = found;
	}
	return json_is_null(found) ? NULL : found;
}

static const char *object_text_of(const json_t *json)
{
	const char *text = json_string_value(json);

	return text && strlen(text) == json_string_length(json) ? text : NULL;
}

const char *kube_str_path(const json_t *object, const char *const path[])
{
	return object_text_of(kube_at_path(object, path));
}

bool kube_i64_path(const json_t *object, int64_t *ret, const char *const path[])
{
	const json_t *found = kube_at_path(object, path);

	if (!json_is_integer(found))
		return false;
	*ret = json_integer_value(found);
	return true;
}

bool kube_bool_path(const json_t *object, bool *ret, const char *const path[])
{
	const json_t *found = kube_at_path(object, path);

	if (!json_is_boolean(found))
		return false;
	*ret = json_is_true(found);
	return true;
}

bool kube_is_path(const json_t *object, const char *const path[])
{
	return json_is_true(kube_at_path(object, path));
}

/* Returns the object that contains the last part of the path; creates missing parents. */
static int object_enter(json_t *object, const char *const path[], json_t **ret,
			const char **ret_last, struct cairn_err *err)
{
	for (; path[1]; path++) {
		json_t *next = json_object_get(object, path[0]);

		if (!next || json_is_null(next)) {
			next = json_object();
			if (!next || json_object_set_new(object, path[0], next) < 0)
				return cairn_err_nomem(err, "object");
		}
		if (!json_is_object(next))
			return cairn_err_set(err, CAIRN_INVALID, "'%s' is not an object", path[0]);
		object = next;
	}
	*ret = object;
	*ret_last = path[0];
	return 0;
}

int kube_set_path(json_t *object, const char *const path[], json_t *value, struct cairn_err *err)
{
	kube_auto_json json_t *owned = value;
	const char *last;
	json_t *in;
	int rc;

	if (!value)
		return cairn_err_nomem(err, "value");
	if (!json_is_object(object))
		return cairn_err_set(err, CAIRN_INVALID, "'%s' in no object", path[0]);
	rc = object_enter(object, path, &in, &last, err);
	if (rc)
		return rc;
	if (json_object_set(in, last, owned) < 0)
		return cairn_err_nomem(err, "field");
	return 0;
}

void kube_remove_path(json_t *object, const char *const path[])
{
	for (; path[1]; path++)
		object = json_object_get(object, path[0]);
	if (object)
		json_object_del(object, path[0]);
}

static const char *object_metadata(const json_t *object, const char *field)
{
	const char *text = kube_str(object, "metadata", field);

	return text ? text : "";
}

const char *kube_name(const json_t *object)
{
	return object_metadata(object, "name");
}

const char *kube_namespace(const json_t *object)
{
	return object_metadata(object, "namespace");
}

const char *kube_uid(const json_t *object)
{
	return object_metadata(object, "uid");
}

const char *kube_resource_version(const json_t *object)
{
	return object_metadata(object, "resourceVersion");
}

const char *kube_label(const json_t *object, const char *key)
{
	return kube_str(object, "metadata", "labels", key);
}

const char *kube_annotation(const json_t *object, const char *key)
{
	return kube_str(object, "metadata", "annotations", key);
}

bool kube_is_deleted(const json_t *object)
{
	return kube_at(object, "metadata", "deletionTimestamp") != NULL;
}

bool kube_has_finalizer(const json_t *object, const char *finalizer)
{
	const json_t *list = kube_at(object, "metadata", "finalizers");
	const json_t *item;
	size_t i;

	json_array_foreach(list, i, item)
	{
		const char *text = object_text_of(item);

		if (text && strcmp(text, finalizer) == 0)
			return true;
	}
	return false;
}

bool kube_key_of(const char *ns, const char *name, char out[KUBE_KEY_MAX])
{
	int n = snprintf(out, KUBE_KEY_MAX, "%s%s%s", ns ? ns : "", ns && ns[0] ? "/" : "", name);

	return name[0] && n > 0 && n < KUBE_KEY_MAX;
}

bool kube_key(const json_t *object, char out[KUBE_KEY_MAX])
{
	return kube_key_of(kube_namespace(object), kube_name(object), out);
}

void kube_key_split(const char *key, char buf[KUBE_KEY_MAX], const char **ret_ns,
		    const char **ret_name)
{
	char *slash;

	snprintf(buf, KUBE_KEY_MAX, "%s", key);
	slash = strchr(buf, '/');
	if (slash) {
		*slash = '\0';
		*ret_ns = buf;
		*ret_name = slash + 1;
	} else {
		*ret_ns = "";
		*ret_name = buf;
	}
}

json_t *kube_object_new(const struct kube_resource *resource, const char *ns, const char *name)
{
	char version[KUBE_API_VERSION_MAX];

	kube_api_version(resource, version);
	return json_pack("{s:s, s:s, s:{s:s*, s:s*}}", "apiVersion", version, "kind",
			 resource->kind, "metadata", "namespace", ns, "name", name);
}

json_t *kube_copy(const json_t *object)
{
	return json_deep_copy(object);
}

json_t *kube_condition(const json_t *object, const char *type)
{
	const json_t *list = kube_at(object, "status", "conditions");
	json_t *item;
	size_t i;

	json_array_foreach(list, i, item)
	{
		const char *text = kube_str(item, "type");

		if (text && strcmp(text, type) == 0)
			return item;
	}
	return NULL;
}

static const char *object_text_or_null(const char *text)
{
	return text[0] ? text : NULL;
}

json_t *kube_reference_to(const json_t *object)
{
	return json_pack("{s:s*, s:s*, s:s*, s:s*, s:s*, s:s*}", "apiVersion",
			 kube_str(object, "apiVersion"), "kind", kube_str(object, "kind"),
			 "namespace", object_text_or_null(kube_namespace(object)), "name",
			 object_text_or_null(kube_name(object)), "uid",
			 object_text_or_null(kube_uid(object)), "resourceVersion",
			 object_text_or_null(kube_resource_version(object)));
}
