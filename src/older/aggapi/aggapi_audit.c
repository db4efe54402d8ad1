/* SPDX-License-Identifier: Apache-2.0 */

#include "older/aggapi/aggapi_audit.h"

#include <stdio.h>
#include <string.h>

#include "base/audit.h"
#include "base/err.h"
#include "kube/kube_resource.h"
#include "kube/user.h"
#include "net/http/http_server.h"
#include "older/aggapi/aggapi_status.h"
#include "older/aggapi/request.h"

int aggapi_audit_code(int http)
{
	switch (http) {
	case 401:
		return CAIRN_UNAUTHENTICATED;
	case 403:
		return CAIRN_DENIED;
	case 404:
		return CAIRN_NOT_FOUND;
	case 429:
	case 503:
		return CAIRN_UNAVAILABLE;
	default:
		return http >= 200 && http < 300 ? 0 : http < 500 ? CAIRN_INVALID : CAIRN_INTERNAL;
	}
}

static bool audit_is_read(const char *verb)
{
	return strcmp(verb, "get") == 0 || strcmp(verb, "list") == 0 || strcmp(verb, "watch") == 0;
}

static void audit_name_op(const struct aggapi_request *request, char *out, size_t cap)
{
	const struct aggapi_path *path = &request->path;

	if (!path->passed)
		snprintf(out, cap, "%s", AGGAPI_KIND);
	else
		snprintf(out, cap, "%s %s%s%s", request->verb, path->passed->plural,
			 path->subresource ? "/" : "", path->subresource ? path->subresource : "");
}

static void audit_write(const struct aggapi_request *request, int http, unsigned long ms)
{
	char op[96];

	if (!request->verb || !aggapi_path_is_resource(&request->path) ||
	    audit_is_read(request->verb))
		return;
	audit_name_op(request, op, sizeof(op));
	cairn_audit_write(&(struct cairn_audit){
		.op = op,
		.allowed = http >= 200 && http < 300,
		.user = request->user ? request->user->name : "",
		.peer = net_http_peer(request->http),
		.ns = request->path.ns,
		.snapshot = request->path.name,
		.code = aggapi_audit_code(http),
		.ms = ms,
	});
}

void aggapi_audit_refused(const struct aggapi_request *request,
			  const struct aggapi_refusal *refusal)
{
	audit_write(request, refusal->http, 0);
}

void aggapi_audit_passed(const struct aggapi_request *request, int http, unsigned long ms)
{
	audit_write(request, http, ms);
}
