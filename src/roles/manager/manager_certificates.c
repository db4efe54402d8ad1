/* SPDX-License-Identifier: Apache-2.0 */

#include "roles/manager/manager_certificates.h"

#include <stdio.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/log.h"
#include "certificates/certificate_keeper.h"
#include "certificates/route_signer.h"
#include "kube/kube_client.h"
#include "kube/lease.h"
#include "net/metrics.h"
#include "roles/https.h"
#include "roles/manager/manager_options.h"

#define LEASE_MAX 256

struct certificates_running {
	struct kube_client *client;
	struct kube_leader *leader;
	struct certificates_keeper *keeper;
	struct certificates_route_signer *signer; /* NULL: not asked for */
	struct net_metrics *metrics;
	struct net_metric *issued, *errors, *expiry;
	struct role_health health;
};

static void certificates_running_done(struct certificates_running *r)
{
	role_health_done(&r->health);
	/* Stops the thread before the lease is released. */
	if (r->keeper)
		certificates_keeper_stop(r->keeper);
	if (r->signer)
		certificates_route_signer_stop(r->signer);
	kube_leader_free(r->leader);
	certificates_route_signer_free(r->signer);
	certificates_keeper_free(r->keeper);
	if (r->client)
		kube_client_shutdown(r->client);
	kube_client_free(r->client);
	net_metrics_free(r->metrics);
}

static void on_certificates_lead(void *arg, bool leads)
{
	struct certificates_running *r = arg;

	cairn_log(CAIRN_LOG_INFO, leads ? "leading" : "not leading");
	certificates_keeper_lead(r->keeper, leads);
	if (r->signer)
		certificates_route_signer_lead(r->signer, leads);
}

static void certificates_collect(void *arg)
{
	const struct certificates_running *r = arg;
	struct certificates_stats stats;

	certificates_keeper_stats(r->keeper, &stats);
	net_metric_set(r->issued, 0, (double)stats.issued);
	net_metric_set(r->errors, 0, (double)stats.errors);
	net_metric_set(r->expiry, 0, (double)stats.expiry_s);
}

static int certificates_add_metrics(struct certificates_running *r, struct cairn_err *err)
{
	static const struct net_metric_spec issued = {.name = "cairn_certificates_issued_total",
						      .help = "Certificates that were created.",
						      .kind = NET_COUNTER_READ};
	static const struct net_metric_spec errors = {
		.name = "cairn_certificates_errors_total",
		.help = "Attempts to keep a certificate that failed.",
		.kind = NET_COUNTER_READ};
	static const struct net_metric_spec expiry = {
		.name = "cairn_certificates_expiry_timestamp_seconds",
		.help = "When the first certificate in use expires, now if one cannot be used; 0 "
			"on a replica that does not lead.",
		.kind = NET_GAUGE};
	int rc = role_metrics_new(&r->metrics, err);

	if (!rc)
		rc = net_metrics_add(r->metrics, &issued, &r->issued, err);
	if (!rc)
		rc = net_metrics_add(r->metrics, &errors, &r->errors, err);
	if (!rc)
		rc = net_metrics_add(r->metrics, &expiry, &r->expiry, err);
	return rc ? rc : net_metrics_on_render(r->metrics, certificates_collect, r, err);
}

static int certificates_elect(struct certificates_running *r, const struct manager_options *o,
			      const char *ns, struct cairn_err *err)
{
	char lease[LEASE_MAX];
	const struct kube_leader_options election = {
		.duration_ms = o->election.duration_ms,
		.renew_ms = o->election.renew_ms,
		.retry_ms = o->election.retry_ms,
		.ns = o->lease_ns ? o->lease_ns : ns,
		.name = lease,
		.on_change = on_certificates_lead,
		.arg = r,
	};

	/* A Lease of its own, as its account is. */
	snprintf(lease, sizeof(lease), "%s-certificates", o->release);
	if (o->elect)
		return kube_leader_new(r->client, &election, &r->leader, err);
	on_certificates_lead(r, true);
	return 0;
}

static int certificates_start(struct certificates_running *r, const struct manager_options *o,
			      struct cairn_err *err)
{
	struct certificates_options options = {
		.release = o->release,
		.driver = o->driver,
		.life_ms = o->certificate_life_ms,
		.overlap_ms = o->certificate_overlap_ms,
	};
	int rc = certificates_generations_parse(o->certificates, &options.generations, err);

	if (!rc)
		rc = role_connect(o->kubeconfig, "cairn-certificates", (double)o->qps, &r->client,
				  err);
	if (rc)
		return rc;
	options.client = r->client;
	options.ns = o->ns ? o->ns : kube_client_namespace(r->client);
	rc = certificates_keeper_new(&options, &r->keeper, err);
	if (!rc && o->route)
		rc = certificates_route_signer_new(&options, &r->signer, err);
	if (!rc)
		rc = certificates_add_metrics(r, err);
	if (!rc)
		rc = certificates_elect(r, o, options.ns, err);
	return rc ? rc
		  : role_health_start(&r->health, o->http_address, NULL, NULL, r->metrics, err);
}

int manager_certificates_run(const struct manager_options *options, const sigset_t *signals,
			     struct cairn_err *err)
{
	cairn_cleanup(certificates_running_done) struct certificates_running running = {0};
	int rc = certificates_start(&running, options, err);

	if (rc)
		return rc;
	cairn_log(CAIRN_LOG_INFO, "keeping", CAIRN_STR("certificates", options->certificates));
	role_serve_until_told(signals, NULL, options->drain_ms);
	return 0;
}
