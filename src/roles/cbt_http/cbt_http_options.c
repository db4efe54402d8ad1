/* SPDX-License-Identifier: Apache-2.0 */

#include "roles/cbt_http/cbt_http_options.h"

#include "base/err.h"
#include "base/flags.h"
#include "cli/commands.h"
#include "cli/role.h"
#include "roles/server_flags.h"

static struct cbt_http_options options = {
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
	 .help = "serve there over HTTPS (default: :8443)"},
	SERVER_FLAGS_TLS(options.tls_cert, options.tls_key),
	{.name = "client-ca",
	 .kind = CAIRN_FLAG_STRING,
	 .target = &options.client_ca,
	 .value_name = "FILE",
	 .help = "take certificates of this authority instead of tokens, PEM"},
	{.name = "client-name",
	 .kind = CAIRN_FLAG_STRING,
	 .target = &options.client_name,
	 .value_name = "NAME",
	 .help = "common name such a certificate must have (default: any)"},
	SERVER_FLAG_KUBECONFIG(options.kubeconfig),
	{.name = "publish-service",
	 .kind = CAIRN_FLAG_STRING,
	 .target = &options.publish_service,
	 .value_name = "NS/NAME[:PORT]",
	 .help = "make this Service known by a DriverDiscovery"},
	{.name = "publish-url",
	 .kind = CAIRN_FLAG_STRING,
	 .target = &options.publish_url,
	 .value_name = "https://...",
	 .help = "make this address known instead"},
	{.name = "publish-ca",
	 .kind = CAIRN_FLAG_STRING,
	 .target = &options.publish_ca,
	 .value_name = "FILE",
	 .help = "with the authority of our certificate, PEM"},
	{.name = "leader-election",
	 .kind = CAIRN_FLAG_BOOL,
	 .target = &options.elect,
	 .help = "serve only while holding the Lease cbt-http-DRIVER"},
	{.name = "leader-election-namespace",
	 .kind = CAIRN_FLAG_STRING,
	 .target = &options.lease_ns,
	 .value_name = "NS",
	 .help = "of that Lease (default: our own)"},
	SERVER_FLAG_HTTP_ENDPOINT(options.http_address),
	SERVER_FLAG_CSI_TIMEOUT(options.timeout_ms),
	SERVER_FLAG_DRAIN_TIME(options.drain_ms, "requests"),
	CAIRN_FLAG_END,
};

static int run(int argc, char **argv, struct cairn_err *err)
{
	role_cbt_http_run *serve;
	int rc;

	(void)argc;
	(void)argv;
	if (!options.tls_cert || !options.tls_key)
		return cmd_usage(err, "--tls-cert and --tls-key are required");
	if (options.client_name && !options.client_ca)
		return cmd_usage(err, "--client-name needs --client-ca");
	if (options.publish_service && options.publish_url)
		return cmd_usage(err, "--publish-service and --publish-url exclude each other");
	rc = role_load("aggapi", "cairn_role_cbt_http", &serve, err);
	return rc ? rc : serve(&options, err);
}

const struct command cmd_cbt_http = {
	.name = "cbt-http",
	.summary = "serve a CSI driver's deltas to the aggregated API server",
	.about = "Runs beside a CSI driver that offers LIST_BLOCK_SNAPSHOT_DELTAS and turns HTTPS\n"
		 "and JSON into calls of the driver. Makes itself known by a DriverDiscovery.\n",
	.flags = flags,
	.run = run,
};
