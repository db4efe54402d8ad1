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
	.stream_min = DURATION_MIN,
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
	{.name = "csi-address",
	 .kind = CAIRN_FLAG_STRING,
	 .target = &sidecar_role_options.csi_address,
	 .value_name = "PATH",
	 .help = "the CSI driver's socket (default: /run/csi/socket)"},
	{.name = "timeout",
	 .kind = CAIRN_FLAG_DURATION,
	 .target = &sidecar_role_options.csi_timeout_ms,
	 .value_name = "TIME",
	 .help = "of calls to it that are no streams (default: 1m)"},
	{.name = "max-message-size",
	 .kind = CAIRN_FLAG_SIZE,
	 .target = &sidecar_role_options.message_max,
	 .value_name = "SIZE",
	 .help = "of one message from it (default: 16M)"},
	{.name = "kubeconfig",
	 .kind = CAIRN_FLAG_STRING,
	 .target = &sidecar_role_options.kubeconfig,
	 .value_name = "FILE",
	 .help = "how to reach Kubernetes (default: as a pod does)"},
	{.name = "kube-api-qps",
	 .kind = CAIRN_FLAG_STRING,
	 .target = &sidecar_role_options.kube_qps,
	 .value_name = "N",
	 .help = "requests a second to the API server (default: 50)"},
	{.name = "kube-api-burst",
	 .kind = CAIRN_FLAG_U64,
	 .target = &sidecar_role_options.kube_burst,
	 .value_name = "N",
	 .help = "and at once (default: 100)"},
	{.name = "cache-time",
	 .kind = CAIRN_FLAG_DURATION,
	 .target = &sidecar_role_options.cache_ms,
	 .value_name = "TIME",
	 .help = "believe its answers so long (default: 10s; 0: no cache)"},
	{.name = "port",
	 .kind = CAIRN_FLAG_U64,
	 .target = &sidecar_role_options.port,
	 .value_name = "PORT",
	 .help = "where to serve SnapshotMetadata (default: 50051)"},
	{.name = "bind-address",
	 .kind = CAIRN_FLAG_STRING,
	 .target = &sidecar_role_options.host,
	 .value_name = "HOST",
	 .help = "on this address only (default: all)"},
	{.name = "tls-cert",
	 .kind = CAIRN_FLAG_STRING,
	 .target = &sidecar_role_options.tls_cert,
	 .value_name = "FILE",
	 .help = "certificate (default: $TLS_CERT_PATH)"},
	{.name = "tls-key",
	 .kind = CAIRN_FLAG_STRING,
	 .target = &sidecar_role_options.tls_key,
	 .value_name = "FILE",
	 .help = "its key (default: $TLS_KEY_PATH)"},
	{.name = "tls-min-version",
	 .kind = CAIRN_FLAG_STRING,
	 .target = &sidecar_role_options.tls_min_version,
	 .value_name = "VERSION",
	 .help = "VersionTLS12 or VersionTLS13 (default: VersionTLS12)"},
	{.name = "tls-cipher-suites",
	 .kind = CAIRN_FLAG_STRING,
	 .target = &sidecar_role_options.tls_ciphers,
	 .value_name = "LIST",
	 .help = "of TLS 1.2, by their names in Go"},
	{.name = "tls-curve-preferences",
	 .kind = CAIRN_FLAG_STRING,
	 .target = &sidecar_role_options.tls_curves,
	 .value_name = "LIST",
	 .help = "curves, by their names in Go"},
	{.name = "audience",
	 .kind = CAIRN_FLAG_STRING,
	 .target = &sidecar_role_options.audience,
	 .value_name = "TEXT",
	 .help = "of tokens (default: the SnapshotMetadataService's)"},
	{.name = "max-streaming-duration",
	 .kind = CAIRN_FLAG_DURATION,
	 .target = &sidecar_role_options.stream_ms,
	 .given = &sidecar_role_options.stream_ms_given,
	 .value_name = "TIME",
	 .help = "end a stream after it (default: 10m; 0: never)"},
	{.name = "max-streaming-duration-min",
	 .kind = CAIRN_FLAG_U64,
	 .target = &sidecar_role_options.stream_min,
	 .value_name = "MINUTES",
	 .help = "the same in minutes"},
	{.name = "max-streams",
	 .kind = CAIRN_FLAG_U64,
	 .target = &sidecar_role_options.streams,
	 .value_name = "N",
	 .help = "at once (default: 1024)"},
	{.name = "max-streams-per-user",
	 .kind = CAIRN_FLAG_U64,
	 .target = &sidecar_role_options.streams_each,
	 .value_name = "N",
	 .help = "of one user (default: 256)"},
	{.name = "max-waiting",
	 .kind = CAIRN_FLAG_U64,
	 .target = &sidecar_role_options.waiting,
	 .value_name = "N",
	 .help = "streams that wait for a place (default: 1024)"},
	{.name = "max-wait",
	 .kind = CAIRN_FLAG_DURATION,
	 .target = &sidecar_role_options.wait_ms,
	 .value_name = "TIME",
	 .help = "and how long (default: 1m)"},
	{.name = "sessions",
	 .kind = CAIRN_FLAG_BOOL,
	 .target = &sidecar_role_options.sessions,
	 .help = "also serve GetAllocated and GetDelta of snapshot sessions"},
	{.name = "session-namespace",
	 .kind = CAIRN_FLAG_STRING,
	 .target = &sidecar_role_options.session_ns,
	 .value_name = "NAME",
	 .help = "where SnapshotSessionData is (default: its own)"},
	{.name = "session-configuration",
	 .kind = CAIRN_FLAG_STRING,
	 .target = &sidecar_role_options.session_configuration,
	 .value_name = "NAME",
	 .help = "make itself known by this SnapshotServicesConfiguration"},
	{.name = "session-address",
	 .kind = CAIRN_FLAG_STRING,
	 .target = &sidecar_role_options.session_address,
	 .value_name = "HOST:PORT",
	 .help = "of the service, for that object"},
	{.name = "session-ca",
	 .kind = CAIRN_FLAG_STRING,
	 .target = &sidecar_role_options.session_ca,
	 .value_name = "FILE",
	 .help = "authority of its certificate, PEM, for that object"},
	{.name = "require-owned-base",
	 .kind = CAIRN_FLAG_BOOL,
	 .target = &sidecar_role_options.owned_base,
	 .help = "refuse base snapshots that Kubernetes does not know"},
	{.name = "http-endpoint",
	 .kind = CAIRN_FLAG_STRING,
	 .target = &sidecar_role_options.http_endpoint,
	 .value_name = "HOST:PORT",
	 .help = "health and metrics (default: :8080; empty: no)"},
	{.name = "http-tls",
	 .kind = CAIRN_FLAG_BOOL,
	 .target = &sidecar_role_options.http_tls,
	 .help = "serve those with the certificate"},
	{.name = "metrics-path",
	 .kind = CAIRN_FLAG_STRING,
	 .target = &sidecar_role_options.metrics_path,
	 .value_name = "PATH",
	 .help = "of metrics (default: /metrics)"},
	{.name = "disable-metrics",
	 .kind = CAIRN_FLAG_BOOL,
	 .target = &sidecar_role_options.disable_metrics,
	 .help = "serve health only"},
	{.name = "drain-time",
	 .kind = CAIRN_FLAG_DURATION,
	 .target = &sidecar_role_options.drain_ms,
	 .value_name = "TIME",
	 .help = "wait so long for streams when told to stop (default: 25s)"},
	{.name = "v",
	 .kind = CAIRN_FLAG_I64,
	 .target = &sidecar_role_options.verbosity,
	 .value_name = "N",
	 .help = "from 4 on as --log-level debug (default: 0, info)"},
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
		return cmd_usage(err, "--cache-time: more than an hour, in which no right could be "
				      "taken away");
	if (o->csi_timeout_ms == 0)
		return cmd_usage(err, "--timeout must not be 0");
	if (o->session_configuration && (!o->sessions || !o->session_address || !o->session_ca))
		return cmd_usage(err, "--session-configuration needs --sessions, --session-address "
				      "and --session-ca");
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
		"SnapshotMetadata over TLS in front of any CSI driver that offers it: checks token,\n"
		"right and names with Kubernetes, and passes the driver's answers on. Takes the\n"
		"options of the Go program csi-snapshot-metadata, with one dash too.\n",
	.flags = sidecar_flags,
	.go_flags = true,
	.check = sidecar_options_check,
	.program = "sidecar",
};
