/* SPDX-License-Identifier: Apache-2.0 */

#include "sidecar/sidecar_impl.h"

#include <stdio.h>

#include "base/err.h"
#include "base/log.h"
#include "base/mem.h"
#include "kube/fair_queue.h"
#include "net/grpc/grpc_server.h"
#include "net/metrics_build.h"
#include "net/tls/tls_settings.h"
#include "net/tls/tls_watch.h"
#include "sidecar/access.h"
#include "sidecar/driver_channel.h"
#include "sidecar/resolve.h"
#include "sidecar/route.h"
#include "sidecar/sidecar_http.h"
#include "sidecar/sidecar_metrics.h"

/* A negative answer is cached for a fifth of the time of a positive one, and objects for
 * half of it, because they change more often than permissions. */
#define REFUSAL_PART 5
#define OBJECT_PART  2
#define NODE_PART    2

/* --- callbacks --- */

static void driver_changed(void *arg, bool ready, const char *text)
{
	struct sidecar *s = arg;

	net_server_set_serving(s->server, "", ready, NULL);
	if (ready)
		cairn_log(CAIRN_LOG_INFO, "the CSI driver is ready", CAIRN_STR("driver", text));
	else
		cairn_log(CAIRN_LOG_WARN, "the CSI driver is not ready", CAIRN_STR("why", text));
}

static void driver_called(void *arg, const char *path, int code, uint64_t duration_ns)
{
	struct sidecar *s = arg;

	sidecar_metrics_ended(s->metrics, path, code, duration_ns);
}

static void sidecar_driver_named(void *arg, const char *name)
{
	struct sidecar *s = arg;

	sidecar_metrics_name(s->metrics, name);
	cairn_log(CAIRN_LOG_INFO, "CSI driver name", CAIRN_STR("driver", name));
	if (s->options.named)
		s->options.named(s->options.named_arg, name);
}

static void certificate_changed(void *arg, const struct cairn_err *failure)
{
	(void)arg;
	if (failure)
		cairn_log(CAIRN_LOG_ERROR, "the new certificate is not used",
			  CAIRN_STR("why", failure->msg));
	else
		cairn_log(CAIRN_LOG_INFO, "the certificate was replaced");
}

static bool sidecar_is_ready(void *arg, char *why, size_t cap)
{
	struct sidecar *s = arg;

	if (!s->driver || s->draining) {
		snprintf(why, cap, s->driver ? "stopping" : "starting");
		return false;
	}
	return sidecar_driver_ready(s->driver, why, cap);
}

static void sidecar_tick(void *arg)
{
	struct sidecar *s = arg;

	sidecar_access_sweep(s->access);
	sidecar_resolve_sweep(s->names);
	if (s->route)
		sidecar_route_sweep(s->route);
}

static void read_caches(struct sidecar *s, struct sidecar_metrics *m)
{
	struct kube_cache_stats tokens;
	struct kube_cache_stats rights;
	struct kube_cache_stats names;

	sidecar_access_stats(s->access, &tokens, &rights);
	sidecar_resolve_stats(s->names, &names);
	sidecar_metrics_set(m, SIDECAR_COUNT_TOKEN_HITS, (double)tokens.hits);
	sidecar_metrics_set(m, SIDECAR_COUNT_TOKEN_MISSES, (double)tokens.misses);
	sidecar_metrics_set(m, SIDECAR_COUNT_RIGHT_HITS, (double)rights.hits);
	sidecar_metrics_set(m, SIDECAR_COUNT_RIGHT_MISSES, (double)rights.misses);
	sidecar_metrics_set(m, SIDECAR_COUNT_NAME_HITS, (double)names.hits);
	sidecar_metrics_set(m, SIDECAR_COUNT_NAME_MISSES, (double)names.misses);
}

