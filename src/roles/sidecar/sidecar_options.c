/* SPDX-License-Identifier: Apache-2.0 */

#include "cli/commands.h"

#include <stdlib.h>

#include "base/err.h"
#include "base/flags.h"
#include "base/log.h"
#include "cli/options.h"
#include "cli/role.h"

#define MS_PER_MIN   60000U
#define PORT_MAX     65535U
#define V_DEBUG      4 /* the Go sidecar traces calls from -v=4 on */
#define STREAMS_MAX  65536U
#define MESSAGE_MAX  (1ULL << 30)
#define DURATION_MIN 10U
#define CACHE_MAX_MS 3600000U

static const char *kubeconfig = "";
static const char *csi_address = "/run/csi/socket";
static uint64_t timeout_ms = MS_PER_MIN;
static uint64_t port = 50051;
static const char *bind_address;
static const char *tls_cert;
static const char *tls_key;
static const char *tls_min_version;
static const char *tls_ciphers;
static const char *tls_curves;
static const char *audience = "";
static uint64_t stream_min = DURATION_MIN;
static uint64_t stream_ms;
static bool stream_ms_given;
static const char *kube_qps = "50";
static uint64_t kube_burst = 100;
static const char *http_endpoint = ":8080";
static bool http_tls;
static const char *metrics_path = "/metrics";
static bool disable_metrics;
static uint64_t cache_ms = 10000;
static uint64_t max_streams = 1024;
static uint64_t max_streams_each = 256;
static uint64_t max_waiting = 1024;
static uint64_t max_wait_ms = MS_PER_MIN;
static uint64_t max_message = 16U << 20;
static bool owned_base;
static bool sessions;
static const char *session_ns;
static const char *session_configuration;
static const char *session_address;
static const char *session_ca;
static uint64_t drain_ms = 25000;
static int64_t verbosity;

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

