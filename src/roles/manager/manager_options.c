/* SPDX-License-Identifier: Apache-2.0 */

#include "roles/manager/manager_options.h"

#include "base/err.h"
#include "base/flags.h"
#include "cli/commands.h"
#include "roles/server_flags.h"

#define QPS_DEFAULT 50

struct manager_options manager_options = {
	.config_map = "cairn-sessions",
	.qps = QPS_DEFAULT,
	.elect = true,
	.sessions = true,
	.drain_ms = SERVER_DRAIN_DEFAULT_MS,
};

static const struct cairn_flag manager_flags[] = {
	SERVER_FLAG_KUBECONFIG(manager_options.kubeconfig),
	{.name = "namespace",
	 .kind = CAIRN_FLAG_STRING,
	 .target = &manager_options.ns,
	 .value_name = "NAME",
	 .help = "of the Lease and the ConfigMap (default: its own)"},
	{.name = "config-map",
	 .kind = CAIRN_FLAG_STRING,
	 .target = &manager_options.config_map,
	 .value_name = "NAME",
	 .help = "with the settings of sessions (default: cairn-sessions)"},
	{.name = "webhook",
	 .kind = CAIRN_FLAG_STRING,
	 .target = &manager_options.listen,
	 .value_name = "HOST:PORT",
	 .help = "serve the validating webhook over HTTPS (default: no)"},
	{.name = "tls-cert",
	 .kind = CAIRN_FLAG_STRING,
	 .target = &manager_options.tls_cert,
	 .value_name = "FILE",
	 .help = "certificate of the webhook, PEM"},
	{.name = "tls-key",
	 .kind = CAIRN_FLAG_STRING,
	 .target = &manager_options.tls_key,
	 .value_name = "FILE",
	 .help = "its key, PEM"},
	{.name = "webhook-secret",
	 .kind = CAIRN_FLAG_STRING,
	 .target = &manager_options.webhook_secret,
	 .value_name = "FILE",
	 .help = "last part of the webhook's path, for API servers only"},
	{.name = "client-ca",
	 .kind = CAIRN_FLAG_STRING,
	 .target = &manager_options.client_ca,
	 .value_name = "FILE",
	 .help = "authority of the certificate that API servers show, PEM"},
	{.name = "client-name",
	 .kind = CAIRN_FLAG_STRING,
	 .target = &manager_options.client_name,
	 .value_name = "NAME",
	 .help = "common name of that certificate (default: any)"},
	{.name = "leader-elect",
	 .kind = CAIRN_FLAG_BOOL,
	 .target = &manager_options.elect,
	 .help = "work only while holding the Lease (default: yes)"},
	{.name = "sessions",
	 .kind = CAIRN_FLAG_BOOL,
	 .target = &manager_options.sessions,
	 .help = "run the controller of sessions (default: yes)"},
	{.name = "kube-api-qps",
	 .kind = CAIRN_FLAG_U64,
	 .target = &manager_options.qps,
	 .value_name = "N",
	 .help = "calls to the API server a second at most (default: 50)"},
	SERVER_FLAG_HTTP_ENDPOINT(manager_options.http_address),
	SERVER_FLAG_DRAIN_TIME(manager_options.drain_ms, "reviews"),
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
	if (manager_options.qps == 0)
		return cmd_usage(err, "--kube-api-qps must be above 0");
	return 0;
}

const struct command cmd_manager = {
	.name = "manager",
	.summary = "run the cluster-wide controllers",
	.about = "Snapshot sessions and their validating webhook, and DriverDiscovery. Any number\n"
		 "may run; one leads, all serve the webhook.\n",
	.flags = manager_flags,
	.check = manager_options_check,
	.program = "manager",
};
