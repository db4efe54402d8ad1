/* SPDX-License-Identifier: Apache-2.0 */

/* Discovery and OpenAPI documents of the server. The texts are in documents/ and built in. */
#ifndef CAIRN_AGGAPI_DOCUMENT_H
#define CAIRN_AGGAPI_DOCUMENT_H

#include <stdbool.h>
#include <stddef.h>

#include "older/aggapi/path.h"

struct aggapi_document {
	const void *data;
	size_t len;
	const char *type; /* media type */
};

/* Finds the document of a path, in the format that `accept` (an Accept field, may be NULL)
 * requests; false for paths without a document. */
bool aggapi_document(enum aggapi_what what, const char *accept, struct aggapi_document *ret);

/* Its entity tag, quoted, for If-None-Match. */
#define AGGAPI_ETAG_MAX 40
void aggapi_document_etag(const struct aggapi_document *document, char out[AGGAPI_ETAG_MAX]);

#endif
