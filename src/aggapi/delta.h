/* SPDX-License-Identifier: Apache-2.0 */

/* A VolumeSnapshotDelta: what somebody creates, and what they get back. */
#ifndef CAIRN_AGGAPI_DELTA_H
#define CAIRN_AGGAPI_DELTA_H

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

#include "aggapi/path.h"
#include "base/cleanup.h"

struct aggapi_refusal;
struct cairn_buf;
struct cairn_err;

#define AGGAPI_BODY_MAX (64U << 10)

/* Entries of a page when nobody says anything, and the most that a server can
 * be told to allow. */
#define AGGAPI_LIMIT_DEFAULT 256
#define AGGAPI_LIMIT_MAX     65536

/* How unknown fields are taken, as the query's fieldValidation says. */
enum aggapi_validation {
	AGGAPI_IGNORE,
	AGGAPI_WARN,
	AGGAPI_STRICT,
};

/* A request that is right; texts are borrowed from `object`. */
struct aggapi_delta {
	json_t *object; /* as it came, and with metadata.name */
	const char *ns;
	const char *base; /* NULL: everything in use */
	const char *target;
	const char *secret;    /* NULL: none */
	const char *secret_ns; /* of it; never NULL with `secret` */
	uint64_t limit;
	uint64_t offset;
};

/* Reads a request's body; `limit_max` is what the server allows a page to have.
 * Warnings are appended to `warnings` as lines.
 *
 * Fails with a refusal in `ret_refusal`.
 */
int aggapi_delta_parse(const char *body, size_t n, const char *ns,
		       enum aggapi_validation validation, uint64_t limit_max,
		       struct aggapi_delta *ret, struct cairn_buf *warnings,
		       struct aggapi_refusal *ret_refusal);

void aggapi_delta_done(struct aggapi_delta *delta);

/* Gives the object its status: with `page` (entries from the driver, see
 * wire.h), or with what went wrong. */
int aggapi_delta_complete(struct aggapi_delta *delta, const json_t *page, struct cairn_err *err);
int aggapi_delta_fail(struct aggapi_delta *delta, const char *message, struct cairn_err *err);

#endif
