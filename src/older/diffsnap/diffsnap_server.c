/* SPDX-License-Identifier: Apache-2.0 */

#include "older/diffsnap/diffsnap_server.h"

#include <stdlib.h>

#include "base/audit.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "base/mem.h"
#include "kube/auth.h"
#include "kube/authz_cache.h"
#include "kube/caller.h"
#include "kube/kinds.h"
#include "kube/kube_client.h"
#include "kube/object.h"
#include "kube/user.h"
#include "net/http/http_server.h"
#include "net/metrics.h"
#include "older/data/data_holder.h"
#include "older/data/data_server.h"
#include "older/diffsnap/answer.h"
#include "older/diffsnap/diffsnap_controller.h"
#include "older/diffsnap/diffsnap_driver.h"
#include "older/diffsnap/diffsnap_resource.h"
#include "older/diffsnap/query.h"
#include "older/diffsnap/verdict.h"
#include "proto/message.h"

#define BODY_MAX    (32U << 20)
#define ASK_TIME_MS 15000U /* for all API server queries of one request */

struct diffsnap_server {
	struct diffsnap_server_options options;
	struct net_metric *requests; /* NULL: not counted */
	struct net_metric *blocks;
};

static const char *const kinds[] = {"object", "direct", "block", "other", NULL};

/* Checks that the user may read the requested object. */
static int check_object_right(struct diffsnap_server *s, const struct kube_user *user,
			      const struct diffsnap_query *query, const struct kube_wait *wait,
			      struct cairn_err *err)
{
	const struct kube_access what = {
		.verb = "get",
		.group = KUBE_CBT_GROUP,
		.version = KUBE_CBT_VERSION,
		.resource = kube_differentialsnapshots.plural,
		.ns = query->ns,
		.name = query->name,
	};

	return kube_authz_cache_access(s->options.guard, user, &what, wait, err);
}

/* Checks that the user may read its VolumeSnapshots. `base` may be "". */
static int check_snapshot_rights(struct diffsnap_server *s, const struct kube_user *user,
				 const char *ns, const char *target, const char *base,
				 const struct kube_wait *wait, struct cairn_err *err)
{
	int rc = kube_authz_cache_may_read(s->options.guard, user, ns, target, wait, err);

	if (!rc && base[0])
		rc = kube_authz_cache_may_read(s->options.guard, user, ns, base, wait, err);
	return rc;
}

static int find_object(struct diffsnap_server *s, const struct diffsnap_query *query,
		       const struct kube_user *user, const struct kube_wait *wait,
		       struct diffsnap_resource **ret, struct cairn_err *err)
{
	cairn_cleanup(diffsnap_resource_unrefp) struct diffsnap_resource *found = NULL;
	char key[KUBE_KEY_MAX];
	int rc = check_object_right(s, user, query, wait, err);

	if (rc)
		return rc;
	if (!kube_key_of(query->ns, query->name, key))
		return cairn_err_set(err, CAIRN_INVALID, "the name is too long");
	found = diffsnap_table_get(s->options.table, key);
	if (found) {
		const struct diffsnap_resource_spec *spec = diffsnap_resource_spec(found);

		rc = check_snapshot_rights(s, user, query->ns, spec->target_name, spec->base_name,
					   wait, err);
		if (!rc)
			*ret = cairn_take(found);
		return rc;
	}
	if (!diffsnap_controller_is_ready(s->options.controller))
		return cairn_err_set(err, CAIRN_UNAVAILABLE,
				     "the server has just started; try again");
	return cairn_err_set(err, CAIRN_NOT_FOUND,
			     "there is no DifferentialSnapshot '%s' in state Success", key);
}

