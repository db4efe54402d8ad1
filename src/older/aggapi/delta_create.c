/* SPDX-License-Identifier: Apache-2.0 */

#include "older/aggapi/delta_create.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/audit.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/err_replace.h"
#include "base/log.h"
#include "base/mem.h"
#include "kube/digest.h"
#include "kube/kube_cache.h"
#include "kube/kube_wait.h"
#include "kube/object.h"
#include "kube/user.h"
#include "kube/value.h"
#include "net/http/http_head.h"
#include "net/http/http_server.h"
#include "net/metrics.h"
#include "older/aggapi/aggapi_audit.h"
#include "older/aggapi/aggapi_server.h"
#include "older/aggapi/aggapi_status.h"
#include "older/aggapi/aggapi_wire.h"
#include "older/aggapi/delta_pages.h"
#include "older/aggapi/rates.h"
#include "older/aggapi/remote.h"
#include "older/aggapi/request.h"
#include "older/aggapi/resolve_snapshots.h"

#define PAGES_KEPT   256
#define WARNINGS_MAX 4096

struct aggapi_creator {
	struct aggapi_finder finder;
	struct aggapi_remote *remote;
	struct aggapi_rates *rates;
	struct kube_cache *pages;
	struct net_metric *from_memory, *entries;
	uint64_t page_limit;
};

static int delta_create_add_metrics(struct aggapi_creator *c, struct net_metrics *metrics,
				    struct cairn_err *err)
{
	const struct net_metric_spec from_memory = {
		.name = "cairn_aggapi_cached_total",
		.help = "Pages answered without asking the driver again.",
		.kind = NET_COUNTER,
	};
	const struct net_metric_spec entries = {
		.name = "cairn_aggapi_entries_total",
		.help = "Changed blocks handed out.",
		.kind = NET_COUNTER,
	};
	int rc = net_metrics_add(metrics, &from_memory, &c->from_memory, err);

	return rc ? rc : net_metrics_add(metrics, &entries, &c->entries, err);
}

int aggapi_creator_new(const struct aggapi_server_options *o, struct aggapi_creator **ret,
		       struct cairn_err *err)
{
	cairn_cleanup(aggapi_creator_freep) struct aggapi_creator *c = cairn_calloc(1, sizeof(*c));
	/* Failures are not cached, so they are retried immediately. */
	const struct kube_cache_options pages = {.entries_max = PAGES_KEPT, .keep_ms = o->cache_ms};
	int rc;

	if (!c)
		return cairn_err_nomem(err, "server");
	c->finder = (struct aggapi_finder){
		.client = o->client, .guard = o->guard, .discoveries = o->discoveries};
	c->remote = o->remote;
	c->page_limit = o->page_limit;
	rc = aggapi_rates_new(o->user_rate, o->user_burst, &c->rates, err);
	if (!rc)
		rc = kube_cache_new(&pages, &c->pages, err);
	if (!rc)
		rc = delta_create_add_metrics(c, o->metrics, err);
	if (!rc)
		*ret = cairn_take(c);
	return rc;
}

void aggapi_creator_free(struct aggapi_creator *creator)
{
	kube_cache_free(creator->pages);
	aggapi_rates_freep(&creator->rates);
	free(creator);
}

static int check_rate(struct aggapi_creator *c, const struct kube_user *user,
		      struct aggapi_refusal *refusal)
{
	uint64_t wait_s = 0;

	if (aggapi_rates_take(c->rates, user->name, cairn_monotonic_ns(), &wait_s))
		return 0;
	aggapi_refuse(refusal, 429, "TooManyRequests",
		      "too many requests of this user; please try again later");
	refusal->retry_s = wait_s;
	return CAIRN_UNAVAILABLE;
}

static int check_type(const struct net_http *http, struct aggapi_refusal *refusal)
{
	static const char json[] = "application/json";
	const char *type = net_http_field(http, "content-type");
	size_t n = type ? strcspn(type, "; \t") : 0;

	if (!type || (n == sizeof(json) - 1 && strncasecmp(type, json, n) == 0))
		return 0;
	return aggapi_refuse(refusal, 415, "UnsupportedMediaType",
			     "the body of the request must be of type application/json");
}

static int read_query(const struct net_http *http, enum aggapi_validation *ret, bool *ret_dry,
		      struct aggapi_refusal *refusal)
{
	const char *query = net_http_query(http);
	char validation[16] = "Warn", dry[16] = "";