static void read_gauges(void *arg, struct sidecar_metrics *m)
{
	struct sidecar *s = arg;
	struct kube_fair_queue_stats streams;
	struct net_server_stats server;
	struct net_tls_info tls;

	kube_fair_queue_stats(s->streams, &streams);
	net_server_stats(s->server, &server);
	net_tls_info(s->tls, &tls);
	sidecar_metrics_set(m, SIDECAR_GAUGE_STREAMS, streams.inside);
	sidecar_metrics_set(m, SIDECAR_GAUGE_STREAMS_WAITING, streams.waiting);
	sidecar_metrics_set(m, SIDECAR_GAUGE_USERS, streams.owners);
	sidecar_metrics_set(m, SIDECAR_GAUGE_CONNECTIONS, (double)server.connections_open);
	sidecar_metrics_set(m, SIDECAR_GAUGE_BUFFERED, (double)server.bytes_buffered);
	sidecar_metrics_set(m, SIDECAR_GAUGE_DRIVER_READY, sidecar_is_ready(s, NULL, 0));
	sidecar_metrics_set(m, SIDECAR_GAUGE_CERTIFICATE_END, (double)tls.not_after);
	if (s->route)
		sidecar_metrics_set(m, SIDECAR_GAUGE_ROUTE_PEERS, sidecar_route_peers(s->route));
	sidecar_metrics_set(m, SIDECAR_COUNT_ROUTED_OUT, (double)s->routed_out);
	sidecar_metrics_set(m, SIDECAR_COUNT_ROUTED_IN, (double)s->routed_in);
	if (s->options.api_requests)
		sidecar_metrics_set(m, SIDECAR_COUNT_API_REQUESTS,
				    (double)s->options.api_requests(s->options.kube.self));
	read_caches(s, m);
}

/* --- creation --- */

/* One for HTTP/2 and one for HTTP/1.1: a scraper that supports both must not negotiate the
 * wrong one. */
static int make_tls(struct sidecar *s, bool http, struct net_tls **ret,
		    struct net_tls_watch **watch, struct cairn_err *err)
{
	const struct sidecar_options *o = &s->options;
	struct net_tls_options options = {
		.cert_file = o->tls_cert,
		.key_file = o->tls_key,
		.min_version = o->tls_min_version,
		.cipher_suites = o->tls_ciphers,
		.curves = o->tls_curves,
		.h2 = !http,
		.http1 = http,
	};
	struct net_tls_watch_options watching = {.changed = http ? NULL : certificate_changed,
						 .arg = s};
	int rc = net_tls_server_new(&options, ret, err);

	return rc ? rc : net_tls_watch_new(*ret, &watching, watch, err);
}

static int make_checks(struct sidecar *s, struct cairn_err *err)
{
	const struct sidecar_options *o = &s->options;
	struct sidecar_kube kube = sidecar_kube_gate(&s->kube);
	struct sidecar_access_options access = {
		.kube = kube,
		.audience = o->audience,
		.keep_ms = o->keep_ms,
		.refusal_ms = o->keep_ms / REFUSAL_PART,
	};
	struct sidecar_resolve_options names = {
		.kube = kube,
		.keep_ms = o->keep_ms / OBJECT_PART,
		.refusal_ms = o->keep_ms / OBJECT_PART / REFUSAL_PART,
		.nodes = o->route.node != NULL,
	};
	int rc;

	s->kube = (struct sidecar_kube_gate){.behind = o->kube, .gate = s->checks};
	rc = sidecar_access_new(&access, &s->access, err);
	return rc ? rc : sidecar_resolve_new(&names, &s->names, err);
}

static int make_gates(struct sidecar *s, struct cairn_err *err)
{
	const struct sidecar_options *o = &s->options;
	const struct kube_fair_queue_options checks = {
		.what = "questions to the API server",
		.total = SIDECAR_QUESTIONS,
		.each = SIDECAR_QUESTIONS_EACH,
		.waiting = SIDECAR_QUESTIONS_WAITING,
		.waiting_each = SIDECAR_QUESTIONS_WAITING_EACH,
	};
	const struct kube_fair_queue_options streams = {
		.what = "streams",
		.total = o->streams,
		.each = o->streams_each,
		.waiting = o->waiting,
		.waiting_each = o->waiting_each,
	};
	/* One node gets at most half of them: if it hangs, the others are still served. */
	const struct kube_fair_queue_options routed = {
		.what = "streams between nodes",
		.total = 2 * o->streams,
		.each = o->streams / NODE_PART + 1,
		.waiting = o->waiting,
		.waiting_each = o->waiting,
	};
	int rc = kube_fair_queue_new(&checks, &s->checks, err);

	if (!rc)
		rc = kube_fair_queue_new(&streams, &s->streams, err);
	return rc || !o->route.node ? rc : kube_fair_queue_new(&routed, &s->routed, err);
}