static int parameters_of(const struct diffsnap_query *query, json_t **ret, struct cairn_err *err)
{
	kube_auto_json json_t *object = json_object();

	for (size_t i = 0; i < query->n_parameters; i++)
		if (json_object_set_new(object, query->parameters[i].key,
					json_string(query->parameters[i].value)) != 0)
			return cairn_err_set(err, CAIRN_INVALID, "a parameter is not UTF-8");
	if (!object)
		return cairn_err_nomem(err, "parameters");
	*ret = cairn_take(object);
	return 0;
}

/* Resolves the two VolumeSnapshots on demand. */
static int find_direct(struct diffsnap_server *s, const struct diffsnap_query *query,
		       const struct kube_user *user, const struct kube_wait *wait,
		       struct diffsnap_resource **ret, struct cairn_err *err)
{
	const struct kube_call call = kube_wait_call(wait);
	kube_auto_json json_t *parameters = NULL;
	struct diffsnap_verdict verdict = {.state = DIFFSNAP_FAILURE};
	struct diffsnap_wish wish = {
		.ns = query->ns,
		.base = query->base,
		.target = query->target,
		.volume_id = query->volume_id,
		.mode = query->mode,
	};
	int rc = check_snapshot_rights(s, user, query->ns, query->target, query->base, wait, err);

	if (!rc)
		rc = parameters_of(query, &parameters, err);
	if (rc)
		return rc;
	wish.parameters = parameters;
	rc = diffsnap_judge_wish(s->options.client, s->options.driver, &wish, &call, &verdict, err);
	if (rc)
		return rc;
	if (verdict.state != DIFFSNAP_SUCCESS)
		return cairn_err_set(err, verdict.why.code, "%s", verdict.why.msg);
	*ret = verdict.resource;
	return 0;
}

/* Binds the page's data tokens to the user, who exchanges them at DATA_SERVER_PATH. */
static int diffsnap_server_holder(const struct diffsnap_query *query, const struct kube_user *user,
				  const struct diffsnap_resource_spec *spec, char **ret_text,
				  char **ret_suffix, struct cairn_err *err)
{
	const struct data_holder holder = {.user = user->name,
					   .ns = query->ns,
					   .target = spec->target_name,
					   .base = spec->base_name};
	int rc = data_holder_check(&holder, err);

	if (rc)
		return rc;
	*ret_text = data_holder_text(&holder);
	*ret_suffix = data_holder_token(&holder, "");
	return *ret_text && *ret_suffix ? 0 : cairn_err_nomem(err, "data tokens");
}

static int diffsnap_server_send_page(struct diffsnap_server *s, struct net_http *http,
				     const struct diffsnap_query *query,
				     const struct kube_user *user,
				     const struct diffsnap_resource *resource, uint64_t *ret_bytes,
				     struct cairn_err *err)
{
	cairn_auto_free char *holder = NULL;
	cairn_auto_free char *suffix = NULL;
	const struct diffsnap_resource_spec *spec = diffsnap_resource_spec(resource);
	const char *start = query->has_start ? query->start_offset : spec->start_offset;
	uint64_t max = query->max_entries ? query->max_entries : DIFFSNAP_PAGE_DEFAULT;
	cairn_auto_buf struct cairn_buf body = CAIRN_BUF_INIT(BODY_MAX);
	Csi__V1__DifferentialSnapshotResponse *page = NULL;
	int rc = diffsnap_server_holder(query, user, spec, &holder, &suffix, err);

	if (!rc)
		rc = diffsnap_driver_page(s->options.driver, spec, start, max, holder, &page, err);
	if (rc)
		return rc;
	diffsnap_answer_write(page, query->camel_case, page->holder_bound ? suffix : "", &body);
	if (s->blocks)
		net_metric_count(s->blocks, 0, page->n_change_block_list);
	proto_message_free(&page->base);
	if (cairn_buf_failed(&body))
		return cairn_err_set(err, CAIRN_NO_SPACE, "the page is too large; ask for less");
	rc = net_http_reply(http, 200, "application/json", body.data, body.len, err);
	*ret_bytes = rc ? 0 : body.len;
	return rc;
}