	(void)net_http_query_get(query, "fieldValidation", validation, sizeof(validation));
	(void)net_http_query_get(query, "dryRun", dry, sizeof(dry));
	*ret = AGGAPI_WARN;
	if (strcmp(validation, "Strict") == 0)
		*ret = AGGAPI_STRICT;
	else if (strcmp(validation, "Ignore") == 0)
		*ret = AGGAPI_IGNORE;
	else if (strcmp(validation, "Warn") != 0 && validation[0])
		return aggapi_refuse(refusal, 400, "BadRequest",
				     "fieldValidation must be Ignore, Warn or Strict");
	*ret_dry = strcmp(dry, "All") == 0;
	if (dry[0] && !*ret_dry)
		return aggapi_refuse(refusal, 400, "BadRequest", "dryRun must be All");
	return 0;
}

/* Each line of `warnings` becomes a Warning field (RFC 7234, 5.5). */
static void add_warnings(struct net_http *http, struct cairn_buf *warnings)
{
	char *rest = cairn_buf_take_string(warnings), *text = rest, *line;

	while (text && (line = strsep(&rest, "\n")) && *line) {
		cairn_auto_buf struct cairn_buf value = CAIRN_BUF_INIT(WARNINGS_MAX);

		cairn_buf_adds(&value, "299 - \"");
		for (; *line; line++) {
			if (*line == '"' || *line == '\\')
				cairn_buf_addc(&value, '\\');
			cairn_buf_addc(&value, *line);
		}
		cairn_buf_adds(&value, "\"");
		cairn_buf_addc(&value, '\0');
		if (!cairn_buf_failed(&value))
			(void)net_http_add_field(http, "warning", (const char *)value.data, NULL);
	}
	free(text);
}

static const char *or_empty(const char *text)
{
	return text ? text : "";
}

/* The user is part of the key: the tokens of a page are for one user only. */
static struct kube_digest page_key(const struct aggapi_delta *delta,
				   const struct aggapi_found *found, const struct kube_user *user)
{
	char numbers[64];

	snprintf(numbers, sizeof(numbers), "%llu %llu", (unsigned long long)delta->limit,
		 (unsigned long long)delta->offset);
	return kube_digest_of(found->target.handle, or_empty(found->base.handle),
			      found->endpoint.url, or_empty(found->endpoint.ca_pem),
			      or_empty(delta->secret), or_empty(delta->secret_ns),
			      found->secret_version, numbers, user->name, delta->ns, delta->target,
			      or_empty(delta->base), NULL);
}

/* A page as a cached value. */
struct page {
	struct kube_value value;
	json_t *answer;
};

static void page_destroy(struct kube_value *value)
{
	struct page *page = (struct page *)(void *)value;

	json_decref(page->answer);
	free(page);
}

struct page_question {
	struct aggapi_creator *creator;
	const struct aggapi_delta *delta;
	const struct aggapi_found *found;
	const struct kube_user *user;
	bool asked;
};

static int ask_page(void *arg, const struct kube_wait *wait, struct kube_value **ret,
		    uint64_t *until_ns, struct cairn_err *err)
{
	struct page_question *q = arg;
	const struct aggapi_found *found = q->found;
	char start[24] = "";
	const struct aggapi_question question = {
		.from = found->base.handle,
		.to = found->target.handle,
		.secrets = found->secrets,
		.max_entries = q->delta->limit,
		.starting_token = start,
		.holder = {.user = q->user->name,
			   .ns = q->delta->ns,
			   .target = q->delta->target,
			   .base = q->delta->base},
	};
	struct page *page = cairn_calloc(1, sizeof(*page));
	int rc;

	(void)until_ns;
	q->asked = true;
	if (!page)
		return cairn_err_nomem(err, "page");
	kube_value_init(&page->value, page_destroy);
	if (q->delta->offset > 0)
		snprintf(start, sizeof(start), "%llu", (unsigned long long)q->delta->offset);
	rc = aggapi_remote_ask(q->creator->remote, found->target.driver, &found->endpoint,
			       &question, wait, &page->answer, err);
	if (rc)
		kube_value_unref(&page->value);
	else
		*ret = &page->value;
	return rc;
}

/* Returns the page from the cache or from the driver; concurrent requests share it. */
static int get_page(struct aggapi_creator *c, const struct aggapi_delta *delta,
		    const struct aggapi_found *found, const struct kube_user *user,
		    const struct kube_wait *wait, json_t **ret, struct cairn_err *err)
{
	struct page_question q = {.creator = c, .delta = delta, .found = found, .user = user};
	const struct kube_digest key = page_key(delta, found, user);
	kube_auto_value struct page *page = NULL;
	struct kube_value *value = NULL;
	int rc = kube_cache_get(c->pages, &key, ask_page, &q, wait, &value, err);

	if (rc)
		return rc;
	page = (struct page *)(void *)value;
	*ret = json_incref(page->answer);
	if (!q.asked)
		net_metric_count(c->from_memory, 0, 1);
	return 0;
}

