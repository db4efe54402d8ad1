/* SPDX-License-Identifier: Apache-2.0 */

#include "older/aggapi/aggapi_status.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "kube/object.h"
#include "older/aggapi/path.h"

int aggapi_refuse(struct aggapi_refusal *ret, int http, const char *reason, const char *fmt, ...)
{
	va_list args;

	*ret = (struct aggapi_refusal){.http = http, .reason = reason};
	va_start(args, fmt);
	vsnprintf(ret->message, sizeof(ret->message), fmt, args);
	va_end(args);
	return CAIRN_INVALID;
}

int aggapi_refuse_field(struct aggapi_refusal *ret, const char *field, const char *cause,
			const char *fmt, ...)
{
	va_list args;

	*ret = (struct aggapi_refusal){.http = 422, .reason = "Invalid", .cause = cause};
	snprintf(ret->field, sizeof(ret->field), "%s", field);
	va_start(args, fmt);
	vsnprintf(ret->message, sizeof(ret->message), fmt, args);
	va_end(args);
	return CAIRN_INVALID;
}

int aggapi_refuse_err(struct aggapi_refusal *ret, const struct cairn_err *err)
{
	switch ((enum cairn_code)err->code) {
	case CAIRN_UNAUTHENTICATED:
		return aggapi_refuse(ret, 401, "Unauthorized", "%s", err->msg);
	case CAIRN_DENIED:
		return aggapi_refuse(ret, 403, "Forbidden", "%s", err->msg);
	case CAIRN_NOT_FOUND:
		return aggapi_refuse(ret, 404, "NotFound", "%s", err->msg);
	case CAIRN_INVALID:
	case CAIRN_RANGE:
	case CAIRN_PRECONDITION:
		return aggapi_refuse(ret, 400, "BadRequest", "%s", err->msg);
	case CAIRN_DEADLINE:
		return aggapi_refuse(ret, 504, "Timeout", "%s", err->msg);
	case CAIRN_UNAVAILABLE:
		aggapi_refuse(ret, 503, "ServiceUnavailable", "%s", err->msg);
		ret->retry_s = 1;
		return CAIRN_UNAVAILABLE;
	default:
		return aggapi_refuse(ret, 500, "InternalError", "%s", err->msg);
	}
}

/* The message without the field's path, which stands beside it in a cause. */
static const char *aggapi_status_cause(const struct aggapi_refusal *r)
{
	size_t n = strlen(r->field);

	return strncmp(r->message, r->field, n) == 0 && strncmp(r->message + n, ": ", 2) == 0
		       ? r->message + n + 2
		       : r->message;
}

static int aggapi_status_add_details(json_t *status, const struct aggapi_refusal *r)
{
	json_t *details = NULL;

	if (*r->field)
		details = json_pack("{s:s, s:s, s:[{s:s, s:s, s:s}]}", "group", AGGAPI_GROUP,
				    "kind", AGGAPI_KIND, "causes", "reason", r->cause, "message",
				    aggapi_status_cause(r), "field", r->field);
	else if (r->kind)
		details = json_pack("{s:s, s:s*}", "kind", r->kind, "name", r->name);
	else if (r->retry_s > 0)
		details = json_pack("{s:I}", "retryAfterSeconds", (json_int_t)r->retry_s);
	else
		return 0;
	return json_object_set_new(status, "details", details);
}

json_t *aggapi_status_object(const struct aggapi_refusal *r)
{
	kube_auto_json json_t *status =
		json_pack("{s:s, s:s, s:{}, s:s, s:s, s:s, s:i}", "kind", "Status", "apiVersion",
			  "v1", "metadata", "status", "Failure", "message", r->message, "reason",
			  r->reason, "code", r->http);

	if (!status || aggapi_status_add_details(status, r) < 0)
		return NULL;
	return cairn_take(status);
}
