/* SPDX-License-Identifier: Apache-2.0 */

/* Discovery and OpenAPI documents of the server. Those that name only this server's own
 * kind are built in (documents/); the others also name the kinds that are passed on. */
#ifndef CAIRN_AGGAPI_DOCUMENT_H
#define CAIRN_AGGAPI_DOCUMENT_H

#include <stdbool.h>
#include <stddef.h>

#include "older/aggapi/path.h"

struct aggapi_kinds;
struct cairn_err;
struct kube_wait;

struct aggapi_document {
	const void *data;
	size_t len;
	const char *type; /* media type */
	char *made;       /* NULL if it is built in; owns `data` */
};

/* Finds the document of a path, in the format that `accept` (an Accept field, may be NULL)
 * requests. Returns 1 with it, 0 for paths without a document, or an error code if the API
 * server could not be asked which kinds there are. With `kinds` NULL there are none. */
int aggapi_document(enum aggapi_what what, const char *accept, struct aggapi_kinds *kinds,
		    const struct kube_wait *wait, struct aggapi_document *ret,
		    struct cairn_err *err);
void aggapi_document_done(struct aggapi_document *document); /* accepts a zeroed one */

/* Its entity tag, quoted, for If-None-Match. */
#define AGGAPI_ETAG_MAX 40
void aggapi_document_etag(const struct aggapi_document *document, char out[AGGAPI_ETAG_MAX]);

#endif
