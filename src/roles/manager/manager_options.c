/* SPDX-License-Identifier: Apache-2.0 */

#include "roles/manager/manager_options.h"

#include "base/err.h"
#include "base/flags.h"
#include "cli/commands.h"
#include "roles/server_flags.h"

#define QPS_DEFAULT              50
#define VELERO_PERIOD_DEFAULT_MS 300000

#define HOUR_MS                        3600000ULL
#define CERTIFICATE_LIFE_DEFAULT_MS    (90 * 24 * HOUR_MS)
#define CERTIFICATE_OVERLAP_DEFAULT_MS HOUR_MS
/* Pods see a changed Secret after a minute or two; for tests less is allowed. */
#define CERTIFICATE_LIFE_MIN_MS 10000ULL
#define CERTIFICATE_LIFE_MAX_MS (10 * 365 * 24 * HOUR_MS)

struct manager_options manager_options = {
	.config_map = "cairn-sessions",
	.qps = QPS_DEFAULT,
	.elect = true,
	.sessions = true,
	.velero_ns = "velero",
	.velero_period_ms = VELERO_PERIOD_DEFAULT_MS,
	.velero_account = "cairn-data-mover",
	.velero_per_node = 1,
	.certificate_life_ms = CERTIFICATE_LIFE_DEFAULT_MS,
	.certificate_overlap_ms = CERTIFICATE_OVERLAP_DEFAULT_MS,
	.release = "cairn",
	.driver = "cairn.csi.dev",
	.drain_ms = SERVER_DRAIN_DEFAULT_MS,
	.unclaimed_ms = SERVER_UNCLAIMED_DEFAULT_MS,
};

static const struct cairn_flag manager_flags[] = {
	SERVER_FLAG_KUBECONFIG(manager_options.kubeconfig),
	CAIRN_FLAG_VALUE(STRING, "namespace", manager_options.ns, "NAME",
			 "of the Lease and the ConfigMap (default: its own)"),
	CAIRN_FLAG_VALUE(STRING, "config-map", manager_options.config_map, "NAME",
			 "with the settings of sessions (default: cairn-sessions)"),
	CAIRN_FLAG_VALUE(STRING, "webhook", manager_options.listen, "HOST:PORT",
			 "serve the validating webhook over HTTPS (default: no)"),
	CAIRN_FLAG_VALUE(STRING, "tls-cert", manager_options.tls_cert, "FILE",
			 "certificate of the webhook, PEM"),
	CAIRN_FLAG_VALUE(STRING, "tls-key", manager_options.tls_key, "FILE", "its key, PEM"),
	CAIRN_FLAG_VALUE(STRING, "webhook-secret", manager_options.webhook_secret, "FILE",
			 "last part of the webhook's path, for API servers only"),
	CAIRN_FLAG_VALUE(STRING, "client-ca", manager_options.client_ca, "FILE",
			 "authority of the certificate that API servers show, PEM"),
	CAIRN_FLAG_VALUE(STRING, "client-name", manager_options.client_name, "NAME",
			 "common name of that certificate (default: any)"),
	SERVER_FLAGS_ELECTION(manager_options.elect, manager_options.election,
			      "work only while holding the Lease (default: yes)"),
	CAIRN_FLAG_VALUE(STRING, "leader-election-namespace", manager_options.lease_ns, "NS",
			 "of that Lease (default: that of --namespace)"),
	{.name = "leader-elect",
	 .kind = CAIRN_FLAG_BOOL,
	 .target = &manager_options.elect,
	 .help = "the same as --leader-election",
	 .hidden = true},
	CAIRN_FLAG_SWITCH("sessions", manager_options.sessions,
			  "run the controller of sessions (default: yes)"),
	CAIRN_FLAG_SWITCH("velero", manager_options.velero,
			  "run only the controllers for a Velero server"),
	CAIRN_FLAG_VALUE(STRING, "velero-namespace", manager_options.velero_ns, "NAME",
			 "of the Velero server (default: velero)"),
	CAIRN_FLAG_VALUE(DURATION, "velero-period", manager_options.velero_period_ms, "TIME",
			 "interval between checks of all backups (default: 5m)"),
	CAIRN_FLAG_VALUE(STRING, "velero-image", manager_options.velero_image, "IMAGE",
			 "of the Jobs (default: $CAIRN_IMAGE, or this version's)"),
	CAIRN_FLAG_VALUE(STRING, "velero-job-account", manager_options.velero_account, "NAME",
			 "ServiceAccount of these Jobs (default: cairn-data-mover)"),
	CAIRN_FLAG_VALUE(STRING, "velero-job-patch", manager_options.velero_patch, "FILE",
			 "JSON merge patch of these Jobs"),
	CAIRN_FLAG_VALUE(U64, "velero-per-node", manager_options.velero_per_node, "N",
			 "volumes moved at a time on a node, 1 to 9 (default: 1)"),
	CAIRN_FLAG_VALUE(STRING, "velero-directories", manager_options.velero_directories, "DIR",
			 "buckets of provider cairn.csi.dev/directory, for tests"),
	CAIRN_FLAG_VALUE(STRING, "certificates", manager_options.certificates, "GENERATIONS",
			 "only keep the certificates of these services"),
	CAIRN_FLAG_SWITCH("route", manager_options.route,
			  "with --certificates: also those of sidecars with --route"),
	CAIRN_FLAG_VALUE(DURATION, "certificate-life", manager_options.certificate_life_ms, "TIME",
			 "renewed after two thirds of it (default: 90d)"),
	CAIRN_FLAG_VALUE(DURATION, "certificate-overlap", manager_options.certificate_overlap_ms,
			 "TIME", "from a new certificate to its use (default: 1h)"),
	CAIRN_FLAG_SWITCH("backups", manager_options.backups,
			  "only serve metrics of the backups of claims"),
	CAIRN_FLAG_VALUE(STRING, "release", manager_options.release, "NAME",
			 "first part of names, the Lease's too (default: cairn)"),
	CAIRN_FLAG_VALUE(STRING, "driver-name", manager_options.driver, "NAME",
			 "of the SnapshotMetadataService (default: cairn.csi.dev)"),
	CAIRN_FLAG_VALUE(U64, "kube-api-qps", manager_options.qps, "N",
			 "calls to the API server a second at most (default: 50)"),
	SERVER_FLAG_HTTP_ENDPOINT(manager_options.http_address),
	SERVER_FLAG_DRAIN_TIME(manager_options.drain_ms, "reviews"),
	SERVER_FLAG_UNCLAIMED(manager_options.unclaimed_ms),
	CAIRN_FLAG_END,
};

