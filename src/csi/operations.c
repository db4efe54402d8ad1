/* SPDX-License-Identifier: Apache-2.0 */

#include "csi/operations.h"

#include <stddef.h>

#include "base/clock.h"
#include "net/grpc/grpc_status.h"
#include "net/metrics.h"

static const double operation_buckets[] = {.1, .25, .5, 1, 2.5, 5, 10, 15, 25, 50, 120, 300, 600};

int csi_operations_add(struct net_metrics *metrics, const char *driver, const char *const *methods,
		       struct net_metric **ret, struct cairn_err *err)
{
	const char *const drivers[] = {driver, NULL};
	const struct net_metric_spec spec = {
		.name = "csi_plugin_operations_seconds",
		.help = "Time that CSI calls took, by method and gRPC status.",
		.kind = NET_HISTOGRAM,
		.labels = {{"driver_name", drivers},
			   {"method_name", methods},
			   {"grpc_status_code", net_grpc_status_labels}},
		.buckets = operation_buckets,
		.n_buckets = sizeof(operation_buckets) / sizeof(operation_buckets[0]),
		.sparse = true,
	};

	return net_metrics_add(metrics, &spec, ret, err);
}

void csi_operations_observe(struct net_metric *operations, const char *driver, const char *method,
			    int code, uint64_t duration_ns)
{
	const char *const labels[] = {driver, method, net_grpc_status_label(code)};

	net_metric_observe(operations, net_metric_series_of(operations, labels),
			   (double)duration_ns / (double)CAIRN_NS_PER_SEC);
}
