/* SPDX-License-Identifier: Apache-2.0 */

/* The JSON between the aggregated API server and a driver's sidecar: a page of changed
 * blocks, requested with POST.
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
 * last four fields of a question are the user and the VolumeSnapshots.
 */
#ifndef CAIRN_AGGAPI_WIRE_H
#define CAIRN_AGGAPI_WIRE_H

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

#include "older/data/data_holder.h"

struct cairn_err;

#define AGGAPI_WIRE_DELTAS "/v1/deltas"

/* Limits of a question, with as many secrets as a Secret can hold, and of an answer with
 * the largest number of entries. */
#define AGGAPI_QUESTION_MAX (2U << 20)
#define AGGAPI_ANSWER_MAX   (32U << 20)

struct aggapi_question {
	const char *from; /* NULL: all allocated blocks */
	const char *to;
	const json_t *secrets; /* of texts; NULL: none */
	uint64_t max_entries;
	const char *starting_token; /* "" or NULL: from the start */
	struct data_holder holder;
};

/* NULL when memory is short. */
json_t *aggapi_question_object(const struct aggapi_question *question);

/* Decodes a question; strings are borrowed from `object`.
 *
 * CAIRN_INVALID  a field is missing, has another type or is out of range
 */
int aggapi_question_read(const json_t *object, struct aggapi_question *ret, struct cairn_err *err);

/* Checks an answer: sizes, ascending blocks that do not overlap, no more than requested.
 *
 * CAIRN_INTERNAL  it is invalid; the sidecar's driver is broken
 */
int aggapi_answer_check(const json_t *answer, uint64_t max_entries, struct cairn_err *err);

/* Fills `err` from a received failure; returns its code. */
int aggapi_failure_read(const char *body, size_t n, int http, struct cairn_err *err);

#endif
