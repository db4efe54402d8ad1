/* SPDX-License-Identifier: Apache-2.0 */

#include "session/webhook.h"

#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/log.h"
#include "base/mem.h"
#include "kube/auth.h"
#include "kube/client.h"
#include "kube/object.h"
#include "net/http.h"
#include "net/metrics.h"
#include "session/admission.h"

/* An API server waits ten seconds by default; it is to hear from us, not to give
 * up. */
#define ASK_TIME_MS 8000U

/* Questions about single names, where somebody may not get all of them: more
 * would take longer than an API server waits. */
#define NAMES_ASKED_MAX 32U

#define BODY_MAX (4U << 20)

struct session_webhook {
	struct kube_client *client;
	struct net_metric *reviews; /* NULL: not counted */
};

static int check_caller(void *arg)
{
	return net_http_check(arg);
}

static int ask(struct session_webhook *w, const struct session_admission *a, const char *name,
	       const struct kube_call *how, bool *ret, struct cairn_err *err)
{
	struct kube_access what = {
		.verb = "get",
		.group = kube_volumesnapshots.group,
		.version = kube_volumesnapshots.version,
		.resource = kube_volumesnapshots.plural,
		.ns = a->ns,
		.name = name,
	};
	struct kube_access_answer answer = {0};
	int rc = kube_access_review(w->client, a->user, &what, how, &answer, err);

	*ret = rc == 0 && answer.allowed;
	return rc;
}

/* All of the namespace, or else each that is named. */
static int review(struct session_webhook *w, const struct session_admission *a,
		  const struct kube_call *how, struct cairn_err *err)
{
	bool allowed;
	int rc = ask(w, a, NULL, how, &allowed, err);

	if (rc || allowed)
		return rc;
	for (size_t i = 0; i < a->n_snapshots; i++) {
		if (i < NAMES_ASKED_MAX)
			rc = ask(w, a, a->snapshots[i], how, &allowed, err);
		else
			allowed = false;
		if (rc)
			return rc;
		if (!allowed)
			return cairn_err_set(err, CAIRN_DENIED,
					     "you may not get the VolumeSnapshot '%.253s' in "
					     "namespace '%.63s'",
					     a->snapshots[i], a->ns);
	}
	return 0;
}

static void count(struct session_webhook *w, const char *result)
{
	if (w->reviews)
		net_metric_count(w->reviews, net_metric_series_of(w->reviews, &result), 1);
}

static int answer(struct session_webhook *w, struct net_http *http,
		  const struct session_admission *a, int rc, const struct cairn_err *why,
		  struct cairn_err *err)
{
	int code = rc == CAIRN_DENIED ? 403 : 500;
	cairn_auto_free char *text = session_admission_answer(a->uid, rc == 0, code, why->msg);

	count(w, rc == 0 ? "allowed" : rc == CAIRN_DENIED ? "denied" : "error");
	if (rc && rc != CAIRN_DENIED)
		cairn_log(CAIRN_LOG_WARN, "a session request could not be reviewed",
			  CAIRN_STR("namespace", a->ns), CAIRN_STR("error", why->msg));
	if (!text)
		return cairn_err_nomem(err, "review");
	return net_http_reply(http, 200, "application/json", text, strlen(text), err);
}

static int handle(struct net_http *http, void *arg, struct cairn_err *err)
{
	struct session_webhook *w = arg;
	struct kube_call how = {
		.timeout_ms = ASK_TIME_MS,
		.check = check_caller,
		.check_arg = http,
	};
	struct cairn_err why = {0};
	struct session_admission *a = cairn_alloc(sizeof(*a));
	size_t n;
	const void *body = net_http_body(http, &n);
	int rc;

	if (!a)
		return cairn_err_nomem(err, "review");
	rc = session_admission_parse(body, n, a, err);
	if (rc)
		count(w, "invalid");
	else
		rc = answer(w, http, a, review(w, a, &how, &why), &why, err);
	session_admission_done(a);
	free(a);
	return rc;
}

int session_webhook_new(struct kube_client *client, struct net_metrics *metrics,
			struct net_http_server *http, struct session_webhook **ret,
			struct cairn_err *err)
{
	static const char *const results[] = {"allowed", "denied", "error", "invalid", NULL};
	const struct net_metric_spec reviews = {
		.name = "cairn_session_reviews_total",
		.help = "Session requests that were reviewed, by result.",
		.kind = NET_COUNTER,
		.labels = {{"result", results}},
	};
	cairn_cleanup(session_webhook_freep) struct session_webhook *w =
		cairn_calloc(1, sizeof(*w));
	struct net_http_route route = {
		.method = "POST",
		.path = SESSION_WEBHOOK_PATH,
		.handler = handle,
		.arg = w,
		.body_max = BODY_MAX,
	};
	int rc = 0;

	if (!w)
		return cairn_err_nomem(err, "webhook");
	w->client = client;
	if (metrics)
		rc = net_metrics_add(metrics, &reviews, &w->reviews, err);
	if (!rc)
		rc = net_http_server_add(http, &route, 1, err);
	if (rc)
		return rc;
	*ret = cairn_take(w);
	return 0;
}

void session_webhook_free(struct session_webhook *webhook)
{
	free(webhook);
}
