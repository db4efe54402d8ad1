/* SPDX-License-Identifier: Apache-2.0 */

#include "older/aggapi/path.h"

#include <ctype.h>
#include <stddef.h>
#include <string.h>

#include "older/aggapi/passed_kinds.h"

#define SERVED "/apis/" AGGAPI_GROUP "/" AGGAPI_VERSION

bool aggapi_name_valid(const char *name)
{
	size_t n = strlen(name);

	if (n == 0 || n >= AGGAPI_NAME_MAX)
		return n == 0;
	if (!isalnum((unsigned char)name[0]) || !isalnum((unsigned char)name[n - 1]))
		return false;
	for (size_t i = 0; i < n; i++) {
		unsigned char c = (unsigned char)name[i];

		if (!islower(c) && !isdigit(c) && c != '-' && c != '.')
			return false;
		if (c == '.' && (name[i + 1] == '.' || name[i + 1] == '-' || name[i - 1] == '-'))
			return false;
	}
	return true;
}

/* Copies the part up to the next '/' and advances to it; false if it is empty or not a
 * name. */
static bool take_part(const char **at, char *out, size_t cap)
{
	size_t n = strcspn(*at, "/");

	if (n == 0 || n >= cap)
		return false;
	memcpy(out, *at, n);
	out[n] = '\0';
	*at += n;
	return aggapi_name_valid(out);
}

static bool path_take_text(const char **at, const char *text)
{
	size_t n = strlen(text);

	if (strncmp(*at, text, n) != 0)
		return false;
	*at += n;
	return true;
}

/* A resource that is stored elsewhere; `at` is behind its plural. */
static enum aggapi_what passed_path(const char *at, struct aggapi_path *ret)
{
	if (*at == '\0')
		return AGGAPI_PASSED;
	if (!path_take_text(&at, "/") || !take_part(&at, ret->name, sizeof(ret->name)))
		return AGGAPI_UNKNOWN;
	if (strcmp(at, "/status") == 0)
		ret->subresource = "status";
	else if (*at != '\0')
		return AGGAPI_UNKNOWN;
	return AGGAPI_PASSED;
}

/* A VolumeSnapshotDelta; `at` is behind the plural. */
static enum aggapi_what delta_path(const char *at, struct aggapi_path *ret)
{
	if (*at == '\0')
		return ret->ns[0] ? AGGAPI_DELTAS : AGGAPI_DELTAS_OF_ALL;
	if (!ret->ns[0] || !path_take_text(&at, "/") ||
	    !take_part(&at, ret->name, sizeof(ret->name)) || *at != '\0')
		return AGGAPI_UNKNOWN;
	return AGGAPI_DELTA;
}

static enum aggapi_what below_version(const char *at, struct aggapi_path *ret)
{
	char plural[AGGAPI_NAMESPACE_MAX];

	if (path_take_text(&at, "/namespaces/") && !take_part(&at, ret->ns, sizeof(ret->ns)))
		return AGGAPI_UNKNOWN;
	if (!path_take_text(&at, "/") || !take_part(&at, plural, sizeof(plural)))
		return AGGAPI_UNKNOWN;
	if (strcmp(plural, AGGAPI_RESOURCE) == 0)
		return delta_path(at, ret);
	ret->passed = aggapi_passed_kind(plural);
	return ret->passed ? passed_path(at, ret) : AGGAPI_UNKNOWN;
}

void aggapi_path_parse(const char *path, struct aggapi_path *ret)
{
	static const struct {
		const char *path;
		enum aggapi_what what;
	} whole[] = {
		{"/apis", AGGAPI_GROUPS},
		{"/apis/", AGGAPI_GROUPS},
		{"/apis/" AGGAPI_GROUP, AGGAPI_GROUP_INFO},
		{"/apis/" AGGAPI_GROUP "/", AGGAPI_GROUP_INFO},
		{SERVED, AGGAPI_RESOURCES},
		{SERVED "/", AGGAPI_RESOURCES},
		{"/openapi/v2", AGGAPI_OPENAPI_V2},
		{"/openapi/v3", AGGAPI_OPENAPI_V3},
		{"/openapi/v3" SERVED, AGGAPI_OPENAPI_V3_GROUP},
	};

	memset(ret, 0, sizeof(*ret));
	for (size_t i = 0; i < sizeof(whole) / sizeof(whole[0]); i++) {
		if (strcmp(path, whole[i].path) == 0) {
			ret->what = whole[i].what;
			return;
		}
	}
	if (path_take_text(&path, SERVED))
		ret->what = below_version(path, ret);
	if (ret->what == AGGAPI_UNKNOWN)
		memset(ret, 0, sizeof(*ret));
}

bool aggapi_path_is_resource(const struct aggapi_path *path)
{
	return path->what == AGGAPI_DELTAS || path->what == AGGAPI_DELTAS_OF_ALL ||
	       path->what == AGGAPI_DELTA || path->what == AGGAPI_PASSED;
}

const char *aggapi_path_resource(const struct aggapi_path *path)
{
	return path->passed ? path->passed->plural : AGGAPI_RESOURCE;
}

const char *aggapi_verb(const struct aggapi_path *path, const char *method, bool watch)
{
	bool one = path->name[0] != '\0';

	if (strcmp(method, "POST") == 0)
		return "create";
	if (strcmp(method, "GET") == 0 || strcmp(method, "HEAD") == 0)
		return one ? "get" : watch ? "watch" : "list";
	if (strcmp(method, "PUT") == 0)
		return "update";
	if (strcmp(method, "PATCH") == 0)
		return "patch";
	if (strcmp(method, "DELETE") == 0)
		return one ? "delete" : "deletecollection";
	return NULL;
}
