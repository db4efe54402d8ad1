/* SPDX-License-Identifier: Apache-2.0 */

/* The sidecar's metrics.
 *
 * The histogram of operations has the Go sidecar's name and labels, so that existing
 * dashboards keep working, except for labels with snapshot names: they would create a time
 * series for every snapshot, and any user could create those. A second histogram has the
 * name that the enhancement proposal documents. All label values are known in advance.
 *
 * Thread-safe.
 */
#ifndef CAIRN_SIDECAR_METRICS_H
#define CAIRN_SIDECAR_METRICS_H

#include <stdint.h>

#include "base/cleanup.h"

struct cairn_err;
struct net_metrics;
struct sidecar_metrics;

/* Limit of operations that end before the driver's name is known and are counted when it
 * is. Beyond it they are counted only in cairn_sidecar_early_operations_total. */
#define SIDECAR_METRICS_EARLY_MAX 256U

/* A callback that supplies the value of a metric. */
struct sidecar_metrics_source {
	void (*read)(void *arg, struct sidecar_metrics *metrics);
	void *arg;
};

int sidecar_metrics_new(const struct sidecar_metrics_source *source, struct sidecar_metrics **ret,
			struct cairn_err *err);
void sidecar_metrics_free(struct sidecar_metrics *metrics); /* accepts NULL */
CAIRN_DEFINE_CLEANUP(struct sidecar_metrics, sidecar_metrics_free);

/* For an HTTP server. */
struct net_metrics *sidecar_metrics_registry(struct sidecar_metrics *metrics);

/* Called once, when the driver's name is known. */
void sidecar_metrics_name(struct sidecar_metrics *metrics, const char *driver);

#define SIDECAR_METHOD_ALLOCATED "MetadataAllocated"
#define SIDECAR_METHOD_DELTA     "MetadataDelta"

/* Counts an operation: one of the two above, or the full path of a call to the driver.
 * `code` is the gRPC code, 0 and up. */
void sidecar_metrics_ended(struct sidecar_metrics *metrics, const char *method, int code,
			   uint64_t duration_ns);

void sidecar_metrics_relayed(struct sidecar_metrics *metrics, uint64_t messages, uint64_t tuples,
			     uint64_t bytes);

/* Counts a message from the driver that violates the protocol. */
void sidecar_metrics_violation(struct sidecar_metrics *metrics);

/* Counts a stream that continues after its driver was lost. */
void sidecar_metrics_resumed(struct sidecar_metrics *metrics);

/* Values of a source. */
enum sidecar_gauge {
	SIDECAR_GAUGE_STREAMS,
	SIDECAR_GAUGE_STREAMS_WAITING,
	SIDECAR_GAUGE_USERS,
	SIDECAR_GAUGE_CONNECTIONS,
	SIDECAR_GAUGE_BUFFERED,
	SIDECAR_GAUGE_DRIVER_READY,
	SIDECAR_GAUGE_CERTIFICATE_END,
	SIDECAR_GAUGE_ROUTE_PEERS,
	SIDECAR_COUNT_ROUTED_OUT,
	SIDECAR_COUNT_ROUTED_IN,
	SIDECAR_COUNT_API_REQUESTS,
	SIDECAR_COUNT_TOKEN_HITS,
	SIDECAR_COUNT_TOKEN_MISSES,
	SIDECAR_COUNT_RIGHT_HITS,
	SIDECAR_COUNT_RIGHT_MISSES,
	SIDECAR_COUNT_NAME_HITS,
	SIDECAR_COUNT_NAME_MISSES,
	SIDECAR_GAUGES, /* how many */
};

void sidecar_metrics_set(struct sidecar_metrics *metrics, enum sidecar_gauge which, double value);

#endif
