/* SPDX-License-Identifier: Apache-2.0 */

/* The program of `cairn sidecar`: wiring of the Kubernetes client and the sidecar. */

#include "roles/sidecar/sidecar_options.h"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/log.h"
#include "base/mem.h"
#include "cli/commands.h"
#include "cli/options.h"
#include "kube/publisher.h"
#include "net/signals.h"
#include "roles/role.h"
#include "sidecar/publish_config.h"
#include "sidecar/route_certificate.h"
#include "sidecar/route_endpoints.h"
#include "sidecar/sessions.h"
#include "sidecar/sidecar.h"
#include "sidecar/sidecar_kube_client.h"

#define V_DEBUG           4 /* the Go sidecar traces calls from -v=4 on */
#define SETTLED_MS        2000U
#define WAITING_EACH_PART 4       /* a user may take one waiting place in this many */
#define CERTIFICATE_MS    120000U /* for the first certificate of the route */

static int read_qps(const char *text, double *ret, struct cairn_err *err)
{
	char *end;

	*ret = strtod(text, &end);
	if (!*text || *end || !isfinite(*ret))
		return cairn_err_set(err, CAIRN_INVALID, "--kube-api-qps: '%s' is not a number",
				     text);
	if (*ret == 0) /* the flag's 0 is no limit, the client's is its default */
		*ret = -1;
	return 0;
}

/* An IPv6 address needs brackets. */
static char *listen_address(const struct sidecar_role_options *o, uint64_t port)
{
	const char *host = o->host ? o->host : "";
	bool bare = strchr(host, ':') && host[0] != '[';

	return cairn_printf("%s%s%s:%u", bare ? "[" : "", host, bare ? "]" : "", (unsigned)port);
}

static int sidecar_main_reach_kubernetes(const struct sidecar_role_options *o,
					 struct sidecar_kube_client **ret, struct cairn_err *err)
{
	struct sidecar_kube_client_options options = {.kubeconfig = o->kubeconfig,
						      .burst = (unsigned)o->kube_burst};
	int rc = read_qps(o->kube_qps, &options.qps, err);

	return rc ? rc : sidecar_kube_client_new(&options, ret, err);
}

/* What the sidecar is made of and must outlive it. */
struct sidecar_parts {
	const struct sidecar_role_options *options;
	char *listen, *listen_route;
	struct sidecar_kube_client *kube;
	struct sidecar_sessions *sessions;             /* NULL: none */
	struct sidecar_route_endpoints *endpoints;     /* NULL: no route */
	struct sidecar_route_certificate *certificate; /* NULL: its files come from elsewhere */
	struct kube_publisher *publisher;              /* once the driver's name is known */
};

static void sidecar_parts_done(struct sidecar_parts *parts)
{
	kube_publisher_free(parts->publisher);
	sidecar_route_certificate_free(parts->certificate);
	sidecar_route_endpoints_free(parts->endpoints);
	sidecar_sessions_free(parts->sessions);
	sidecar_kube_client_free(parts->kube);
	free(parts->listen_route);
	free(parts->listen);
}

/* The signals that end it are blocked, and waited for later. */
static bool sidecar_main_is_ending(void)
{
	sigset_t pending;

	return sigpending(&pending) == 0 &&
	       (sigismember(&pending, SIGTERM) == 1 || sigismember(&pending, SIGINT) == 1 ||
		sigismember(&pending, SIGQUIT) == 1);
}

static int sidecar_main_certify(struct sidecar_parts *parts, struct kube_client *client,
				struct cairn_err *err)
{
	const struct sidecar_role_options *o = parts->options;
	const struct sidecar_route_certificate_options options = {
		.client = client,
		.node = o->node_name,
		.signer = o->route_signer,
		.cert_file = o->route_cert,
		.key_file = o->route_key,
		.timeout_ms = CERTIFICATE_MS,
		.is_ending = sidecar_main_is_ending,
	};

	return sidecar_route_certificate_new(&options, &parts->certificate, err);
}

static int sidecar_parts_make(struct sidecar_parts *parts, struct cairn_err *err)
{
	const struct sidecar_role_options *o = parts->options;
	struct kube_client *client;
	int rc;

	parts->listen = listen_address(o, o->port);
	parts->listen_route = listen_address(o, o->route_port);
	if (!parts->listen || !parts->listen_route)
		return cairn_err_nomem(err, "sidecar");
	rc = sidecar_main_reach_kubernetes(o, &parts->kube, err);
	cairn_mem_drop_clean();
	if (rc)
		return rc;
	client = sidecar_kube_client_inner(parts->kube);
	if (o->sessions)
		rc = sidecar_sessions_new(client, o->session_ns, &parts->sessions, err);
	if (!rc && o->route)
		rc = sidecar_route_endpoints_new(client, o->route_ns, o->route_service,
						 &parts->endpoints, err);
	return rc || !o->route_signer ? rc : sidecar_main_certify(parts, client, err);
}

