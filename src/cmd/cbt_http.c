/* SPDX-License-Identifier: Apache-2.0 */

#include "aggapi/options.h"

#include <string.h>

#include "base/err.h"
#include "base/flags.h"
#include "cmd/role.h"
#include "cmd/tree.h"

static struct cbt_http_options options = {
	.csi_address = "unix:///run/csi/socket",
	.listen = ":8443",
	.timeout_ms = 60000,
	.drain_ms = 30000,
};

static const struct cairn_flag flags[] = {
	{.name = "csi-address",
	 .kind = CAIRN_FLAG_STRING,
	 .target = &options.csi_address,
	 .value_name = "unix:///PATH",
	 .help = "socket of the CSI driver (default: unix:///run/csi/socket)"},
	{.name = "listen",
	 .kind = CAIRN_FLAG_STRING,
	 .target = &options.listen,
	 .value_name = "HOST:PORT",
	 .help = "serve there over HTTPS (default: :8443)"},
	{.name = "tls-cert",
	 .kind = CAIRN_FLAG_STRING,
	 .target = &options.tls_cert,
	 .value_name = "FILE",
	 .help = "certificate of the server, PEM (required)"},
	{.name = "tls-key",
	 .kind = CAIRN_FLAG_STRING,
	 .target = &options.tls_key,
	 .value_name = "FILE",
	 .help = "its key, PEM (required)"},
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
	{.name = "audience",
	 .kind = CAIRN_FLAG_STRING,
	 .target = &options.audience,
	 .value_name = "TEXT",
	 .help = "of the caller's token (default: the API server's)"},
	{.name = "kubeconfig",
	 .kind = CAIRN_FLAG_STRING,
	 .target = &options.kubeconfig,
	 .value_name = "FILE",
	 .help = "how to reach the API server (default: as kubectl does)"},
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
	{.name = "http-endpoint",
	 .kind = CAIRN_FLAG_STRING,
	 .target = &options.http_address,
	 .value_name = "HOST:PORT",
	 .help = "serve /metrics, /healthz and /readyz (default: no)"},
	{.name = "timeout",
	 .kind = CAIRN_FLAG_DURATION,
	 .target = &options.timeout_ms,
	 .value_name = "TIME",
	 .help = "of a call to the driver (default: 60s)"},
	{.name = "drain-time",
	 .kind = CAIRN_FLAG_DURATION,
	 .target = &options.drain_ms,
	 .value_name = "TIME",
	 .help = "wait so long for requests when told to stop (default: 30s)"},
	CAIRN_FLAG_END,
};

static int run(int argc, char **argv, struct cairn_err *err)
{
	role_cbt_http_run *serve;
	void *found;
	int rc;

	(void)argc;
	(void)argv;
	if (!options.tls_cert || !options.tls_key)
		return cmd_usage(err, "--tls-cert and --tls-key are required");
	if (options.client_name && !options.client_ca)
		return cmd_usage(err, "--client-name needs --client-ca");
	if (options.publish_service && options.publish_url)
		return cmd_usage(err, "--publish-service and --publish-url exclude each other");
	rc = role_load("aggapi", "cairn_role_cbt_http", &found, err);
	if (rc)
		return rc;
	memcpy(&serve, &found, sizeof(serve)); /* as POSIX has it for dlsym() */
	return serve(&options, err);
}

const struct command cmd_cbt_http = {
	.name = "cbt-http",
	.summary = "serve a CSI driver's deltas to the aggregated API server",
	.about = "Runs beside a CSI driver that offers LIST_BLOCK_SNAPSHOT_DELTAS and turns HTTPS\n"
		 "and JSON into calls of the driver. Makes itself known by a DriverDiscovery.\n",
	.flags = flags,
	.run = run,
};
