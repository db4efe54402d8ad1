/* SPDX-License-Identifier: Apache-2.0 */

#include "sidecar/http.h"

#include <pthread.h>

#include "base/err.h"
#include "base/lock.h"
#include "base/log.h"
#include "base/mem.h"
#include "kube/wait.h"
#include "net/http.h"
#include "net/http_standard.h"

#define TICK_MS 2000U

struct sidecar_http {
	struct sidecar_http_options options;
	struct net_http_standard standard;
	struct net_http_route health;
	pthread_t thread;
	bool thread_runs;

	pthread_mutex_t lock;
	pthread_cond_t changed;
	/* Guarded by the lock. */
	struct net_http_server *server;
	uint16_t port;
	bool stopping;
};

/* The two texts that the Go sidecar answers with; the reason is under /readyz. */
static int health(struct net_http *request, void *arg, struct cairn_err *err)
{
	const struct sidecar_http *http = arg;
	char why[8];
	bool ready = http->options.ready(http->options.arg, why, sizeof(why));

	return net_http_reply_text(request, ready ? 200 : 503, ready ? "ok" : "not ready", err);
}

static int serve(struct sidecar_http *http, struct net_http_server **ret, uint16_t *ret_port,
		 struct cairn_err *err)
{
	struct net_http_options options = {.name = "http"};
	cairn_cleanup(net_http_server_freep) struct net_http_server *server = NULL;
	int rc = net_http_server_new(&options, &server, err);

	if (!rc)
		rc = net_http_add_standard(server, &http->standard, err);
	if (!rc)
		rc = net_http_server_add(server, &http->health, 1, err);
	if (!rc)
		rc = net_http_server_listen(server, http->options.listen, http->options.tls,
					    ret_port, err);
	if (!rc)
		rc = net_http_server_start(server, err);
	if (rc)
		return rc;
	*ret = cairn_take(server);
	return 0;
}

static int try(struct sidecar_http *http, struct cairn_err *err)
{
	struct net_http_server *server;
	uint16_t port;
	int rc = serve(http, &server, &port, err);

	if (rc)
		return rc;
	cairn_scoped_lock(&http->lock);
	http->server = server;
	http->port = port;
	return 0;
}

static bool pause_for(struct sidecar_http *http)
{
	struct kube_wait forever = {.deadline_ns = UINT64_MAX};
	struct kube_wait wait = kube_wait_within(&forever, TICK_MS);

	cairn_scoped_lock(&http->lock);
	while (!http->stopping && kube_wait_on(&wait, &http->changed, &http->lock, NULL) == 0)
		;
	return !http->stopping;
}

static void *run(void *arg)
{
	struct sidecar_http *http = arg;

	pthread_setname_np(pthread_self(), "tick");
	while (pause_for(http)) {
		if (http->options.tick)
			http->options.tick(http->options.arg);
		if (http->options.listen && sidecar_http_listens(http) == 0 && try(http, NULL) == 0)
			cairn_log(CAIRN_LOG_INFO, "HTTP is served after all",
				  CAIRN_STR("address", http->options.listen));
	}
	return NULL;
}

static void listen_first(struct sidecar_http *http)
{
	struct cairn_err why = {0};

	if (!http->options.listen)
		return;
	if (try(http, &why) != 0)
		cairn_log(CAIRN_LOG_ERROR, "no HTTP: health and metrics are not served yet",
			  CAIRN_STR("address", http->options.listen), CAIRN_STR("why", why.msg));
}

int sidecar_http_new(const struct sidecar_http_options *options, struct sidecar_http **ret,
		     struct cairn_err *err)
{
	cairn_cleanup(sidecar_http_freep) struct sidecar_http *http =
		cairn_calloc(1, sizeof(*http));

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
		.method = "GET", .path = "/health", .handler = health, .arg = http};
	pthread_mutex_init(&http->lock, NULL);
	kube_wait_cond_init(&http->changed);
	listen_first(http);
	if (pthread_create(&http->thread, NULL, run, http) != 0)
		return cairn_err_set(err, CAIRN_NO_SPACE, "a thread can not be made");
	http->thread_runs = true;
	*ret = cairn_take(http);
	return 0;
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
	pthread_mutex_lock(&http->lock);
	http->stopping = true;
	pthread_cond_broadcast(&http->changed);
	pthread_mutex_unlock(&http->lock);
	if (http->thread_runs)
		pthread_join(http->thread, NULL);
	net_http_server_free(http->server);
	pthread_cond_destroy(&http->changed);
	pthread_mutex_destroy(&http->lock);
	free(http);
}
