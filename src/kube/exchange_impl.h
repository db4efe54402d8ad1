/* SPDX-License-Identifier: Apache-2.0 */

/* The state of an exchange that the caller and the transport thread share; part of
 * transport.h. */
#ifndef CAIRN_KUBE_EXCHANGE_IMPL_H
#define CAIRN_KUBE_EXCHANGE_IMPL_H

#include <curl/curl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "http_client/http_client.h"
#include "http_client/idle_handles.h"
#include "kube/transport.h"

enum kube_exchange_state {
	KUBE_EXCHANGE_WAITING, /* not started yet */
	KUBE_EXCHANGE_RUNNING, /* owned by libcurl */
	KUBE_EXCHANGE_OVER,    /* owned by the caller again */
};

struct kube_exchange {
	struct kube_transport *transport;
	struct kube_request request;
	struct kube_identity *identity;
	struct curl_slist *fields;
	char *url;
	bool started;

	/* used only by the transport thread while it runs */
	CURL *easy;
	struct http_client_settings settings;
	size_t fields_len;
	char error[CURL_ERROR_SIZE];

	struct kube_exchange *next, *prev; /* guarded by the transport's lock */

	pthread_mutex_t lock; /* taken after the transport's */
	pthread_cond_t changed;
	/* guarded by lock */
	enum kube_exchange_state state;
	bool cancelled; /* by the caller: the transport must release it */
	bool stopped;   /* by kube_exchange_cancel(): the caller must give up */
	bool have_head;
	bool over_limit;
	bool unsent;
	int http;
	bool paused;             /* libcurl waits until the unread bytes were taken */
	bool resume;             /* they were: the transport must let it go on */
	struct curl_slist *kept; /* kept fields; complete with the head */
	bool has_retry_after;
	uint64_t retry_after_ms;
	CURLcode result;
	struct cairn_buf body;
};

/* Sets the curl handle up for the request; false when memory is short. */
bool kube_exchange_prepare(struct kube_exchange *exchange, CURL *easy);

/* Stores the result and wakes the caller; with the transport's lock held. */
void kube_exchange_finish(struct kube_exchange *exchange, CURLcode result);

#define KUBE_IDLE_HANDLES 32

struct kube_transport {
	const struct kube_config *config;
	char *user_agent;
	struct curl_slist *connect_to; /* for a server whose certificate has another name */
	char *base_url;
	bool http1;
	CURLM *multi;
	pthread_t thread;
	bool running;

	struct http_client_idle idle; /* used only by the thread */
	size_t n_asked; /* used only by the thread: running exchanges that are not streams */
	atomic_uint_fast64_t connections;

	pthread_mutex_t lock;
	/* guarded by lock */
	struct kube_exchange *list; /* all that are started and not over */
	bool pending;               /* some of them must be started or released */
	bool shutdown;
	bool quit;
};

#endif