static void sidecar_main_driver_named(void *arg, const char *driver)
{
	struct sidecar_parts *parts = arg;
	struct sidecar_publish_config_options what = {
		.name = parts->options->session_configuration,
		.driver = driver,
		.ns = parts->options->session_ns,
		.address = parts->options->session_address,
		.ca_file = parts->options->session_ca,
	};
	struct cairn_err err = {0};

	if (what.name && sidecar_advertise(sidecar_kube_client_inner(parts->kube), &what,
					   &parts->publisher, &err) != 0)
		cairn_log(CAIRN_LOG_ERROR, "the session service is not published",
			  CAIRN_STR("error", err.msg));
}

static void sidecar_main_route(const struct sidecar_parts *parts, struct sidecar_options *options)
{
	const struct sidecar_role_options *o = parts->options;

	if (!parts->endpoints)
		return;
	options->route.node = o->node_name;
	options->route.listen = parts->listen_route;
	options->route.cert_file = o->route_cert;
	options->route.key_file = o->route_key;
	options->route.ca_file = o->route_ca;
	options->route.map = sidecar_route_endpoints_map(parts->endpoints);
}

static int sidecar_start(struct sidecar_parts *parts, struct sidecar **ret, struct cairn_err *err)
{
	const struct sidecar_role_options *o = parts->options;
	unsigned waiting_each = (unsigned)o->waiting / WAITING_EACH_PART;
	struct sidecar_options options = {
		.kube = sidecar_kube_client_table(parts->kube),
		.api_requests = sidecar_kube_client_requests,
		.version = CAIRN_VERSION,
		.listen = parts->listen,
		.tls_cert = o->tls_cert,
		.tls_key = o->tls_key,
		.tls_min_version = o->tls_min_version,
		.tls_ciphers = o->tls_ciphers,
		.tls_curves = o->tls_curves,
		.audience = o->audience,
		.keep_ms = o->cache_ms,
		.streams = (unsigned)o->streams,
		.streams_each =
			(unsigned)(o->streams_each < o->streams ? o->streams_each : o->streams),
		.waiting = (unsigned)o->waiting,
		.waiting_each = waiting_each ? waiting_each : (unsigned)o->waiting,
		.wait_ms = o->wait_ms,
		.resume_ms = o->resume_ms,
		.stream_ms = o->stream_ms,
		.owned_base = o->owned_base,
		.sessions = parts->sessions,
		.named = sidecar_main_driver_named,
		.named_arg = parts,
		.csi_address = o->csi_address,
		.csi_timeout_ms = o->csi_timeout_ms,
		.message_max = o->message_max,
		.reflection = o->reflection,
		.http_listen = o->http_endpoint,
		.metrics_path = o->disable_metrics ? NULL : o->metrics_path,
		.http_tls = o->http_tls,
	};

	sidecar_main_route(parts, &options);
	return sidecar_new(&options, ret, err);
}

static void sidecar_wait_for_end(const sigset_t *signals)
{
	int number;

	cairn_mem_drop_clean();
	number = net_signals_wait(signals, SETTLED_MS);
	if (number == 0) /* the driver and the API server have been found by now */
		cairn_mem_drop_clean();
	while (number == 0 || number == SIGUSR1)
		number = net_signals_wait(signals, UINT64_MAX);
}

/* Logs from level "info" on, unless --log-level is given. */
static void set_log_level(const struct sidecar_role_options *o)
{
	if (!cmd_options.log_level_given)
		cairn_log_setup(o->verbosity >= V_DEBUG ? CAIRN_LOG_DEBUG : CAIRN_LOG_INFO,
				(enum cairn_log_format)cmd_options.log_format);
}

static int sidecar_run(struct cairn_err *err)
{
	const struct sidecar_role_options *options = &sidecar_role_options;
	cairn_cleanup(sidecar_parts_done) struct sidecar_parts parts = {.options = options};
	cairn_cleanup(sidecar_freep) struct sidecar *sidecar = NULL;
	unsigned cut;
	sigset_t signals;
	int rc;

	set_log_level(options);
	net_signals_block(&signals);
	/* The Go sidecar ends on SIGQUIT too. */
	sigaddset(&signals, SIGQUIT);
	pthread_sigmask(SIG_BLOCK, &signals, NULL);
	cairn_log(CAIRN_LOG_INFO, "version", CAIRN_STR("version", CAIRN_VERSION));
	rc = sidecar_parts_make(&parts, err);
	if (!rc)
		rc = sidecar_start(&parts, &sidecar, err);
	if (rc)
		return rc;
	cairn_log(CAIRN_LOG_INFO, "serving", CAIRN_STR("address", parts.listen),
		  CAIRN_STR("csi_address", options->csi_address));
	sidecar_wait_for_end(&signals);
	cairn_log(CAIRN_LOG_INFO, "stopping", CAIRN_U64("drain_ms", options->drain_ms));
	cut = sidecar_drain(sidecar, options->drain_ms);
	cairn_log(CAIRN_LOG_INFO, "stopped", CAIRN_U64("cut_off", cut));
	return 0;
}

int main(int argc, char **argv)
{
	return role_server_main(&cmd_sidecar, sidecar_run, argc, argv);
}
