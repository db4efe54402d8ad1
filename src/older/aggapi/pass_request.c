/* SPDX-License-Identifier: Apache-2.0 */

#include "older/aggapi/pass_request.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/mem.h"
#include "kube/object.h"
#include "net/http/http_head.h"
#include "net/http/http_server.h"
#include "older/aggapi/aggapi_status.h"
#include "older/aggapi/pass_query.h"
#include "older/aggapi/path.h"
#include "older/aggapi/version_text.h"

#define PATH_MAX_BYTES 16384
#define ACCEPT_MAX     1024
#define MANAGER_MAX    128

#define JSON  "application/json"
#define APPLY "application/apply-patch+yaml"

static int out_of_memory(struct aggapi_refusal *refusal)
{
	return aggapi_refuse(refusal, 500, "InternalError", "out of memory");
}

bool aggapi_pass_selected(const char *query, char *out, size_t cap)
{
	static const char field[] = "metadata.name=";
	char selector[AGGAPI_NAME_MAX + sizeof(field) + 1];
	const char *name = selector;

	if (!net_http_query_get(query, "fieldSelector", selector, sizeof(selector)) ||
	    strncmp(selector, field, sizeof(field) - 1) != 0)
		return false;
	name += sizeof(field) - 1;
	name += *name == '='; /* "==" is the same */
	if (!*name || !aggapi_name_valid(name))
		return false;
	snprintf(out, cap, "%s", name);
	return true;
}

/* True for application/json and ranges that contain it. */
static bool is_json_range(const char *range, size_t n)
{
	static const char *const types[] = {JSON, "*/*", "application/*"};

	for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++)
		if (strlen(types[i]) == n && strncasecmp(range, types[i], n) == 0)
			return true;
	return false;
}

char *aggapi_pass_accept(const char *accept)
{
	cairn_auto_buf struct cairn_buf out = CAIRN_BUF_INIT(ACCEPT_MAX);

	if (!accept)
		return cairn_strdup(JSON);
	while (*accept) {
		size_t n, type;

		accept += strspn(accept, ", \t");
		n = strcspn(accept, ",");
		type = strcspn(accept, ";, \t");
		if (n > 0 && is_json_range(accept, type)) {
			cairn_buf_adds(&out, out.len > 0 ? "," JSON : JSON);
			cairn_buf_add(&out, accept + type, n - type);
		}
		accept += n;
	}
	return out.len > 0 ? cairn_buf_take_string(&out) : NULL;
}

/* The media type of the body: one of those whose bodies are JSON. */
static const char *body_type(const char *type, const char *method)
{
	static const char *const patches[] = {
		"application/merge-patch+json",
		"application/json-patch+json",
		"application/strategic-merge-patch+json",
		APPLY,
	};
	size_t n = type ? strcspn(type, "; \t") : 0;

	if (strcmp(method, "PATCH") != 0)
		return !type || (n == strlen(JSON) && strncasecmp(type, JSON, n) == 0) ? JSON
										       : NULL;
	for (size_t i = 0; i < sizeof(patches) / sizeof(patches[0]); i++)
		if (strlen(patches[i]) == n && strncasecmp(type, patches[i], n) == 0)
			return patches[i];
	return NULL;
}

static int pass_take_body(const struct net_http *http, struct aggapi_pass_request *r,
			  struct aggapi_refusal *refusal)
{
	size_t n = 0;
	const char *body = net_http_body(http, &n);
	struct cairn_err err = {0};
	int rc;

	if (n == 0 || strcmp(r->method, "GET") == 0)
		return 0;
	r->content_type = body_type(net_http_field(http, "content-type"), r->method);
	if (!r->content_type)
		return aggapi_refuse(refusal, 415, "UnsupportedMediaType",
				     "the body of the request must be JSON");
	r->apply = strcmp(r->content_type, APPLY) == 0;
	rc = kube_json_parse(body, n, &r->tree, &err);
	if (rc == CAIRN_INVALID)
		return aggapi_refuse(refusal, r->apply ? 415 : 400,
				     r->apply ? "UnsupportedMediaType" : "BadRequest",
				     "the body is not JSON: %s", err.msg);
	if (rc || aggapi_version_tree(r->tree, AGGAPI_GROUP "/" AGGAPI_VERSION, r->stored) < 0)
		return out_of_memory(refusal);
	return 0;
}

