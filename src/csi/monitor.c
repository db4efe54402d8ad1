/* SPDX-License-Identifier: Apache-2.0 */

#include "csi/monitor.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/mem.h"
#include "csi/operations.h"
#include "csi/registration.h"
#include "csi/service.h"
#include "net/grpc/grpc_server.h"
#include "net/http/http_server.h"
#include "net/http/http_standard.h"
#include "net/metrics.h"
#include "net/metrics_build.h"

#define N_CODES 17 /* gRPC codes, from 0 on */

struct csi_monitor {
	struct csi_monitor_options options;
	struct net_metrics *metrics;
	struct net_http_server *http;
	struct net_http_standard standard;
	struct net_metric *calls;
	struct net_metric *seconds;
	struct net_metric *operations;
	struct net_metric *open_calls;
	struct net_metric *pool_bytes;
	const char **paths;      /* label values: every method, then "other" */
	const char **pool_names; /* label values: every pool */
	const char *codes[N_CODES + 2];
};

static const double buckets[] = {0.001, 0.005, 0.02, 0.1, 0.5, 2, 10, 60};
static const char *const space_kinds[] = {"total", "free", NULL};

static void on_call_end(void *arg, const char *path, int code, uint64_t duration_ns)
{
	struct csi_monitor *monitor = arg;
	const char *labels[] = {path, cairn_code_name(code)};

	net_metric_count(monitor->calls, net_metric_series_of(monitor->calls, labels), 1);
	net_metric_observe(monitor->seconds, net_metric_series_of(monitor->seconds, labels),
			   (double)duration_ns / (double)CAIRN_NS_PER_SEC);
	csi_operations_observe(monitor->operations, monitor->options.driver->name, path, code,
			       duration_ns);
}

static void monitor_collect(void *arg)
{
	struct csi_monitor *monitor = arg;
	struct net_server_stats stats;

	net_server_stats(monitor->options.server, &stats);
	net_metric_set(monitor->open_calls, 0, (double)stats.calls_open);
	for (size_t i = 0; i < monitor->options.driver->n_pools; i++) {
		const struct csi_pool *pool = &monitor->options.driver->pools[i];
		struct pool_space space;
		const char *total[] = {pool->name, "total"};
		const char *free_space[] = {pool->name, "free"};

		if (pool_space_get(pool->pool, &space, NULL) != 0)
			continue;
		net_metric_set(monitor->pool_bytes,
			       net_metric_series_of(monitor->pool_bytes, total),
			       (double)space.total_bytes);
		net_metric_set(monitor->pool_bytes,
			       net_metric_series_of(monitor->pool_bytes, free_space),
			       (double)space.free_bytes);
	}
}

static bool monitor_is_ready(void *arg, char *reason, size_t cap)
{
	const struct csi_monitor *monitor = arg;
	const struct csi_driver *driver = monitor->options.driver;

	if (monitor->options.registration &&
	    !csi_registration_is_good(monitor->options.registration)) {
		snprintf(reason, cap, "the kubelet refuses the driver");
		return false;
	}
	for (size_t i = 0; i < driver->n_pools; i++) {
		struct cairn_err err = {0};
		struct pool_space space;

		if (pool_space_get(driver->pools[i].pool, &space, &err) != 0) {
			snprintf(reason, cap, "pool '%s': %s", driver->pools[i].name, err.msg);
			return false;
		}
	}
	return true;
}

/* Every method of the driver with "other" at its end, and every pool. */
static int make_labels(struct csi_monitor *monitor, struct cairn_err *err)
{
	const struct csi_driver *driver = monitor->options.driver;
	size_t n = 0;

	monitor->paths = cairn_calloc(driver->n_bindings + csi_handlers_n + 2, sizeof(char *));
	monitor->pool_names = cairn_calloc(driver->n_pools + 2, sizeof(char *));
	if (!monitor->paths || !monitor->pool_names)
		return cairn_err_nomem(err, "metrics");
	for (; n < driver->n_bindings; n++)
		monitor->paths[n] = driver->bindings[n].method->path;
	for (size_t i = 0; i < csi_handlers_n; i++)
		if (csi_handler_is_on(driver, &csi_handlers[i]))
			monitor->paths[n++] = csi_handlers[i].path;
	monitor->paths[n] = "other";
	for (n = 0; n < driver->n_pools; n++)
		monitor->pool_names[n] = driver->pools[n].name;
	for (int code = 0; code < N_CODES; code++)
		monitor->codes[code] = cairn_code_name(code);
	monitor->codes[N_CODES] = "other";
	return 0;
}

