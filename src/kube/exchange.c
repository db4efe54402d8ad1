/* SPDX-License-Identifier: Apache-2.0 */

/* The caller's side of an exchange. */
#include "kube/exchange_impl.h"

#include <string.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/lock.h"
#include "base/mem.h"
#include "base/wait.h"
#include "http_client/http_client.h"
#include "kube/config_impl.h"
#include "kube/deadline.h"
#include "kube/identity.h"

/* Copies field by field, because the identity's list is shared. */
static bool exchange_make_fields(struct kube_exchange *exchange)
{
	const char *type = exchange->request.content_type;
	const char *accept = exchange->request.accept;
	cairn_auto_free char *accepted =
		cairn_printf("Accept: %s", accept ? accept : "application/json");
	bool ok = accepted && http_client_add_field(&exchange->fields, accepted) &&
		  http_client_add_field(&exchange->fields, "Expect:");

	if (ok && type) {
		cairn_auto_free char *field = cairn_printf("Content-Type: %s", type);

		ok = field && http_client_add_field(&exchange->fields, field);
	}
	for (const struct curl_slist *at = exchange->identity->fields; ok && at; at = at->next)
		ok = http_client_add_field(&exchange->fields, at->data);
	return ok;
}

int kube_exchange_new(struct kube_transport *transport, const struct kube_request *request,
		      struct kube_identity *identity, struct kube_exchange **ret,
		      struct cairn_err *err)
{
	struct kube_exchange *exchange = cairn_calloc(1, sizeof(*exchange));

	if (!exchange)
		return cairn_err_nomem(err, "request");
	exchange->transport = transport;
	exchange->request = *request;
	exchange->identity = kube_identity_ref(identity);
	cairn_buf_init(&exchange->body, request->answer_max);
	pthread_mutex_init(&exchange->lock, NULL);
	cairn_cond_init(&exchange->changed);
	exchange->url = cairn_printf("%s%s", transport->base_url, request->path);
	if (!exchange->url || !exchange_make_fields(exchange)) {
		kube_exchange_free(exchange);
		return cairn_err_nomem(err, "request");
	}
	*ret = exchange;
	return 0;
}

void kube_exchange_start(struct kube_exchange *exchange)
{
	struct kube_transport *transport = exchange->transport;

	exchange->started = true;
	cairn_scoped_lock(&transport->lock);
	if (transport->shutdown) {
		exchange->state = KUBE_EXCHANGE_OVER;
		exchange->stopped = true;
		return;
	}
	exchange->state = KUBE_EXCHANGE_WAITING;
	exchange->next = transport->list;
	if (exchange->next)
		exchange->next->prev = exchange;
	transport->list = exchange;
	transport->pending = true;
	curl_multi_wakeup(transport->multi);
}

static int exchange_stopped(struct cairn_err *err)
{
	return cairn_err_set(err, CAIRN_CANCELLED, "broken off");
}

/* With the lock held, for an exchange that ended without being stopped. */
static int result_of(const struct kube_exchange *exchange, struct cairn_err *err)
{
	const char *why = exchange->error[0] ? exchange->error : NULL;

	if (exchange->over_limit)
		return cairn_err_set(err, CAIRN_NO_SPACE, "the answer is larger than %zu bytes",
				     exchange->request.answer_max);
	if (exchange->result == CURLE_OK)
		return 0;
	if (exchange->result == CURLE_OUT_OF_MEMORY)
		return cairn_err_nomem(err, "request");
	return cairn_err_set(err, CAIRN_UNAVAILABLE, "%s: %s", exchange->transport->config->server,
			     why ? why : curl_easy_strerror(exchange->result));
}

static int exchange_wait_for(struct kube_exchange *exchange, const struct kube_deadline *patience,
			     bool head, struct cairn_err *err)
{
	cairn_scoped_lock(&exchange->lock);
	for (;;) {
		int rc;

		if (exchange->stopped)
			return exchange_stopped(err);
		/* Data that arrived before the end is returned, however the exchange ended. */
		if (head && exchange->have_head)
			return 0;
		if (exchange->state == KUBE_EXCHANGE_OVER)
			return result_of(exchange, err);
		rc = kube_deadline_check(patience, err);
		if (rc)
			return rc;
		kube_deadline_wait(patience, &exchange->changed, &exchange->lock, UINT64_MAX);
	}
}

int kube_exchange_wait(struct kube_exchange *exchange, const struct kube_deadline *patience,
		       struct cairn_err *err)
{
	return exchange_wait_for(exchange, patience, false, err);
}

