/* SPDX-License-Identifier: Apache-2.0 */

#include "roles/sidecar/sidecar_options.h"

#include <stdlib.h>

#include "base/err.h"
#include "base/flags.h"
#include "cli/commands.h"

#define MS_PER_MIN   60000U
#define PORT_MAX     65535U
#define STREAMS_MAX  65536U
#define MESSAGE_MAX  (1ULL << 30)
#define DURATION_MIN 10U
#define CACHE_MAX_MS 3600000U

struct sidecar_role_options sidecar_role_options = {
	.kubeconfig = "",
	.kube_qps = "50",
	.kube_burst = 100,
	.port = 50051,
	.audience = "",
	.cache_ms = 10000,
	.streams = 1024,
	.streams_each = 256,
	.waiting = 1024,
	.wait_ms = MS_PER_MIN,
	.resume_ms = MS_PER_MIN / 2,
	.stream_min = DURATION_MIN,
	.route_service = "cairn-route",
	.route_port = 50052,
	.csi_address = "/run/csi/socket",
	.csi_timeout_ms = MS_PER_MIN,
	.message_max = 16U << 20,
	.http_endpoint = ":8080",
	.metrics_path = "/metrics",
	.drain_ms = 25000,
};

/* Options of klog that a manifest may carry; lines always go to standard error. */
static bool ignored_bool;
static const char *ignored_text;

#define IGNORED_BOOL(what)                                                                       \
	{                                                                                        \
		.name = (what), .kind = CAIRN_FLAG_BOOL, .target = &ignored_bool, .hidden = true \
	}
#define IGNORED_TEXT(what)                                                                         \
	{                                                                                          \
		.name = (what), .kind = CAIRN_FLAG_STRING, .target = &ignored_text, .hidden = true \
	}