static const struct cairn_flag flags[] = {
	{.name = "csi-address",
	 .kind = CAIRN_FLAG_STRING,
	 .target = &csi_address,
	 .value_name = "PATH",
	 .help = "the CSI driver's socket (default: /run/csi/socket)"},
	{.name = "timeout",
	 .kind = CAIRN_FLAG_DURATION,
	 .target = &timeout_ms,
	 .value_name = "TIME",
	 .help = "of calls to it that are no streams (default: 1m)"},
	{.name = "max-message-size",
	 .kind = CAIRN_FLAG_SIZE,
	 .target = &max_message,
	 .value_name = "SIZE",
	 .help = "of one message from it (default: 16M)"},
	{.name = "kubeconfig",
	 .kind = CAIRN_FLAG_STRING,
	 .target = &kubeconfig,
	 .value_name = "FILE",
	 .help = "how to reach Kubernetes (default: as a pod does)"},
	{.name = "kube-api-qps",
	 .kind = CAIRN_FLAG_STRING,
	 .target = &kube_qps,
	 .value_name = "N",
	 .help = "requests a second to the API server (default: 50)"},
	{.name = "kube-api-burst",
	 .kind = CAIRN_FLAG_U64,
	 .target = &kube_burst,
	 .value_name = "N",
	 .help = "and at once (default: 100)"},
	{.name = "cache-time",
	 .kind = CAIRN_FLAG_DURATION,
	 .target = &cache_ms,
	 .value_name = "TIME",
	 .help = "believe its answers so long (default: 10s; 0: no cache)"},
	{.name = "port",
	 .kind = CAIRN_FLAG_U64,
	 .target = &port,
	 .value_name = "PORT",
	 .help = "where to serve SnapshotMetadata (default: 50051)"},
	{.name = "bind-address",
	 .kind = CAIRN_FLAG_STRING,
	 .target = &bind_address,
	 .value_name = "HOST",
	 .help = "on this address only (default: all)"},
	{.name = "tls-cert",
	 .kind = CAIRN_FLAG_STRING,
	 .target = &tls_cert,
	 .value_name = "FILE",
	 .help = "certificate (default: $TLS_CERT_PATH)"},
	{.name = "tls-key",
	 .kind = CAIRN_FLAG_STRING,
	 .target = &tls_key,
	 .value_name = "FILE",
	 .help = "its key (default: $TLS_KEY_PATH)"},
	{.name = "tls-min-version",
	 .kind = CAIRN_FLAG_STRING,
	 .target = &tls_min_version,
	 .value_name = "VERSION",
	 .help = "VersionTLS12 or VersionTLS13 (default: VersionTLS12)"},
	{.name = "tls-cipher-suites",
	 .kind = CAIRN_FLAG_STRING,
	 .target = &tls_ciphers,
	 .value_name = "LIST",
	 .help = "of TLS 1.2, by their names in Go"},
	{.name = "tls-curve-preferences",
	 .kind = CAIRN_FLAG_STRING,
	 .target = &tls_curves,
	 .value_name = "LIST",
	 .help = "curves, by their names in Go"},
	{.name = "audience",
	 .kind = CAIRN_FLAG_STRING,
	 .target = &audience,
	 .value_name = "TEXT",
	 .help = "of tokens (default: the SnapshotMetadataService's)"},
	{.name = "max-streaming-duration",
	 .kind = CAIRN_FLAG_DURATION,
	 .target = &stream_ms,
	 .given = &stream_ms_given,
	 .value_name = "TIME",
	 .help = "end a stream after it (default: 10m; 0: never)"},
	{.name = "max-streaming-duration-min",
	 .kind = CAIRN_FLAG_U64,
	 .target = &stream_min,
	 .value_name = "MINUTES",
	 .help = "the same in minutes"},
	{.name = "max-streams",
	 .kind = CAIRN_FLAG_U64,
	 .target = &max_streams,
	 .value_name = "N",
	 .help = "at once (default: 1024)"},
	{.name = "max-streams-per-user",
	 .kind = CAIRN_FLAG_U64,
	 .target = &max_streams_each,
	 .value_name = "N",
	 .help = "of one user (default: 256)"},
	{.name = "max-waiting",
	 .kind = CAIRN_FLAG_U64,
	 .target = &max_waiting,
	 .value_name = "N",
	 .help = "streams that wait for a place (default: 1024)"},
	{.name = "max-wait",
	 .kind = CAIRN_FLAG_DURATION,
	 .target = &max_wait_ms,
	 .value_name = "TIME",
	 .help = "and how long (default: 1m)"},
	{.name = "sessions",
	 .kind = CAIRN_FLAG_BOOL,
	 .target = &sessions,
	 .help = "also serve GetAllocated and GetDelta of snapshot sessions"},
	{.name = "session-namespace",
	 .kind = CAIRN_FLAG_STRING,
	 .target = &session_ns,
	 .value_name = "NAME",
	 .help = "where SnapshotSessionData is (default: its own)"},
	{.name = "session-configuration",
	 .kind = CAIRN_FLAG_STRING,
	 .target = &session_configuration,
	 .value_name = "NAME",
	 .help = "make itself known by this SnapshotServicesConfiguration"},
	{.name = "session-address",
	 .kind = CAIRN_FLAG_STRING,
	 .target = &session_address,
	 .value_name = "HOST:PORT",
	 .help = "of the service, for that object"},
	{.name = "session-ca",
	 .kind = CAIRN_FLAG_STRING,
	 .target = &session_ca,
	 .value_name = "FILE",
	 .help = "authority of its certificate, PEM, for that object"},
	{.name = "require-owned-base",
	 .kind = CAIRN_FLAG_BOOL,
	 .target = &owned_base,
	 .help = "refuse base snapshots that Kubernetes does not know"},
	{.name = "http-endpoint",
	 .kind = CAIRN_FLAG_STRING,
	 .target = &http_endpoint,
	 .value_name = "HOST:PORT",
	 .help = "health and metrics (default: :8080; empty: no)"},
	{.name = "http-tls",
	 .kind = CAIRN_FLAG_BOOL,
	 .target = &http_tls,
	 .help = "serve those with the certificate"},
	{.name = "metrics-path",
	 .kind = CAIRN_FLAG_STRING,
	 .target = &metrics_path,
	 .value_name = "PATH",
	 .help = "of metrics (default: /metrics)"},
	{.name = "disable-metrics",
	 .kind = CAIRN_FLAG_BOOL,
	 .target = &disable_metrics,
	 .help = "serve health only"},
	{.name = "drain-time",
	 .kind = CAIRN_FLAG_DURATION,
	 .target = &drain_ms,
	 .value_name = "TIME",
	 .help = "wait so long for streams when told to stop (default: 25s)"},
	{.name = "v",
	 .kind = CAIRN_FLAG_I64,
	 .target = &verbosity,
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

static int check(struct cairn_err *err)
{
	if (!tls_cert)
		tls_cert = getenv("TLS_CERT_PATH");
	if (!tls_key)
		tls_key = getenv("TLS_KEY_PATH");
	if (!tls_cert || !*tls_cert || !tls_key || !*tls_key)
		return cmd_usage(err, "--tls-cert and --tls-key are required");
	if (port == 0 || port > PORT_MAX)
		return cmd_usage(err, "--port: not between 1 and %u", PORT_MAX);
	if (max_streams == 0 || max_streams > STREAMS_MAX || max_streams_each == 0 ||
	    max_waiting > STREAMS_MAX)
		return cmd_usage(err, "--max-streams: not between 1 and %u", STREAMS_MAX);
	if (max_message == 0 || max_message > MESSAGE_MAX)
		return cmd_usage(err, "--max-message-size: not between 1 and 1G");
	if (cache_ms > CACHE_MAX_MS)
		return cmd_usage(err, "--cache-time: more than an hour, in which no right could be "
				      "taken away");
	if (timeout_ms == 0)
		return cmd_usage(err, "--timeout must not be 0");
	if (session_configuration && (!sessions || !session_address || !session_ca))
		return cmd_usage(err, "--session-configuration needs --sessions, --session-address "
				      "and --session-ca");
	if (!stream_ms_given && __builtin_mul_overflow(stream_min, MS_PER_MIN, &stream_ms))
		return cmd_usage(err, "--max-streaming-duration-min is too large");
	return 0;
}

static int run(int argc, char **argv, struct cairn_err *err)
{
	role_sidecar_run *serve;
	int rc = check(err);

	(void)argc;
	(void)argv;
	if (!rc)
		rc = role_load("sidecar", "cairn_role_sidecar", &serve, err);
	if (rc)
		return rc;
	if (!cmd_options.log_level_given)
		cairn_log_setup(verbosity >= V_DEBUG ? CAIRN_LOG_DEBUG : CAIRN_LOG_INFO,
				(enum cairn_log_format)cmd_options.log_format);
	return serve(
		&(struct role_sidecar_options){
			.version = CAIRN_VERSION,
			.kubeconfig = kubeconfig,
			.kube_qps = kube_qps,
			.kube_burst = kube_burst,
			.host = bind_address,
			.port = port,
			.tls_cert = tls_cert,
			.tls_key = tls_key,
			.tls_min_version = tls_min_version,
			.tls_ciphers = tls_ciphers,
			.tls_curves = tls_curves,
			.audience = audience,
			.cache_ms = cache_ms,
			.streams = max_streams,
			.streams_each = max_streams_each,
			.waiting = max_waiting,
			.wait_ms = max_wait_ms,
			.stream_ms = stream_ms == UINT64_MAX ? 0 : stream_ms,
			.owned_base = owned_base,
			.sessions = sessions,
			.session_ns = session_ns,
			.session_configuration = session_configuration,
			.session_address = session_address,
			.session_ca = session_ca,
			.csi_address = csi_address,
			.csi_timeout_ms = timeout_ms,
			.message_max = max_message,
			.http_endpoint = http_endpoint,
			.http_tls = http_tls,
			.metrics_path = disable_metrics ? NULL : metrics_path,
			.drain_ms = drain_ms,
		},
		err);
}

const struct command cmd_sidecar = {
	.name = "sidecar",
	.summary = "serve a CSI driver's changed blocks to backup software",
	.about =
		"SnapshotMetadata over TLS in front of any CSI driver that offers it: checks token,\n"
		"right and names with Kubernetes, and passes the driver's answers on. Takes the\n"
		"options of the Go program csi-snapshot-metadata, with one dash too.\n",
	.flags = flags,
	.go_flags = true,
	.run = run,
};
