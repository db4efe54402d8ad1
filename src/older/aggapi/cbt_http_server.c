/* SPDX-License-Identifier: Apache-2.0 */

#include "older/aggapi/cbt_http_server.h"

#include <jansson.h>
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
#include "older/aggapi/holder.h"

#define ASK_MS     15000U
#define TOKEN_BODY 8192

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

/* Only the aggregated API server may request pages. */
static int check_caller(const struct aggapi_sidecar *s, struct net_http *http,
			struct cairn_err *err)
{
	const struct kube_access what = {.verb = "post", .path = AGGAPI_WIRE_DELTAS};
	kube_auto_value struct kube_user *user = NULL;
	struct kube_caller caller;
	int rc;

	if (check_certificate(s, http) == 0)
		return 0;
	kube_caller_init(&caller, http, ASK_MS);
	rc = cbt_http_server_identify(s, http, &caller, &user, err);
	return rc ? rc : kube_authz_cache_access(s->options.guard, user, &what, &caller.wait, err);
}

/* Only the user that the token was made for may read data, and must still be allowed to
 * read its snapshots. `holder` has their names; its user is filled in. */
static int check_holder(const struct aggapi_sidecar *s, const struct kube_caller *caller,
			const struct kube_user *user, const struct aggapi_holder *holder,
			struct cairn_err *err)
{
	int rc = kube_authz_cache_may_read(s->options.guard, user, holder->ns, holder->target,
					   &caller->wait, err);

	if (!rc && holder->base[0])
		rc = kube_authz_cache_may_read(s->options.guard, user, holder->ns, holder->base,
					       &caller->wait, err);
	return rc;
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

static int cbt_http_server_deltas(struct aggapi_sidecar *s, struct net_http *http, json_t **ret,
				  struct cairn_err *err)
{
	kube_auto_json json_t *body = NULL;
	struct aggapi_question question;
	int rc = check_caller(s, http, err);

	if (!rc && s->options.serves && !s->options.serves(s->options.arg))
		rc = cairn_err_set(err, CAIRN_UNAVAILABLE, "another instance is the leader");
	if (!rc)
		rc = cbt_http_server_read_body(http, &body, err);
	if (!rc)
		rc = aggapi_question_read(body, &question, err);
	return rc ? rc : aggapi_csi_deltas(s->options.csi, &question, ret, err);
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
	int rc = cbt_http_server_deltas(arg, http, &answer, &why);

	cbt_http_server_note(arg, "deltas", rc, &why);
	return rc ? send_failure(http, &why, err)
		  : cbt_http_server_send_json(http, 200, answer, err);
}

/* A block in transfer. The head is sent with the first piece, so that an invalid token
 * gets a proper refusal. */
struct outgoing {
	struct net_http *http;
	bool begun;
	bool allowed; /* the data token belongs to the user, who has permission */
	uint64_t bytes;
	struct kube_user *user;
	char *token; /* buffer that `holder` points into */
	struct aggapi_holder holder;
};

static void outgoing_done(struct outgoing *out)
{
	kube_value_unrefp(&out->user);
	if (out->token)
		explicit_bzero(out->token, strlen(out->token));
	free(out->token);
}

static int cbt_http_server_send_piece(void *arg, const void *data, size_t n, struct cairn_err *err)
{
	struct outgoing *out = arg;
	int rc = out->begun ? 0 : net_http_begin(out->http, 200, "application/octet-stream", err);

	out->begun = true;
	out->allowed = true;
	if (!rc)
		rc = net_http_write(out->http, data, n, err);
	out->bytes += rc ? 0 : n;
	return rc;
}

static int cbt_http_server_block(struct aggapi_sidecar *s, struct outgoing *out,
				 struct cairn_err *err)
{
	kube_auto_json json_t *body = NULL;
	cairn_auto_free char *text = NULL;
	struct kube_caller caller;
	const char *driver_token;
	int rc;

	kube_caller_init(&caller, out->http, ASK_MS);
	rc = cbt_http_server_identify(s, out->http, &caller, &out->user, err);
	if (!rc)
		rc = cbt_http_server_read_body(out->http, &body, err);
	if (rc)
		return rc;
	out->token = cairn_strdup(kube_str(body, "token") ? kube_str(body, "token") : "");
	if (!out->token)
		return cairn_err_nomem(err, "token");
	rc = aggapi_holder_split(out->token, &driver_token, &out->holder, err);
	if (!rc)
		rc = check_holder(s, &caller, out->user, &out->holder, err);
	if (rc)
		return rc;
	out->holder.user = out->user->name;
	text = aggapi_holder_text(&out->holder);
	if (!text)
		return cairn_err_nomem(err, "token");
	return aggapi_csi_block(s->options.csi, driver_token, text, cbt_http_server_send_piece, out,
				err);
}

static void audit_block(const struct outgoing *out, int rc, uint64_t began)
{
	cairn_audit_write(&(struct cairn_audit){
		.op = AGGAPI_WIRE_BLOCK,
		.allowed = out->allowed || rc == 0,
		.user = out->user ? out->user->name : "",
		.peer = net_http_peer(out->http),
		.ns = out->holder.ns,
		.snapshot = out->holder.target,
		.base = out->holder.base,
		.bytes = out->bytes,
		.code = rc,
		.ms = (cairn_monotonic_ns() - began) / CAIRN_NS_PER_MS,
	});
}

static int handle_block(struct net_http *http, void *arg, struct cairn_err *err)
{
	cairn_cleanup(outgoing_done) struct outgoing out = {.http = http};
	struct cairn_err why = {0};
	uint64_t began = cairn_monotonic_ns();
	int rc = cbt_http_server_block(arg, &out, &why);

	cbt_http_server_note(arg, "block", rc, &why);
	audit_block(&out, rc, began);
	if (rc && out.begun) { /* aborted, so that the client does not take a part for the whole */
		if (err)
			*err = why;
		return rc;
	}
	if (rc)
		return send_failure(http, &why, err);
	return out.begun ? 0 : net_http_reply(http, 200, "application/octet-stream", "", 0, err);
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
		 .path = AGGAPI_WIRE_BLOCK,
		 .handler = handle_block,
		 .arg = s,
		 .body_max = TOKEN_BODY},
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
