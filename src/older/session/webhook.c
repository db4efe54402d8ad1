/* SPDX-License-Identifier: Apache-2.0 */

#include "older/session/webhook.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include <openssl/crypto.h>

#include "base/err.h"
#include "base/io.h"
#include "base/log.h"
#include "base/mem.h"
#include "kube/authz_cache.h"
#include "kube/caller.h"
#include "kube/user.h"
#include "net/http/http_server.h"
#include "net/metrics.h"
#include "older/session/admission.h"

/* Below the API server's default timeout of ten seconds, so that it gets an answer from
 * us. */
#define ASK_TIME_MS 8000U

#define BODY_MAX (4U << 20)

struct session_webhook {
	struct session_webhook_options options;
	struct net_metric *reviews; /* NULL: not counted */
};

static int webhook_read_secret(const char *path, char out[SESSION_SECRET_MAX + 1],
			       struct cairn_err *err)
{
	cairn_auto_free char *text = NULL;
	size_t n;
	int rc = cairn_file_read(AT_FDCWD, path, SESSION_SECRET_MAX + 2, &text, &n, err);

	if (rc)
		return rc;
	n = strspn(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_");
	if (n < SESSION_SECRET_MIN || n > SESSION_SECRET_MAX || strcspn(text, "\r\n") != n)
		return cairn_err_set(err, CAIRN_INVALID,
				     "'%s' must hold %u to %u letters, digits, '-' and '_'", path,
				     SESSION_SECRET_MIN, SESSION_SECRET_MAX);
	memcpy(out, text, n);
	out[n] = '\0';
	return 0;
}

static bool has_certificate(const struct session_webhook *w, const struct net_http *http)
{
	const char *name = net_http_tls_name(http);
	const char *wanted = w->options.client_name;

	return w->options.certificates && name && (!wanted || strcmp(name, wanted) == 0);
}

static bool knows_secret(const struct session_webhook *w, const struct net_http *http)
{
	const char *said = net_http_path(http) + strlen(SESSION_WEBHOOK_PATH);
	char secret[SESSION_SECRET_MAX + 1] = "";

	if (!w->options.secret_file || said[0] != '/' ||
	    webhook_read_secret(w->options.secret_file, secret, NULL) != 0)
		return false;
	return strlen(said + 1) == strlen(secret) &&
	       CRYPTO_memcmp(said + 1, secret, strlen(secret)) == 0;
}

/* Checks each snapshot by name: an authorizer may have rules for single names. */
static int webhook_review(struct session_webhook *w, const struct session_admission *a,
			  const struct kube_wait *wait, struct cairn_err *err)
{
	kube_auto_value struct kube_user *user = NULL;
	int rc = kube_user_new((json_t *)(uintptr_t)a->user, &user, err);

	for (size_t i = 0; i < a->n_snapshots && !rc; i++) {
		rc = kube_authz_cache_may_read(w->options.guard, user, a->ns, a->snapshots[i], wait,
					       err);
		if (rc == CAIRN_DENIED)
			cairn_err_set(err, rc,
				      "you may not get the VolumeSnapshot '%.253s' in namespace "
				      "'%.63s'",
				      a->snapshots[i], a->ns);
	}
	return rc;
}

static void webhook_count(struct session_webhook *w, const char *result)
{
	if (w->reviews)
		net_metric_count(w->reviews, net_metric_series_of(w->reviews, &result), 1);
}

static int webhook_answer(struct session_webhook *w, struct net_http *http,
			  const struct session_admission *a, int rc, const struct cairn_err *why,
			  struct cairn_err *err)
{
	int code = rc == CAIRN_DENIED ? 403 : 500;
	cairn_auto_free char *text = session_admission_answer(a->uid, rc == 0, code, why->msg);

	webhook_count(w, rc == 0 ? "allowed" : rc == CAIRN_DENIED ? "denied" : "error");
	if (rc && rc != CAIRN_DENIED)
		cairn_log(CAIRN_LOG_WARN, "a session request could not be reviewed",
			  CAIRN_STR("namespace", a->ns), CAIRN_STR("error", why->msg));
	if (!text)
		return cairn_err_nomem(err, "review");
	return net_http_reply(http, 200, "application/json", text, strlen(text), err);
}

static int webhook_handle(struct net_http *http, void *arg, struct cairn_err *err)
{
	struct session_webhook *w = arg;
	struct kube_caller caller;
	struct cairn_err why = {0};
	struct session_admission *a = cairn_alloc(sizeof(*a));
	size_t n;
	const void *body = net_http_body(http, &n);
	int rc;

	if (!has_certificate(w, http) && !knows_secret(w, http)) {
		free(a);
		webhook_count(w, "stranger");
		return net_http_reply_text(http, 404, "not found\n", err);
	}
	if (!a)
		return cairn_err_nomem(err, "review");
	net_http_trust(http, NET_SLOT_PINNED);
	kube_caller_init(&caller, http, ASK_TIME_MS);
	caller.wait.origin = NULL; /* all reviews come from the API servers */
	rc = session_admission_parse(body, n, a, err);
	if (rc)
		webhook_count(w, "invalid");
	else
		rc = webhook_answer(w, http, a, webhook_review(w, a, &caller.wait, &why), &why,
				    err);
	session_admission_done(a);
	free(a);
	return rc;
}

int session_webhook_new(const struct session_webhook_options *options, struct net_http_server *http,
			struct session_webhook **ret, struct cairn_err *err)
{
	static const char *const results[] = {"allowed", "denied",   "error",
					      "invalid", "stranger", NULL};
	char secret[SESSION_SECRET_MAX + 1];
	const struct net_metric_spec reviews = {
		.name = "cairn_session_reviews_total",
		.help = "Session requests that were reviewed, by result.",
		.kind = NET_COUNTER,
		.labels = {{"result", results}},
	};
	cairn_cleanup(session_webhook_freep) struct session_webhook *w =
		cairn_calloc(1, sizeof(*w));
	const struct net_http_route routes[] = {
		{.method = "POST",
		 .path = SESSION_WEBHOOK_PATH,
		 .handler = webhook_handle,
		 .arg = w,
		 .body_max = BODY_MAX},
		{.method = "POST",
		 .path = SESSION_WEBHOOK_PATH "/",
		 .handler = webhook_handle,
		 .arg = w,
		 .body_max = BODY_MAX},
	};
	int rc = 0;

	if (!w)
		return cairn_err_nomem(err, "webhook");
	w->options = *options;
	if (options->secret_file)
		rc = webhook_read_secret(options->secret_file, secret, err);
	if (!rc && options->metrics)
		rc = net_metrics_add(options->metrics, &reviews, &w->reviews, err);
	if (!rc)
		rc = net_http_server_add(http, routes, 2, err);
	if (rc)
		return rc;
	*ret = cairn_take(w);
	return 0;
}

void session_webhook_free(struct session_webhook *webhook)
{
	free(webhook);
}
