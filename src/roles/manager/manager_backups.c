/* SPDX-License-Identifier: Apache-2.0 */

#include "roles/manager/manager_backups.h"

#include <stdio.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/log.h"
#include "inventory/backup_metrics.h"
#include "kube/kube_client.h"
#include "net/metrics.h"
#include "roles/https.h"
#include "roles/manager/manager_options.h"

struct backups_running {
	struct kube_client *client;
	struct inventory_backup_metrics *records;
	struct net_metrics *metrics;
	struct role_health health;
};

static void backups_running_done(struct backups_running *r)
{
	role_health_done(&r->health);
	if (r->client)
		kube_client_shutdown(r->client);
	inventory_backup_metrics_free(r->records);
	kube_client_free(r->client);
	net_metrics_free(r->metrics);
}

static bool backups_ready(void *arg, char *reason, size_t cap)
{
	const struct backups_running *r = arg;

	if (inventory_backup_metrics_ready(r->records))
		return true;
	snprintf(reason, cap, "claims are still being read");
	return false;
}

static void backups_write(void *arg, struct cairn_buf *buf)
{
	const struct backups_running *r = arg;

	inventory_backup_metrics_write(r->records, buf);
}

int manager_backups_run(const struct manager_options *o, const sigset_t *signals,
			struct cairn_err *err)
{
	cairn_cleanup(backups_running_done) struct backups_running r = {0};
	int rc = role_connect(o->kubeconfig, "cairn-backups", (double)o->qps, &r.client, err);

	if (!rc)
		rc = role_metrics_new(&r.metrics, err);
	if (!rc)
		rc = inventory_backup_metrics_new(r.client, o->ns, &r.records, err);
	if (!rc)
		rc = net_metrics_on_write(r.metrics, backups_write, &r, err);
	if (!rc)
		rc = role_health_start(&r.health, o->http_address, backups_ready, &r, r.metrics,
				       err);
	if (rc)
		return rc;
	cairn_log(CAIRN_LOG_INFO, "serving metrics of backups");
	role_serve_until_told(signals, NULL, o->drain_ms);
	return 0;
}