/* One request, as reported to the audit log. */
struct asked {
	struct diffsnap_query query;
	struct kube_user *user;             /* NULL: not known */
	struct diffsnap_resource *resource; /* NULL: denied, or there is none */
	uint64_t bytes;
};

static void asked_free(struct asked *asked)
{
	kube_value_unrefp(&asked->user);
	if (asked->resource)
		diffsnap_resource_unref(asked->resource);
	free(asked);
}

static void diffsnap_server_audit(const struct asked *asked, struct net_http *http, int rc,
				  uint64_t began)
{
	const struct diffsnap_query *query = &asked->query;
	const struct diffsnap_resource_spec *found =
		asked->resource ? diffsnap_resource_spec(asked->resource) : NULL;

	cairn_audit_write(&(struct cairn_audit){
		.op = query->direct ? "diff" : "DifferentialSnapshot",
		.allowed = found != NULL,
		.user = asked->user ? asked->user->name : "",
		.peer = net_http_peer(http),
		.ns = query->ns,
		.snapshot = found           ? found->target_name
			    : query->direct ? query->target
					    : query->name,
		.base = found ? found->base_name : query->base,
		.bytes = asked->bytes,
		.code = rc,
		.ms = (cairn_monotonic_ns() - began) / CAIRN_NS_PER_MS,
	});
}

static int diffsnap_server_answer(struct diffsnap_server *s, struct net_http *http,
				  struct asked *asked, struct cairn_err *err)
{
	struct diffsnap_query *query = &asked->query;
	const char *token = kube_bearer_token(net_http_field(http, "authorization"));
	struct kube_caller caller;
	int rc = diffsnap_query_parse(net_http_path(http), net_http_query(http), query, err);

	kube_caller_init(&caller, http, ASK_TIME_MS);
	if (!rc)
		rc = kube_authz_cache_user(s->options.guard, token, s->options.audience,
					   &caller.wait, &asked->user, err);
	if (rc)
		return rc;
	net_http_trust(http, NET_SLOT_KNOWN);
	rc = query->direct
		     ? find_direct(s, query, asked->user, &caller.wait, &asked->resource, err)
		     : find_object(s, query, asked->user, &caller.wait, &asked->resource, err);
	return rc ? rc
		  : diffsnap_server_send_page(s, http, query, asked->user, asked->resource,
					      &asked->bytes, err);
}

static void diffsnap_server_count(struct diffsnap_server *s, const struct diffsnap_query *query,
				  int code)
{
	const char *labels[] = {"other", cairn_code_name(code)};

	if (query->ns[0])
		labels[0] = query->direct ? "direct" : "object";
	if (s->requests)
		net_metric_count(s->requests, net_metric_series_of(s->requests, labels), 1);
}

static int send_error(struct net_http *http, int rc, const struct cairn_err *why,
		      struct cairn_err *err)
{
	cairn_auto_buf struct cairn_buf body = CAIRN_BUF_INIT(4096);

	diffsnap_answer_error(rc, why->msg, &body);
	if (rc == CAIRN_UNAVAILABLE)
		(void)net_http_add_field(http, "retry-after", "1", NULL);
	if (rc == CAIRN_UNAUTHENTICATED)
		(void)net_http_add_field(http, "www-authenticate", "Bearer", NULL);
	return net_http_reply(http, net_http_status_of(rc), "application/json", body.data, body.len,
			      err);
}

static int diffsnap_server_handle(struct net_http *http, void *arg, struct cairn_err *err)
{
	struct diffsnap_server *s = arg;
	struct asked *asked = cairn_calloc(1, sizeof(*asked));
	struct cairn_err why = {0};
	uint64_t began = cairn_monotonic_ns();
	int rc;

	if (!asked)
		return cairn_err_nomem(err, "request");
	rc = diffsnap_server_answer(s, http, asked, &why);
	diffsnap_server_count(s, &asked->query, rc);
	diffsnap_server_audit(asked, http, rc, began);
	if (rc)
		cairn_log(CAIRN_LOG_DEBUG, "request refused", CAIRN_STR("error", why.msg));
	asked_free(asked);
	if (rc == 0 || rc == CAIRN_CANCELLED) {
		if (err)
			*err = why;
		return rc;
	}
	return send_error(http, rc, &why, err);
}

