/* SPDX-License-Identifier: Apache-2.0 */

#include "sidecar/sidecar_metrics.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/lock.h"
#include "base/log.h"
#include "base/mem.h"
#include "net/grpc/grpc_status.h"
#include "net/metrics.h"

#define DRIVER_NAME_MAX 257U

struct early {
	char method[64];
	int code;
	uint64_t duration_ns;
};

struct sidecar_metrics {
	struct net_metrics *registry;
	struct sidecar_metrics_source source;
	struct net_metric *violations;
	struct net_metric *resumed;
	struct net_metric *relayed;
	struct net_metric *early_total;
	struct net_metric *gauges[SIDECAR_GAUGES];
	char driver[DRIVER_NAME_MAX];

	/* Set once the driver is known. */
	_Atomic(struct net_metric *) operations;
	struct net_metric *documented;

	pthread_mutex_t lock;
	/* Guarded by the lock, until then. */
	struct early early[SIDECAR_METRICS_EARLY_MAX];
	unsigned n_early;
};

static const double buckets[] = {.1, .25, .5, 1, 2.5, 5, 10, 15, 25, 50, 120, 300, 600};

static const char *const methods[] = {
	SIDECAR_METHOD_ALLOCATED,
	SIDECAR_METHOD_DELTA,
	"/csi.v1.Identity/GetPluginInfo",
	"/csi.v1.Identity/GetPluginCapabilities",
	"/csi.v1.Identity/Probe",
	"/csi.v1.SnapshotMetadata/GetMetadataAllocated",
	"/csi.v1.SnapshotMetadata/GetMetadataDelta",
	"other",
	NULL,
};

static const char *const units[] = {"messages", "tuples", "bytes", NULL};

static const struct {
	const char *name;
	const char *help;
	enum net_metric_kind kind;
} gauges[SIDECAR_GAUGES] = {
	[SIDECAR_GAUGE_STREAMS] = {"cairn_sidecar_streams", "Streams under way.", NET_GAUGE},
	[SIDECAR_GAUGE_STREAMS_WAITING] = {"cairn_sidecar_streams_waiting",
					   "Streams that wait for a place.", NET_GAUGE},
	[SIDECAR_GAUGE_USERS] = {"cairn_sidecar_users", "Users with a stream.", NET_GAUGE},
	[SIDECAR_GAUGE_CONNECTIONS] = {"cairn_sidecar_connections", "Connections of callers.",
				       NET_GAUGE},
	[SIDECAR_GAUGE_BUFFERED] = {"cairn_sidecar_buffered_bytes", "Bytes that wait for callers.",
				    NET_GAUGE},
	[SIDECAR_GAUGE_DRIVER_READY] = {"cairn_sidecar_driver_ready",
					"1 while the CSI driver answers.", NET_GAUGE},
	[SIDECAR_GAUGE_CERTIFICATE_END] = {"cairn_sidecar_certificate_expiry_seconds",
					   "End of the certificate, since 1970.", NET_GAUGE},
	[SIDECAR_GAUGE_ROUTE_PEERS] = {"cairn_sidecar_route_peers",
				       "Nodes to which connections are kept.", NET_GAUGE},
	[SIDECAR_COUNT_ROUTED_OUT] = {"cairn_sidecar_routed_out_total",
				      "Streams passed to other nodes.", NET_COUNTER_READ},
	[SIDECAR_COUNT_ROUTED_IN] = {"cairn_sidecar_routed_in_total",
				     "Streams that other nodes passed to this one.",
				     NET_COUNTER_READ},
	[SIDECAR_COUNT_API_REQUESTS] = {"cairn_sidecar_api_requests_total",
					"Requests to the API server.", NET_COUNTER_READ},
	[SIDECAR_COUNT_TOKEN_HITS] = {"cairn_sidecar_token_cache_hits_total",
				      "Tokens that were known.", NET_COUNTER_READ},
	[SIDECAR_COUNT_TOKEN_MISSES] = {"cairn_sidecar_token_cache_misses_total",
					"Tokens that were reviewed.", NET_COUNTER_READ},
	[SIDECAR_COUNT_RIGHT_HITS] = {"cairn_sidecar_access_cache_hits_total",
				      "Rights that were known.", NET_COUNTER_READ},
	[SIDECAR_COUNT_RIGHT_MISSES] = {"cairn_sidecar_access_cache_misses_total",
					"Rights that were reviewed.", NET_COUNTER_READ},
	[SIDECAR_COUNT_NAME_HITS] = {"cairn_sidecar_snapshot_cache_hits_total",
				     "Snapshots that were known.", NET_COUNTER_READ},
	[SIDECAR_COUNT_NAME_MISSES] = {"cairn_sidecar_snapshot_cache_misses_total",
				       "Snapshots that were looked up.", NET_COUNTER_READ},
};

