/* SPDX-License-Identifier: Apache-2.0 */

/* The program of `cairn manager`: wiring of controllers, election and webhook. */

#include "cli/commands.h"

#include <stdio.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/log.h"
#include "kube/authz_cache.h"
#include "kube/event.h"
#include "kube/kube_client.h"
#include "kube/lease.h"
#include "net/metrics.h"
#include "net/signals.h"
#include "net/tls/tls_settings.h"
#include "older/diffsnap/unclaimed.h"
#include "older/session/discovery.h"
#include "older/session/session_controller.h"
#include "older/session/webhook.h"
#include "roles/https.h"
#include "roles/manager/manager_backups.h"
#include "roles/manager/manager_certificates.h"
#include "roles/manager/manager_options.h"
#include "roles/manager/manager_velero.h"
#include "roles/role.h"

#define LEASE_MAX 256

/* Values that are counted elsewhere and copied at each scrape. */
enum shown {
	SHOWN_READY,
	SHOWN_FAILED,
	SHOWN_EXPIRED,
	SHOWN_ERRORS,
	N_SHOWN,
};

/* Everything that runs. */
struct running {
	struct kube_client *client;
	struct kube_recorder *recorder;
	struct kube_leader *leader;
	struct session_controller *sessions;
	struct discovery_controller *discovery;
	struct diffsnap_unclaimed *unclaimed; /* NULL: not wanted */
	struct kube_authz_cache *guard;       /* for the webhook */
	struct session_webhook *webhook;
	struct net_metrics *metrics;
	struct net_metric *counts[N_SHOWN];
	struct net_metric *waiting;
	struct net_metric *leads;
	struct role_https https; /* for the webhook */
	struct role_health health;
};

static void manager_running_done(struct running *r)
{
	role_health_done(&r->health);
	role_https_done(&r->https);
	session_webhook_free(r->webhook);
	kube_authz_cache_free(r->guard);
	/* Stops the workers before the lease is released. The controllers are freed after
	 * the election, which reports to them that it no longer leads. */
	if (r->sessions)
		session_controller_stop(r->sessions);
	if (r->discovery)
		session_discovery_controller_stop(r->discovery);
	if (r->unclaimed)
		diffsnap_unclaimed_stop(r->unclaimed);
	kube_leader_free(r->leader);
	session_controller_free(r->sessions);
	session_discovery_controller_free(r->discovery);
	diffsnap_unclaimed_free(r->unclaimed);
	kube_recorder_free(r->recorder);
	if (r->client)
		kube_client_shutdown(r->client);
	kube_client_free(r->client);
	net_metrics_free(r->metrics);
}

static void on_lead(void *arg, bool leads)
{
	struct running *r = arg;

	cairn_log(CAIRN_LOG_INFO, leads ? "leading" : "not leading");
	if (r->sessions)
		session_controller_lead(r->sessions, leads);
	session_discovery_controller_lead(r->discovery, leads);
	if (r->unclaimed)
		diffsnap_unclaimed_lead(r->unclaimed, leads);
}

static bool manager_is_ready(void *arg, char *reason, size_t cap)
{
	struct running *r = arg;

	/* With session controllers, readiness does not depend on discovery: the
	 * DriverDiscovery CRD need not be installed. */
	if (r->sessions ? session_controller_is_ready(r->sessions)
			: session_discovery_controller_is_ready(r->discovery))
		return true;
	snprintf(reason, cap, "objects are still being read");
	return false;
}

static void manager_collect(void *arg)
{
	struct running *r = arg;
	struct session_controller_stats stats = {0};

	if (r->sessions)
		session_controller_stats(r->sessions, &stats);
	net_metric_set(r->counts[SHOWN_READY], 0, (double)stats.ready);
	net_metric_set(r->counts[SHOWN_FAILED], 0, (double)stats.failed);
	net_metric_set(r->counts[SHOWN_EXPIRED], 0, (double)stats.expired);
	net_metric_set(r->counts[SHOWN_ERRORS], 0, (double)stats.errors);
	net_metric_set(r->waiting, 0, (double)stats.waiting);
	net_metric_set(r->leads, 0, !r->leader || kube_leader_leads(r->leader) ? 1 : 0);
}

static int manager_add_metrics(struct running *r, struct cairn_err *err)
{
	static const struct net_metric_spec counts[N_SHOWN] = {
		{.name = "cairn_session_ready_total",
		 .help = "Sessions that became ready.",
		 .kind = NET_COUNTER_READ},
		{.name = "cairn_session_failed_total",
		 .help = "Session requests that failed.",
		 .kind = NET_COUNTER_READ},
		{.name = "cairn_session_deleted_total",
		 .help = "Requests and session data deleted because their time was over.",
		 .kind = NET_COUNTER_READ},
		{.name = "cairn_session_errors_total",
		 .help = "Tries that could not be finished.",
		 .kind = NET_COUNTER_READ},
	};
	static const struct net_metric_spec waiting = {.name = "cairn_session_queue_length",
						       .help = "Objects that wait for a worker.",
						       .kind = NET_GAUGE};
	static const struct net_metric_spec leads = {.name = "cairn_manager_leads",
						     .help = "1 while this process leads.",
						     .kind = NET_GAUGE};
	int rc = role_metrics_new(&r->metrics, err);

	for (int i = 0; i < N_SHOWN && !rc; i++)
		rc = net_metrics_add(r->metrics, &counts[i], &r->counts[i], err);
	if (!rc)
		rc = net_metrics_add(r->metrics, &waiting, &r->waiting, err);
	if (!rc)
		rc = net_metrics_add(r->metrics, &leads, &r->leads, err);
	return rc ? rc : net_metrics_on_render(r->metrics, manager_collect, r, err);
}