static const struct cairn_flag sidecar_flags[] = {
	CAIRN_FLAG_VALUE(STRING, "csi-address", sidecar_role_options.csi_address, "PATH",
			 "the CSI driver's socket (default: /run/csi/socket)"),
	CAIRN_FLAG_VALUE(DURATION, "timeout", sidecar_role_options.csi_timeout_ms, "TIME",
			 "timeout of calls to it, streams excepted (default: 1m)"),
	CAIRN_FLAG_VALUE(SIZE, "max-message-size", sidecar_role_options.message_max, "SIZE",
			 "of one message from it (default: 16M)"),
	CAIRN_FLAG_VALUE(STRING, "kubeconfig", sidecar_role_options.kubeconfig, "FILE",
			 "how to reach Kubernetes (default: as a pod does)"),
	CAIRN_FLAG_VALUE(STRING, "kube-api-qps", sidecar_role_options.kube_qps, "N",
			 "requests a second to the API server (default: 50)"),
	CAIRN_FLAG_VALUE(U64, "kube-api-burst", sidecar_role_options.kube_burst, "N",
			 "and at once (default: 100)"),
	CAIRN_FLAG_VALUE(DURATION, "cache-time", sidecar_role_options.cache_ms, "TIME",
			 "time to cache its answers (default: 10s; 0: no cache)"),
	CAIRN_FLAG_VALUE(U64, "port", sidecar_role_options.port, "PORT",
			 "where to serve SnapshotMetadata (default: 50051)"),
	CAIRN_FLAG_VALUE(STRING, "bind-address", sidecar_role_options.host, "HOST",
			 "on this address only (default: all)"),
	CAIRN_FLAG_VALUE(STRING, "tls-cert", sidecar_role_options.tls_cert, "FILE",
			 "certificate (default: $TLS_CERT_PATH)"),
	CAIRN_FLAG_VALUE(STRING, "tls-key", sidecar_role_options.tls_key, "FILE",
			 "its key (default: $TLS_KEY_PATH)"),
	CAIRN_FLAG_VALUE(STRING, "tls-min-version", sidecar_role_options.tls_min_version, "VERSION",
			 "VersionTLS12 or VersionTLS13 (default: VersionTLS12)"),
	CAIRN_FLAG_VALUE(STRING, "tls-cipher-suites", sidecar_role_options.tls_ciphers, "LIST",
			 "of TLS 1.2, by their names in Go"),
	CAIRN_FLAG_VALUE(STRING, "tls-curve-preferences", sidecar_role_options.tls_curves, "LIST",
			 "curves, by their names in Go"),
	CAIRN_FLAG_VALUE(STRING, "audience", sidecar_role_options.audience, "TEXT",
			 "of tokens (default: the SnapshotMetadataService's)"),
	{.name = "max-streaming-duration",
	 .kind = CAIRN_FLAG_DURATION,
	 .target = &sidecar_role_options.stream_ms,
	 .given = &sidecar_role_options.stream_ms_given,
	 .value_name = "TIME",
	 .help = "end a stream after it (default: 10m; 0: never)"},
	CAIRN_FLAG_VALUE(U64, "max-streaming-duration-min", sidecar_role_options.stream_min,
			 "MINUTES", "the same in minutes"),
	CAIRN_FLAG_VALUE(U64, "max-streams", sidecar_role_options.streams, "N",
			 "at once (default: 1024)"),
	CAIRN_FLAG_VALUE(U64, "max-streams-per-user", sidecar_role_options.streams_each, "N",
			 "of one user (default: 256)"),
	CAIRN_FLAG_VALUE(U64, "max-waiting", sidecar_role_options.waiting, "N",
			 "streams that wait for a place (default: 1024)"),
	CAIRN_FLAG_VALUE(DURATION, "max-wait", sidecar_role_options.wait_ms, "TIME",
			 "and how long (default: 1m)"),
	CAIRN_FLAG_VALUE(DURATION, "resume-timeout", sidecar_role_options.resume_ms, "TIME",
			 "for a driver that restarts during a stream (default: 30s)"),
	CAIRN_FLAG_SWITCH("sessions", sidecar_role_options.sessions,
			  "also serve GetAllocated and GetDelta of snapshot sessions"),
	CAIRN_FLAG_SWITCH("reflection", sidecar_role_options.reflection,
			  "describe the services to any caller, for grpcurl"),
	CAIRN_FLAG_VALUE(STRING, "session-namespace", sidecar_role_options.session_ns, "NAME",
			 "where SnapshotSessionData is (default: its own)"),
	CAIRN_FLAG_VALUE(STRING, "session-configuration",
			 sidecar_role_options.session_configuration, "NAME",
			 "publish itself in this SnapshotServicesConfiguration"),
	CAIRN_FLAG_VALUE(STRING, "session-address", sidecar_role_options.session_address,
			 "HOST:PORT", "of the service, for that object"),
	CAIRN_FLAG_VALUE(STRING, "session-ca", sidecar_role_options.session_ca, "FILE",
			 "authority of its certificate, PEM, for that object"),
	CAIRN_FLAG_SWITCH("route", sidecar_role_options.route,
			  "pass streams to the sidecar of the snapshot's node"),
	CAIRN_FLAG_VALUE(STRING, "node-name", sidecar_role_options.node_name, "NAME",
			 "of this node, for --route (default: $NODE_NAME)"),
	CAIRN_FLAG_VALUE(STRING, "route-service", sidecar_role_options.route_service, "NAME",
			 "Service of all sidecars (default: cairn-route)"),
	CAIRN_FLAG_VALUE(STRING, "route-namespace", sidecar_role_options.route_ns, "NAME",
			 "where that is (default: its own)"),
	CAIRN_FLAG_VALUE(U64, "route-port", sidecar_role_options.route_port, "PORT",
			 "for the sidecars of other nodes (default: 50052)"),
	CAIRN_FLAG_VALUE(STRING, "route-cert", sidecar_role_options.route_cert, "FILE",
			 "certificate of NODE.cairn-route, for both directions"),
	CAIRN_FLAG_VALUE(STRING, "route-key", sidecar_role_options.route_key, "FILE", "its key"),
	CAIRN_FLAG_VALUE(STRING, "route-ca", sidecar_role_options.route_ca, "FILE",
			 "authority of the certificates of all nodes"),
	CAIRN_FLAG_VALUE(STRING, "route-signer", sidecar_role_options.route_signer, "NAME",
			 "ask it for that certificate, and write both files"),
	CAIRN_FLAG_SWITCH("require-owned-base", sidecar_role_options.owned_base,
			  "refuse base snapshots that Kubernetes does not know"),
	CAIRN_FLAG_VALUE(STRING, "http-endpoint", sidecar_role_options.http_endpoint, "HOST:PORT",
			 "health and metrics (default: :8080; empty: no)"),
	CAIRN_FLAG_SWITCH("http-tls", sidecar_role_options.http_tls,
			  "serve those with the certificate"),
	CAIRN_FLAG_VALUE(STRING, "metrics-path", sidecar_role_options.metrics_path, "PATH",
			 "of metrics (default: /metrics)"),
	CAIRN_FLAG_SWITCH("disable-metrics", sidecar_role_options.disable_metrics,
			  "serve health only"),
	CAIRN_FLAG_VALUE(DURATION, "drain-time", sidecar_role_options.drain_ms, "TIME",
			 "time to wait for streams at the end (default: 25s)"),
	CAIRN_FLAG_VALUE(I64, "v", sidecar_role_options.verbosity, "N",
			 "from 4 on as --log-level debug (default: 0, info)"),
	IGNORED_BOOL("logtostderr"),
	IGNORED_BOOL("alsologtostderr"),
	IGNORED_BOOL("legacy_stderr_threshold_behavior"),
	IGNORED_BOOL("one_output"),
	IGNORED_BOOL("skip_headers"),
	IGNORED_BOOL("skip_log_headers"),
	IGNORED_BOOL("add_dir_header"),
	IGNORED_TEXT("stderrthreshold"),
	IGNORED_TEXT("log_dir"),
	IGNORED_TEXT("log_file"),
	IGNORED_TEXT("log_file_max_size"),
	IGNORED_TEXT("log_backtrace_at"),
	IGNORED_TEXT("vmodule"),
	CAIRN_FLAG_END,
};

