/* SPDX-License-Identifier: Apache-2.0 */

#include "kube/transport.h"

#include <string.h>

#include "base/err.h"
#include "base/lock.h"
#include "base/mem.h"
#include "base/thread.h"
#include "kube/config_impl.h"
#include "kube/exchange_impl.h"

#define POLL_MS 60000

/* Poll interval of libcurl while a caller waits for an answer. Several libcurl versions
 * fail to wake a stream that shares a connection until some other event happens, so that a
 * ready answer may be delivered only after its caller's timeout. */
#define ASKED_POLL_MS 200

/* Idle connections to keep, and streams on one before another is opened. */
#define CONNECTIONS_KEPT 64L
#define STREAMS_MAX      250L

/* Removes the exchange from libcurl; with the lock held. */
static void transport_end(struct kube_transport *transport, struct kube_exchange *exchange,
			  CURLcode result)
{
	CURL *easy = exchange->easy;

	if (easy) {
		curl_multi_remove_handle(transport->multi, easy);
		transport->n_asked -= !exchange->request.stream;
	}
	kube_exchange_finish(exchange, result);
	if (easy)
		http_client_idle_give(&transport->idle, easy);
}

static void transport_begin(struct kube_transport *transport, struct kube_exchange *exchange)
{
	CURL *easy = http_client_idle_take(&transport->idle);

	if (easy && kube_exchange_prepare(exchange, easy) &&
	    curl_multi_add_handle(transport->multi, easy) == CURLM_OK) {
		exchange->easy = easy;
		transport->n_asked += !exchange->request.stream;
		return;
	}
	if (easy)
		curl_easy_cleanup(easy);
	transport_end(transport, exchange, CURLE_OUT_OF_MEMORY);
}

/* The next action for an exchange in the list; with the transport's lock held. */
static enum { KEEP, BEGIN, RESUME, END } next_step(struct kube_exchange *exchange, bool shutdown)
{
	cairn_scoped_lock(&exchange->lock);
	if (shutdown) {
		exchange->stopped = true;
		pthread_cond_broadcast(&exchange->changed);
	}
	if (exchange->cancelled || shutdown)
		return END;
	if (exchange->state != KUBE_EXCHANGE_WAITING) {
		bool resume = exchange->resume;

		exchange->resume = false;
		return resume ? RESUME : KEEP;
	}
	exchange->state = KUBE_EXCHANGE_RUNNING;
	return BEGIN;
}

/* Starts and releases exchanges as callers request; false when the thread must end. */
static bool transport_serve(struct kube_transport *transport)
{
	struct kube_exchange *at, *next;

	cairn_scoped_lock(&transport->lock);
	if (!transport->pending)
		return !transport->quit;
	transport->pending = false;
	for (at = transport->list; at; at = next) {
		int step = next_step(at, transport->shutdown);

		next = at->next;
		if (step == BEGIN)
			transport_begin(transport, at);
		else if (step == RESUME && at->easy)
			(void)curl_easy_pause(at->easy, CURLPAUSE_CONT);
		else if (step == END)
			transport_end(transport, at, CURLE_ABORTED_BY_CALLBACK);
	}
	return !transport->quit;
}

static void transport_collect(struct kube_transport *transport)
{
	const CURLMsg *message;
	int left;

	while ((message = curl_multi_info_read(transport->multi, &left))) {
		struct kube_exchange *exchange = NULL;
		CURLcode result = message->data.result;

		if (message->msg != CURLMSG_DONE)
			continue;
		curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, &exchange);
		cairn_scoped_lock(&transport->lock);
		transport_end(transport, exchange, result);
	}
}

static void *transport_run(void *arg)
{
	struct kube_transport *transport = arg;
	int running;

	while (transport_serve(transport)) {
		curl_multi_perform(transport->multi, &running);
		transport_collect(transport);
		curl_multi_poll(transport->multi, NULL, 0,
				transport->n_asked > 0 ? ASKED_POLL_MS : POLL_MS, NULL);
	}
	return NULL;
}

