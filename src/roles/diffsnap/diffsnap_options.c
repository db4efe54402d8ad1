/* SPDX-License-Identifier: Apache-2.0 */

#include "roles/diffsnap/diffsnap_options.h"

#include "base/err.h"
#include "base/flags.h"
#include "cli/commands.h"
#include "roles/server_flags.h"

struct diffsnap_options diffsnap_options = {
	.csi_address = SERVER_CSI_ADDRESS_DEFAULT,
	.listen = ":8443",
	.timeout_ms = SERVER_CSI_TIMEOUT_DEFAULT_MS,
	.drain_ms = SERVER_DRAIN_DEFAULT_MS,
	.unclaimed_ms = SERVER_UNCLAIMED_DEFAULT_MS,
};

static const struct cairn_flag diffsnap_flags[] = {
	SERVER_FLAG_CSI_ADDRESS(diffsnap_options.csi_address),
	CAIRN_FLAG_VALUE(STRING, "listen", diffsnap_options.listen, "HOST:PORT",
			 "serve changed blocks there over HTTPS (default: :8443)"),
	CAIRN_FLAG_VALUE(STRING, "advertise", diffsnap_options.advertise, "HOST:PORT",
			 "where readers find this server (required)"),
	SERVER_FLAGS_TLS(diffsnap_options.tls_cert, diffsnap_options.tls_key),
	SERVER_FLAG_KUBECONFIG(diffsnap_options.kubeconfig),
	CAIRN_FLAG_VALUE(STRING, "audience", diffsnap_options.audience, "TEXT",
			 "of readers' tokens (default: the API server's)"),
	SERVER_FLAG_HTTP_ENDPOINT(diffsnap_options.http_address),
	SERVER_FLAG_CSI_TIMEOUT(diffsnap_options.timeout_ms),
	SERVER_FLAG_DRAIN_TIME(diffsnap_options.drain_ms, "requests"),
	SERVER_FLAG_UNCLAIMED(diffsnap_options.unclaimed_ms),
	CAIRN_FLAG_END,
};

static int diffsnap_options_check(int argc, char **argv, struct cairn_err *err)
{
	(void)argc;
	(void)argv;
	if (!diffsnap_options.advertise)
		return cmd_usage(err, "--advertise is required");
	if (!diffsnap_options.tls_cert || !diffsnap_options.tls_key)
		return cmd_usage(err, "--tls-cert and --tls-key are required");
	return 0;
}

const struct command cmd_diffsnap = {
	.name = "diffsnap",
	.summary = "serve DifferentialSnapshots of a CSI driver",
	.about = "The controller of DifferentialSnapshot objects, and the HTTPS server that hands\n"
		 "their blocks out in pages. Runs beside a CSI driver that offers\n"
		 "DIFFERENTIAL_SNAPSHOT_SERVICE.\n",
	.flags = diffsnap_flags,
	.check = diffsnap_options_check,
	.program = "diffsnap",
};
