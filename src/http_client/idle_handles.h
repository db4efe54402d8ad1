/* SPDX-License-Identifier: Apache-2.0 */

/* Idle libcurl handles, each with its open connections, for the next request.
 *
 * Thread-safe. The handles beyond a limit are closed when they are returned.
 */
#ifndef CAIRN_HTTP_CLIENT_IDLE_HANDLES_H
#define CAIRN_HTTP_CLIENT_IDLE_HANDLES_H

#include <curl/curl.h>
#include <pthread.h>
#include <stddef.h>

#define HTTP_CLIENT_IDLE_MAX 64U

struct http_client_idle {
	pthread_mutex_t lock;
	CURL *handles[HTTP_CLIENT_IDLE_MAX];
	size_t n;
	size_t keep; /* limit */
};

/* Initializes libcurl, too. */
void http_client_idle_init(struct http_client_idle *idle, size_t keep);

/* Closes all idle handles. A zeroed struct must not be passed. */
void http_client_idle_done(struct http_client_idle *idle);

/* An idle handle, or a new one; without options. NULL when memory is short. */
CURL *http_client_idle_take(struct http_client_idle *idle);

/* Resets the handle's options and keeps it with its connections. */
void http_client_idle_give(struct http_client_idle *idle, CURL *easy);

#endif
