/* SPDX-License-Identifier: Apache-2.0 */

/* Processes one SnapshotSessionRequest: new, Pending, Ready or Failed, deleted. */

#include "older/session/session_controller_impl.h"

#include <stdio.h>
#include <string.h>

#include "base/base64.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/mem.h"
#include "base/random.h"
#include "kube/event.h"
#include "kube/kinds.h"
#include "kube/object.h"
#include "kube/timestamp.h"
#include "older/session/request_validate.h"

#define TOKEN_BYTES 32U
#define TOKEN_TEXT  (2 * TOKEN_BYTES)

#define STATUS_OF(request)                                                                   \
	KUBE_SUB(&kube_snapshotsessionrequests, kube_namespace(request), kube_name(request), \
		 "status")

static int patch_status(struct session_controller *c, const json_t *request, json_t *status,
			struct cairn_err *err)
{
	struct kube_call how = kube_controller_call(c->common);
	kube_auto_json json_t *patch =
		json_pack("{s:{s:s}, s:o}", "metadata", "uid", kube_uid(request), "status", status);

	if (!patch)
		return cairn_err_nomem(err, "status");
	return kube_patch(c->options.client, STATUS_OF(request), KUBE_PATCH_MERGE, patch, &how,
			  NULL, err);
}

/* Makes a request Pending and sets its expiry; CAIRN_ABORTED if the request has changed since the
 * informer read it, for example became Ready. */
static int request_reconcile_begin(struct session_controller *c, const json_t *request,
				   json_t **ret_now, struct cairn_err *err)
{
	uint64_t end = cairn_now_ns() + atomic_load(&c->expiry_ms) * CAIRN_NS_PER_MS;
	struct kube_call how = kube_controller_call(c->common);
	char time[KUBE_TIME_MAX];
	kube_auto_json json_t *patch =
		json_pack("{s:{s:s, s:s}, s:{s:s, s:s}}", "metadata", "uid", kube_uid(request),
			  "resourceVersion", kube_str(request, "metadata", "resourceVersion"),
			  "status", "sessionState", "Pending", "expiryTime", kube_time(end, time));

	if (!patch)
		return cairn_err_nomem(err, "status");
	return kube_patch(c->options.client, STATUS_OF(request), KUBE_PATCH_MERGE, patch, &how,
			  ret_now, err);
}

static int request_reconcile_fail(struct session_controller *c, const json_t *request,
				  const struct session_verdict *verdict, struct cairn_err *err)
{
	int rc = patch_status(
		c, request,
		json_pack("{s:s, s:s}", "sessionState", "Failed", "error", verdict->why.msg), err);

	if (rc)
		return rc;
	atomic_fetch_add(&c->failed, 1);
	kube_event_tell(c->options.recorder, request, true, "SessionFailed", "CreateSession", "%s",
			verdict->why.msg);
	return 0;
}

/* Returns the token of data that an earlier attempt created, or "". Data with another expiry is
 * deleted before the request expires. Reads from the API server itself, because the informer
 * may lag behind our own write. */
static int find_token(struct session_controller *c, const json_t *request, const char *ns,
		      char out[TOKEN_TEXT + 1], struct cairn_err *err)
{
	struct kube_call how = kube_controller_call(c->common);
	kube_auto_json json_t *list = NULL;
	cairn_auto_free char *selector =
		cairn_printf("%s=%s", SESSION_UID_LABEL, kube_uid(request));
	struct kube_list_query query = {.label_selector = selector};
	const char *expiry = kube_str(request, "status", "expiryTime");
	const json_t *data;
	size_t i;
	int rc;

	out[0] = '\0';
	if (!selector)
		return cairn_err_nomem(err, "session");
	rc = kube_list(c->options.client, KUBE_REF(&kube_snapshotsessiondata, ns, NULL), &query,
		       &how, &list, err);
	if (rc)
		return rc;
	json_array_foreach(kube_at(list, "items"), i, data)
	{
		const char *end = kube_str(data, "spec", "expiryTime");

		if (strlen(kube_name(data)) == TOKEN_TEXT && end && strcmp(end, expiry) == 0)
			memcpy(out, kube_name(data), TOKEN_TEXT + 1);
	}
	return 0;
}