int aggapi_pass_bind(json_t *tree, const char *uid)
{
	const char *given = kube_str(tree, "metadata", "uid");

	if (given && given[0])
		return 0;
	return kube_set(tree, NULL, json_string(uid), "metadata", "uid");
}

/* Kubernetes names the manager of fields after the program that writes them. Here that is
 * the user's program, unless the query says otherwise. */
static void add_manager(const struct net_http *http, const char *verb, struct cairn_buf *path)
{
	const char *agent = net_http_field(http, "user-agent");
	char manager[MANAGER_MAX], given[8];

	if (strcmp(verb, "create") != 0 && strcmp(verb, "update") != 0 &&
	    strcmp(verb, "patch") != 0)
		return;
	if (net_http_query_get(net_http_query(http), "fieldManager", given, sizeof(given)) ||
	    strstr(net_http_query(http), "fieldManager="))
		return;
	snprintf(manager, sizeof(manager), "%.*s", agent ? (int)strcspn(agent, "/") : 0,
		 agent ? agent : "");
	cairn_buf_addc(path, net_http_query(http)[0] ? '&' : '?');
	cairn_buf_adds(path, "fieldManager=");
	kube_url_escape(path, manager[0] ? manager : "unknown");
}

static int pass_make_path(const struct net_http *http, const struct aggapi_path *path,
			  const char *verb, uint64_t watch_s, struct aggapi_pass_request *r,
			  struct aggapi_refusal *refusal)
{
	cairn_auto_buf struct cairn_buf out = CAIRN_BUF_INIT(PATH_MAX_BYTES);
	const struct kube_ref ref = {
		.resource = path->passed,
		.ns = path->ns[0] ? path->ns : NULL,
		.name = path->name[0] ? path->name : NULL,
		.subresource = path->subresource,
	};
	const char *query = net_http_query(http);

	for (const char *c = query; *c; c++)
		if (*c <= ' ' || *c == '#' || *c == 0x7f)
			return aggapi_refuse(refusal, 400, "BadRequest",
					     "the query has a character that it must not have");
	if (!aggapi_query_plain(query))
		return aggapi_refuse(refusal, 400, "BadRequest",
				     "the query is ambiguous: a name with an escape, a name that "
				     "is given twice, ';', or a broken escape");
	if (kube_ref_path(&ref, &out, NULL) != 0)
		return aggapi_refuse(refusal, 404, "NotFound",
				     "the server could not find the requested resource");
	if (*query || r->watch)
		cairn_buf_addc(&out, '?');
	if (!r->watch)
		cairn_buf_adds(&out, query);
	else if (!aggapi_query_add_limited(query, watch_s, &out))
		return aggapi_refuse(refusal, 400, "BadRequest",
				     "timeoutSeconds must be a number of seconds");
	add_manager(http, verb, &out);
	r->path = cairn_buf_take_string(&out);
	return r->path ? 0 : out_of_memory(refusal);
}

int aggapi_pass_request_make(const struct net_http *http, const struct aggapi_path *path,
			     const char *verb, uint64_t watch_s, struct aggapi_pass_request *ret,
			     struct aggapi_refusal *refusal)
{
	int rc;

	*ret = (struct aggapi_pass_request){.method = net_http_method(http),
					    .watch = strcmp(verb, "watch") == 0};
	if (strcmp(ret->method, "HEAD") == 0)
		ret->method = "GET";
	kube_api_version(path->passed, ret->stored);
	ret->accept = aggapi_pass_accept(net_http_field(http, "accept"));
	rc = ret->accept ? pass_make_path(http, path, verb, watch_s, ret, refusal)
			 : aggapi_refuse(refusal, 406, "NotAcceptable",
					 "only the following media types are accepted: " JSON);
	if (!rc)
		rc = pass_take_body(http, ret, refusal);
	if (rc)
		aggapi_pass_request_done(ret);
	return rc;
}

void aggapi_pass_request_done(struct aggapi_pass_request *request)
{
	free(request->path);
	free(request->accept);
	json_decref(request->tree);
	*request = (struct aggapi_pass_request){0};
}