static void sidecar_metrics_collect(void *arg)
{
	struct sidecar_metrics *m = arg;

	if (m->source.read)
		m->source.read(m->source.arg, m);
}

static int sidecar_metrics_add_own(struct sidecar_metrics *m, struct cairn_err *err)
{
	const struct net_metric_spec violations = {
		.name = "cairn_sidecar_driver_violations_total",
		.help = "Streams ended because the driver broke the protocol.",
		.kind = NET_COUNTER};
	const struct net_metric_spec resumed = {
		.name = "cairn_sidecar_resumed_total",
		.help = "Driver streams started again after the driver was lost.",
		.kind = NET_COUNTER};
	const struct net_metric_spec early = {
		.name = "cairn_sidecar_early_operations_total",
		.help = "Operations that ended before the driver was known.",
		.kind = NET_COUNTER};
	const struct net_metric_spec relayed = {.name = "cairn_sidecar_relayed_total",
						.help = "What went from driver to callers.",
						.kind = NET_COUNTER,
						.labels = {{"unit", units}}};
	int rc = net_metrics_add(m->registry, &violations, &m->violations, err);

	if (!rc)
		rc = net_metrics_add(m->registry, &resumed, &m->resumed, err);
	if (!rc)
		rc = net_metrics_add(m->registry, &early, &m->early_total, err);
	if (!rc)
		rc = net_metrics_add(m->registry, &relayed, &m->relayed, err);
	for (unsigned i = 0; !rc && i < SIDECAR_GAUGES; i++) {
		const struct net_metric_spec spec = {
			.name = gauges[i].name, .help = gauges[i].help, .kind = gauges[i].kind};

		rc = net_metrics_add(m->registry, &spec, &m->gauges[i], err);
	}
	if (!rc)
		rc = net_metrics_add_process(m->registry, err);
	return rc ? rc : net_metrics_on_render(m->registry, sidecar_metrics_collect, m, err);
}

int sidecar_metrics_new(const struct sidecar_metrics_source *source, struct sidecar_metrics **ret,
			struct cairn_err *err)
{
	cairn_cleanup(sidecar_metrics_freep) struct sidecar_metrics *m =
		cairn_calloc(1, sizeof(*m));
	int rc;

	if (!m)
		return cairn_err_nomem(err, "metrics");
	pthread_mutex_init(&m->lock, NULL);
	if (source)
		m->source = *source;
	rc = net_metrics_new(&m->registry, err);
	if (!rc)
		rc = sidecar_metrics_add_own(m, err);
	if (rc)
		return rc;
	*ret = cairn_take(m);
	return 0;
}

void sidecar_metrics_free(struct sidecar_metrics *m)
{
	if (!m)
		return;
	net_metrics_free(m->registry);
	pthread_mutex_destroy(&m->lock);
	free(m);
}

struct net_metrics *sidecar_metrics_registry(struct sidecar_metrics *m)
{
	return m->registry;
}

