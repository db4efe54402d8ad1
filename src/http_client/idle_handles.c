/* SPDX-License-Identifier: Apache-2.0 */

#include "http_client/idle_handles.h"

#include "base/lock.h"
#include "http_client/http_client.h"

void http_client_idle_init(struct http_client_idle *idle, size_t keep)
{
	http_client_init();
	pthread_mutex_init(&idle->lock, NULL);
	idle->n = 0;
	idle->keep = keep < HTTP_CLIENT_IDLE_MAX ? keep : HTTP_CLIENT_IDLE_MAX;
}

void http_client_idle_done(struct http_client_idle *idle)
{
	while (idle->n > 0)
		curl_easy_cleanup(idle->handles[--idle->n]);
	pthread_mutex_destroy(&idle->lock);
}

CURL *http_client_idle_take(struct http_client_idle *idle)
{
	CURL *easy = NULL;

	pthread_mutex_lock(&idle->lock);
	if (idle->n > 0)
		easy = idle->handles[--idle->n];
	pthread_mutex_unlock(&idle->lock);
	return easy ? easy : curl_easy_init();
}

void http_client_idle_give(struct http_client_idle *idle, CURL *easy)
{
	/* Drops the options but keeps the open connection, for which the handle is kept. */
	curl_easy_reset(easy);
	pthread_mutex_lock(&idle->lock);
	if (idle->n < idle->keep) {
		idle->handles[idle->n++] = easy;
		easy = NULL;
	}
	pthread_mutex_unlock(&idle->lock);
	if (easy)
		curl_easy_cleanup(easy);
}
