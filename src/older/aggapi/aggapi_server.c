/* SPDX-License-Identifier: Apache-2.0 */

#include "older/aggapi/aggapi_server.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "base/mem.h"
#include "kube/auth.h"
#include "kube/authz_cache.h"
#include "kube/caller.h"
#include "kube/object.h"
#include "kube/user.h"
#include "net/http/http_head.h"
#include "net/http/http_server.h"
#include "net/metrics.h"
#include "older/aggapi/aggapi_audit.h"
#include "older/aggapi/aggapi_status.h"
#include "older/aggapi/delta_create.h"
#include "older/aggapi/document.h"
#include "older/aggapi/pass.h"
#include "older/aggapi/pass_query.h"
#include "older/aggapi/pass_request.h"
#include "older/aggapi/passed_kinds.h"
#include "older/aggapi/request.h"
#include "older/aggapi/trust.h"

struct aggapi_server {
	struct aggapi_server_options options;
	struct aggapi_creator *creator;
	struct aggapi_passer *passer;
	struct aggapi_kinds *kinds;
	struct net_metric *requests;
	struct net_metric *seconds;
};

static bool field_at(const void *request, size_t i, const char **ret_name, const char **ret_value)
{
	return net_http_field_at(request, i, ret_name, ret_value);
}

static bool is_signed(const void *request, const char *ca_pem)
{
	return net_http_tls_verify(request, ca_pem);
}

/* The front proxy acts for users and shows its certificate; all other clients authenticate
 * with their own token. The headers are ignored without the certificate. */
static int aggapi_server_identify(struct aggapi_server *s, struct aggapi_request *a,
				  struct cairn_err *err)
{
	const char *token = kube_bearer_token(net_http_field(a->http, "authorization"));
	kube_auto_json json_t *info = NULL;
	int rc;

	if (net_http_tls_name(a->http)) {
		rc = aggapi_trust_user(s->options.trust, net_http_tls_name(a->http), is_signed,
				       field_at, a->http, &info, err);
		if (!rc)
			net_http_trust(a->http, NET_SLOT_PINNED);
		return rc ? rc : kube_user_new(info, &a->user, err);
	}
	if (!token)
		return cairn_err_set(err, CAIRN_UNAUTHENTICATED, "Unauthorized");
	rc = kube_authz_cache_user(s->options.guard, token, NULL, &a->caller.wait, &a->user, err);
	if (!rc)
		net_http_trust(a->http, NET_SLOT_KNOWN);
	return rc;
}

static int aggapi_server_authorize(struct aggapi_server *s, const struct aggapi_request *a,
				   struct cairn_err *err)
{
	char selected[AGGAPI_NAME_MAX];
	struct kube_access on_resource = {
		.verb = a->verb,
		.group = AGGAPI_GROUP,
		.version = AGGAPI_VERSION,
		.resource = aggapi_path_resource(&a->path),
		.subresource = a->path.subresource,
		.ns = a->path.ns[0] ? a->path.ns : NULL,
		.name = a->path.name[0] ? a->path.name : NULL,
	};
	const struct kube_access on_path = {.verb = a->verb, .path = net_http_path(a->http)};

	if ((strcmp(a->verb, "list") == 0 || strcmp(a->verb, "watch") == 0) &&
	    aggapi_pass_selected(net_http_query(a->http), selected, sizeof(selected)))
		on_resource.name = selected;

	return kube_authz_cache_access(s->options.guard, a->user,
				       aggapi_path_is_resource(&a->path) ? &on_resource : &on_path,
				       &a->caller.wait, err);
}

static int aggapi_server_send_status(struct net_http *http, const struct aggapi_refusal *refusal,
				     struct cairn_err *err)
{
	kube_auto_json json_t *status = aggapi_status_object(refusal);
	size_t n = 0;
	cairn_auto_free char *text = status ? kube_json_text(status, &n) : NULL;
	char seconds[24];

	if (!text)
		return cairn_err_nomem(err, "status");
	if (refusal->retry_s > 0) {
		snprintf(seconds, sizeof(seconds), "%" PRIu64, refusal->retry_s);
		(void)net_http_add_field(http, "retry-after", seconds, NULL);
	}
	if (refusal->http == 401)
		(void)net_http_add_field(http, "www-authenticate", "Bearer", NULL);
	if (refusal->http == 405)
		(void)net_http_add_field(http, "allow", "POST", NULL);
	return net_http_reply(http, refusal->http, "application/json", text, n, err);
}

