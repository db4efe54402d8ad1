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
#include "sidecar/sessions.h"
#include "sidecar/sidecar.h"
#include "sidecar/sidecar_kube_client.h"

#define V_DEBUG           4 /* the Go sidecar traces calls from -v=4 on */
#define SETTLED_MS        2000U
#define WAITING_EACH_PART 4 /* a user may take one waiting place in this many */

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
static char *listen_address(const struct sidecar_role_options *o)
{
	const char *host = o->host ? o->host : "";
	bool bare = strchr(host, ':') && host[0] != '[';

	return cairn_printf("%s%s%s:%u", bare ? "[" : "", host, bare ? "]" : "", (unsigned)o->port);
}

static int sidecar_main_reach_kubernetes(const struct sidecar_role_options *o,
					 struct sidecar_kube_client **ret, struct cairn_err *err)
{
	struct sidecar_kube_client_options options = {.kubeconfig = o->kubeconfig,
						      .burst = (unsigned)o->kube_burst};
	int rc = read_qps(o->kube_qps, &options.qps, err);

	return rc ? rc : sidecar_kube_client_new(&options, ret, err);
}

static int watch_sessions(const struct sidecar_role_options *o, struct sidecar_kube_client *kube,
			  struct sidecar_sessions **ret, struct cairn_err *err)
{
	if (!o->sessions)
		return 0;
	return sidecar_sessions_new(sidecar_kube_client_inner(kube), o->session_ns, ret, err);
}

/* The data for publishing the sidecar once the driver's name is known. */
struct advert {
	const struct sidecar_role_options *options;
	struct kube_client *client;
	struct kube_publisher *publisher;
};

static void advert_done(struct advert *advert)
{
	kube_publisher_free(advert->publisher);
}

static void sidecar_main_driver_named(void *arg, const char *driver)
{
	struct advert *advert = arg;
	struct sidecar_publish_config_options what = {
		.name = advert->options->session_configuration,
		.driver = driver,
		.ns = advert->options->session_ns,
		.address = advert->options->session_address,
		.ca_file = advert->options->session_ca,
	};
	struct cairn_err err = {0};

	if (what.name && sidecar_advertise(advert->client, &what, &advert->publisher, &err) != 0)
		cairn_log(CAIRN_LOG_ERROR, "the session service is not published",
			  CAIRN_STR("error", err.msg));
}

static int sidecar_start(const struct sidecar_role_options *o, struct sidecar_kube_client *kube,
			 struct sidecar_sessions *sessions, struct advert *advert,
			 const char *listen, struct sidecar **ret, struct cairn_err *err)
{
	unsigned waiting_each = (unsigned)o->waiting / WAITING_EACH_PART;
	struct sidecar_options options = {
		.kube = sidecar_kube_client_table(kube),
		.api_requests = sidecar_kube_client_requests,
		.listen = listen,
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
		.sessions = sessions,
		.named = sidecar_main_driver_named,
		.named_arg = advert,
		.csi_address = o->csi_address,
		.csi_timeout_ms = o->csi_timeout_ms,
		.message_max = o->message_max,
		.reflection = o->reflection,
		.http_listen = o->http_endpoint,
		.metrics_path = o->disable_metrics ? NULL : o->metrics_path,
		.http_tls = o->http_tls,
	};

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
	cairn_cleanup(sidecar_kube_client_freep) struct sidecar_kube_client *kube = NULL;
	cairn_cleanup(sidecar_sessions_freep) struct sidecar_sessions *sessions = NULL;
	cairn_cleanup(advert_done) struct advert advert = {.options = options};
	cairn_cleanup(sidecar_freep) struct sidecar *sidecar = NULL;
	cairn_auto_free char *listen = listen_address(options);
	unsigned cut;
	sigset_t signals;
	int rc;

	if (!listen)
		return cairn_err_nomem(err, "sidecar");
	set_log_level(options);
	net_signals_block(&signals);
	/* The Go sidecar ends on SIGQUIT too. */
	sigaddset(&signals, SIGQUIT);
	pthread_sigmask(SIG_BLOCK, &signals, NULL);
	cairn_log(CAIRN_LOG_INFO, "version", CAIRN_STR("version", CAIRN_VERSION));
	rc = sidecar_main_reach_kubernetes(options, &kube, err);
	cairn_mem_drop_clean();
	if (!rc)
		rc = watch_sessions(options, kube, &sessions, err);
	if (!rc)
		advert.client = sidecar_kube_client_inner(kube);
	if (!rc)
		rc = sidecar_start(options, kube, sessions, &advert, listen, &sidecar, err);
	if (rc)
		return rc;
	cairn_log(CAIRN_LOG_INFO, "serving", CAIRN_STR("address", listen),
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
