/* SPDX-License-Identifier: Apache-2.0 */

/* Sends requests, retries them and maps their failures. */
#include "kube/client_impl.h"

#include <string.h>

#include "base/backoff.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"
#include "kube/credentials.h"
#include "kube/deadline.h"
#include "kube/identity.h"
#include "kube/kube_status.h"
#include "kube/object.h"
#include "kube/transport.h"

#define BREAK_PAUSE_MIN_MS 50
#define BREAK_PAUSE_MAX_MS 2000

/* Pause if the server asks for a retry without a time. */
#define LATER_MS 1000

struct attempt {
	struct kube_client *client;
	const struct kube_request *request;
	const struct kube_call *how;
	struct kube_deadline patience;
	struct kube_status status;
	struct cairn_backoff backoff;
	struct cairn_backoff spread; /* random pause added to the server's */
	unsigned laters;             /* number of Retry-After answers */
	bool reidentified;           /* credentials were renewed after a 401 */
};

static int execute_limit(struct kube_client *client, const struct kube_deadline *patience,
			 struct cairn_err *err)
{
	uint64_t waited;
	int rc = kube_throttle_pass(&client->throttle, patience, &waited, err);

	atomic_fetch_add(&client->limited_ns, waited);
	return rc;
}

static bool execute_is_read(const struct kube_request *request)
{
	return strcmp(request->method, "GET") == 0;
}

/* Reads an error answer to its end and returns its code. */
static int execute_refusal(struct attempt *attempt, struct kube_exchange *exchange,
			   struct cairn_err *err)
{
	const struct cairn_buf *body = kube_exchange_body(exchange);
	uint64_t wait_ms;
	int rc;

	rc = kube_exchange_wait(exchange, &attempt->patience, err);
	if (rc)
		return rc;
	attempt->status.retry_after = kube_exchange_retry_after(exchange, &wait_ms);
	if (attempt->status.retry_after)
		attempt->status.retry_ms = wait_ms;
	return kube_status_fail_body((const char *)body->data, body->len,
				     kube_exchange_http(exchange), &attempt->status, err);
}

/* The pause before a retry; UINT64_MAX if there is none. */
static uint64_t pause_before_retry(struct attempt *attempt, int rc, bool unsent)
{
	const struct kube_status *status = &attempt->status;
	int http = status->http;

	if (attempt->how && attempt->how->once)
		return UINT64_MAX;
	if (http == 429 || (http >= 500 && status->retry_after)) {
		uint64_t pause = status->retry_after ? status->retry_ms : LATER_MS;

		if (++attempt->laters > KUBE_RETRIES || pause > KUBE_RETRY_AFTER_MAX_MS)
			return UINT64_MAX;
		/* Spread the retries of callers that were put off together. */
		return pause + cairn_backoff_next(&attempt->spread);
	}
	if (rc != CAIRN_UNAVAILABLE && !(rc == CAIRN_DEADLINE && http == 504))
		return UINT64_MAX;
	if (!(http == 0 && unsent) && !execute_is_read(attempt->request))
		return UINT64_MAX;
	if (attempt->backoff.failures >= KUBE_BREAKS)
		return UINT64_MAX;
	return cairn_backoff_next(&attempt->backoff);
}

static int exchange_once(struct attempt *attempt, struct kube_identity *identity,
			 struct kube_exchange **ret, bool *ret_unsent, struct cairn_err *err)
{
	cairn_cleanup(kube_exchange_freep) struct kube_exchange *exchange = NULL;
	struct kube_client *client = attempt->client;
	int rc = kube_exchange_new(client->transport, attempt->request, identity, &exchange, err);

	*ret_unsent = false;
	if (rc)
		return rc;
	atomic_fetch_add(&client->requests, 1);
	kube_exchange_start(exchange);
	rc = attempt->request->stream ? kube_exchange_wait_head(exchange, &attempt->patience, err)
				      : kube_exchange_wait(exchange, &attempt->patience, err);
	if (rc) {
		/* The result of an exchange that still runs is not known. */
		*ret_unsent = rc == CAIRN_UNAVAILABLE && kube_exchange_unsent(exchange);
		return rc;
	}
	attempt->status.http = kube_exchange_http(exchange);
	if (attempt->status.http < 200 || attempt->status.http > 299)
		return execute_refusal(attempt, exchange, err);
	*ret = cairn_take(exchange);
	return 0;
}

/* One attempt. Returns 1 if another may help, after the pause. */
static int execute_try(struct attempt *attempt, struct kube_exchange **ret, struct cairn_err *err)
{
	cairn_cleanup(kube_identity_unrefp) struct kube_identity *identity = NULL;
	struct kube_client *client = attempt->client;
	const struct kube_deadline *patience = &attempt->patience;
	uint64_t pause;
	bool unsent;
	int rc = kube_deadline_check(patience, err);

	if (!rc && !(attempt->how && attempt->how->urgent))
		rc = execute_limit(client, patience, err);
	if (!rc)
		rc = kube_credentials_get(client->credentials, patience, &identity, err);
	if (rc)
		return rc;
	memset(&attempt->status, 0, sizeof(attempt->status));
	rc = exchange_once(attempt, identity, ret, &unsent, err);
	if (!rc)
		return 0;
	if (attempt->status.http == 401 && !attempt->reidentified) {
		attempt->reidentified = true;
		return kube_credentials_refused(client->credentials, identity) ? 1 : rc;
	}
	pause = pause_before_retry(attempt, rc, unsent);
	if (pause == UINT64_MAX ||
	    (patience->deadline_ns != UINT64_MAX &&
	     cairn_monotonic_ns() + pause * CAIRN_NS_PER_MS >= patience->deadline_ns))
		return rc;
	return kube_deadline_sleep(patience, pause, err) ? rc : 1;
}

int kube_execute(struct kube_client *client, const struct kube_request *request,
		 const struct kube_call *how, struct kube_exchange **ret, struct cairn_err *err)
{
	struct cairn_err own = {0};
	struct attempt attempt = {
		.client = client,
		.request = request,
		.how = how,
		.patience = kube_deadline_of(how, client->timeout_ms, &client->shutdown),
		.backoff = {.first_ms = BREAK_PAUSE_MIN_MS, .most_ms = BREAK_PAUSE_MAX_MS},
		.spread = {.first_ms = BREAK_PAUSE_MIN_MS, .most_ms = BREAK_PAUSE_MAX_MS},
	};
	int rc;

	if (!err)
		err = &own;
	while ((rc = execute_try(&attempt, ret, err)) == 1)
		atomic_fetch_add(&client->retries, 1);
	if (how && how->status)
		*how->status = attempt.status;
	return rc;
}

int kube_execute_json(struct kube_client *client, const struct kube_request *request,
		      const struct kube_call *how, json_t **ret, struct cairn_err *err)
{
	cairn_cleanup(kube_exchange_freep) struct kube_exchange *exchange = NULL;
	const struct cairn_buf *body;
	int rc = kube_execute(client, request, how, &exchange, err);

	if (rc || !ret)
		return rc;
	body = kube_exchange_body(exchange);
	rc = kube_json_parse((const char *)body->data, body->len, ret, err);
	if (rc == CAIRN_INVALID)
		return cairn_err_set(err, CAIRN_INTERNAL, "the server's answer is not JSON");
	return rc;
}
