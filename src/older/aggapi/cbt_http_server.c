/* SPDX-License-Identifier: Apache-2.0 */

#include "older/aggapi/cbt_http_server.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/audit.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "base/mem.h"
#include "kube/auth.h"
#include "kube/authz_cache.h"
#include "kube/caller.h"
#include "kube/object.h"
#include "kube/user.h"
#include "net/http/http_server.h"
#include "net/metrics.h"
#include "older/aggapi/aggapi_wire.h"
#include "older/aggapi/csi.h"
#include "older/data/data_server.h"

#define ASK_MS 15000U

struct aggapi_sidecar {
	struct aggapi_sidecar_options options;
	struct net_metric *requests;
};

static int check_certificate(const struct aggapi_sidecar *s, const struct net_http *http)
{
	const char *name = net_http_tls_name(http);

	if (!s->options.certificates || !name)
		return CAIRN_UNAUTHENTICATED;
	if (s->options.client_name && strcmp(name, s->options.client_name) != 0)
		return CAIRN_UNAUTHENTICATED;
	return 0;
}

/* Authenticates the user of the request's token. */
static int cbt_http_server_identify(const struct aggapi_sidecar *s, struct net_http *http,
				    const struct kube_caller *caller, struct kube_user **ret,
				    struct cairn_err *err)
{
	const char *token = kube_bearer_token(net_http_field(http, "authorization"));

	int rc = kube_authz_cache_user(s->options.guard, token, s->options.audience, &caller->wait,
				       ret, err);

	if (!rc)
		net_http_trust(http, NET_SLOT_KNOWN);
	return rc;
}

/* A request for pages, as reported to the audit log. */
struct asked {
	char user[CAIRN_AUDIT_TEXT_MAX + 1]; /* of the caller; "" if it is not known */
	bool allowed;
	json_t *body;
	struct aggapi_question question; /* points into `body` */
};

/* Only the aggregated API server may request pages. */
static int check_caller(const struct aggapi_sidecar *s, struct net_http *http, struct asked *asked,
			struct cairn_err *err)
{
	const struct kube_access what = {.verb = "post", .path = AGGAPI_WIRE_DELTAS};
	kube_auto_value struct kube_user *user = NULL;
	struct kube_caller caller;
	int rc;

	if (check_certificate(s, http) == 0) {
		snprintf(asked->user, sizeof(asked->user), "certificate:%s",
			 net_http_tls_name(http));
		return 0;
	}
	kube_caller_init(&caller, http, ASK_MS);
	rc = cbt_http_server_identify(s, http, &caller, &user, err);
	if (!rc)
		snprintf(asked->user, sizeof(asked->user), "%s", user->name);
	return rc ? rc : kube_authz_cache_access(s->options.guard, user, &what, &caller.wait, err);
}

static int cbt_http_server_read_body(struct net_http *http, json_t **ret, struct cairn_err *err)
{
	size_t n;
	const void *body = net_http_body(http, &n);
	int rc = kube_json_parse(body, n, ret, err);

	return rc == CAIRN_INVALID ? cairn_err_set(err, rc, "the body is not JSON") : rc;
}

static int cbt_http_server_send_json(struct net_http *http, int status, const json_t *object,
				     struct cairn_err *err)
{
	size_t n = 0;
	cairn_auto_free char *text = object ? kube_json_text(object, &n) : NULL;

	if (!text)
		return cairn_err_nomem(err, "answer");
	return net_http_reply(http, status, "application/json", text, n, err);
}

static int send_failure(struct net_http *http, const struct cairn_err *why, struct cairn_err *err)
{
	kube_auto_json json_t *object =
		json_pack("{s:s, s:s}", "code", cairn_code_name(why->code), "message", why->msg);

	if (why->code == CAIRN_UNAUTHENTICATED)
		(void)net_http_add_field(http, "www-authenticate", "Bearer", NULL);
	return cbt_http_server_send_json(http, net_http_status_of(why->code), object, err);
}

static int cbt_http_server_deltas(struct aggapi_sidecar *s, struct net_http *http,
				  struct asked *asked, json_t **ret, struct cairn_err *err)
{
	int rc = check_caller(s, http, asked, err);

	asked->allowed = rc == 0;
	if (!rc && s->options.serves && !s->options.serves(s->options.arg))
		rc = cairn_err_set(err, CAIRN_UNAVAILABLE, "another instance is the leader");
	if (!rc)
		rc = cbt_http_server_read_body(http, &asked->body, err);
	if (!rc)
		rc = aggapi_question_read(asked->body, &asked->question, err);
	return rc ? rc : aggapi_csi_deltas(s->options.csi, &asked->question, ret, err);
}

