/* SPDX-License-Identifier: Apache-2.0 */

#include "kube/kube_status.h"

#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/text.h"
#include "kube/kube_client.h"
#include "kube/object.h"

/* Limit of the quoted body of an answer that is not a Status, such as a proxy's page. */
#define QUOTED_MAX 200

static const struct {
	const char *reason;
	int code;
} reasons[] = {
	{"Unauthorized", CAIRN_UNAUTHENTICATED},
	{"Forbidden", CAIRN_DENIED},
	{"NotFound", CAIRN_NOT_FOUND},
	{"AlreadyExists", CAIRN_EXISTS},
	{"Conflict", CAIRN_ABORTED},
	{"Gone", CAIRN_RANGE},
	{"Expired", CAIRN_RANGE},
	{"Invalid", CAIRN_INVALID},
	{"BadRequest", CAIRN_INVALID},
	{"RequestEntityTooLarge", CAIRN_INVALID},
	{"UnsupportedMediaType", CAIRN_INVALID},
	{"MethodNotAllowed", CAIRN_UNIMPLEMENTED},
	{"NotAcceptable", CAIRN_UNIMPLEMENTED},
	{"Timeout", CAIRN_DEADLINE},
	{"ServerTimeout", CAIRN_UNAVAILABLE},
	{"StoreReadError", CAIRN_INTERNAL},
	{"TooManyRequests", CAIRN_UNAVAILABLE},
	{"ServiceUnavailable", CAIRN_UNAVAILABLE},
	{"InternalError", CAIRN_INTERNAL},
};

static const struct {
	int http;
	int code;
} statuses[] = {
	{400, CAIRN_INVALID},       {401, CAIRN_UNAUTHENTICATED}, {403, CAIRN_DENIED},
	{404, CAIRN_NOT_FOUND},     {405, CAIRN_UNIMPLEMENTED},   {406, CAIRN_UNIMPLEMENTED},
	{408, CAIRN_UNAVAILABLE},   {409, CAIRN_ABORTED},         {410, CAIRN_RANGE},
	{412, CAIRN_ABORTED},       {413, CAIRN_INVALID},         {415, CAIRN_INVALID},
	{422, CAIRN_INVALID},       {429, CAIRN_UNAVAILABLE},     {500, CAIRN_INTERNAL},
	{501, CAIRN_UNIMPLEMENTED}, {502, CAIRN_UNAVAILABLE},     {503, CAIRN_UNAVAILABLE},
	{504, CAIRN_DEADLINE},
};

int kube_status_code(int http, const char *reason)
{
	for (size_t i = 0; i < sizeof(reasons) / sizeof(reasons[0]); i++)
		if (strcmp(reasons[i].reason, reason) == 0)
			return reasons[i].code;
	for (size_t i = 0; i < sizeof(statuses) / sizeof(statuses[0]); i++)
		if (statuses[i].http == http)
			return statuses[i].code;
	return http >= 500 ? CAIRN_UNAVAILABLE : CAIRN_INTERNAL;
}

bool kube_status_is(const json_t *object)
{
	const char *kind = kube_str(object, "kind");
	const char *version = kube_str(object, "apiVersion");

	return kind && version && strcmp(kind, "Status") == 0 && strcmp(version, "v1") == 0;
}

static void kube_status_fill(const json_t *object, int http, const char *reason,
			     struct kube_status *ret)
{
	const char *next = kube_str(object, "metadata", "continue");
	int64_t seconds;

	ret->http = http;
	snprintf(ret->reason, sizeof(ret->reason), "%s", reason);
	if (next && strlen(next) < sizeof(ret->next))
		snprintf(ret->next, sizeof(ret->next), "%s", next);
	if (!ret->retry_after && kube_i64(object, &seconds, "details", "retryAfterSeconds") &&
	    seconds > 0 && seconds < INT32_MAX) {
		ret->retry_after = true;
		ret->retry_ms = (uint64_t)seconds * 1000;
	}
}

int kube_status_fail(const json_t *object, int http, struct kube_status *ret, struct cairn_err *err)
{
	const char *reason = kube_str(object, "reason");
	const char *message = kube_str(object, "message");
	int64_t code;

	if (http == 0 && kube_i64(object, &code, "code") && code >= 400 && code < 600)
		http = (int)code;
	if (!reason)
		reason = "";
	if (ret)
		kube_status_fill(object, http, reason, ret);
	if (message && message[0])
		return cairn_err_set(err, kube_status_code(http, reason), "%s", message);
	return cairn_err_set(err, kube_status_code(http, reason), "HTTP status %d %s", http,
			     reason);
}

/* Copies the beginning of a readable body as one line. */
static void kube_status_quote(const char *body, size_t n, char out[QUOTED_MAX])
{
	size_t len = n < QUOTED_MAX - 1 ? n : QUOTED_MAX - 1;

	for (size_t i = 0; i < len; i++)
		out[i] = (unsigned char)body[i] < 0x20 || body[i] == 0x7f ? ' ' : body[i];
	while (len > 0 && (out[len - 1] == ' ' || !cairn_utf8_valid(out, len)))
		len--;
	out[len] = '\0';
}

int kube_status_fail_body(const char *body, size_t n, int http, struct kube_status *ret,
			  struct cairn_err *err)
{
	kube_auto_json json_t *object = NULL;
	char said[QUOTED_MAX];

	if (n > 0 && kube_json_parse(body, n, &object, NULL) == 0 && kube_status_is(object))
		return kube_status_fail(object, http, ret, err);
	if (ret)
		ret->http = http;
	kube_status_quote(body, n, said);
	return cairn_err_set(err, kube_status_code(http, ""), "HTTP status %d%s%s", http,
			     said[0] ? ": " : "", said);
}
