/* SPDX-License-Identifier: Apache-2.0 */

/* Counters, gauges and histograms in Prometheus' text format.
 *
 * A metric is registered with its labels and every value that each of them may
 * take, so the number of series is fixed: input from peers selects among them
 * and can never add one. The last value of a label stands for "anything else".
 *
 * Updating is lock-free and may be done from any thread; counts of one series
 * are spread over a few cells so that threads do not share a cache line.
 * Metrics live as long as their registry. Rendering reads each number once; a
 * scrape sees every update that happened before it.
 */
#ifndef CAIRN_NET_METRICS_H
#define CAIRN_NET_METRICS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"

struct cairn_buf;
struct cairn_err;
struct net_metric;
struct net_metrics;

#define NET_METRIC_LABELS_MAX  4
#define NET_METRIC_SERIES_MAX  1024 /* of one metric: bounds the size of a scrape */
#define NET_METRIC_BUCKETS_MAX 32

/* Recommended limit for the buffer of a scrape. */
#define NET_METRICS_TEXT_MAX (16U << 20)

enum net_metric_kind {
	NET_COUNTER,
	NET_GAUGE,
	NET_HISTOGRAM,
	NET_COUNTER_READ, /* read from elsewhere and set like a gauge; may have a fraction */
};

struct net_metric_label {
	const char *name;
	const char *const *values; /* ends with NULL; at least one; the last stands for all
				    * others */
};

struct net_metric_spec {
	const char *name;
	const char *help;
	enum net_metric_kind kind;
	struct net_metric_label labels[NET_METRIC_LABELS_MAX]; /* ends at the first without name */
	const double *buckets; /* of a histogram: upper bounds, ascending, without +Inf */
	size_t n_buckets;
	bool sparse; /* omit series of a histogram without observations */
};

int net_metrics_new(struct net_metrics **ret, struct cairn_err *err);

/* No thread may update its metrics any more. Accepts NULL. */
void net_metrics_free(struct net_metrics *metrics);
CAIRN_DEFINE_CLEANUP(struct net_metrics, net_metrics_free);

/* Registers a metric; its text is copied. Each series starts at 0 and is shown
 * from here on. The metric belongs to the registry.
 *
 * CAIRN_EXISTS   the name is taken
 * CAIRN_INVALID  a name is not legal, buckets do not ascend, or a limit is exceeded
 */
int net_metrics_add(struct net_metrics *metrics, const struct net_metric_spec *spec,
		    struct net_metric **ret, struct cairn_err *err);

/* The position of a value in the i-th label; that of the last value if it is
 * not listed. */
unsigned net_metric_value(const struct net_metric *metric, unsigned label, const char *value);

/* The series at these positions, one for each label. Without labels: 0. */
size_t net_metric_series(const struct net_metric *metric, const unsigned *positions);

/* The same from texts, one for each label. */
size_t net_metric_series_of(const struct net_metric *metric, const char *const *values);

/* For counters. */
void net_metric_count(struct net_metric *metric, size_t series, uint64_t n);

/* For gauges and counters that are read. */
void net_metric_set(struct net_metric *metric, size_t series, double value);
void net_metric_change(struct net_metric *metric, size_t series, double by);

/* For histograms. */
void net_metric_observe(struct net_metric *metric, size_t series, double value);

/* Has `collect` called at the beginning of each rendering, to set gauges that
 * are read rather than kept. */
int net_metrics_on_render(struct net_metrics *metrics, void (*collect)(void *arg), void *arg,
			  struct cairn_err *err);

/* Has `write` called at the end of each rendering, to append metrics whose labels are not known in
 * advance. It keeps to the format, and bounds their number itself. */
int net_metrics_on_write(struct net_metrics *metrics,
			 void (*write)(void *arg, struct cairn_buf *buf), void *arg,
			 struct cairn_err *err);

/* Appends the value of a label, escaped. */
void net_metrics_add_label(struct cairn_buf *buf, const char *value);

/* Appends all metrics, in the order of registration; the buffer is marked as
 * failed if they do not fit. */
void net_metrics_render(struct net_metrics *metrics, struct cairn_buf *buf);

/* Registers the metrics of every process: start time, CPU time, memory,
 * descriptors, and the peers' use of its servers (net/shares.h). */
int net_metrics_add_process(struct net_metrics *metrics, struct cairn_err *err);

#endif