/* For a server whose certificate has another name than its URL: puts that name into the
 * URL and directs the connection to the real host. */
static int rename_host(struct kube_transport *transport, const char *name)
{
	CURLU *url = curl_url();
	char *host = NULL, *port = NULL, *text = NULL;
	cairn_auto_free char *rule = NULL;
	int rc = -1;

	if (url && !curl_url_set(url, CURLUPART_URL, transport->base_url, 0) &&
	    !curl_url_get(url, CURLUPART_HOST, &host, 0) &&
	    !curl_url_get(url, CURLUPART_PORT, &port, CURLU_DEFAULT_PORT) &&
	    !curl_url_set(url, CURLUPART_HOST, name, 0) &&
	    !curl_url_get(url, CURLUPART_URL, &text, 0)) {
		rule = cairn_printf("%s:%s:%s:%s", name, port, host, port);
		transport->connect_to = rule ? curl_slist_append(NULL, rule) : NULL;
		free(transport->base_url);
		transport->base_url = cairn_strdup(text);
		rc = transport->connect_to && transport->base_url ? 0 : -1;
	}
	curl_free(host);
	curl_free(port);
	curl_free(text);
	curl_url_cleanup(url);
	if (rc == 0 && transport->base_url[strlen(transport->base_url) - 1] == '/')
		transport->base_url[strlen(transport->base_url) - 1] = '\0';
	return rc;
}

static int transport_start_thread(struct kube_transport *transport, struct cairn_err *err)
{
	int rc = cairn_thread_start(&transport->thread, NULL, "kube", transport_run, transport);

	if (rc)
		return cairn_err_sys(err, rc, "thread");
	transport->running = true;
	return 0;
}

int kube_transport_new(const struct kube_config *config,
		       const struct kube_transport_options *options, struct kube_transport **ret,
		       struct cairn_err *err)
{
	struct kube_transport *transport = cairn_calloc(1, sizeof(*transport));
	int rc;

	if (!transport)
		return cairn_err_nomem(err, "transport");
	pthread_mutex_init(&transport->lock, NULL);
	http_client_idle_init(&transport->idle, KUBE_IDLE_HANDLES);
	transport->config = config;
	transport->http1 = options->http1;
	transport->multi = curl_multi_init();
	transport->user_agent = cairn_strdup(options->user_agent);
	transport->base_url = cairn_strdup(config->server);
	if (!transport->multi || !transport->user_agent || !transport->base_url ||
	    (config->tls_server_name && rename_host(transport, config->tls_server_name) < 0)) {
		kube_transport_free(transport);
		return cairn_err_nomem(err, "transport");
	}
	curl_multi_setopt(transport->multi, CURLMOPT_MAXCONNECTS, CONNECTIONS_KEPT);
	curl_multi_setopt(transport->multi, CURLMOPT_MAX_CONCURRENT_STREAMS, STREAMS_MAX);
	rc = transport_start_thread(transport, err);
	if (rc) {
		kube_transport_free(transport);
		return rc;
	}
	*ret = transport;
	return 0;
}

void kube_transport_shutdown(struct kube_transport *transport)
{
	cairn_scoped_lock(&transport->lock);
	transport->shutdown = true;
	transport->pending = true;
	curl_multi_wakeup(transport->multi);
}

static void transport_join(struct kube_transport *transport)
{
	pthread_mutex_lock(&transport->lock);
	transport->quit = true;
	curl_multi_wakeup(transport->multi);
	pthread_mutex_unlock(&transport->lock);
	pthread_join(transport->thread, NULL);
}

void kube_transport_free(struct kube_transport *transport)
{
	if (!transport)
		return;
	if (transport->running)
		transport_join(transport);
	http_client_idle_done(&transport->idle);
	if (transport->multi)
		curl_multi_cleanup(transport->multi);
	curl_slist_free_all(transport->connect_to);
	pthread_mutex_destroy(&transport->lock);
	free(transport->user_agent);
	free(transport->base_url);
	free(transport);
}

uint64_t kube_transport_connections(const struct kube_transport *transport)
{
	return atomic_load(&transport->connections);
}
