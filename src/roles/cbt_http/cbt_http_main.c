/* SPDX-License-Identifier: Apache-2.0 */

/* `cairn cbt-http`: wiring of driver, HTTPS server, DriverDiscovery and Lease. */

#include "cli/commands.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/log.h"
#include "kube/authz_cache.h"
#include "kube/kube_client.h"
#include "kube/lease.h"
#include "kube/publisher.h"
#include "net/http/http_server.h"
#include "net/metrics.h"
#include "net/signals.h"
#include "net/tls/tls_settings.h"
#include "older/aggapi/aggapi_publish.h"
#include "older/aggapi/cbt_http_server.h"
#include "older/aggapi/csi.h"
#include "older/aggapi/tokens.h"
#include "roles/cbt_http/cbt_http_options.h"
#include "roles/https.h"
#include "roles/role.h"

/* Everything that runs. */
struct running {
	struct kube_client *client;
	struct kube_authz_cache *guard;
	struct kube_leader *leader; /* NULL: no election */
	struct aggapi_csi *csi;
	struct aggapi_sidecar *sidecar;
	struct kube_publisher *publisher;
	struct net_metrics *metrics;
	struct role_https https;
	struct role_health health;
	char driver[AGGAPI_DRIVER_NAME_MAX];
	char audience[AGGAPI_AUDIENCE_MAX];
};

static void cbt_http_running_done(struct running *r)
{
	role_health_done(&r->health);
	role_https_done(&r->https);
	aggapi_sidecar_freep(&r->sidecar);
	kube_publisher_freep(&r->publisher);
	kube_leader_free(r->leader);
	if (r->client)
		kube_client_shutdown(r->client);
	aggapi_csi_freep(&r->csi);
	kube_authz_cache_freep(&r->guard);
	kube_client_freep(&r->client);
	net_metrics_freep(&r->metrics);
}

static bool cbt_http_serves(void *arg)
{
	struct running *r = arg;

	return !r->leader || kube_leader_leads(r->leader);
}

/* Reports a replica that is not the leader as not ready, so that the Service does not route
 * to it. */
static bool cbt_http_is_ready(void *arg, char *reason, size_t cap)
{
	if (cbt_http_serves(arg))
		return true;
	snprintf(reason, cap, "another instance is the leader");
	return false;
}

static int cbt_http_connect_cluster(struct running *r, const struct cbt_http_options *o,
				    struct cairn_err *err)
{
	struct kube_authz_cache_options guard;
	int rc = role_connect(o->kubeconfig, "cairn-cbt-http", 0, &r->client, err);

	if (rc)
		return rc;
	guard = kube_authz_cache_defaults(r->client);
	return kube_authz_cache_new(&guard, &r->guard, err);
}

static int meet_driver(struct running *r, const struct cbt_http_options *o, struct cairn_err *err)
{
	bool supports = false;
	int rc = aggapi_csi_new(o->csi_address, o->timeout_ms, &r->csi, err);

	if (!rc)
		rc = aggapi_csi_identify(r->csi, r->driver, &supports, err);
	if (rc)
		return cairn_err_wrap(err, "driver at %s", o->csi_address);
	if (!supports)
		return cairn_err_set(err, CAIRN_PRECONDITION,
				     "the driver '%s' does not offer LIST_BLOCK_SNAPSHOT_DELTAS",
				     r->driver);
	aggapi_audience(r->driver, r->audience);
	return 0;
}

static int cbt_http_elect(struct running *r, const struct cbt_http_options *o,
			  struct cairn_err *err)
{
	char name[AGGAPI_DRIVER_NAME_MAX + 16];
	struct kube_leader_options options = {
		.ns = o->lease_ns ? o->lease_ns : kube_client_namespace(r->client),
		.name = name,
		.duration_ms = o->election.duration_ms,
		.renew_ms = o->election.renew_ms,
		.retry_ms = o->election.retry_ms,
	};

	snprintf(name, sizeof(name), "cbt-http-%s", r->driver);
	return o->elect ? kube_leader_new(r->client, &options, &r->leader, err) : 0;
}

static int cbt_http_publish(struct running *r, const struct cbt_http_options *o,
			    struct cairn_err *err)
{
	struct aggapi_publish_options options = {.driver = r->driver,
						 .url = o->publish_url,
						 .service = o->publish_service,
						 .ca_file = o->publish_ca};

	if (!o->publish_url && !o->publish_service)
		return 0;
	return aggapi_publish(r->client, &options, &r->publisher, err);
}

static int cbt_http_serve(struct running *r, const struct cbt_http_options *o,
			  struct cairn_err *err)
{
	struct net_tls_options tls = {
		.cert_file = o->tls_cert,
		.key_file = o->tls_key,
		.ca_file = o->client_ca,
		.peer_optional = true,
		.http1 = true,
	};
	struct aggapi_sidecar_options sidecar = {
		.csi = r->csi,
		.guard = r->guard,
		.audience = r->audience,
		.metrics = r->metrics,
		.certificates = o->client_ca != NULL,
		.client_name = o->client_name,
		.serves = cbt_http_serves,
		.arg = r,
	};
	int rc = role_https_new(&r->https, &tls, r->metrics, err);

	if (!rc)
		rc = aggapi_sidecar_new(&sidecar, r->https.server, &r->sidecar, err);
	return rc ? rc : role_https_start(&r->https, o->listen, err);
}

static int cbt_http_start(struct running *r, const struct cbt_http_options *o,
			  struct cairn_err *err)
{
	int rc = role_metrics_new(&r->metrics, err);

	if (!rc)
		rc = cbt_http_connect_cluster(r, o, err);
	if (!rc)
		rc = meet_driver(r, o, err);
	if (!rc)
		rc = cbt_http_elect(r, o, err);
	if (!rc)
		rc = cbt_http_serve(r, o, err);
	if (!rc)
		rc = role_health_start(&r->health, o->http_address, cbt_http_is_ready, r,
				       r->metrics, err);
	return rc ? rc : cbt_http_publish(r, o, err);
}

static int cbt_http_run(struct cairn_err *err)
{
	const struct cbt_http_options *options = &cbt_http_options;
	cairn_cleanup(cbt_http_running_done) struct running running = {0};
	sigset_t signals;
	int rc;

	net_signals_block(&signals);
	rc = cbt_http_start(&running, options, err);
	if (rc)
		return rc;
	cairn_log(CAIRN_LOG_INFO, "serving", CAIRN_STR("listen", options->listen),
		  CAIRN_STR("driver", running.driver), CAIRN_STR("csi", options->csi_address));
	role_serve_until_told(&signals, running.https.server, options->drain_ms);
	return 0;
}

int main(int argc, char **argv)
{
	return role_server_main(&cmd_cbt_http, cbt_http_run, argc, argv);
}
