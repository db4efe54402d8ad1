/* SPDX-License-Identifier: Apache-2.0 */

#include "older/aggapi/pass.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/mem.h"
#include "kube/auth.h"
#include "kube/authz_cache.h"
#include "kube/forward.h"
#include "kube/kinds.h"
#include "kube/kube_client.h"
#include "kube/kube_wait.h"
#include "kube/object.h"
#include "kube/user.h"
#include "net/http/http_server.h"
#include "older/aggapi/aggapi_audit.h"
#include "older/aggapi/aggapi_server.h"
#include "older/aggapi/aggapi_status.h"
#include "older/aggapi/pass_places.h"
#include "older/aggapi/pass_request.h"
#include "older/aggapi/rates.h"
#include "older/aggapi/request.h"
#include "older/aggapi/status_text.h"
#include "older/aggapi/version_text.h"

/* From the request to the head of its answer, and for the whole of an answer that is not a
 * watch. Kubernetes gives a proxied request a minute. */
#define OPEN_MS  60000U
#define WHOLE_MS 300000U
/* For the API server to end a watch, after which it is cut off here. */
#define GRACE_MS 30000U

#define PIECE_MAX     (4U << 20)
#define SNAPSHOTS_MAX 256U /* of a SnapshotSessionRequest, as its CRD says */

struct aggapi_passer {
	struct kube_client *client;
	struct kube_authz_cache *guard;
	struct aggapi_rates *rates;
	uint64_t watch_s; /* how long a watch lasts */
	atomic_bool stopping;
	struct aggapi_places places;
};

/* One request under way. */
struct passing {
	struct aggapi_passer *passer;
	struct net_http *http;
	uint64_t until_ns;
	bool watch;
};

int aggapi_passer_new(const struct aggapi_server_options *o, struct aggapi_passer **ret,
		      struct cairn_err *err)
{
	struct aggapi_passer *p = cairn_calloc(1, sizeof(*p));
	int rc;

	if (!p)
		return cairn_err_nomem(err, "server");
	p->client = o->pass_client;
	p->guard = o->guard;
	p->watch_s = o->watch_ms / 1000;
	aggapi_places_init(&p->places);
	rc = aggapi_rates_new(o->user_rate, o->user_burst, &p->rates, err);
	if (rc)
		aggapi_passer_free(p);
	else
		*ret = p;
	return rc;
}

void aggapi_passer_free(struct aggapi_passer *p)
{
	aggapi_rates_freep(&p->rates);
	aggapi_places_done(&p->places);
	free(p);
}

void aggapi_passer_stop(struct aggapi_passer *p)
{
	atomic_store(&p->stopping, true);
}

static int too_many(struct aggapi_refusal *refusal, uint64_t retry_s)
{
	aggapi_refuse(refusal, 429, "TooManyRequests",
		      "too many requests of this user; please try again later");
	refusal->retry_s = retry_s;
	return CAIRN_UNAVAILABLE;
}

static int check_passing(void *arg)
{
	const struct passing *passing = arg;

	if (passing->watch && atomic_load(&passing->passer->stopping))
		return CAIRN_CANCELLED;
	if (cairn_monotonic_ns() > passing->until_ns)
		return CAIRN_DEADLINE;
	return net_http_check(passing->http);
}

/* ---- rights ---- */

/* The names of VolumeSnapshots that a SnapshotSessionRequest gives access to. */
static int pass_check_snapshots(struct aggapi_passer *p, const json_t *tree, const char *ns,
				const struct kube_user *user, const struct kube_wait *wait,
				struct aggapi_refusal *refusal)
{
	const json_t *list = kube_at(tree, "spec", "snapshots"), *name;
	struct cairn_err err = {0};
	size_t i;

	if (json_array_size(list) > SNAPSHOTS_MAX)
		return aggapi_refuse_field(refusal, "spec.snapshots", "FieldValueTooMany",
					   "spec.snapshots: must have at most %u items",
					   SNAPSHOTS_MAX);
	json_array_foreach(list, i, name)
	{
		/* What is not a name is refused by the CRD. */
		if (json_is_string(name) &&
		    kube_authz_cache_may_read(p->guard, user, ns, json_string_value(name), wait,
					      &err) != 0)
			return aggapi_refuse_err(refusal, &err);
	}
	return 0;
}

/* An apply by a user that may not create: it must change the object that exists, and no
 * other. */
