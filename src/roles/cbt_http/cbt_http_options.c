/* SPDX-License-Identifier: Apache-2.0 */

#include "roles/cbt_http/cbt_http_options.h"

#include "base/err.h"
#include "base/flags.h"
#include "cli/commands.h"
#include "roles/server_flags.h"

struct cbt_http_options cbt_http_options = {
	.csi_address = SERVER_CSI_ADDRESS_DEFAULT,
	.listen = ":8443",
	.timeout_ms = SERVER_CSI_TIMEOUT_DEFAULT_MS,
	.drain_ms = SERVER_DRAIN_DEFAULT_MS,
};

static const struct cairn_flag cbt_http_flags[] = {
	SERVER_FLAG_CSI_ADDRESS(cbt_http_options.csi_address),
	CAIRN_FLAG_VALUE(STRING, "listen", cbt_http_options.listen, "HOST:PORT",
			 "serve there over HTTPS (default: :8443)"),
	SERVER_FLAGS_TLS(cbt_http_options.tls_cert, cbt_http_options.tls_key),
	CAIRN_FLAG_VALUE(STRING, "client-ca", cbt_http_options.client_ca, "FILE",
			 "take certificates of this authority instead of tokens, PEM"),
	CAIRN_FLAG_VALUE(STRING, "client-name", cbt_http_options.client_name, "NAME",
			 "common name such a certificate must have (default: any)"),
	SERVER_FLAG_KUBECONFIG(cbt_http_options.kubeconfig),
	CAIRN_FLAG_VALUE(STRING, "publish-service", cbt_http_options.publish_service,
			 "NS/NAME[:PORT]", "publish this Service in a DriverDiscovery"),
	CAIRN_FLAG_VALUE(STRING, "publish-url", cbt_http_options.publish_url, "https://...",
			 "publish this address instead"),
	CAIRN_FLAG_VALUE(STRING, "publish-ca", cbt_http_options.publish_ca, "FILE",
			 "with the authority of our certificate, PEM"),
	SERVER_FLAGS_ELECTION(cbt_http_options.elect, cbt_http_options.election,
			      "serve only while holding the Lease cbt-http-DRIVER"),
	CAIRN_FLAG_VALUE(STRING, "leader-election-namespace", cbt_http_options.lease_ns, "NS",
			 "of that Lease (default: our own)"),
	SERVER_FLAG_HTTP_ENDPOINT(cbt_http_options.http_address),
	SERVER_FLAG_CSI_TIMEOUT(cbt_http_options.timeout_ms),
	SERVER_FLAG_DRAIN_TIME(cbt_http_options.drain_ms, "requests"),
	CAIRN_FLAG_END,
};

static int cbt_http_options_check(int argc, char **argv, struct cairn_err *err)
{
	(void)argc;
	(void)argv;
	if (!cbt_http_options.tls_cert || !cbt_http_options.tls_key)
		return cmd_usage(err, "--tls-cert and --tls-key are required");
	if (cbt_http_options.client_name && !cbt_http_options.client_ca)
		return cmd_usage(err, "--client-name needs --client-ca");
	if (cbt_http_options.publish_service && cbt_http_options.publish_url)
		return cmd_usage(err, "--publish-service and --publish-url exclude each other");
	return 0;
}

const struct command cmd_cbt_http = {
	.name = "cbt-http",
	.summary = "serve a CSI driver's deltas to the aggregated API server",
	.about = "Runs beside a CSI driver that offers LIST_BLOCK_SNAPSHOT_DELTAS and turns HTTPS\n"
		 "and JSON into calls of the driver. Publishes itself in a DriverDiscovery.\n",
	.flags = cbt_http_flags,
	.check = cbt_http_options_check,
	.go_flags = true,
	.program = "cbt-http",
};