static int manager_connect_cluster(struct running *r, const struct manager_options *o,
				   struct cairn_err *err)
{
	int rc = role_connect(o->kubeconfig, "cairn-manager", (double)o->qps, &r->client, err);

	return rc ? rc : kube_recorder_new(r->client, "cairn.dev/manager", NULL, &r->recorder, err);
}

static int run_controllers(struct running *r, const struct manager_options *o,
			   struct cairn_err *err)
{
	const char *ns = o->ns ? o->ns : kube_client_namespace(r->client);
	struct session_controller_options sessions = {
		.client = r->client,
		.recorder = r->recorder,
		.ns = ns,
		.config_map = o->config_map,
	};
	const struct diffsnap_unclaimed_options unclaimed = {
		.client = r->client,
		.recorder = r->recorder,
		.after_ms = o->unclaimed_ms,
	};
	char lease[LEASE_MAX];
	struct kube_leader_options election = {
		.ns = o->lease_ns ? o->lease_ns : ns,
		.duration_ms = o->election.duration_ms,
		.renew_ms = o->election.renew_ms,
		.retry_ms = o->election.retry_ms,
		.name = lease,
		.on_change = on_lead,
		.arg = r,
	};
	int rc = o->sessions ? session_controller_new(&sessions, &r->sessions, err) : 0;

	if (!rc)
		rc = session_discovery_controller_new(r->client, r->recorder, &r->discovery, err);
	if (!rc && o->sessions && o->unclaimed_ms != UINT64_MAX)
		rc = diffsnap_unclaimed_new(&unclaimed, &r->unclaimed, err);
	if (rc)
		return rc;
	/* Discovery-only replicas use their own Lease, so they never block session controllers. */
	snprintf(lease, sizeof(lease), "%s-%s", o->release, o->sessions ? "manager" : "discovery");
	if (o->elect)
		return kube_leader_new(r->client, &election, &r->leader, err);
	on_lead(r, true);
	return 0;
}

static int serve_webhook(struct running *r, const struct manager_options *o, struct cairn_err *err)
{
	struct net_tls_options pair = {
		.cert_file = o->tls_cert,
		.key_file = o->tls_key,
		.ca_file = o->client_ca,
		.peer_optional = true,
		.http1 = true,
	};
	struct kube_authz_cache_options guard = kube_authz_cache_defaults(r->client);
	struct session_webhook_options webhook = {
		.metrics = r->metrics,
		.secret_file = o->webhook_secret,
		.certificates = o->client_ca != NULL,
		.client_name = o->client_name,
	};
	int rc;

	if (!o->listen)
		return 0;
	rc = kube_authz_cache_new(&guard, &r->guard, err);
	webhook.guard = r->guard;
	if (!rc)
		rc = role_https_new(&r->https, &pair, r->metrics, err);
	if (!rc)
		rc = session_webhook_new(&webhook, r->https.server, &r->webhook, err);
	return rc ? rc : role_https_start(&r->https, o->listen, err);
}

static int manager_start(struct running *r, const struct manager_options *o, struct cairn_err *err)
{
	int rc = manager_connect_cluster(r, o, err);

	if (!rc)
		rc = manager_add_metrics(r, err);
	if (!rc)
		rc = run_controllers(r, o, err);
	if (!rc)
		rc = serve_webhook(r, o, err);
	return rc ? rc
		  : role_health_start(&r->health, o->http_address, manager_is_ready, r, r->metrics,
				      err);
}

static int manager_run(struct cairn_err *err)
{
	const struct manager_options *options = &manager_options;
	cairn_cleanup(manager_running_done) struct running running = {0};
	sigset_t signals;
	int rc;

	net_signals_block(&signals);
	if (options->velero)
		return manager_velero_run(options, &signals, err);
	if (options->certificates)
		return manager_certificates_run(options, &signals, err);
	if (options->backups)
		return manager_backups_run(options, &signals, err);
	rc = manager_start(&running, options, err);
	if (rc)
		return rc;
	cairn_log(CAIRN_LOG_INFO, "serving", CAIRN_STR("webhook", options->listen));
	role_serve_until_told(&signals, running.https.server, options->drain_ms);
	return 0;
}

int main(int argc, char **argv)
{
	return role_server_main(&cmd_manager, manager_run, argc, argv);
}