int kube_exchange_wait_head(struct kube_exchange *exchange, const struct kube_deadline *patience,
			    struct cairn_err *err)
{
	return exchange_wait_for(exchange, patience, true, err);
}

/* Hands out the bytes and takes the empty buffer for those to come. */
static void swap_body(struct kube_exchange *exchange, struct cairn_buf *into)
{
	struct cairn_buf empty = *into;

	*into = exchange->body;
	exchange->body = empty;
	exchange->body.max = exchange->request.answer_max;
	cairn_buf_reset(&exchange->body);
}

/* Lets libcurl go on after a pause. The transport's lock is taken before the exchange's. */
static void resume_reading(struct kube_exchange *exchange)
{
	struct kube_transport *transport = exchange->transport;

	cairn_scoped_lock(&transport->lock);
	transport->pending = true;
	curl_multi_wakeup(transport->multi);
}

static int exchange_read_piece(struct kube_exchange *exchange, const struct kube_deadline *patience,
			       uint64_t until_ns, struct cairn_buf *into, struct cairn_err *err)
{
	cairn_scoped_lock(&exchange->lock);
	for (;;) {
		int rc;

		if (exchange->stopped)
			return exchange_stopped(err);
		if (exchange->body.len > 0) {
			swap_body(exchange, into);
			exchange->resume = exchange->paused;
			exchange->paused = false;
			return exchange->resume ? 2 : 1;
		}
		if (exchange->state == KUBE_EXCHANGE_OVER)
			return result_of(exchange, err);
		rc = kube_deadline_check(patience, err);
		if (rc)
			return rc;
		if (cairn_monotonic_ns() >= until_ns)
			return cairn_err_set(err, CAIRN_DEADLINE, "nothing came");
		kube_deadline_wait(patience, &exchange->changed, &exchange->lock, until_ns);
	}
}

int kube_exchange_read(struct kube_exchange *exchange, const struct kube_deadline *patience,
		       uint64_t until_ns, struct cairn_buf *into, struct cairn_err *err)
{
	int rc = exchange_read_piece(exchange, patience, until_ns, into, err);

	if (rc == 2)
		resume_reading(exchange);
	return rc == 2 ? 1 : rc;
}

const char *kube_exchange_field(const struct kube_exchange *exchange, size_t i)
{
	const struct curl_slist *at = exchange->kept;

	for (; at && i > 0; i--)
		at = at->next;
	return at ? at->data : NULL;
}

void kube_exchange_cancel(struct kube_exchange *exchange)
{
	cairn_scoped_lock(&exchange->lock);
	exchange->stopped = true;
	pthread_cond_broadcast(&exchange->changed);
}

int kube_exchange_http(const struct kube_exchange *exchange)
{
	return exchange->http;
}

bool kube_exchange_retry_after(const struct kube_exchange *exchange, uint64_t *ret_ms)
{
	if (exchange->has_retry_after)
		*ret_ms = exchange->retry_after_ms;
	return exchange->has_retry_after;
}

struct cairn_buf *kube_exchange_body(struct kube_exchange *exchange)
{
	return &exchange->body;
}

bool kube_exchange_unsent(const struct kube_exchange *exchange)
{
	return exchange->unsent;
}

/* Makes the transport release the exchange. */
static void exchange_detach(struct kube_exchange *exchange)
{
	struct kube_transport *transport = exchange->transport;

	pthread_mutex_lock(&transport->lock);
	pthread_mutex_lock(&exchange->lock);
	exchange->cancelled = true;
	if (exchange->state != KUBE_EXCHANGE_OVER) {
		transport->pending = true;
		curl_multi_wakeup(transport->multi);
	}
	pthread_mutex_unlock(&transport->lock);
	while (exchange->state != KUBE_EXCHANGE_OVER)
		pthread_cond_wait(&exchange->changed, &exchange->lock);
	pthread_mutex_unlock(&exchange->lock);
	/* The thread finishes an exchange with its lock held: with the lock taken here, it no
	 * longer uses the exchange. */
	pthread_mutex_lock(&transport->lock);
	pthread_mutex_unlock(&transport->lock);
}

void kube_exchange_free(struct kube_exchange *exchange)
{
	if (!exchange)
		return;
	if (exchange->started)
		exchange_detach(exchange);
	cairn_buf_wipe(&exchange->body);
	http_client_fields_free(exchange->fields);
	curl_slist_free_all(exchange->kept);
	kube_identity_unref(exchange->identity);
	pthread_cond_destroy(&exchange->changed);
	pthread_mutex_destroy(&exchange->lock);
	free(exchange->url);
	free(exchange);
}