/* Says for whom the aggregated server asks in its own line; this one says that it did. */
static void cbt_http_server_audit(const struct asked *asked, struct net_http *http, int rc,
				  uint64_t began)
{
	const struct data_holder *holder = &asked->question.holder;

	cairn_audit_write(&(struct cairn_audit){
		.op = AGGAPI_WIRE_DELTAS,
		.allowed = asked->allowed,
		.user = asked->user,
		.peer = net_http_peer(http),
		.ns = holder->ns,
		.snapshot = holder->target,
		.base = holder->base,
		.code = rc,
		.ms = (cairn_monotonic_ns() - began) / CAIRN_NS_PER_MS,
	});
}

static void cbt_http_server_note(struct aggapi_sidecar *s, const char *what, int rc,
				 const struct cairn_err *why)
{
	const char *labels[2] = {what, cairn_code_name(rc)};

	net_metric_count(s->requests, net_metric_series_of(s->requests, labels), 1);
	if (rc)
		cairn_log(CAIRN_LOG_DEBUG, "refused", CAIRN_STR("what", what),
			  CAIRN_STR("code", cairn_code_name(rc)), CAIRN_STR("error", why->msg));
}

static int handle_deltas(struct net_http *http, void *arg, struct cairn_err *err)
{
	kube_auto_json json_t *answer = NULL;
	struct cairn_err why = {0};
	uint64_t began = cairn_monotonic_ns();
	struct asked asked = {0};
	int rc = cbt_http_server_deltas(arg, http, &asked, &answer, &why);

	cbt_http_server_note(arg, "deltas", rc, &why);
	cbt_http_server_audit(&asked, http, rc, began);
	json_decref(asked.body);
	return rc ? send_failure(http, &why, err)
		  : cbt_http_server_send_json(http, 200, answer, err);
}

static int read_block(void *arg, const char *token, const char *holder, data_piece_fn piece,
		      void *piece_arg, struct cairn_err *err)
{
	struct aggapi_sidecar *s = arg;

	return aggapi_csi_block(s->options.csi, token, holder, piece, piece_arg, err);
}

static void note_block(void *arg, int rc, const struct cairn_err *why)
{
	cbt_http_server_note(arg, "block", rc, why);
}

static int handle_block(struct net_http *http, void *arg, struct cairn_err *err)
{
	struct aggapi_sidecar *s = arg;
	const struct data_server_options options = {.guard = s->options.guard,
						    .audience = s->options.audience,
						    .read = read_block,
						    .note = note_block,
						    .arg = s};

	return data_server_handle(&options, http, err);
}

static int cbt_http_server_add_metrics(struct aggapi_sidecar *s, struct cairn_err *err)
{
	static const char *const whats[] = {"deltas", "block", NULL};
	static const char *const codes[] = {"OK",
					    "INVALID_ARGUMENT",
					    "NOT_FOUND",
					    "PERMISSION_DENIED",
					    "UNAUTHENTICATED",
					    "UNAVAILABLE",
					    "other",
					    NULL};
	const struct net_metric_spec requests = {
		.name = "cairn_cbt_http_requests_total",
		.help = "Requests, by what they ask for and code.",
		.kind = NET_COUNTER,
		.labels = {{"what", whats}, {"code", codes}},
	};

	return net_metrics_add(s->options.metrics, &requests, &s->requests, err);
}

int aggapi_sidecar_new(const struct aggapi_sidecar_options *options, struct net_http_server *http,
		       struct aggapi_sidecar **ret, struct cairn_err *err)
{
	cairn_cleanup(aggapi_sidecar_freep) struct aggapi_sidecar *s = cairn_calloc(1, sizeof(*s));
	const struct net_http_route routes[] = {
		{.method = "POST",
		 .path = AGGAPI_WIRE_DELTAS,
		 .handler = handle_deltas,
		 .arg = s,
		 .body_max = AGGAPI_QUESTION_MAX},
		{.method = "POST",
		 .path = DATA_SERVER_PATH,
		 .handler = handle_block,
		 .arg = s,
		 .body_max = DATA_SERVER_BODY_MAX},
	};
	int rc;

	if (!s)
		return cairn_err_nomem(err, "sidecar");
	s->options = *options;
	rc = cbt_http_server_add_metrics(s, err);
	if (!rc)
		rc = net_http_server_add(http, routes, 2, err);
	if (!rc)
		*ret = cairn_take(s);
	return rc;
}

void aggapi_sidecar_free(struct aggapi_sidecar *sidecar)
{
	free(sidecar);
}