static int only_existing(struct aggapi_passer *p, const struct aggapi_path *path, json_t *tree,
			 const struct kube_wait *wait, const struct cairn_err *denied,
			 struct aggapi_refusal *refusal)
{
	kube_auto_json json_t *found = NULL;
	struct kube_call how = kube_wait_call(wait);
	struct cairn_err err = {0};
	int rc = kube_get(p->client,
			  KUBE_REF(path->passed, path->ns[0] ? path->ns : NULL, path->name), &how,
			  &found, &err);

	if (rc == CAIRN_NOT_FOUND)
		return aggapi_refuse_err(refusal, denied);
	if (rc)
		return aggapi_refuse_err(refusal, &err);
	return aggapi_pass_bind(tree, kube_uid(found)) < 0
		       ? aggapi_refuse(refusal, 400, "BadRequest", "metadata must be an object")
		       : 0;
}

static int check_apply(struct aggapi_passer *p, const struct aggapi_path *path, json_t *tree,
		       const struct kube_user *user, const struct kube_wait *wait,
		       struct aggapi_refusal *refusal)
{
	const struct kube_access create = {
		.verb = "create",
		.group = AGGAPI_GROUP,
		.version = AGGAPI_VERSION,
		.resource = path->passed->plural,
		.ns = path->ns[0] ? path->ns : NULL,
		.name = path->name,
	};
	struct cairn_err err = {0};
	int rc = kube_authz_cache_access(p->guard, user, &create, wait, &err);

	if (rc == CAIRN_DENIED)
		return only_existing(p, path, tree, wait, &err, refusal);
	return rc ? aggapi_refuse_err(refusal, &err) : 0;
}

static int pass_check_rights(struct aggapi_passer *p, const struct aggapi_request *asked,
			     const struct aggapi_pass_request *request,
			     struct aggapi_refusal *refusal)
{
	const struct aggapi_path *path = &asked->path;
	const struct kube_wait *wait = &asked->caller.wait;
	bool creates = strcmp(asked->verb, "create") == 0 || request->apply;
	int rc = 0;

	if (request->apply && !path->subresource)
		rc = check_apply(p, path, request->tree, asked->user, wait, refusal);
	if (!rc && creates && path->passed == &kube_snapshotsessionrequests)
		rc = pass_check_snapshots(p, request->tree, path->ns, asked->user, wait, refusal);
	return rc;
}

/* ---- answers ---- */

/* The value of a line "Name: value" of that name; NULL if it is another. */
static const char *value_of(const char *line, const char *name)
{
	size_t n = strlen(name);

	if (strncasecmp(line, name, n) != 0 || line[n] != ':')
		return NULL;
	line += n + 1;
	return line + strspn(line, " \t");
}

static int begin_answer(struct net_http *http, const struct kube_forward *forward,
			struct cairn_err *err)
{
	const char *type = "application/json", *line, *value;
	uint64_t retry_s = kube_forward_retry_s(forward);
	char seconds[24];

	for (size_t i = 0; (line = kube_forward_field(forward, i)); i++) {
		if ((value = value_of(line, "content-type")))
			type = value;
		if ((value = value_of(line, "warning")))
			(void)net_http_add_field(http, "warning", value, NULL);
	}
	if (retry_s > 0) {
		snprintf(seconds, sizeof(seconds), "%" PRIu64, retry_s);
		(void)net_http_add_field(http, "retry-after", seconds, NULL);
	}
	return net_http_begin(http, kube_forward_http(forward), type, err);
}

static int send_piece(struct net_http *http, struct cairn_buf *out, struct cairn_err *err)
{
	if (cairn_buf_failed(out))
		return cairn_err_nomem(err, "answer");
	return net_http_write(http, out->data, out->len, err);
}

/* A refusal is read as a whole: its text may name the version at which objects are stored. */
static int send_refusal(const struct passing *passing, struct kube_forward *forward,
			const char *stored, struct cairn_err *err)
{
	cairn_auto_buf struct cairn_buf whole = CAIRN_BUF_INIT(PIECE_MAX);
	cairn_auto_buf struct cairn_buf out = CAIRN_BUF_INIT(2 * PIECE_MAX);
	int rc = kube_forward_read_all(forward, &whole, err);

	if (rc)
		return rc;
	if (cairn_buf_failed(&whole))
		return cairn_err_nomem(err, "answer");
	aggapi_status_text((const char *)whole.data, whole.len, stored,
			   AGGAPI_GROUP "/" AGGAPI_VERSION, &out);
	rc = begin_answer(passing->http, forward, err);
	return rc ? rc : send_piece(passing->http, &out, err);
}