/* Failures of the driver are reported in the object's status. */
static int fill_status(struct aggapi_creator *c, struct aggapi_delta *delta,
		       const struct aggapi_found *found, const struct kube_user *user,
		       const struct kube_wait *wait, struct cairn_err *err)
{
	kube_auto_json json_t *page = NULL;
	struct cairn_err why = {0};
	char text[sizeof(why.msg) + 64];
	int rc = get_page(c, delta, found, user, wait, &page, &why);

	if (!rc)
		rc = aggapi_delta_complete(delta, page, &why);
	if (!rc) {
		net_metric_count(c->entries, 0,
				 json_array_size(json_object_get(page, "changedBlocks")));
		return 0;
	}
	if (rc == CAIRN_CANCELLED)
		return cairn_err_set(err, rc, "%s", why.msg);
	cairn_log(CAIRN_LOG_WARN, "delta failed", CAIRN_STR("driver", found->target.driver),
		  CAIRN_STR("code", cairn_code_name(rc)), CAIRN_STR("error", why.msg));
	/* Users know the names of VolumeSnapshots, not the driver's handles. */
	cairn_err_replace(&why, found->target.handle, delta->target);
	if (found->base.handle)
		cairn_err_replace(&why, found->base.handle, delta->base);
	snprintf(text, sizeof(text), "%s: %s", cairn_code_name(rc), why.msg);
	return aggapi_delta_fail(delta, text, err);
}

static int send_object(struct net_http *http, const json_t *object, struct cairn_err *err)
{
	size_t n = 0;
	cairn_auto_free char *text = kube_json_text(object, &n);

	if (!text)
		return cairn_err_nomem(err, "answer");
	return net_http_reply(http, 201, "application/json", text, n, err);
}

static void delta_create_audit(const struct aggapi_request *request,
			       const struct aggapi_delta *delta,
			       const struct aggapi_refusal *refusal, int rc, uint64_t began)
{
	cairn_audit_write(&(struct cairn_audit){
		.op = AGGAPI_KIND,
		.allowed = refusal->http == 0,
		.user = request->user->name,
		.peer = net_http_peer(request->http),
		.ns = delta->ns,
		.snapshot = delta->target,
		.base = delta->base,
		.code = refusal->http ? aggapi_audit_code(refusal->http) : rc,
		.ms = (cairn_monotonic_ns() - began) / CAIRN_NS_PER_MS,
	});
}

static int delta_create_answer(struct aggapi_creator *c, const struct aggapi_request *request,
			       struct aggapi_delta *delta, struct aggapi_refusal *refusal,
			       struct cairn_err *err)
{
	const struct kube_wait *wait = &request->caller.wait;
	struct aggapi_found found;
	uint64_t began = cairn_monotonic_ns();
	int rc = aggapi_resolve(&c->finder, delta, request->user, wait, &found, refusal);

	if (rc) {
		delta_create_audit(request, delta, refusal, rc, began);
		return rc;
	}
	rc = fill_status(c, delta, &found, request->user, wait, err);
	aggapi_found_done(&found);
	if (!rc)
		rc = send_object(request->http, delta->object, err);
	delta_create_audit(request, delta, refusal, rc, began);
	return rc;
}

/* Reads the object. The refusal of one that cannot be read has its audit line here. */
static int delta_create_read(struct aggapi_creator *c, const struct aggapi_request *request,
			     struct aggapi_delta *ret, bool *ret_dry, struct cairn_buf *warnings,
			     struct aggapi_refusal *refusal)
{
	struct net_http *http = request->http;
	enum aggapi_validation validation;
	const void *body;
	size_t n;
	int rc = check_rate(c, request->user, refusal);

	if (!rc)
		rc = check_type(http, refusal);
	if (!rc)
		rc = read_query(http, &validation, ret_dry, refusal);
	body = net_http_body(http, &n);
	if (!rc)
		rc = aggapi_delta_parse(body, n, request->path.ns, validation, c->page_limit, ret,
					warnings, refusal);
	if (rc)
		aggapi_audit_refused(request, refusal);
	return rc;
}

int aggapi_create(struct aggapi_creator *c, const struct aggapi_request *request,
		  struct aggapi_refusal *refusal, struct cairn_err *err)
{
	cairn_auto_buf struct cairn_buf warnings = CAIRN_BUF_INIT(WARNINGS_MAX);
	struct aggapi_delta delta;
	bool dry = false;
	int rc = delta_create_read(c, request, &delta, &dry, &warnings, refusal);

	if (rc)
		return rc;
	add_warnings(request->http, &warnings);
	rc = dry ? send_object(request->http, delta.object, err)
		 : delta_create_answer(c, request, &delta, refusal, err);
	aggapi_delta_done(&delta);
	return rc;
}
