/* SPDX-License-Identifier: Apache-2.0 */

/* The program of `cairn aggapi`: wiring of the aggregated API server. */

#include "cli/commands.h"

#include <stdio.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/log.h"
#include "kube/authz_cache.h"
#include "kube/informer.h"
#include "kube/kinds.h"
#include "kube/kube_client.h"
#include "net/http/http_server.h"
#include "net/http/http_standard.h"
#include "net/metrics.h"
#include "net/signals.h"
#include "net/tls/tls_settings.h"
#include "older/aggapi/aggapi_server.h"
#include "older/aggapi/delta_pages.h"
#include "older/aggapi/remote.h"
#include "older/aggapi/resolve_snapshots.h"
#include "older/aggapi/tokens.h"
#include "older/aggapi/trust.h"
#include "roles/aggapi/aggapi_options.h"
#include "roles/https.h"
#include "roles/role.h"

/* Limit of requests to the API server: each of ours makes up to six. */
#define QPS 200

/* Everything that runs. */
struct running {
	struct kube_client *client;
	struct kube_client *pass_client;
	struct kube_authz_cache *guard;
	struct kube_informer *discoveries;
	struct aggapi_trust *trust;
	struct aggapi_tokens *tokens;
	struct aggapi_remote *remote;
	struct aggapi_server *server;
	struct net_metrics *metrics;
	struct role_https https;
	struct role_health health;
	struct net_http_standard standard; /* for probes on the API's own port */
};

static void aggapi_running_done(struct running *r)
{
	if (r->client)
		kube_client_shutdown(r->client);
	if (r->pass_client)
		kube_client_shutdown(r->pass_client);
	role_health_done(&r->health);
	role_https_done(&r->https);
	aggapi_server_freep(&r->server);
	aggapi_remote_freep(&r->remote);
	aggapi_tokens_freep(&r->tokens);
	aggapi_trust_freep(&r->trust);
	kube_informer_freep(&r->discoveries);
	kube_authz_cache_freep(&r->guard);
	kube_client_freep(&r->pass_client);
	kube_client_freep(&r->client);
	net_metrics_freep(&r->metrics);
}

static bool aggapi_is_ready(void *arg, char *reason, size_t cap)
{
	struct running *r = arg;

	if (kube_informer_synced(r->discoveries))
		return true;
	snprintf(reason, cap, "drivers are still being discovered");
	return false;
}

static int aggapi_connect_cluster(struct running *r, const struct aggapi_options *o,
				  struct cairn_err *err)
{
	struct kube_authz_cache_options guard;
	struct kube_informer_options discoveries = {.resource = &kube_driverdiscoveries};
	int rc = role_connect(o->kubeconfig, "cairn-aggapi", QPS, &r->client, err);

	if (!rc)
		rc = role_connect_streams(o->kubeconfig, "cairn-aggapi", QPS, &r->pass_client, err);
	if (rc)
		return rc;
	guard = kube_authz_cache_defaults(r->client);
	rc = kube_authz_cache_new(&guard, &r->guard, err);
	if (!rc)
		rc = aggapi_trust_new(r->client, &r->trust, err);
	if (!rc)
		rc = kube_informer_new(r->client, &discoveries, &r->discoveries, err);
	return rc ? rc : kube_informer_start(r->discoveries, err);
}

static int serve_api(struct running *r, const struct aggapi_options *o, struct cairn_err *err)
{
	struct net_tls_options tls = {
		.cert_file = o->tls_cert,
		.key_file = o->tls_key,
		.ca_file = aggapi_trust_ca_file(r->trust),
		.peer_optional = true,
		.http1 = true,
	};
	struct aggapi_server_options server = {
		.client = r->client,
		.pass_client = r->pass_client,
		.guard = r->guard,
		.trust = r->trust,
		.discoveries = r->discoveries,
		.remote = r->remote,
		.metrics = r->metrics,
		.page_limit = o->page_limit,
		.watch_ms = o->watch_ms,
		.user_rate = o->user_rate,
		.user_burst = o->user_burst,
		.cache_ms = o->cache_ms,
	};
	int rc = role_https_new(&r->https, &tls, r->metrics, err);

	r->standard = (struct net_http_standard){
		.ready = aggapi_is_ready, .arg = r, .other_ready_path = "/livez"};
	if (!rc)
		rc = net_http_add_standard(r->https.server, &r->standard, err);
	if (!rc)
		rc = aggapi_server_new(&server, r->https.server, &r->server, err);
	return rc ? rc : role_https_start(&r->https, o->listen, err);
}

static int aggapi_start(struct running *r, const struct aggapi_options *o, struct cairn_err *err)
{
	struct aggapi_remote_options remote = {
		.cert_file = o->client_cert,
		.key_file = o->client_key,
		.timeout_ms = o->timeout_ms,
	};
	int rc = role_metrics_new(&r->metrics, err);

	if (!rc)
		rc = aggapi_connect_cluster(r, o, err);
	if (!rc)
		rc = aggapi_tokens_new(r->client, &r->tokens, err);
	remote.tokens = r->tokens;
	if (!rc)
		rc = aggapi_remote_new(&remote, &r->remote, err);
	if (!rc)
		rc = serve_api(r, o, err);
	return rc ? rc
		  : role_health_start(&r->health, o->http_address, aggapi_is_ready, r, r->metrics,
				      err);
}

static int aggapi_run(struct cairn_err *err)
{
	const struct aggapi_options *options = &aggapi_options;
	cairn_cleanup(aggapi_running_done) struct running running = {0};
	sigset_t signals;
	int rc;

	net_signals_block(&signals);
	rc = aggapi_start(&running, options, err);
	if (rc)
		return rc;
	cairn_log(CAIRN_LOG_INFO, "serving", CAIRN_STR("listen", options->listen));
	while (net_signals_wait(&signals, UINT64_MAX) == SIGHUP)
		;
	cairn_log(CAIRN_LOG_INFO, "stopping", CAIRN_U64("drain_ms", options->drain_ms));
	aggapi_server_stop(running.server);
	net_http_server_drain(running.https.server, options->drain_ms);
	return 0;
}

int main(int argc, char **argv)
{
	return role_server_main(&cmd_aggapi, aggapi_run, argc, argv);
}