static int sidecar_options_check_route(struct sidecar_role_options *o, struct cairn_err *err)
{
	if (!o->node_name)
		o->node_name = getenv("NODE_NAME");
	if (!o->node_name || !*o->node_name)
		return cmd_usage(err, "--route needs --node-name");
	if (!o->route_cert || !o->route_key || !o->route_ca)
		return cmd_usage(err, "--route needs --route-cert, --route-key and --route-ca");
	if (o->route_port == 0 || o->route_port > PORT_MAX || o->route_port == o->port)
		return cmd_usage(err, "--route-port: not between 1 and %u, or the same as --port",
				 PORT_MAX);
	return 0;
}

static int sidecar_options_check(int argc, char **argv, struct cairn_err *err)
{
	struct sidecar_role_options *o = &sidecar_role_options;

	(void)argc;
	(void)argv;
	if (!o->tls_cert)
		o->tls_cert = getenv("TLS_CERT_PATH");
	if (!o->tls_key)
		o->tls_key = getenv("TLS_KEY_PATH");
	if (!o->tls_cert || !*o->tls_cert || !o->tls_key || !*o->tls_key)
		return cmd_usage(err, "--tls-cert and --tls-key are required");
	if (o->port == 0 || o->port > PORT_MAX)
		return cmd_usage(err, "--port: not between 1 and %u", PORT_MAX);
	if (o->streams == 0 || o->streams > STREAMS_MAX || o->streams_each == 0 ||
	    o->waiting > STREAMS_MAX)
		return cmd_usage(err, "--max-streams: not between 1 and %u", STREAMS_MAX);
	if (o->message_max == 0 || o->message_max > MESSAGE_MAX)
		return cmd_usage(err, "--max-message-size: not between 1 and 1G");
	if (o->cache_ms > CACHE_MAX_MS)
		return cmd_usage(err,
				 "--cache-time: more than an hour, during which revoked rights "
				 "would still be valid");
	if (o->csi_timeout_ms == 0)
		return cmd_usage(err, "--timeout must not be 0");
	if (o->session_configuration && (!o->sessions || !o->session_address || !o->session_ca))
		return cmd_usage(err, "--session-configuration needs --sessions, --session-address "
				      "and --session-ca");
	if (o->route_signer && !o->route)
		return cmd_usage(err, "--route-signer needs --route");
	if (o->route && sidecar_options_check_route(o, err) != 0)
		return CAIRN_INVALID;
	if (!o->stream_ms_given && __builtin_mul_overflow(o->stream_min, MS_PER_MIN, &o->stream_ms))
		return cmd_usage(err, "--max-streaming-duration-min is too large");
	if (o->stream_ms == UINT64_MAX)
		o->stream_ms = 0;
	return 0;
}

const struct command cmd_sidecar = {
	.name = "sidecar",
	.summary = "serve a CSI driver's changed blocks to backup software",
	.about =
		"Serves SnapshotMetadata over TLS in front of any CSI driver that offers it: checks\n"
		"token, rights and names with Kubernetes, and passes on the driver's answers.\n"
		"Accepts the options of the Go program csi-snapshot-metadata, also with one dash.\n",
	.flags = sidecar_flags,
	.go_flags = true,
	.check = sidecar_options_check,
	.program = "sidecar",
};