static int send_document(struct net_http *http, const struct aggapi_document *document,
			 struct cairn_err *err)
{
	const char *known = net_http_field(http, "if-none-match");
	char etag[AGGAPI_ETAG_MAX];

	aggapi_document_etag(document, etag);
	(void)net_http_add_field(http, "etag", etag, NULL);
	(void)net_http_add_field(http, "vary", "Accept", NULL);
	if (known && strcmp(known, etag) == 0)
		return net_http_reply(http, 304, document->type, "", 0, err);
	return net_http_reply(http, 200, document->type, document->data, document->len, err);
}

static bool aggapi_server_is_read(const struct net_http *http)
{
	return strcmp(net_http_method(http), "GET") == 0 ||
	       strcmp(net_http_method(http), "HEAD") == 0;
}

static int aggapi_server_describe(struct aggapi_server *s, struct aggapi_request *a,
				  struct aggapi_refusal *refusal, struct cairn_err *err)
{
	struct aggapi_document document;
	struct cairn_err why = {0};
	int rc;

	if (!aggapi_server_is_read(a->http))
		return aggapi_refuse(refusal, 405, "MethodNotAllowed",
				     "the server does not allow this method here");
	rc = aggapi_document(a->path.what, net_http_field(a->http, "accept"), s->kinds,
			     &a->caller.wait, &document, &why);
	if (rc < 0)
		return aggapi_refuse_err(refusal, &why);
	rc = send_document(a->http, &document, err);
	aggapi_document_done(&document);
	return rc;
}

/* The user is authenticated and authorized. */
static int aggapi_server_answer(struct aggapi_server *s, struct aggapi_request *a,
				struct aggapi_refusal *refusal, struct cairn_err *err)
{
	if (!aggapi_path_is_resource(&a->path) && a->path.what != AGGAPI_UNKNOWN)
		return aggapi_server_describe(s, a, refusal, err);
	if (a->path.what == AGGAPI_PASSED)
		return aggapi_pass(s->passer, a, refusal, err);
	if (a->path.what == AGGAPI_DELTAS && strcmp(net_http_method(a->http), "POST") == 0)
		return aggapi_create(s->creator, a, refusal, err);
	if (aggapi_path_is_resource(&a->path))
		return aggapi_refuse(refusal, 405, "MethodNotAllowed",
				     AGGAPI_KIND "s can only be created: they are answered at once "
						 "and stored nowhere");
	return aggapi_refuse(refusal, 404, "NotFound",
			     "the server could not find the requested resource");
}

static void aggapi_server_lower(const char *text, char *out, size_t cap)
{
	size_t n = 0;

	for (; text[n] && n + 1 < cap; n++)
		out[n] = (char)(text[n] | 0x20);
	out[n] = '\0';
}

static int aggapi_server_serve(struct aggapi_server *s, struct aggapi_request *a,
			       struct aggapi_refusal *refusal, struct cairn_err *err)
{
	struct cairn_err why = {0};
	int rc;

	aggapi_path_parse(net_http_path(a->http), &a->path);
	aggapi_server_lower(net_http_method(a->http), a->method, sizeof(a->method));
	a->verb = a->method;
	if (aggapi_path_is_resource(&a->path))
		a->verb = aggapi_verb(&a->path, net_http_method(a->http),
				      aggapi_query_watch(net_http_query(a->http)));
	if (!a->verb)
		return aggapi_refuse(refusal, 405, "MethodNotAllowed",
				     "the server does not know this method");
	rc = aggapi_server_identify(s, a, &why);
	if (!rc)
		rc = aggapi_server_authorize(s, a, &why);
	if (rc) {
		rc = aggapi_refuse_err(refusal, &why);
		aggapi_audit_refused(a, refusal);
		return rc;
	}
	return aggapi_server_answer(s, a, refusal, err);
}

