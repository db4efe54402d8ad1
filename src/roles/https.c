/* SPDX-License-Identifier: Apache-2.0 */

#include "roles/https.h"

#include "base/cleanup.h"
#include "base/err.h"
#include "base/log.h"
#include "kube/kube_client.h"
#include "kube/kube_config.h"
#include "net/http/http_server.h"
#include "net/metrics.h"
#include "net/metrics_build.h"
#include "net/signals.h"
#include "net/tls/tls_settings.h"
#include "net/tls/tls_watch.h"

int role_connect(const char *kubeconfig, const char *user_agent, double qps,
		 struct kube_client **ret, struct cairn_err *err)
{
	struct kube_config_options where = {.kubeconfig = kubeconfig};
	struct kube_client_options how = {.user_agent = user_agent, .qps = qps};
	cairn_cleanup(kube_config_freep) struct kube_config *config = NULL;
	int rc = kube_config_load(&where, &config, err);

	return rc ? rc : kube_client_new(config, &how, ret, err);
}

int role_connect_streams(const char *kubeconfig, const char *user_agent, double qps,
			 struct kube_client **ret, struct cairn_err *err)
{
	struct kube_config_options where = {.kubeconfig = kubeconfig};
	struct kube_client_options how = {.user_agent = user_agent, .qps = qps, .http1 = true};
	cairn_cleanup(kube_config_freep) struct kube_config *config = NULL;
	int rc = kube_config_load(&where, &config, err);

	return rc ? rc : kube_client_new(config, &how, ret, err);
}

int role_metrics_new(struct net_metrics **ret, struct cairn_err *err)
{
	cairn_cleanup(net_metrics_freep) struct net_metrics *metrics = NULL;
	int rc = net_metrics_new(&metrics, err);

	if (!rc)
		rc = net_metrics_add_process(metrics, err);
	if (!rc)
		rc = net_metrics_add_build(metrics, CAIRN_VERSION, err);
	if (!rc)
		*ret = cairn_take(metrics);
	return rc;
}

static void on_reload(void *arg, const struct cairn_err *failure)
{
	(void)arg;
	if (failure)
		cairn_log(CAIRN_LOG_WARN, "new certificates are not used",
			  CAIRN_STR("error", failure->msg));
	else
		cairn_log(CAIRN_LOG_INFO, "certificates reloaded");
}

static void https_collect(void *arg)
{
	struct role_https *https = arg;
	struct net_tls_info info;

	net_tls_info(https->tls, &info);
	net_metric_set(https->expiry, 0, (double)info.not_after);
}

static int https_add_expiry(struct role_https *https, struct net_metrics *metrics,
			    struct cairn_err *err)
{
	static const struct net_metric_spec expiry = {
		.name = "cairn_certificate_expiry_seconds",
		.help = "End of the certificate in use, since 1970.",
		.kind = NET_GAUGE,
	};
	int rc = net_metrics_add(metrics, &expiry, &https->expiry, err);

	return rc ? rc : net_metrics_on_render(metrics, https_collect, https, err);
}

int role_https_new(struct role_https *https, const struct net_tls_options *options,
		   struct net_metrics *metrics, struct cairn_err *err)
{
	struct net_tls_watch_options watch = {.changed = on_reload};
	struct net_http_options http = {.name = "https"};
	int rc = net_tls_server_new(options, &https->tls, err);

	if (!rc)
		rc = net_tls_watch_new(https->tls, &watch, &https->watch, err);
	if (!rc)
		rc = https_add_expiry(https, metrics, err);
	return rc ? rc : net_http_server_new(&http, &https->server, err);
}

int role_https_start(struct role_https *https, const char *listen, struct cairn_err *err)
{
	int rc = net_http_server_listen(https->server, listen, https->tls, NULL, err);

	return rc ? rc : net_http_server_start(https->server, err);
}

void role_https_done(struct role_https *https)
{
	net_http_server_freep(&https->server);
	net_tls_watch_freep(&https->watch);
	net_tls_freep(&https->tls);
}

int role_health_start(struct role_health *health, const char *address,
		      bool (*ready)(void *arg, char *reason, size_t cap), void *arg,
		      struct net_metrics *metrics, struct cairn_err *err)
{
	const struct net_http_standard_server how = {.name = "health", .listen = address};

	if (!address)
		return 0;
	health->standard =
		(struct net_http_standard){.ready = ready, .arg = arg, .metrics = metrics};
	return net_http_serve_standard(&how, &health->standard, &health->server, NULL, err);
}

void role_health_done(struct role_health *health)
{
	net_http_server_freep(&health->server);
}

void role_serve_until_told(const sigset_t *signals, struct net_http_server *server,
			   uint64_t drain_ms)
{
	while (net_signals_wait(signals, UINT64_MAX) == SIGHUP)
		;
	cairn_log(CAIRN_LOG_INFO, "stopping", CAIRN_U64("drain_ms", drain_ms));
	if (server)
		net_http_server_drain(server, drain_ms);
}
