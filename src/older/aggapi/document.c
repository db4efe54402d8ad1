/* SPDX-License-Identifier: Apache-2.0 */

#include "older/aggapi/document.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "block/checksum.h"
#include "kube/object.h"
#include "older/aggapi/discovery.h"
#include "older/aggapi/passed_kinds.h"

#define JSON          "application/json"
#define AGGREGATED(v) "application/json;g=apidiscovery.k8s.io;v=" v ";as=APIGroupDiscoveryList"
#define EMBEDDED(name)               \
	extern const uint8_t name[]; \
	extern const size_t name##_len

EMBEDDED(aggapi_groups);
EMBEDDED(aggapi_group);
EMBEDDED(aggapi_openapi_v2);
EMBEDDED(aggapi_openapi_v3);

/* Kubernetes fetches the paths in the index; the hash only invalidates caches. */
static const char v3_index[] =
	"{\"paths\":{\"apis/" AGGAPI_GROUP "/" AGGAPI_VERSION "\":{\"serverRelativeURL\":"
	"\"/openapi/v3/apis/" AGGAPI_GROUP "/" AGGAPI_VERSION "\"}}}\n";

/* True if `part` is one of the parts of `range`, which ends at a comma. */
static bool has_part(const char *range, const char *part, size_t n)
{
	for (;;) {
		size_t len = strcspn(range, ";,");

		while (len > 0 && *range == ' ') {
			range++;
			len--;
		}
		if (len == n && memcmp(range, part, n) == 0)
			return true;
		if (range[len] != ';')
			return false;
		range += len + 1;
	}
}

/* True if one of the media ranges has all parts of `want`, in any order. */
static bool document_accepts(const char *accept, const char *want)
{
	for (const char *range = accept; range; range = strchr(range, ',')) {
		bool all = true;

		range += *range == ',';
		for (const char *part = want; all && *part;) {
			size_t n = strcspn(part, ";");

			all = has_part(range, part, n);
			part += n + (part[n] == ';');
		}
		if (all)
			return true;
	}
	return false;
}

static int document_fill(struct aggapi_document *d, const void *data, size_t len, const char *type)
{
	*d = (struct aggapi_document){.data = data, .len = len, .type = type};
	return 1;
}

/* Takes ownership of `json`; fails if that is NULL. */
static int document_made(struct aggapi_document *d, json_t *json, const char *type,
			 struct cairn_err *err)
{
	size_t n = 0;

	d->made = json ? kube_json_text(json, &n) : NULL;
	json_decref(json);
	if (!d->made)
		return cairn_err_nomem(err, "document");
	d->data = d->made;
	d->len = n;
	d->type = type;
	return 1;
}

/* The list of resources, or with `version` the groups in the form of aggregated discovery. */
static int document_discovery(const char *version, const char *type, struct aggapi_kinds *kinds,
			      const struct kube_wait *wait, struct aggapi_document *d,
			      struct cairn_err *err)
{
	kube_auto_json json_t *passed = kinds ? NULL : json_array();
	int rc = kinds ? aggapi_kinds_list(kinds, wait, &passed, err) : 0;

	if (rc)
		return rc;
	return document_made(d,
			     version ? aggapi_discovery_groups(passed, version)
				     : aggapi_discovery_resources(passed),
			     type, err);
}

static int document_openapi(struct aggapi_kinds *kinds, struct aggapi_document *d,
			    struct cairn_err *err)
{
	kube_auto_json json_t *all = NULL;
	kube_auto_json json_t *passed = kinds ? aggapi_kinds_openapi(kinds) : NULL;
	int rc = kube_json_parse((const char *)aggapi_openapi_v3, aggapi_openapi_v3_len, &all, err);

	if (rc)
		return rc;
	if (passed && (json_object_update(kube_at(all, "paths"), kube_at(passed, "paths")) < 0 ||
		       json_object_update(kube_at(all, "components", "schemas"),
					  kube_at(passed, "components", "schemas")) < 0))
		return cairn_err_nomem(err, "document");
	return document_made(d, cairn_take(all), JSON, err);
}

static int document_groups(const char *accept, struct aggapi_kinds *kinds,
			   const struct kube_wait *wait, struct aggapi_document *d,
			   struct cairn_err *err)
{
	if (accept && document_accepts(accept, AGGREGATED("v2")))
		return document_discovery("v2", AGGREGATED("v2"), kinds, wait, d, err);
	if (accept && document_accepts(accept, AGGREGATED("v2beta1")))
		return document_discovery("v2beta1", AGGREGATED("v2beta1"), kinds, wait, d, err);
	return document_fill(d, aggapi_groups, aggapi_groups_len, JSON);
}

int aggapi_document(enum aggapi_what what, const char *accept, struct aggapi_kinds *kinds,
		    const struct kube_wait *wait, struct aggapi_document *ret,
		    struct cairn_err *err)
{
	*ret = (struct aggapi_document){0};
	switch (what) {
	case AGGAPI_GROUPS:
		return document_groups(accept, kinds, wait, ret, err);
	case AGGAPI_GROUP_INFO:
		return document_fill(ret, aggapi_group, aggapi_group_len, JSON);
	case AGGAPI_RESOURCES:
		return document_discovery(NULL, JSON, kinds, wait, ret, err);
	case AGGAPI_OPENAPI_V2:
		return document_fill(ret, aggapi_openapi_v2, aggapi_openapi_v2_len, JSON);
	case AGGAPI_OPENAPI_V3:
		return document_fill(ret, v3_index, sizeof(v3_index) - 1, JSON);
	case AGGAPI_OPENAPI_V3_GROUP:
		return document_openapi(kinds, ret, err);
	default:
		return 0;
	}
}

void aggapi_document_done(struct aggapi_document *document)
{
	free(document->made);
	*document = (struct aggapi_document){0};
}

void aggapi_document_etag(const struct aggapi_document *document, char out[AGGAPI_ETAG_MAX])
{
	snprintf(out, AGGAPI_ETAG_MAX, "\"%016" PRIx64 "\"",
		 block_checksum(document->data, document->len));
}
