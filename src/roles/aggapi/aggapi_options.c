/* SPDX-License-Identifier: Apache-2.0 */

#include "roles/aggapi/aggapi_options.h"

#include "base/err.h"
#include "base/flags.h"
#include "cli/commands.h"
#include "roles/server_flags.h"

#define PAGE_LIMIT_MAX 65536
#define WATCH_MAX_MS   86400000ULL

struct aggapi_options aggapi_options = {
	.listen = ":8443",
	.page_limit = 256,
	.user_rate = 50,
	.user_burst = 100,
	.cache_ms = 5000,
	.watch_ms = 600000,
	.timeout_ms = 30000,
	.drain_ms = SERVER_DRAIN_DEFAULT_MS,
};

static const struct cairn_flag aggapi_flags[] = {
	CAIRN_FLAG_VALUE(STRING, "listen", aggapi_options.listen, "HOST:PORT",
			 "serve the API there over HTTPS (default: :8443)"),
	SERVER_FLAGS_TLS(aggapi_options.tls_cert, aggapi_options.tls_key),
	SERVER_FLAG_KUBECONFIG(aggapi_options.kubeconfig),
	CAIRN_FLAG_VALUE(STRING, "sidecar-cert", aggapi_options.client_cert, "FILE",
			 "certificate to show to drivers' sidecars, PEM"),
	CAIRN_FLAG_VALUE(STRING, "sidecar-key", aggapi_options.client_key, "FILE", "its key, PEM"),
	CAIRN_FLAG_VALUE(U64, "page-limit", aggapi_options.page_limit, "N",
			 "entries of a page at most (default: 256)"),
	CAIRN_FLAG_VALUE(U64, "user-rate", aggapi_options.user_rate, "N",
			 "requests a second of one user (default: 50; 0: no limit)"),
	CAIRN_FLAG_VALUE(U64, "user-burst", aggapi_options.user_burst, "N",
			 "requests of one user at once (default: 100)"),
	CAIRN_FLAG_VALUE(DURATION, "cache-time", aggapi_options.cache_ms, "TIME",
			 "time to answer equal requests from memory (default: 5s)"),
	CAIRN_FLAG_VALUE(DURATION, "watch-time", aggapi_options.watch_ms, "TIME",
			 "time to end watches after, 1s to 24h (default: 10m)"),
	SERVER_FLAG_HTTP_ENDPOINT(aggapi_options.http_address),
	CAIRN_FLAG_VALUE(DURATION, "timeout", aggapi_options.timeout_ms, "TIME",
			 "of a call to a driver's sidecar (default: 30s)"),
	SERVER_FLAG_DRAIN_TIME(aggapi_options.drain_ms, "requests"),
	CAIRN_FLAG_END,
};

static int aggapi_options_check(int argc, char **argv, struct cairn_err *err)
{
	(void)argc;
	(void)argv;
	if (!aggapi_options.tls_cert || !aggapi_options.tls_key)
		return cmd_usage(err, "--tls-cert and --tls-key are required");
	if (!aggapi_options.client_cert != !aggapi_options.client_key)
		return cmd_usage(err, "--sidecar-cert and --sidecar-key go together");
	if (aggapi_options.watch_ms < 1000 || aggapi_options.watch_ms > WATCH_MAX_MS)
		return cmd_usage(err, "--watch-time must be 1s to 24h");
	if (aggapi_options.page_limit < 1 || aggapi_options.page_limit > PAGE_LIMIT_MAX)
		return cmd_usage(err, "--page-limit must be 1 to %d", PAGE_LIMIT_MAX);
	return 0;
}

const struct command cmd_aggapi = {
	.name = "aggapi",
	.summary = "serve VolumeSnapshotDelta as an aggregated API server",
	.about =
		"Runs behind the Kubernetes API server, which authenticates and proxies. A client\n"
		"that creates a VolumeSnapshotDelta gets it back with a page of changed blocks;\n"
		"nothing is stored. The CRDs of cbt.storage.k8s.io are served at v1alpha1 too:\n"
		"requests for them are passed on to the version at which they are stored, if the\n"
		"user has the right to them. Any number of replicas may run.\n",
	.flags = aggapi_flags,
	.check = aggapi_options_check,
	.program = "aggapi",
};
