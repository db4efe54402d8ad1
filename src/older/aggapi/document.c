/* SPDX-License-Identifier: Apache-2.0 */

#include "older/aggapi/document.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "block/checksum.h"

#define JSON          "application/json"
#define AGGREGATED(v) "application/json;g=apidiscovery.k8s.io;v=" v ";as=APIGroupDiscoveryList"
#define EMBEDDED(name)               \
	extern const uint8_t name[]; \
	extern const size_t name##_len

EMBEDDED(aggapi_groups);
EMBEDDED(aggapi_group);
EMBEDDED(aggapi_resources);
EMBEDDED(aggapi_discovery_v2);
EMBEDDED(aggapi_discovery_v2beta1);
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

static void document_fill(struct aggapi_document *d, const void *data, size_t len, const char *type)
{
	*d = (struct aggapi_document){.data = data, .len = len, .type = type};
}

static void document_discovery(const char *accept, struct aggapi_document *d)
{
	if (accept && document_accepts(accept, AGGREGATED("v2")))
		document_fill(d, aggapi_discovery_v2, aggapi_discovery_v2_len, AGGREGATED("v2"));
	else if (accept && document_accepts(accept, AGGREGATED("v2beta1")))
		document_fill(d, aggapi_discovery_v2beta1, aggapi_discovery_v2beta1_len,
			      AGGREGATED("v2beta1"));
	else
		document_fill(d, aggapi_groups, aggapi_groups_len, JSON);
}

bool aggapi_document(enum aggapi_what what, const char *accept, struct aggapi_document *ret)
{
	switch (what) {
	case AGGAPI_GROUPS:
		document_discovery(accept, ret);
		return true;
	case AGGAPI_GROUP_INFO:
		document_fill(ret, aggapi_group, aggapi_group_len, JSON);
		return true;
	case AGGAPI_RESOURCES:
		document_fill(ret, aggapi_resources, aggapi_resources_len, JSON);
		return true;
	case AGGAPI_OPENAPI_V2:
		document_fill(ret, aggapi_openapi_v2, aggapi_openapi_v2_len, JSON);
		return true;
	case AGGAPI_OPENAPI_V3:
		document_fill(ret, v3_index, sizeof(v3_index) - 1, JSON);
		return true;
	case AGGAPI_OPENAPI_V3_GROUP:
		document_fill(ret, aggapi_openapi_v3, aggapi_openapi_v3_len, JSON);
		return true;
	default:
		return false;
	}
}

void aggapi_document_etag(const struct aggapi_document *document, char out[AGGAPI_ETAG_MAX])
{
	snprintf(out, AGGAPI_ETAG_MAX, "\"%016" PRIx64 "\"",
		 block_checksum(document->data, document->len));
}