static int request_reconcile_make_data(struct session_controller *c, const json_t *request,
				       const char *ns, char token[TOKEN_TEXT + 1],
				       struct cairn_err *err)
{
	struct kube_call how = kube_controller_call(c->common);
	kube_auto_json json_t *object = NULL;
	int rc = cairn_random_hex(token, TOKEN_BYTES, err);

	if (rc)
		return rc;
	object = kube_object_new(&kube_snapshotsessiondata, ns, token);
	if (!object)
		return cairn_err_nomem(err, "session");
	rc = kube_set(object, err, json_string(kube_uid(request)), "metadata", "labels",
		      SESSION_UID_LABEL);
	if (!rc)
		rc = kube_set(object, err,
			      json_pack("{s:s, s:s, s:O}", "expiryTime",
					kube_str(request, "status", "expiryTime"),
					"snapshotNamespace", kube_namespace(request), "snapshots",
					kube_at(request, "spec", "snapshots")),
			      "spec");
	if (!rc)
		rc = kube_create(c->options.client, KUBE_REF(&kube_snapshotsessiondata, ns, NULL),
				 object, &how, NULL, err);
	return rc;
}

/* Base64, the JSON encoding of bytes. */
static json_t *bytes_of(const char *text)
{
	cairn_auto_buf struct cairn_buf encoded = CAIRN_BUF_INIT(TOKEN_TEXT * 2);

	cairn_base64_add(&encoded, text, strlen(text));
	return cairn_buf_failed(&encoded) ? NULL : json_stringn((char *)encoded.data, encoded.len);
}

static int request_reconcile_make_ready(struct session_controller *c, const json_t *request,
					const struct session_verdict *verdict, bool is_new,
					struct cairn_err *err)
{
	char token[TOKEN_TEXT + 1] = "";
	int rc = is_new ? 0 : find_token(c, request, verdict->driver_namespace, token, err);

	if (!rc && !token[0])
		rc = request_reconcile_make_data(c, request, verdict->driver_namespace, token, err);
	if (!rc)
		rc = patch_status(c, request,
				  json_pack("{s:s, s:n, s:o, s:s, s:s}", "sessionState", "Ready",
					    "error", "sessionToken", bytes_of(token), "sessionURL",
					    kube_str(verdict->configuration, "spec", "address"),
					    "caCert",
					    kube_str(verdict->configuration, "spec", "caCert")),
				  err);
	if (rc)
		return rc;
	atomic_fetch_add(&c->ready, 1);
	kube_event_tell(c->options.recorder, request, false, "SessionReady", "CreateSession",
			"the session can be used until %s",
			kube_str(request, "status", "expiryTime"));
	return 0;
}

/* Reports once why a request is not ready yet. */
static int stay_pending(struct session_controller *c, const json_t *request,
			const struct session_verdict *verdict, struct cairn_err *err)
{
	const char *said = kube_str(request, "status", "error");

	if (said && strcmp(said, verdict->why.msg) == 0)
		return 0;
	return patch_status(c, request, json_pack("{s:s}", "error", verdict->why.msg), err);
}

/* A request that failed becomes ready when the reason has passed, such as a missing
 * configuration; else it stays as it is. No attempt was made before for one that `is_new`. */
static int request_reconcile_decide(struct session_controller *c, const json_t *request,
				    bool is_new, uint64_t *ret_again_ms, struct cairn_err *err)
{
	bool failed = strcmp(kube_str(request, "status", "sessionState"), "Failed") == 0;
	struct kube_call how = kube_controller_call(c->common);
	const struct session_validation with = {
		.client = c->options.client, .configurations = c->configurations, .ns = c->ns};
	struct session_verdict verdict;
	int rc = session_request_validate(&with, request, &how, &verdict, err);

	if (rc)
		return rc;
	if (failed && verdict.state != SESSION_READY) {
		json_decref(verdict.configuration);
		return 0;
	}
	switch (verdict.state) {
	case SESSION_READY:
		rc = request_reconcile_make_ready(c, request, &verdict, is_new, err);
		break;
	case SESSION_FAILED:
		rc = request_reconcile_fail(c, request, &verdict, err);
		break;
	case SESSION_PENDING:
		rc = stay_pending(c, request, &verdict, err);
		*ret_again_ms = 0;
		break;
	}
	json_decref(verdict.configuration);
	return rc;
}

