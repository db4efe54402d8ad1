/* SPDX-License-Identifier: Apache-2.0 */

#include "roles/manager/manager_options.h"

#include "base/err.h"
#include "base/flags.h"
#include "cli/commands.h"
#include "roles/server_flags.h"

#define QPS_DEFAULT              50
#define VELERO_PERIOD_DEFAULT_MS 300000

struct manager_options manager_options = {
	.config_map = "cairn-sessions",
	.qps = QPS_DEFAULT,
	.elect = true,
	.sessions = true,
	.velero_ns = "velero",
	.velero_period_ms = VELERO_PERIOD_DEFAULT_MS,
	.velero_account = "cairn-data-mover",
	.velero_per_node = 1,
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
	CAIRN_FLAG_SWITCH("leader-elect", manager_options.elect,
			  "work only while holding the Lease (default: yes)"),
	CAIRN_FLAG_SWITCH("sessions", manager_options.sessions,
			  "run the controller of sessions (default: yes)"),
	CAIRN_FLAG_SWITCH("velero", manager_options.velero,
			  "run the controllers beside a Velero server, and no others"),
	CAIRN_FLAG_VALUE(STRING, "velero-namespace", manager_options.velero_ns, "NAME",
			 "of the Velero server (default: velero)"),
	CAIRN_FLAG_VALUE(DURATION, "velero-period", manager_options.velero_period_ms, "TIME",
			 "look at every backup again so often (default: 5m)"),
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
	if (manager_options.qps == 0)
		return cmd_usage(err, "--kube-api-qps must be above 0");
	return 0;
}

const struct command cmd_manager = {
	.name = "manager",
	.summary = "run the cluster-wide controllers",
	.about = "Snapshot sessions and their validating webhook, DriverDiscovery, and\n"
		 "DifferentialSnapshots that no controller answers; with --velero what a Velero\n"
		 "server needs beside it instead. Any number may run; one leads, all serve the\n"
		 "webhook.\n",
	.flags = manager_flags,
	.check = manager_options_check,
	.program = "manager",
};
