/* SPDX-License-Identifier: Apache-2.0 */

#include "older/aggapi/aggapi_wire.h"

#include <string.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "kube/object.h"
#include "net/grpc/grpc_status.h"
#include "older/aggapi/delta_pages.h"

#define CODES 17 /* gRPC codes, from 0 on */

json_t *aggapi_question_object(const struct aggapi_question *q)
{
	kube_auto_json json_t *object = json_pack(
		"{s:s, s:s*, s:I, s:s*, s:s, s:s, s:s, s:s*}", "toSnapshotId", q->to,
		"fromSnapshotId", q->from, "maxEntries", (json_int_t)q->max_entries,
		"startingToken", q->starting_token && *q->starting_token ? q->starting_token : NULL,
		"user", q->holder.user, "namespace", q->holder.ns, "target", q->holder.target,
		"base", q->holder.base);

	if (!object)
		return NULL;
	if (q->secrets && json_object_set_new(object, "secrets", json_deep_copy(q->secrets)) < 0)
		return NULL;
	return cairn_take(object);
}

/* An absent string is NULL; any other type is an error. */
static int optional_text(const json_t *object, const char *name, const char **ret,
			 struct cairn_err *err)
{
	*ret = kube_str(object, name);
	if (!*ret && json_object_get(object, name))
		return cairn_err_set(err, CAIRN_INVALID, "%s must be a text", name);
	return 0;
}

static int check_secrets(const json_t *secrets, struct cairn_err *err)
{
	const char *key;
	json_t *value;

	if (!secrets)
		return 0;
	if (!json_is_object(secrets))
		return cairn_err_set(err, CAIRN_INVALID, "secrets must be an object");
	json_object_foreach(
		(json_t *)(uintptr_t)secrets, key,
		value) if (!json_is_string(value)) return cairn_err_set(err, CAIRN_INVALID,
									"secrets must be texts");
	return 0;
}

int aggapi_question_read(const json_t *object, struct aggapi_question *ret, struct cairn_err *err)
{
	int64_t entries = 0;
	int rc;

	*ret = (struct aggapi_question){0};
	if (!json_is_object(object))
		return cairn_err_set(err, CAIRN_INVALID, "the question must be an object");
	rc = optional_text(object, "toSnapshotId", &ret->to, err);
	if (!rc)
		rc = optional_text(object, "fromSnapshotId", &ret->from, err);
	if (!rc)
		rc = optional_text(object, "startingToken", &ret->starting_token, err);
	ret->secrets = json_object_get(object, "secrets");
	if (!rc)
		rc = check_secrets(ret->secrets, err);
	if (rc)
		return rc;
	if (!ret->to || !*ret->to)
		return cairn_err_set(err, CAIRN_INVALID, "toSnapshotId is missing");
	if (json_object_get(object, "maxEntries") && !kube_i64(object, &entries, "maxEntries"))
		return cairn_err_set(err, CAIRN_INVALID, "maxEntries must be a number");
	if (entries < 0 || entries > AGGAPI_LIMIT_MAX)
		return cairn_err_set(err, CAIRN_INVALID, "maxEntries must be 0 to %u",
				     AGGAPI_LIMIT_MAX);
	ret->max_entries = (uint64_t)entries;
	ret->holder = (struct data_holder){
		.user = kube_str(object, "user"),
		.ns = kube_str(object, "namespace"),
		.target = kube_str(object, "target"),
		.base = kube_str(object, "base"),
	};
	return data_holder_check(&ret->holder, err);
}

static int bad_answer(struct cairn_err *err, const char *what)
{
	return cairn_err_set(err, CAIRN_INTERNAL, "the driver's answer is broken: %s", what);
}

static int check_block(const json_t *block, uint64_t *end, struct cairn_err *err)
{
	const json_t *token = json_object_get(block, "token");
	int64_t offset, size, ttl = 0;
	uint64_t begin, stop;

	if (!kube_i64(block, &offset, "offset") || !kube_i64(block, &size, "blockSizeBytes") ||
	    offset < 0 || size <= 0)
		return bad_answer(err, "a block without offset or size");
	if (__builtin_mul_overflow((uint64_t)offset, (uint64_t)size, &begin) ||
	    __builtin_add_overflow(begin, (uint64_t)size, &stop))
		return bad_answer(err, "a block beyond every volume");
	if (begin < *end)
		return bad_answer(err, "blocks that overlap or do not ascend");
	*end = stop;
	if (token && (!kube_str(token, "token") || !kube_str(token, "issuanceTime") ||
		      !kube_i64(token, &ttl, "ttlSeconds") || ttl < 0))
		return bad_answer(err, "a token without its parts");
	return 0;
}

int aggapi_answer_check(const json_t *answer, uint64_t max_entries, struct cairn_err *err)
{
	const json_t *blocks = json_object_get(answer, "changedBlocks");
	const json_t *next = json_object_get(answer, "nextToken");
	const json_t *block;
	uint64_t end = 0;
	size_t i;

	if (!json_is_array(blocks))
		return bad_answer(err, "no list of blocks");
	if (next && !json_is_string(next))
		return bad_answer(err, "nextToken is not a string");
	if (max_entries > 0 && json_array_size(blocks) > max_entries)
		return bad_answer(err, "more blocks than were asked for");
	json_array_foreach(blocks, i, block)
	{
		int rc = check_block(block, &end, err);

		if (rc)
			return rc;
	}
	return 0;
}

static int code_of_name(const char *name)
{
	for (int code = 1; code < CODES; code++)
		if (strcmp(cairn_code_name(code), name) == 0)
			return -code;
	return CAIRN_UNKNOWN;
}

/* As for gRPC, except that a 400 of our own sidecar says nothing about the cause, and a
 * 504 is its deadline. */
static int code_of_http(int http)
{
	if (http == 400)
		return CAIRN_UNKNOWN;
	return http == 504 ? CAIRN_DEADLINE : grpc_code_of_http((unsigned)http);
}

int aggapi_failure_read(const char *body, size_t n, int http, struct cairn_err *err)
{
	kube_auto_json json_t *object = NULL;
	const char *code = NULL, *message = NULL;

	if (kube_json_parse(body, n, &object, NULL) == 0) {
		code = kube_str(object, "code");
		message = kube_str(object, "message");
	}
	return cairn_err_set(err, code ? code_of_name(code) : code_of_http(http), "%s",
			     message ? message : "the driver's sidecar refused");
}