static int diffsnap_server_read(void *arg, const char *token, const char *holder,
				data_piece_fn piece, void *piece_arg, struct cairn_err *err)
{
	struct diffsnap_server *s = arg;

	return diffsnap_driver_block(s->options.driver, token, holder, piece, piece_arg, err);
}

static void diffsnap_server_note(void *arg, int rc, const struct cairn_err *why)
{
	struct diffsnap_server *s = arg;
	const char *labels[] = {"block", cairn_code_name(rc)};

	(void)why;
	if (s->requests)
		net_metric_count(s->requests, net_metric_series_of(s->requests, labels), 1);
}

static int diffsnap_server_block(struct net_http *http, void *arg, struct cairn_err *err)
{
	struct diffsnap_server *s = arg;
	const struct data_server_options options = {.guard = s->options.guard,
						    .audience = s->options.audience,
						    .read = diffsnap_server_read,
						    .note = diffsnap_server_note,
						    .arg = s};

	return data_server_handle(&options, http, err);
}

static int diffsnap_server_add_metrics(struct diffsnap_server *s, struct cairn_err *err)
{
	static const char *const codes[] = {"OK",
					    "INVALID_ARGUMENT",
					    "DEADLINE_EXCEEDED",
					    "NOT_FOUND",
					    "PERMISSION_DENIED",
					    "FAILED_PRECONDITION",
					    "OUT_OF_RANGE",
					    "UNIMPLEMENTED",
					    "UNAVAILABLE",
					    "UNAUTHENTICATED",
					    "other",
					    NULL};
	const struct net_metric_spec requests = {
		.name = "cairn_diffsnap_requests_total",
		.help = "Requests for changed blocks, by kind and code.",
		.kind = NET_COUNTER,
		.labels = {{"kind", kinds}, {"code", codes}},
	};
	const struct net_metric_spec blocks = {
		.name = "cairn_diffsnap_blocks_total",
		.help = "Changed blocks handed out.",
		.kind = NET_COUNTER,
	};
	int rc;

	if (!s->options.metrics)
		return 0;
	rc = net_metrics_add(s->options.metrics, &requests, &s->requests, err);
	return rc ? rc : net_metrics_add(s->options.metrics, &blocks, &s->blocks, err);
}

int diffsnap_server_new(const struct diffsnap_server_options *options, struct net_http_server *http,
			struct diffsnap_server **ret, struct cairn_err *err)
{
	cairn_cleanup(diffsnap_server_freep) struct diffsnap_server *s =
		cairn_calloc(1, sizeof(*s));
	const struct net_http_route routes[] = {
		{.method = "GET", .path = "/", .handler = diffsnap_server_handle, .arg = s},
		{.method = "POST",
		 .path = DATA_SERVER_PATH,
		 .handler = diffsnap_server_block,
		 .arg = s,
		 .body_max = DATA_SERVER_BODY_MAX},
		/* A DifferentialSnapshot may have this name. */
		{.method = "GET",
		 .path = DATA_SERVER_PATH,
		 .handler = diffsnap_server_handle,
		 .arg = s},
	};
	int rc;

	if (!s)
		return cairn_err_nomem(err, "server");
	s->options = *options;
	rc = diffsnap_server_add_metrics(s, err);
	if (!rc)
		rc = net_http_server_add(http, routes, 3, err);
	if (rc)
		return rc;
	*ret = cairn_take(s);
	return 0;
}

void diffsnap_server_free(struct diffsnap_server *server)
{
	free(server);
}