static int monitor_add_metrics(struct csi_monitor *monitor, struct cairn_err *err)
{
	const struct net_metric_spec calls = {
		.name = "cairn_csi_calls_total",
		.help = "Calls answered, by method and gRPC code.",
		.kind = NET_COUNTER,
		.labels = {{"method", monitor->paths}, {"code", monitor->codes}},
	};
	const struct net_metric_spec seconds = {
		.name = "cairn_csi_call_seconds",
		.help = "Time from a call's start to its end.",
		.kind = NET_HISTOGRAM,
		.labels = {{"method", monitor->paths}},
		.buckets = buckets,
		.n_buckets = sizeof(buckets) / sizeof(buckets[0]),
	};
	const struct net_metric_spec open_calls = {
		.name = "cairn_csi_calls_open", .help = "Calls under way.", .kind = NET_GAUGE};
	const struct net_metric_spec pool_bytes = {
		.name = "cairn_pool_bytes",
		.help = "Space of a pool.",
		.kind = NET_GAUGE,
		.labels = {{"pool", monitor->pool_names}, {"kind", space_kinds}},
	};
	int rc = net_metrics_add(monitor->metrics, &calls, &monitor->calls, err);

	if (!rc)
		rc = net_metrics_add(monitor->metrics, &seconds, &monitor->seconds, err);
	if (!rc)
		rc = csi_operations_add(monitor->metrics, monitor->options.driver->name,
					monitor->paths, &monitor->operations, err);
	if (!rc)
		rc = net_metrics_add(monitor->metrics, &open_calls, &monitor->open_calls, err);
	if (!rc)
		rc = net_metrics_add(monitor->metrics, &pool_bytes, &monitor->pool_bytes, err);
	if (!rc)
		rc = net_metrics_add_process(monitor->metrics, err);
	if (!rc)
		rc = net_metrics_add_build(monitor->metrics, monitor->options.driver->version, err);
	return rc ? rc : net_metrics_on_render(monitor->metrics, monitor_collect, monitor, err);
}

static int monitor_serve(struct csi_monitor *monitor, struct cairn_err *err)
{
	const struct net_http_standard_server how = {.name = "http",
						     .listen = monitor->options.address};

	monitor->standard = (struct net_http_standard){
		.ready = monitor_is_ready, .arg = monitor, .metrics = monitor->metrics};
	return net_http_serve_standard(&how, &monitor->standard, &monitor->http, NULL, err);
}

int csi_monitor_new(const struct csi_monitor_options *options, struct csi_monitor **ret,
		    struct cairn_err *err)
{
	cairn_cleanup(csi_monitor_freep) struct csi_monitor *monitor =
		cairn_calloc(1, sizeof(*monitor));
	int rc;

	if (!monitor)
		return cairn_err_nomem(err, "monitor");
	monitor->options = *options;
	rc = make_labels(monitor, err);
	if (!rc)
		rc = net_metrics_new(&monitor->metrics, err);
	if (!rc)
		rc = monitor_add_metrics(monitor, err);
	if (rc)
		return rc;
	net_server_on_call_end(options->server, on_call_end, monitor);
	rc = monitor_serve(monitor, err);
	if (rc)
		return cairn_err_wrap(err, "serve metrics on '%s'", options->address);
	*ret = cairn_take(monitor);
	return 0;
}

void csi_monitor_stop(struct csi_monitor *monitor)
{
	if (monitor)
		net_http_server_freep(&monitor->http);
	if (monitor)
		monitor->http = NULL;
}

void csi_monitor_free(struct csi_monitor *monitor)
{
	net_http_server_freep(&monitor->http);
	net_metrics_freep(&monitor->metrics);
	free(monitor->pool_names);
	free(monitor->paths);
	free(monitor);
}
