/* SPDX-License-Identifier: Apache-2.0 */

#include "diffsnap/options.h"

#include <string.h>

#include "base/err.h"
#include "base/flags.h"
#include "cmd/role.h"
#include "cmd/tree.h"

#define TIMEOUT_DEFAULT_MS 60000
#define DRAIN_DEFAULT_MS   30000

static struct diffsnap_options options = {
	.csi_address = "unix:///run/csi/socket",
	.listen = ":8443",
	.timeout_ms = TIMEOUT_DEFAULT_MS,
	.drain_ms = DRAIN_DEFAULT_MS,
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
	 .help = "serve changed blocks there over HTTPS (default: :8443)"},
	{.name = "advertise",
	 .kind = CAIRN_FLAG_STRING,
	 .target = &options.advertise,
	 .value_name = "HOST:PORT",
	 .help = "where readers find this server (required)"},
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
	{.name = "kubeconfig",
	 .kind = CAIRN_FLAG_STRING,
	 .target = &options.kubeconfig,
	 .value_name = "FILE",
	 .help = "how to reach the API server (default: as kubectl does)"},
	{.name = "audience",
	 .kind = CAIRN_FLAG_STRING,
	 .target = &options.audience,
	 .value_name = "TEXT",
	 .help = "of readers' tokens (default: the API server's)"},
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
	role_diffsnap_run *serve;
	void *found;
	int rc;

	(void)argc;
	(void)argv;
	if (!options.advertise)
		return cmd_usage(err, "--advertise is required");
	if (!options.tls_cert || !options.tls_key)
		return cmd_usage(err, "--tls-cert and --tls-key are required");
	rc = role_load("diffsnap", "cairn_role_diffsnap", &found, err);
	if (rc)
		return rc;
	memcpy(&serve, &found, sizeof(serve)); /* as POSIX has it for dlsym() */
	return serve(&options, err);
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
