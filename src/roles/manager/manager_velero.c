/* SPDX-License-Identifier: Apache-2.0 */

#include "roles/manager/manager_velero.h"

#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/io.h"
#include "base/log.h"
#include "kube/event.h"
#include "kube/kube_client.h"
#include "kube/lease.h"
#include "kube/object.h"
#include "net/metrics.h"
#include "roles/https.h"
#include "roles/manager/manager_options.h"
#include "velero/controller.h"

/* A Lease of its own: one process may lead here and not for sessions. */
#define LEASE_VELERO  "cairn-velero"
#define IMAGE_DEFAULT "localhost/cairn:" CAIRN_VERSION
#define PATCH_MAX     (1U << 20)

struct velero_running {
	struct kube_client *client;
	struct kube_recorder *recorder;
	struct kube_leader *leader;
	struct velero_controllers *controllers;
	struct net_metrics *metrics;
	json_t *patch; /* of Jobs */
	struct role_health health;
};

static void velero_running_done(struct velero_running *r)
{
	role_health_done(&r->health);
	/* Stops the workers before the lease is released. */
	if (r->controllers)
		velero_controllers_stop(r->controllers);
	kube_leader_free(r->leader);
	velero_controllers_free(r->controllers);
	kube_recorder_free(r->recorder);
	if (r->client)
		kube_client_shutdown(r->client);
	kube_client_free(r->client);
	net_metrics_free(r->metrics);
	json_decref(r->patch);
}

static void on_velero_lead(void *arg, bool leads)
{
	struct velero_running *r = arg;

	cairn_log(CAIRN_LOG_INFO, leads ? "leading" : "not leading");
	velero_controllers_lead(r->controllers, leads);
}

static bool velero_is_ready(void *arg, char *reason, size_t cap)
{
	const struct velero_running *r = arg;

	if (velero_controllers_are_ready(r->controllers))
		return true;
	snprintf(reason, cap, "objects are still being read");
	return false;
}

static int velero_elect(struct velero_running *r, const struct manager_options *o,
			struct cairn_err *err)
{
	const struct kube_leader_options election = {
		.ns = o->lease_ns ? o->lease_ns
		      : o->ns     ? o->ns
				  : o->velero_ns,
		.name = LEASE_VELERO,
		.duration_ms = o->election.duration_ms,
		.renew_ms = o->election.renew_ms,
		.retry_ms = o->election.retry_ms,
		.on_change = on_velero_lead,
		.arg = r,
	};

	if (o->elect)
		return kube_leader_new(r->client, &election, &r->leader, err);
	on_velero_lead(r, true);
	return 0;
}

static int velero_read_patch(struct velero_running *r, const char *path, struct cairn_err *err)
{
	cairn_auto_free char *text = NULL;
	size_t n = 0;
	int rc = path ? cairn_file_read(AT_FDCWD, path, PATCH_MAX, &text, &n, err) : 0;

	if (!rc && path)
		rc = kube_json_parse(text, n, &r->patch, err);
	if (!rc && path && !json_is_object(r->patch))
		rc = cairn_err_set(err, CAIRN_INVALID, "not an object");
	return rc ? cairn_err_wrap(err, "--velero-job-patch") : 0;
}

static const char *velero_image(const struct manager_options *o)
{
	const char *variable = getenv("CAIRN_IMAGE");

	if (o->velero_image)
		return o->velero_image;
	return variable && *variable ? variable : IMAGE_DEFAULT;
}

static int velero_start(struct velero_running *r, const struct manager_options *o,
			struct cairn_err *err)
{
	struct velero_common common = {
		.ns = o->velero_ns,
		.directories = o->velero_directories,
		.period_ms = o->velero_period_ms,
		.image = velero_image(o),
		.job_account = o->velero_account,
		.per_node = o->velero_per_node,
	};
	int rc = velero_read_patch(r, o->velero_patch, err);

	if (!rc)
		rc = role_connect(o->kubeconfig, "cairn-velero", (double)o->qps, &r->client, err);
	common.job_patch = r->patch;
	if (!rc)
		rc = kube_recorder_new(r->client, "cairn.dev/velero", NULL, &r->recorder, err);
	if (!rc)
		rc = role_metrics_new(&r->metrics, err);
	common.client = r->client;
	common.recorder = r->recorder;
	if (!rc)
		rc = velero_controllers_new(&common, &r->controllers, err);
	if (!rc)
		rc = velero_elect(r, o, err);
	return rc ? rc
		  : role_health_start(&r->health, o->http_address, velero_is_ready, r, r->metrics,
				      err);
}

int manager_velero_run(const struct manager_options *options, const sigset_t *signals,
		       struct cairn_err *err)
{
	cairn_cleanup(velero_running_done) struct velero_running running = {0};
	int rc = velero_start(&running, options, err);

	if (rc)
		return rc;
	cairn_log(CAIRN_LOG_INFO, "serving", CAIRN_STR("velero", options->velero_ns));
	role_serve_until_told(signals, NULL, options->drain_ms);
	return 0;
}
