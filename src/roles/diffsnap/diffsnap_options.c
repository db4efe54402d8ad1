/* SPDX-License-Identifier: Apache-2.0 */

#include "roles/diffsnap/diffsnap_options.h"

#include "base/err.h"
#include "base/flags.h"
#include "cli/commands.h"
#include "cli/role.h"
#include "roles/server_flags.h"

static struct diffsnap_options options = {
	.csi_address = SERVER_CSI_ADDRESS_DEFAULT,
	.listen = ":8443",
	.timeout_ms = SERVER_CSI_TIMEOUT_DEFAULT_MS,
	.drain_ms = SERVER_DRAIN_DEFAULT_MS,
};

static const struct cairn_flag flags[] = {
	SERVER_FLAG_CSI_ADDRESS(options.csi_address),
	{.name = "listen",
	 .kind = CAIRN_FLAG_STRING,
	 .target = &options.listen,
	 .value_name = "HOST:PORT",
	 .help = "serve changed blocks there over HTTPS (default: :8443)"},
	{.name = "advertise",
	 .kind = CAIRN_FLAG_STRING,
	 .target = &options.advertise,
	 .value_name = "HOST:PORT",
	 .help = "where readers find this server (required)"},
	SERVER_FLAGS_TLS(options.tls_cert, options.tls_key),
	SERVER_FLAG_KUBECONFIG(options.kubeconfig),
	{.name = "audience",
	 .kind = CAIRN_FLAG_STRING,
	 .target = &options.audience,
	 .value_name = "TEXT",
	 .help = "of readers' tokens (default: the API server's)"},
	SERVER_FLAG_HTTP_ENDPOINT(options.http_address),
	SERVER_FLAG_CSI_TIMEOUT(options.timeout_ms),
	SERVER_FLAG_DRAIN_TIME(options.drain_ms, "requests"),
	CAIRN_FLAG_END,
};

static int run(int argc, char **argv, struct cairn_err *err)
{
	role_diffsnap_run *serve;
	int rc;

	(void)argc;
	(void)argv;
	if (!options.advertise)
		return cmd_usage(err, "--advertise is required");
	if (!options.tls_cert || !options.tls_key)
		return cmd_usage(err, "--tls-cert and --tls-key are required");
	rc = role_load("diffsnap", "cairn_role_diffsnap", &serve, err);
	return rc ? rc : serve(&options, err);
}

const struct command cmd_diffsnap = {
	.name = "diffsnap",
	.summary = "serve DifferentialSnapshots of a CSI driver",
	.about = "The controller of DifferentialSnapshot objects, and the HTTPS server that hands\n"
		 "their blocks out in pages. Runs beside a CSI driver that offers\n"
		 "DIFFERENTIAL_SNAPSHOT_SERVICE.\n",
	.flags = flags,
	.run = run,
};