static int request_reconcile_end(struct session_controller *c, const json_t *request,
				 struct cairn_err *err)
{
	struct kube_call how = kube_controller_call(c->common);
	struct kube_delete_options only = {.uid = kube_uid(request)};
	int rc = kube_delete(c->options.client,
			     KUBE_REF(&kube_snapshotsessionrequests, kube_namespace(request),
				      kube_name(request)),
			     &only, &how, NULL, err);

	if (!rc)
		atomic_fetch_add(&c->expired, 1);
	return rc == CAIRN_ABORTED ? 0 : rc;
}

/* Both steps at once: the time until it expires is not spent in the queue, where thousands may
 * be before it. */
static int begin_and_decide(struct session_controller *c, const json_t *request, bool is_new,
			    uint64_t *ret_again_ms, struct cairn_err *err)
{
	kube_auto_json json_t *now = NULL;
	int rc = request_reconcile_begin(c, request, &now, err);

	if (rc)
		return rc;
	*ret_again_ms = session_time_left(kube_str(now, "status", "expiryTime"));
	return kube_str(now, "status", "sessionState") && kube_str(now, "status", "expiryTime")
		       ? request_reconcile_decide(c, now, is_new, ret_again_ms, err)
		       : 0;
}

/* Reads the request again: the informer may lag behind our own write, and a session that is
 * ready needs nothing more. A list of one, because the informer needs that right anyway. */
static int decide_again(struct session_controller *c, const json_t *request, uint64_t *ret_again_ms,
			struct cairn_err *err)
{
	struct kube_call how = kube_controller_call(c->common);
	kube_auto_json json_t *list = NULL;
	cairn_auto_free char *selector = cairn_printf("metadata.name=%s", kube_name(request));
	const struct kube_list_query query = {.field_selector = selector};
	const json_t *now;
	const char *state;
	int rc = selector ? kube_list(c->options.client,
				      KUBE_REF(&kube_snapshotsessionrequests,
					       kube_namespace(request), NULL),
				      &query, &how, &list, err)
			  : cairn_err_nomem(err, "session");

	if (rc)
		return rc;
	now = json_array_get(kube_at(list, "items"), 0);
	state = kube_str(now, "status", "sessionState");
	if (!state || !kube_str(now, "status", "expiryTime") || strcmp(state, "Ready") == 0 ||
	    strcmp(kube_uid(now), kube_uid(request)) != 0)
		return 0; /* the informer will report it */
	return request_reconcile_decide(c, now, false, ret_again_ms, err);
}

/* Pending and not examined yet, because calls failed or no controller was leading. Its user has
 * not had an answer, so its time begins again. */
static bool is_unanswered(const json_t *request, const char *state)
{
	return strcmp(state, "Pending") == 0 && !kube_str(request, "status", "error");
}

int session_request_look(struct session_controller *c, const json_t *request,
			 uint64_t *ret_again_ms, struct cairn_err *err)
{
	const char *state = kube_str(request, "status", "sessionState");
	const char *expiry = kube_str(request, "status", "expiryTime");
	uint64_t left = session_time_left(expiry);

	*ret_again_ms = UINT64_MAX;
	if (kube_is_deleted(request))
		return 0;
	if (!state || !expiry)
		return begin_and_decide(c, request, true, ret_again_ms, err);
	if (left == 0 && is_unanswered(request, state))
		return begin_and_decide(c, request, false, ret_again_ms, err);
	if (left == 0)
		return request_reconcile_end(c, request, err);
	*ret_again_ms = left;
	return strcmp(state, "Ready") == 0 ? 0 : decide_again(c, request, ret_again_ms, err);
}
