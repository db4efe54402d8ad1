/* SPDX-License-Identifier: Apache-2.0 */

#include "older/data/data_server.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/audit.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/mem.h"
#include "kube/auth.h"
#include "kube/authz_cache.h"
#include "kube/caller.h"
#include "kube/object.h"
#include "kube/user.h"
#include "net/http/http_server.h"
#include "older/data/data_holder.h"

#define ASK_MS 15000U

/* Only the user that the token was made for may read data, and must still be allowed to
 * read its snapshots. `holder` has their names; its user is filled in. */
static int data_server_check_holder(const struct data_server_options *s,
				    const struct kube_caller *caller, const struct kube_user *user,
				    const struct data_holder *holder, struct cairn_err *err)
{
	int rc = kube_authz_cache_may_read(s->guard, user, holder->ns, holder->target,
					   &caller->wait, err);

	if (!rc && holder->base[0])
		rc = kube_authz_cache_may_read(s->guard, user, holder->ns, holder->base,
					       &caller->wait, err);
	return rc;
}

static int data_server_read_body(struct net_http *http, json_t **ret, struct cairn_err *err)
{
	size_t n;
	const void *body = net_http_body(http, &n);
	int rc = kube_json_parse(body, n, ret, err);

	return rc == CAIRN_INVALID ? cairn_err_set(err, rc, "the body is not JSON") : rc;
}

static int data_server_fail(struct net_http *http, const struct cairn_err *why,
			    struct cairn_err *err)
{
	kube_auto_json json_t *object =
		json_pack("{s:s, s:s}", "code", cairn_code_name(why->code), "message", why->msg);
	size_t n = 0;
	cairn_auto_free char *text = object ? kube_json_text(object, &n) : NULL;

	if (!text)
		return cairn_err_nomem(err, "answer");
	if (why->code == CAIRN_UNAUTHENTICATED)
		(void)net_http_add_field(http, "www-authenticate", "Bearer", NULL);
	return net_http_reply(http, net_http_status_of(why->code), "application/json", text, n,
			      err);
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
	struct data_holder holder;
};

static void data_server_outgoing_done(struct outgoing *out)
{
	kube_value_unrefp(&out->user);
	if (out->token)
		explicit_bzero(out->token, strlen(out->token));
	free(out->token);
}

static int data_server_piece(void *arg, const void *data, size_t n, struct cairn_err *err)
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

static int data_server_block(const struct data_server_options *s, struct outgoing *out,
			     struct cairn_err *err)
{
	kube_auto_json json_t *body = NULL;
	cairn_auto_free char *text = NULL;
	struct kube_caller caller;
	const char *driver_token;
	int rc;

	kube_caller_init(&caller, out->http, ASK_MS);
	rc = kube_authz_cache_user(s->guard,
				   kube_bearer_token(net_http_field(out->http, "authorization")),
				   s->audience, &caller.wait, &out->user, err);
	if (!rc)
		net_http_trust(out->http, NET_SLOT_KNOWN);
	if (!rc)
		rc = data_server_read_body(out->http, &body, err);
	if (rc)
		return rc;
	out->token = cairn_strdup(kube_str(body, "token") ? kube_str(body, "token") : "");
	if (!out->token)
		return cairn_err_nomem(err, "token");
	rc = data_holder_split(out->token, &driver_token, &out->holder, err);
	if (!rc)
		rc = data_server_check_holder(s, &caller, out->user, &out->holder, err);
	if (rc)
		return rc;
	out->holder.user = out->user->name;
	text = data_holder_text(&out->holder);
	if (!text)
		return cairn_err_nomem(err, "token");
	return s->read(s->arg, driver_token, text, data_server_piece, out, err);
}

static void data_server_audit(const struct outgoing *out, int rc, uint64_t began)
{
	cairn_audit_write(&(struct cairn_audit){
		.op = DATA_SERVER_PATH,
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

int data_server_handle(const struct data_server_options *options, struct net_http *http,
		       struct cairn_err *err)
{
	cairn_cleanup(data_server_outgoing_done) struct outgoing out = {.http = http};
	struct cairn_err why = {0};
	uint64_t began = cairn_monotonic_ns();
	int rc = data_server_block(options, &out, &why);

	if (options->note)
		options->note(options->arg, rc, &why);
	data_server_audit(&out, rc, began);
	if (rc && out.begun) { /* aborted, so that the client does not take a part for the whole */
		if (err)
			*err = why;
		return rc;
	}
	if (rc)
		return data_server_fail(http, &why, err);
	return out.begun ? 0 : net_http_reply(http, 200, "application/octet-stream", "", 0, err);
}
