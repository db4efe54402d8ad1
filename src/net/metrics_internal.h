/* SPDX-License-Identifier: Apache-2.0 */

/* Representation of metrics; shared by metrics*.c only. */
#ifndef CAIRN_NET_METRICS_INTERNAL_H
#define CAIRN_NET_METRICS_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>

#include "net/metrics.h"

/* Cells that threads count in, so that they do not share cache lines. */
#define METRIC_STRIPES 4

struct net_metric {
	struct net_metric *next;
	char *name;
	char *help;
	enum net_metric_kind kind;
	unsigned n_labels;
	char *label_names[NET_METRIC_LABELS_MAX];
	char **label_values[NET_METRIC_LABELS_MAX];
	unsigned label_counts[NET_METRIC_LABELS_MAX];
	size_t n_series;
	double *buckets;
	size_t n_buckets;
	bool sparse;

	/* A series is `cells` numbers: a counter's count; a gauge's bits of a double;
	 * a histogram's buckets, the one above all bounds, and the bits of its sum.
	 * Stripes lie one after another. A gauge uses the first one only. */
	size_t cells;
	atomic_uint_fast64_t *numbers;
};

#define NET_METRICS_PROCESS 13

struct metric_hook {
	struct metric_hook *next;
	void (*collect)(void *arg);                      /* one of these two */
	void (*write)(void *arg, struct cairn_buf *buf); /* is NULL */
	void *arg;
};

struct net_metrics {
	pthread_mutex_t lock; /* guards both lists; not the numbers */
	struct net_metric *first, **last;
	struct metric_hook *hooks;
	struct net_metric *process[NET_METRICS_PROCESS]; /* of net_metrics_add_process() */
};

/* The sum of a cell over all stripes, as a count or as a double. */
uint64_t net_metric_total(const struct net_metric *metric, size_t series, size_t cell);
double net_metric_total_real(const struct net_metric *metric, size_t series, size_t cell);

#endif
