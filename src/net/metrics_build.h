/* SPDX-License-Identifier: Apache-2.0 */

/* Which build of Cairn a process is, as a metric: monitoring shows what runs where. */
#ifndef CAIRN_NET_METRICS_BUILD_H
#define CAIRN_NET_METRICS_BUILD_H

struct cairn_err;
struct net_metrics;

/* Registers cairn_build_info, whose value is 1. Codes of net_metrics_add(). */
int net_metrics_add_build(struct net_metrics *metrics, const char *version, struct cairn_err *err);

#endif