static int add_operations(struct sidecar_metrics *m, const char *const *drivers,
			  struct net_metric **ret, struct cairn_err *err)
{
	const struct net_metric_spec operations = {
		.name = "snapshot_metadata_controller_operations_seconds",
		.help = "Time that operations took, by method and gRPC status.",
		.kind = NET_HISTOGRAM,
		.labels = {{"driver_name", drivers},
			   {"method_name", methods},
			   {"grpc_status_code", net_grpc_status_labels}},
		.buckets = buckets,
		.n_buckets = sizeof(buckets) / sizeof(buckets[0]),
		.sparse = true,
	};
	const struct net_metric_spec documented = {
		.name = "snapshot_metadata_controller_operation_total_seconds",
		.help = "The same under the name of the enhancement proposal.",
		.kind = NET_HISTOGRAM,
		.labels = {{"operation_name", methods},
			   {"operation_status", net_grpc_status_labels}},
		.buckets = buckets,
		.n_buckets = sizeof(buckets) / sizeof(buckets[0]),
		.sparse = true,
	};
	int rc = net_metrics_add(m->registry, &documented, &m->documented, err);

	return rc ? rc : net_metrics_add(m->registry, &operations, ret, err);
}

static void sidecar_metrics_observe(struct sidecar_metrics *m, struct net_metric *operations,
				    const char *method, int code, uint64_t duration_ns)
{
	const char *status = net_grpc_status_label(code);
	const char *const labels[] = {m->driver, method, status};
	double seconds = (double)duration_ns / (double)CAIRN_NS_PER_SEC;

	net_metric_observe(operations, net_metric_series_of(operations, labels), seconds);
	if (method[0] != '/')
		net_metric_observe(m->documented, net_metric_series_of(m->documented, labels + 1),
				   seconds);
}

void sidecar_metrics_name(struct sidecar_metrics *m, const char *driver)
{
	const char *drivers[] = {m->driver, NULL};
	struct net_metric *operations;
	struct cairn_err err = {0};

	cairn_scoped_lock(&m->lock);
	if (atomic_load(&m->operations))
		return;
	snprintf(m->driver, sizeof(m->driver), "%s", driver);
	if (add_operations(m, drivers, &operations, &err) != 0) {
		cairn_log(CAIRN_LOG_ERROR, "operations are not measured",
			  CAIRN_STR("why", err.msg));
		return;
	}
	for (unsigned i = 0; i < m->n_early; i++)
		sidecar_metrics_observe(m, operations, m->early[i].method, m->early[i].code,
					m->early[i].duration_ns);
	m->n_early = 0;
	atomic_store(&m->operations, operations);
}

/* Returns true if the operation was stored for later. */
static bool sidecar_metrics_keep(struct sidecar_metrics *m, const char *method, int code,
				 uint64_t duration_ns)
{
	cairn_scoped_lock(&m->lock);
	struct early *e = &m->early[m->n_early];

	if (atomic_load(&m->operations))
		return false;
	net_metric_count(m->early_total, 0, 1);
	if (m->n_early == SIDECAR_METRICS_EARLY_MAX)
		return true;
	snprintf(e->method, sizeof(e->method), "%s", method);
	e->code = code;
	e->duration_ns = duration_ns;
	m->n_early++;
	return true;
}

void sidecar_metrics_ended(struct sidecar_metrics *m, const char *method, int code,
			   uint64_t duration_ns)
{
	if (!atomic_load(&m->operations) && sidecar_metrics_keep(m, method, code, duration_ns))
		return;
	sidecar_metrics_observe(m, atomic_load(&m->operations), method, code, duration_ns);
}

void sidecar_metrics_relayed(struct sidecar_metrics *m, uint64_t messages, uint64_t tuples,
			     uint64_t bytes)
{
	const uint64_t counts[] = {messages, tuples, bytes};

	for (unsigned i = 0; i < 3; i++)
		net_metric_count(m->relayed, net_metric_series(m->relayed, &i), counts[i]);
}

void sidecar_metrics_violation(struct sidecar_metrics *m)
{
	net_metric_count(m->violations, 0, 1);
}

void sidecar_metrics_resumed(struct sidecar_metrics *m)
{
	net_metric_count(m->resumed, 0, 1);
}

void sidecar_metrics_set(struct sidecar_metrics *m, enum sidecar_gauge which, double value)
{
	net_metric_set(m->gauges[which], 0, value);
}
