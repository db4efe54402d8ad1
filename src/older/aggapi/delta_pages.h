/* SPDX-License-Identifier: Apache-2.0 */

/* A VolumeSnapshotDelta: decodes the created object and builds the response. */
#ifndef CAIRN_AGGAPI_DELTA_H
#define CAIRN_AGGAPI_DELTA_H

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"
#include "older/aggapi/path.h"

struct aggapi_refusal;
struct cairn_buf;
struct cairn_err;

#define AGGAPI_BODY_MAX (64U << 10)

/* Default number of entries of a page, and the largest that can be configured. */
#define AGGAPI_LIMIT_DEFAULT 256
#define AGGAPI_LIMIT_MAX     65536

/* How unknown fields are handled, from the query's fieldValidation. */
enum aggapi_validation {
	AGGAPI_IGNORE,
	AGGAPI_WARN,
	AGGAPI_STRICT,
};

/* A valid request; strings are borrowed from `object`. */
struct aggapi_delta {
	json_t *object; /* as received, with metadata.name added */
	const char *ns;
	const char *base; /* NULL: all allocated blocks */
	const char *target;
	const char *secret;    /* NULL: none */
	const char *secret_ns; /* its namespace; never NULL with `secret` */
	uint64_t asked;        /* limit of the request; without one, the server's */
	uint64_t limit;        /* entries of the page at most */
	uint64_t offset;
};

/* Decodes a request's body; `limit_max` is the server's limit of entries in a page.
 * Warnings are appended to `warnings` as lines.
 *
 * Fails with a refusal in `ret_refusal`.
 */
int aggapi_delta_parse(const char *body, size_t n, const char *ns,
		       enum aggapi_validation validation, uint64_t limit_max,
		       struct aggapi_delta *ret, struct cairn_buf *warnings,
		       struct aggapi_refusal *ret_refusal);

void aggapi_delta_done(struct aggapi_delta *delta);

/* Sets the status of the object: with `page` (entries from the driver, see wire.h), or
 * with the error. */
int aggapi_delta_complete(struct aggapi_delta *delta, const json_t *page, struct cairn_err *err);
int aggapi_delta_fail(struct aggapi_delta *delta, const char *message, struct cairn_err *err);

#endif