static const char *aggapi_server_kind_of(const struct aggapi_path *path)
{
	return path->what == AGGAPI_PASSED     ? "passed"
	       : aggapi_path_is_resource(path) ? "delta"
	       : path->what == AGGAPI_UNKNOWN  ? "other"
					       : "document";
}

static void aggapi_server_note(struct aggapi_server *s, const struct aggapi_request *a,
			       const struct aggapi_refusal *refusal, uint64_t began)
{
	const char *kind = aggapi_server_kind_of(&a->path);
	char code[8];
	const char *labels[2] = {kind, code};

	snprintf(code, sizeof(code), "%d", refusal->http ? refusal->http : 200);
	net_metric_count(s->requests, net_metric_series_of(s->requests, labels), 1);
	net_metric_observe(s->seconds, net_metric_series_of(s->seconds, labels),
			   (double)(cairn_monotonic_ns() - began) / (double)CAIRN_NS_PER_SEC);
	if (refusal->http)
		cairn_log(CAIRN_LOG_DEBUG, "refused", CAIRN_U64("code", (uint64_t)refusal->http),
			  CAIRN_STR("path", net_http_path(a->http)),
			  CAIRN_STR("error", refusal->message));
}

static int aggapi_server_handle(struct net_http *http, void *arg, struct cairn_err *err)
{
	struct aggapi_server *s = arg;
	struct aggapi_request asked = {.http = http};
	struct aggapi_refusal refusal = {0};
	uint64_t began = cairn_monotonic_ns();
	int rc;

	kube_caller_init(&asked.caller, http, AGGAPI_ASK_MS);
	rc = aggapi_server_serve(s, &asked, &refusal, err);
	aggapi_server_note(s, &asked, &refusal, began);
	kube_value_unrefp(&asked.user);
	return refusal.http ? aggapi_server_send_status(http, &refusal, err) : rc;
}

static int aggapi_server_add_metrics(struct aggapi_server *s, struct cairn_err *err)
{
	static const char *const kinds[] = {"delta", "document", "passed", "other", NULL};
	static const char *const codes[] = {"200", "400", "401", "403",   "404", "405",
					    "415", "422", "429", "other", NULL};
	static const double buckets[] = {0.005, 0.02, 0.1, 0.5, 2, 10};
	const struct net_metric_spec requests = {
		.name = "cairn_aggapi_requests_total",
		.help = "Requests, by kind and HTTP status.",
		.kind = NET_COUNTER,
		.labels = {{"kind", kinds}, {"code", codes}},
	};
	const struct net_metric_spec seconds = {
		.name = "cairn_aggapi_request_seconds",
		.help = "Time from a request to its answer.",
		.kind = NET_HISTOGRAM,
		.labels = {{"kind", kinds}},
		.buckets = buckets,
		.n_buckets = sizeof(buckets) / sizeof(buckets[0]),
	};
	int rc = net_metrics_add(s->options.metrics, &requests, &s->requests, err);

	return rc ? rc : net_metrics_add(s->options.metrics, &seconds, &s->seconds, err);
}

int aggapi_server_new(const struct aggapi_server_options *options, struct net_http_server *http,
		      struct aggapi_server **ret, struct cairn_err *err)
{
	cairn_cleanup(aggapi_server_freep) struct aggapi_server *s = cairn_calloc(1, sizeof(*s));
	struct net_http_route route = {.path = "/", .handler = aggapi_server_handle, .arg = s};
	int rc;

	if (!s)
		return cairn_err_nomem(err, "server");
	s->options = *options;
	rc = aggapi_server_add_metrics(s, err);
	if (!rc)
		rc = aggapi_creator_new(options, &s->creator, err);
	if (!rc)
		rc = aggapi_kinds_new(options->client, &s->kinds, err);
	if (!rc)
		rc = aggapi_passer_new(options, &s->passer, err);
	if (!rc)
		rc = net_http_server_add(http, &route, 1, err);
	if (!rc)
		*ret = cairn_take(s);
	return rc;
}

void aggapi_server_free(struct aggapi_server *server)
{
	aggapi_creator_freep(&server->creator);
	aggapi_passer_freep(&server->passer);
	aggapi_kinds_freep(&server->kinds);
	free(server);
}

void aggapi_server_stop(struct aggapi_server *server)
{
	aggapi_passer_stop(server->passer);
}