static int sidecar_make_driver(struct sidecar *s, struct cairn_err *err)
{
	struct sidecar_driver_options options = {
		.address = s->options.csi_address,
		.server = s->server,
		.timeout_ms = s->options.csi_timeout_ms,
		.message_max = s->options.message_max,
		.probe_ms = s->options.probe_ms,
		.sessions = s->options.sessions != NULL,
		.changed = driver_changed,
		.called = driver_called,
		.named = sidecar_driver_named,
		.arg = s,
	};

	return sidecar_driver_new(&options, &s->driver, err);
}

static int make_http(struct sidecar *s, struct cairn_err *err)
{
	const struct sidecar_options *o = &s->options;
	bool wanted = o->http_listen && o->http_listen[0];
	struct sidecar_http_options options = {
		.listen = wanted ? o->http_listen : NULL,
		.tls = s->http_tls,
		.metrics = o->metrics_path ? sidecar_metrics_registry(s->metrics) : NULL,
		.metrics_path = o->metrics_path,
		.ready = sidecar_is_ready,
		.tick = sidecar_tick,
		.arg = s,
	};

	return sidecar_http_new(&options, &s->http, err);
}

int sidecar_new(const struct sidecar_options *options, struct sidecar **ret, struct cairn_err *err)
{
	cairn_cleanup(sidecar_freep) struct sidecar *s = cairn_calloc(1, sizeof(*s));
	struct sidecar_metrics_source source = {.read = read_gauges, .arg = s};
	int rc;

	if (!s)
		return cairn_err_nomem(err, "sidecar");
	s->options = *options;
	rc = make_tls(s, false, &s->tls, &s->tls_watch, err);
	if (!rc && options->http_tls)
		rc = make_tls(s, true, &s->http_tls, &s->http_tls_watch, err);
	if (!rc)
		rc = sidecar_metrics_new(&source, &s->metrics, err);
	if (!rc && options->version)
		rc = net_metrics_add_build(sidecar_metrics_registry(s->metrics), options->version,
					   err);
	if (!rc)
		rc = make_gates(s, err);
	if (!rc)
		rc = make_checks(s, err);
	if (!rc)
		rc = sidecar_make_server(s, err);
	if (!rc)
		rc = sidecar_make_route(s, err);
	if (!rc)
		rc = sidecar_make_driver(s, err);
	if (!rc)
		rc = make_http(s, err);
	if (!rc)
		rc = net_server_start(s->server, err);
	if (rc)
		return rc;
	*ret = cairn_take(s);
	return 0;
}

uint16_t sidecar_port(const struct sidecar *sidecar)
{
	return sidecar->port;
}

uint16_t sidecar_port_for_nodes(const struct sidecar *sidecar)
{
	return sidecar->route ? sidecar_route_port(sidecar->route) : 0;
}

uint16_t sidecar_http_port(struct sidecar *sidecar)
{
	return sidecar_http_listens(sidecar->http);
}

unsigned sidecar_drain(struct sidecar *sidecar, uint64_t grace_ms)
{
	sidecar->draining = true;
	return net_server_drain(sidecar->server, grace_ms);
}

void sidecar_free(struct sidecar *s)
{
	if (!s)
		return;
	sidecar_http_free(s->http);
	if (s->server)
		net_server_drain(s->server, 0);
	sidecar_driver_free(s->driver);
	sidecar_route_close(s->route);
	net_server_free(s->server);
	sidecar_route_free(s->route);
	kube_fair_queue_free(s->routed);
	kube_fair_queue_free(s->streams);
	kube_fair_queue_free(s->checks);
	sidecar_resolve_free(s->names);
	sidecar_access_free(s->access);
	sidecar_metrics_free(s->metrics);
	net_tls_watch_free(s->http_tls_watch);
	net_tls_watch_free(s->tls_watch);
	net_tls_free(s->http_tls);
	net_tls_free(s->tls);
	free(s);
}