static int manager_options_check(int argc, char **argv, struct cairn_err *err)
{
	(void)argc;
	(void)argv;
	if (manager_options.listen && (!manager_options.tls_cert || !manager_options.tls_key))
		return cmd_usage(err, "--webhook needs --tls-cert and --tls-key");
	if (manager_options.listen && !manager_options.webhook_secret && !manager_options.client_ca)
		return cmd_usage(err,
				 "--webhook needs --webhook-secret or --client-ca: reviews are "
				 "for API servers only");
	if (manager_options.client_name && !manager_options.client_ca)
		return cmd_usage(err, "--client-name needs --client-ca");
	if (manager_options.listen && !manager_options.sessions)
		return cmd_usage(err, "--webhook is for sessions, which --no-sessions leaves out");
	if (manager_options.velero && manager_options.listen)
		return cmd_usage(err, "--webhook is for sessions, which --velero leaves out");
	if (manager_options.velero_per_node < 1 || manager_options.velero_per_node > 9)
		return cmd_usage(err, "--velero-per-node is 1 to 9");
	if (manager_options.velero_period_ms == 0)
		return cmd_usage(err, "--velero-period must be above 0");
	if (manager_options.certificates && (manager_options.velero || manager_options.listen))
		return cmd_usage(err, "--certificates excludes --velero and --webhook");
	if (manager_options.backups &&
	    (manager_options.certificates || manager_options.velero || manager_options.listen))
		return cmd_usage(err, "--backups excludes --certificates, --velero and --webhook");
	if (manager_options.backups && !manager_options.http_address)
		return cmd_usage(err, "--backups needs --http-endpoint, where the metrics are");
	if (manager_options.route && !manager_options.certificates)
		return cmd_usage(err, "--route needs --certificates");
	if (manager_options.certificate_life_ms < CERTIFICATE_LIFE_MIN_MS ||
	    manager_options.certificate_life_ms > CERTIFICATE_LIFE_MAX_MS)
		return cmd_usage(err, "--certificate-life is 10s to 3650d");
	if (manager_options.certificate_overlap_ms >= manager_options.certificate_life_ms / 4)
		return cmd_usage(err, "--certificate-overlap must be below a quarter of "
				      "--certificate-life");
	if (manager_options.qps == 0)
		return cmd_usage(err, "--kube-api-qps must be above 0");
	return 0;
}

const struct command cmd_manager = {
	.name = "manager",
	.summary = "run the cluster-wide controllers",
	.about = "Controls snapshot sessions and their validating webhook, DriverDiscovery, and\n"
		 "DifferentialSnapshots that no controller answers. With --velero it runs the\n"
		 "controllers for a Velero server instead, with --certificates those of the\n"
		 "services' certificates, with --backups the metrics of the backups of claims.\n"
		 "Any number may run; one leads, all serve the webhook.\n",
	.flags = manager_flags,
	.check = manager_options_check,
	.go_flags = true, /* also Go's form, as for other controllers: --leader-election=false */
	.program = "manager",
};
