/* SPDX-License-Identifier: Apache-2.0 */

#include "older/aggapi/openapi_rename.h"

#include <ctype.h>
#include <string.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/mem.h"
#include "kube/object.h"
#include "older/aggapi/path.h"

#define TEXT_MAX (1U << 20)

/* What precedes the version in paths and apiVersions, names of schemas, tags, and, with a
 * capital, in the names of operations. */
static const char *const before[] = {AGGAPI_GROUP "/", "storage.cbt.", "cbtStorage_", "CbtStorage"};

/* Bytes of a name of the version at `at`; 0 if there is none. */
static size_t versioned(const char *at, const char *version, size_t *ret_prefix)
{
	for (size_t i = 0; i < sizeof(before) / sizeof(before[0]); i++) {
		size_t n = strlen(before[i]), len = strlen(version);

		if (strncmp(at, before[i], n) == 0 && tolower((unsigned char)at[n]) == version[0] &&
		    strncmp(at + n + 1, version + 1, len - 1) == 0) {
			*ret_prefix = n + 1;
			return n + len;
		}
	}
	return 0;
}

/* The text with our version; the caller frees it. NULL when memory is short. */
static char *rename_text(const char *text, const char *version)
{
	cairn_auto_buf struct cairn_buf out = CAIRN_BUF_INIT(TEXT_MAX);

	while (*text) {
		size_t prefix = 0, n = versioned(text, version, &prefix);

		if (n > 0) {
			cairn_buf_add(&out, text, prefix);
			cairn_buf_adds(&out, &AGGAPI_VERSION[1]);
		} else {
			n = 1;
			cairn_buf_addc(&out, *text);
		}
		text += n;
	}
	return cairn_buf_take_string(&out);
}

static json_t *renamed(const json_t *value, const char *version);

static json_t *renamed_object(const json_t *object, const char *version)
{
	kube_auto_json json_t *made = json_object();
	const char *group = kube_str(object, "group"), *own = kube_str(object, "version"), *key;
	json_t *value;

	json_object_foreach((json_t *)(uintptr_t)object, key, value)
	{
		cairn_auto_free char *name = rename_text(key, version);

		if (!name || json_object_set_new(made, name, renamed(value, version)) < 0)
			return NULL;
	}
	if (group && own && strcmp(group, AGGAPI_GROUP) == 0 && strcmp(own, version) == 0 &&
	    json_object_set_new(made, "version", json_string(AGGAPI_VERSION)) < 0)
		return NULL;
	return cairn_take(made);
}

static json_t *renamed_array(const json_t *array, const char *version)
{
	kube_auto_json json_t *made = json_array();
	const json_t *value;
	size_t i;

	json_array_foreach(array, i, value)
	{
		if (json_array_append_new(made, renamed(value, version)) < 0)
			return NULL;
	}
	return cairn_take(made);
}

/* A copy; NULL when memory is short. The depth is that of a text that jansson has parsed. */
static json_t *renamed(const json_t *value, const char *version)
{
	if (json_is_object(value))
		return renamed_object(value, version);
	if (json_is_array(value))
		return renamed_array(value, version);
	if (json_is_string(value)) {
		cairn_auto_free char *text = rename_text(json_string_value(value), version);

		return text ? json_string(text) : NULL;
	}
	return json_deep_copy(value);
}

/* True for "/apis/GROUP/VERSION/[namespaces/{namespace}/]PLURAL…" of a wanted kind. */
static bool path_wanted(const char *path, const char *version,
			bool (*wanted)(const char *plural, const char *version))
{
	static const char root[] = "/apis/" AGGAPI_GROUP "/", inside[] = "namespaces/{namespace}/";
	char plural[AGGAPI_NAMESPACE_MAX];
	size_t n = strlen(version);

	if (strncmp(path, root, sizeof(root) - 1) != 0)
		return false;
	path += sizeof(root) - 1;
	if (strncmp(path, version, n) != 0 || path[n] != '/')
		return false;
	path += n + 1;
	if (strncmp(path, inside, sizeof(inside) - 1) == 0)
		path += sizeof(inside) - 1;
	n = strcspn(path, "/");
	if (n == 0 || n >= sizeof(plural))
		return false;
	memcpy(plural, path, n);
	plural[n] = '\0';
	return wanted(plural, version);
}

int aggapi_openapi_rename(const json_t *document, const char *version,
			  bool (*wanted)(const char *plural, const char *version), json_t *into,
			  struct cairn_err *err)
{
	const json_t *known = kube_at(document, "components", "schemas");
	kube_auto_json json_t *schemas = known ? renamed(known, version) : NULL;
	const char *path;
	json_t *value;

	if (known && json_object_update(kube_at(into, "components", "schemas"), schemas) < 0)
		return cairn_err_nomem(err, "OpenAPI");
	json_object_foreach(kube_at(document, "paths"), path, value)
	{
		cairn_auto_free char *name = NULL;

		if (!path_wanted(path, version, wanted))
			continue;
		name = rename_text(path, version);
		if (!name || json_object_set_new(json_object_get(into, "paths"), name,
						 renamed(value, version)) < 0)
			return cairn_err_nomem(err, "OpenAPI");
	}
	return 0;
}
