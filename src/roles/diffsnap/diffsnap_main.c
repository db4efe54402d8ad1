/* SPDX-License-Identifier: Apache-2.0 */

/* The program of `cairn diffsnap`: wiring of driver, controller and REST server. */

#include "cli/commands.h"

#include <stdio.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/log.h"
#include "kube/authz_cache.h"
#include "kube/event.h"
#include "kube/kube_client.h"
#include "net/metrics.h"
#include "net/signals.h"
#include "net/tls/tls_settings.h"
#include "older/diffsnap/diffsnap_controller.h"
#include "older/diffsnap/diffsnap_driver.h"
#include "older/diffsnap/diffsnap_resource.h"
#include "older/diffsnap/diffsnap_server.h"
#include "roles/diffsnap/diffsnap_options.h"
#include "roles/https.h"
#include "roles/role.h"

/* Everything that runs. */
struct running {
	struct kube_client *client;
	struct kube_recorder *recorder;
	struct kube_authz_cache *guard;
	struct diffsnap_driver *driver;
	struct diffsnap_table *table;
	struct diffsnap_controller *controller;
	struct diffsnap_server *server;
	struct net_metrics *metrics;
	struct net_metric *resources;
	struct role_https https;
	struct role_health health;
};

static void diffsnap_running_done(struct running *r)
{
	if (r->client)
		kube_client_shutdown(r->client);
	role_health_done(&r->health);
	role_https_done(&r->https);
	diffsnap_server_free(r->server);
	diffsnap_controller_free(r->controller);
	diffsnap_table_free(r->table);
	diffsnap_driver_free(r->driver);
	kube_authz_cache_free(r->guard);
	kube_recorder_free(r->recorder);
	kube_client_free(r->client);
	net_metrics_free(r->metrics);
}

static bool diffsnap_is_ready(void *arg, char *reason, size_t cap)
{
	struct running *r = arg;

	if (diffsnap_controller_is_ready(r->controller))
		return true;
	snprintf(reason, cap, "DifferentialSnapshots are still being read");
	return false;
}

static void diffsnap_collect(void *arg)
{
	struct running *r = arg;

	net_metric_set(r->resources, 0, (double)diffsnap_table_count(r->table));
}

static int diffsnap_connect_cluster(struct running *r, const struct diffsnap_options *o,
				    struct cairn_err *err)
{
	struct kube_authz_cache_options guard;
	int rc = role_connect(o->kubeconfig, "cairn-diffsnap", 0, &r->client, err);

	if (!rc)
		rc = kube_recorder_new(r->client, "cairn.dev/diffsnap", NULL, &r->recorder, err);
	if (rc)
		return rc;
	guard = kube_authz_cache_defaults(r->client);
	return kube_authz_cache_new(&guard, &r->guard, err);
}

static int diffsnap_add_metrics(struct running *r, struct cairn_err *err)
{
	const struct net_metric_spec resources = {
		.name = "cairn_diffsnap_resources",
		.help = "DifferentialSnapshots that can be read.",
		.kind = NET_GAUGE,
	};
	int rc = role_metrics_new(&r->metrics, err);

	if (!rc)
		rc = net_metrics_add(r->metrics, &resources, &r->resources, err);
	return rc ? rc : net_metrics_on_render(r->metrics, diffsnap_collect, r, err);
}

static int serve_rest(struct running *r, const struct diffsnap_options *o, struct cairn_err *err)
{
	struct net_tls_options pair = {
		.cert_file = o->tls_cert,
		.key_file = o->tls_key,
		.http1 = true,
	};
	struct diffsnap_server_options server = {
		.client = r->client,
		.guard = r->guard,
		.audience = o->audience,
		.driver = r->driver,
		.table = r->table,
		.controller = r->controller,
		.metrics = r->metrics,
	};
	int rc = role_https_new(&r->https, &pair, r->metrics, err);

	if (!rc)
		rc = diffsnap_server_new(&server, r->https.server, &r->server, err);
	return rc ? rc : role_https_start(&r->https, o->listen, err);
}

static int diffsnap_start(struct running *r, const struct diffsnap_options *o,
			  struct cairn_err *err)
{
	int rc = diffsnap_connect_cluster(r, o, err);

	if (!rc)
		rc = diffsnap_driver_new(o->csi_address, o->timeout_ms, &r->driver, err);
	if (!rc)
		rc = diffsnap_table_new(&r->table, err);
	if (!rc)
		rc = diffsnap_add_metrics(r, err);
	struct diffsnap_controller_options controller = {
		.client = r->client,
		.recorder = r->recorder,
		.driver = r->driver,
		.table = r->table,
		.address = o->advertise,
		.unclaimed_ms = o->unclaimed_ms,
	};

	if (!rc)
		rc = diffsnap_controller_new(&controller, &r->controller, err);
	if (!rc)
		rc = serve_rest(r, o, err);
	return rc ? rc
		  : role_health_start(&r->health, o->http_address, diffsnap_is_ready, r, r->metrics,
				      err);
}

static int diffsnap_run(struct cairn_err *err)
{
	const struct diffsnap_options *options = &diffsnap_options;
	cairn_cleanup(diffsnap_running_done) struct running running = {0};
	sigset_t signals;
	int rc;

	net_signals_block(&signals);
	rc = diffsnap_start(&running, options, err);
	if (rc)
		return rc;
	cairn_log(CAIRN_LOG_INFO, "serving", CAIRN_STR("listen", options->listen),
		  CAIRN_STR("advertise", options->advertise),
		  CAIRN_STR("csi", options->csi_address));
	role_serve_until_told(&signals, running.https.server, options->drain_ms);
	return 0;
}

int main(int argc, char **argv)
{
	return role_server_main(&cmd_diffsnap, diffsnap_run, argc, argv);
}
