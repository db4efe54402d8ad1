/* SPDX-License-Identifier: Apache-2.0 */

#include "sidecar/sidecar_http.h"

#include <pthread.h>

#include "base/err.h"
#include "base/lock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/ticker.h"
#include "net/http/http_server.h"
#include "net/http/http_standard.h"

#define TICK_MS 2000U

struct sidecar_http {
	struct sidecar_http_options options;
	struct net_http_standard standard;
	struct net_http_route health;
	struct cairn_ticker ticker;

	pthread_mutex_t lock;
	/* Guarded by the lock. */
	struct net_http_server *server;
	uint16_t port;
};

/* The two texts of the Go sidecar; /readyz has the reason. */
static int sidecar_http_health(struct net_http *request, void *arg, struct cairn_err *err)
{
	const struct sidecar_http *http = arg;
	char why[8];
	bool ready = http->options.ready(http->options.arg, why, sizeof(why));

	return net_http_reply_text(request, ready ? 200 : 503, ready ? "ok" : "not ready", err);
}

static int sidecar_http_try(struct sidecar_http *http, struct cairn_err *err)
{
	const struct net_http_standard_server how = {.name = "http",
						     .listen = http->options.listen,
						     .tls = http->options.tls,
						     .more = &http->health};
	struct net_http_server *server;
	uint16_t port;
	int rc = net_http_serve_standard(&how, &http->standard, &server, &port, err);

	if (rc)
		return rc;
	cairn_scoped_lock(&http->lock);
	http->server = server;
	http->port = port;
	return 0;
}

static uint64_t sidecar_http_tick(void *arg)
{
	struct sidecar_http *http = arg;

	if (http->options.tick)
		http->options.tick(http->options.arg);
	if (http->options.listen && sidecar_http_listens(http) == 0 &&
	    sidecar_http_try(http, NULL) == 0)
		cairn_log(CAIRN_LOG_INFO, "HTTP is served after all",
			  CAIRN_STR("address", http->options.listen));
	return TICK_MS;
}

static void listen_first(struct sidecar_http *http)
{
	struct cairn_err why = {0};

	if (!http->options.listen)
		return;
	if (sidecar_http_try(http, &why) != 0)
		cairn_log(CAIRN_LOG_ERROR, "no HTTP: health and metrics are not served yet",
			  CAIRN_STR("address", http->options.listen), CAIRN_STR("why", why.msg));
}

int sidecar_http_new(const struct sidecar_http_options *options, struct sidecar_http **ret,
		     struct cairn_err *err)
{
	cairn_cleanup(sidecar_http_freep) struct sidecar_http *http =
		cairn_calloc(1, sizeof(*http));
	int rc;

	if (!http)
		return cairn_err_nomem(err, "HTTP");
	http->options = *options;
	http->standard = (struct net_http_standard){
		.ready = options->ready,
		.arg = options->arg,
		.metrics = options->metrics,
		.metrics_path = options->metrics_path,
	};
	http->health = (struct net_http_route){
		.method = "GET", .path = "/health", .handler = sidecar_http_health, .arg = http};
	pthread_mutex_init(&http->lock, NULL);
	listen_first(http);
	rc = cairn_ticker_start(&http->ticker, "tick", TICK_MS, sidecar_http_tick, http, err);
	if (!rc)
		*ret = cairn_take(http);
	return rc;
}

uint16_t sidecar_http_listens(struct sidecar_http *http)
{
	cairn_scoped_lock(&http->lock);
	return http->port;
}

void sidecar_http_free(struct sidecar_http *http)
{
	if (!http)
		return;
	cairn_ticker_stop(&http->ticker);
	net_http_server_free(http->server);
	pthread_mutex_destroy(&http->lock);
	free(http);
}
