/* SPDX-License-Identifier: Apache-2.0 */

#include "older/aggapi/discovery.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "kube/object.h"
#include "older/aggapi/path.h"

static json_t *own_entry(void)
{
	return json_pack("{s:s, s:s, s:b, s:s, s:[s], s:[s]}", "name", AGGAPI_RESOURCE,
			 "singularName", "volumesnapshotdelta", "namespaced", 1, "kind",
			 AGGAPI_KIND, "verbs", "create", "shortNames", "vsd");
}

json_t *aggapi_discovery_resources(const json_t *passed)
{
	kube_auto_json json_t *list = json_pack(
		"{s:s, s:s, s:s, s:[o]}", "kind", "APIResourceList", "apiVersion", "v1",
		"groupVersion", AGGAPI_GROUP "/" AGGAPI_VERSION, "resources", own_entry());

	if (!list ||
	    json_array_extend(json_object_get(list, "resources"), (json_t *)(uintptr_t)passed) < 0)
		return NULL;
	return cairn_take(list);
}

static json_t *kind_of(const json_t *entry)
{
	return json_pack("{s:s, s:s, s:s*}", "group", AGGAPI_GROUP, "version", AGGAPI_VERSION,
			 "kind", kube_str(entry, "kind"));
}

/* "PLURAL/NAME" of this plural: NAME; else NULL. */
static const char *subresource_of(const json_t *entry, const char *plural)
{
	const char *name = kube_str(entry, "name");
	size_t n = strlen(plural);

	return name && strncmp(name, plural, n) == 0 && name[n] == '/' ? name + n + 1 : NULL;
}

static int add_subresources(json_t *found, const json_t *all, const char *plural)
{
	json_t *list = NULL;
	const json_t *entry;
	size_t i;

	json_array_foreach(all, i, entry)
	{
		const char *name = subresource_of(entry, plural);

		if (!name)
			continue;
		if (!list) {
			list = json_array();
			if (json_object_set_new(found, "subresources", list) < 0)
				return -1;
		}
		if (json_array_append_new(list, json_pack("{s:s, s:o, s:O}", "subresource", name,
							  "responseKind", kind_of(entry), "verbs",
							  json_object_get(entry, "verbs"))) < 0)
			return -1;
	}
	return 0;
}

/* An entry of an APIResourceList as an APIResourceDiscovery. */
static json_t *discovery_of(const json_t *entry, const json_t *all)
{
	const char *plural = kube_str(entry, "name"), *singular = kube_str(entry, "singularName");
	kube_auto_json json_t *found = json_pack(
		"{s:s, s:o, s:s, s:s, s:O}", "resource", plural, "responseKind", kind_of(entry),
		"scope", kube_is(entry, "namespaced") ? "Namespaced" : "Cluster",
		"singularResource", singular ? singular : "", "verbs",
		json_object_get(entry, "verbs"));
	static const char *const lists[] = {"shortNames", "categories"};

	if (!found)
		return NULL;
	for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++) {
		json_t *list = json_object_get(entry, lists[i]);

		if (list && json_object_set(found, lists[i], list) < 0)
			return NULL;
	}
	if (add_subresources(found, all, plural) < 0)
		return NULL;
	return cairn_take(found);
}

static json_t *discovered(const json_t *all)
{
	kube_auto_json json_t *list = json_array();
	const json_t *entry;
	size_t i;

	json_array_foreach(all, i, entry)
	{
		if (strchr(kube_str(entry, "name"), '/'))
			continue;
		if (json_array_append_new(list, discovery_of(entry, all)) < 0)
			return NULL;
	}
	return cairn_take(list);
}

json_t *aggapi_discovery_groups(const json_t *passed, const char *version)
{
	kube_auto_json json_t *all = aggapi_discovery_resources(passed);
	json_t *found = all ? discovered(json_object_get(all, "resources")) : NULL;
	char api[64];

	if (!found)
		return NULL;
	snprintf(api, sizeof(api), "apidiscovery.k8s.io/%s", version);
	return json_pack("{s:s, s:s, s:{}, s:[{s:{s:s, s:n}, s:[{s:s, s:s, s:o}]}]}", "kind",
			 "APIGroupDiscoveryList", "apiVersion", api, "metadata", "items",
			 "metadata", "name", AGGAPI_GROUP, "creationTimestamp", "versions",
			 "version", AGGAPI_VERSION, "freshness", "Current", "resources", found);
}
