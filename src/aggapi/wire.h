/* SPDX-License-Identifier: Apache-2.0 */

/* The JSON that the aggregated API server and the sidecar beside a driver
 * speak: a page of changed blocks, asked for with POST.
 *
 *   question  {"fromSnapshotId": "…", "toSnapshotId": "…", "secrets": {…},
 *              "maxEntries": 256, "startingToken": "17", "user": "…",
 *              "namespace": "…", "target": "…", "base": "…"}
 *   answer    {"volumeSizeBytes": N, "nextToken": "273", "changedBlocks": [
 *               {"offset": N, "blockSizeBytes": N,
 *                "token": {"token": "…", "issuanceTime": "…Z", "ttlSeconds": N}}]}
 *   failure   {"code": "NOT_FOUND", "message": "…"} with a fitting HTTP status
 *
 * fromSnapshotId, base, secrets, startingToken, nextToken and token may be absent. The
 * last four of a question say for whom it is asked, and with which VolumeSnapshots.
 */
#ifndef CAIRN_AGGAPI_WIRE_H
#define CAIRN_AGGAPI_WIRE_H

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

#include "aggapi/holder.h"

struct cairn_err;

#define AGGAPI_WIRE_DELTAS "/v1/deltas"
#define AGGAPI_WIRE_BLOCK  "/v1/block"

/* A question, with as many secrets as a Secret can hold; and an answer of the
 * most entries there may be. */
#define AGGAPI_QUESTION_MAX (2U << 20)
#define AGGAPI_ANSWER_MAX   (32U << 20)

struct aggapi_question {
	const char *from; /* NULL: everything in use */
	const char *to;
	const json_t *secrets; /* of texts; NULL: none */
	uint64_t max_entries;
	const char *starting_token; /* "" or NULL: from the start */
	struct aggapi_holder holder;
};

/* NULL when memory is short. */
json_t *aggapi_question_object(const struct aggapi_question *question);

/* Reads it; texts are borrowed from `object`.
 *
 * CAIRN_INVALID  something is missing, has another type or is out of range
 */
int aggapi_question_read(const json_t *object, struct aggapi_question *ret, struct cairn_err *err);

/* Whether an answer is what it should be: sizes, ascending blocks that do not
 * overlap, no more than were asked for.
 *
 * CAIRN_INTERNAL  it is not; the driver beside the sidecar is broken
 */
int aggapi_answer_check(const json_t *answer, uint64_t max_entries, struct cairn_err *err);

/* Fills `err` from a failure as it came; returns its code. */
int aggapi_failure_read(const char *body, size_t n, int http, struct cairn_err *err);

#endif