static int stream_answer(const struct passing *passing, struct kube_forward *forward,
			 const char *stored, struct cairn_err *err)
{
	cairn_auto_buf struct cairn_buf piece = CAIRN_BUF_INIT(PIECE_MAX);
	cairn_auto_buf struct cairn_buf out = CAIRN_BUF_INIT(PIECE_MAX);
	struct aggapi_version_text text;
	int rc = begin_answer(passing->http, forward, err);

	aggapi_version_text_init(&text, stored, AGGAPI_GROUP "/" AGGAPI_VERSION);
	while (!rc) {
		int more;

		cairn_buf_reset(&piece);
		cairn_buf_reset(&out);
		more = kube_forward_read(forward, &piece, err);
		if (more < 0 && passing->watch && atomic_load(&passing->passer->stopping))
			return 0; /* the caller watches again, at another instance */
		if (more < 0)
			return more;
		if (more == 0) {
			aggapi_version_text_end(&text, &out);
			return out.len > 0 ? send_piece(passing->http, &out, err) : 0;
		}
		aggapi_version_text_push(&text, (const char *)piece.data, piece.len, &out);
		rc = send_piece(passing->http, &out, err);
	}
	return rc;
}

static int forward_request(struct passing *passing, const struct aggapi_pass_request *request,
			   int *ret_http, struct aggapi_refusal *refusal, struct cairn_err *err)
{
	cairn_cleanup(kube_forward_freep) struct kube_forward *forward = NULL;
	cairn_auto_free char *body = NULL;
	struct cairn_err why = {0};
	struct kube_forward_request sent = {
		.method = request->method,
		.path = request->path,
		.accept = request->accept,
		.content_type = request->content_type,
	};
	const struct kube_call how = {
		.timeout_ms = OPEN_MS, .check = check_passing, .check_arg = passing};
	int rc;

	if (request->tree) {
		body = kube_json_text(request->tree, &sent.body_len);
		if (!body)
			return cairn_err_nomem(err, "request");
		sent.body = body;
	}
	rc = kube_forward_open(passing->passer->client, &sent, &how, &forward, &why);
	if (rc == CAIRN_CANCELLED)
		return cairn_err_set(err, rc, "%s", why.msg);
	if (rc)
		return aggapi_refuse_err(refusal, &why);
	*ret_http = kube_forward_http(forward);
	if (*ret_http >= 400)
		return send_refusal(passing, forward, request->stored, err);
	return stream_answer(passing, forward, request->stored, err);
}

static int pass_placed(struct aggapi_passer *p, const struct aggapi_request *asked,
		       const struct aggapi_pass_request *request, struct aggapi_refusal *refusal,
		       struct cairn_err *err)
{
	uint64_t began = cairn_monotonic_ns();
	uint64_t whole_ms = request->watch ? p->watch_s * 1000 + GRACE_MS : WHOLE_MS;
	struct passing passing = {
		.passer = p,
		.http = asked->http,
		.until_ns = began + whole_ms * CAIRN_NS_PER_MS,
		.watch = request->watch,
	};
	int http_code = 0;
	int rc = pass_check_rights(p, asked, request, refusal);

	if (!rc)
		rc = forward_request(&passing, request, &http_code, refusal, err);
	/* Kubernetes' own audit log has this server's account: this one has the user's name. */
	aggapi_audit_passed(asked, refusal->http ? refusal->http : http_code,
			    (cairn_monotonic_ns() - began) / CAIRN_NS_PER_MS);
	return rc;
}

static int pass_in_turn(struct aggapi_passer *p, const struct aggapi_request *asked,
			const struct aggapi_pass_request *request, struct aggapi_refusal *refusal,
			struct cairn_err *err)
{
	const struct kube_digest *who = &asked->user->who;
	int rc;

	if (!aggapi_places_take(&p->places, request->watch, who)) {
		rc = too_many(refusal, 1);
		aggapi_audit_refused(asked, refusal);
		return rc;
	}
	rc = pass_placed(p, asked, request, refusal, err);
	aggapi_places_leave(&p->places, request->watch, who);
	return rc;
}

int aggapi_pass(struct aggapi_passer *p, const struct aggapi_request *asked,
		struct aggapi_refusal *refusal, struct cairn_err *err)
{
	struct aggapi_pass_request request;
	uint64_t wait_s = 0;
	int rc = 0;

	if (!aggapi_rates_take(p->rates, asked->user->name, cairn_monotonic_ns(), &wait_s))
		rc = too_many(refusal, wait_s);
	if (!rc)
		rc = aggapi_pass_request_make(asked->http, &asked->path, asked->verb, p->watch_s,
					      &request, refusal);
	if (rc) {
		aggapi_audit_refused(asked, refusal);
		return rc;
	}
	rc = pass_in_turn(p, asked, &request, refusal, err);
	aggapi_pass_request_done(&request);
	return rc;
}
