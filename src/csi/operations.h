/* SPDX-License-Identifier: Apache-2.0 */

/* Durations of CSI calls under the name, labels and buckets of csi-lib-utils
 * (metrics.NewCSIMetricsManagerForPlugin), so that dashboards and alerts for other
 * drivers show this one. */
#ifndef CAIRN_CSI_OPERATIONS_H
#define CAIRN_CSI_OPERATIONS_H

#include <stdint.h>

struct cairn_err;
struct net_metric;
struct net_metrics;

/* Registers csi_plugin_operations_seconds. `methods` are paths and end with one for all
 * others and NULL. Codes of net_metrics_add(). */
int csi_operations_add(struct net_metrics *metrics, const char *driver, const char *const *methods,
		       struct net_metric **ret, struct cairn_err *err);

/* From any thread. `code` is a gRPC code, 0 and up. */
void csi_operations_observe(struct net_metric *operations, const char *driver, const char *method,
			    int code, uint64_t duration_ns);

#endif
