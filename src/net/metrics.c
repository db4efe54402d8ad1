/* SPDX-License-Identifier: Apache-2.0 */

#include "net/metrics.h"

#include <ctype.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/lock.h"
#include "base/mem.h"
#include "net/metrics_internal.h"

static unsigned my_stripe(void)
{
	static atomic_uint next;
	static _Thread_local unsigned mine; /* 1 and up once chosen */

	if (mine == 0)
		mine = 1 +
		       atomic_fetch_add_explicit(&next, 1, memory_order_relaxed) % METRIC_STRIPES;
	return mine - 1;
}

static atomic_uint_fast64_t *cell_at(const struct net_metric *metric, unsigned stripe,
				     size_t series, size_t cell)
{
	return &metric->numbers[(stripe * metric->n_series + series) * metric->cells + cell];
}

static double metrics_real_of(uint64_t bits)
{
	double value;

	memcpy(&value, &bits, sizeof(value));
	return value;
}

static uint64_t bits_of(double value)
{
	uint64_t bits;

	memcpy(&bits, &value, sizeof(bits));
	return bits;
}

static void real_add(atomic_uint_fast64_t *cell, double by)
{
	uint_fast64_t seen = atomic_load_explicit(cell, memory_order_relaxed);

	while (!atomic_compare_exchange_weak_explicit(cell, &seen,
						      bits_of(metrics_real_of(seen) + by),
						      memory_order_relaxed, memory_order_relaxed))
		continue;
}

void net_metric_count(struct net_metric *metric, size_t series, uint64_t n)
{
	if (series < metric->n_series && metric->kind == NET_COUNTER)
		atomic_fetch_add_explicit(cell_at(metric, my_stripe(), series, 0), n,
					  memory_order_relaxed);
}

void net_metric_set(struct net_metric *metric, size_t series, double value)
{
	if (series < metric->n_series &&
	    (metric->kind == NET_GAUGE || metric->kind == NET_COUNTER_READ))
		atomic_store_explicit(cell_at(metric, 0, series, 0), bits_of(value),
				      memory_order_relaxed);
}

void net_metric_change(struct net_metric *metric, size_t series, double by)
{
	if (series < metric->n_series && metric->kind == NET_GAUGE)
		real_add(cell_at(metric, 0, series, 0), by);
}

void net_metric_observe(struct net_metric *metric, size_t series, double value)
{
	unsigned stripe = my_stripe();
	size_t i = 0;

	if (series >= metric->n_series || metric->kind != NET_HISTOGRAM || isnan(value))
		return;
	while (i < metric->n_buckets && value > metric->buckets[i])
		i++;
	atomic_fetch_add_explicit(cell_at(metric, stripe, series, i), 1, memory_order_relaxed);
	real_add(cell_at(metric, stripe, series, metric->n_buckets + 1), value);
}

uint64_t net_metric_total(const struct net_metric *metric, size_t series, size_t cell)
{
	uint64_t sum = 0;

	for (unsigned s = 0; s < METRIC_STRIPES; s++)
		sum += atomic_load_explicit(cell_at(metric, s, series, cell), memory_order_relaxed);
	return sum;
}

double net_metric_total_real(const struct net_metric *metric, size_t series, size_t cell)
{
	double sum = 0;

	for (unsigned s = 0; s < METRIC_STRIPES; s++)
		sum += metrics_real_of(atomic_load_explicit(cell_at(metric, s, series, cell),
							    memory_order_relaxed));
	return sum;
}

unsigned net_metric_value(const struct net_metric *metric, unsigned label, const char *value)
{
	unsigned last = metric->label_counts[label] - 1;

	for (unsigned i = 0; i < last; i++)
		if (strcmp(metric->label_values[label][i], value) == 0)
			return i;
	return last;
}

size_t net_metric_series(const struct net_metric *metric, const unsigned *positions)
{
	size_t series = 0;

	for (unsigned i = 0; i < metric->n_labels; i++)
		series = series * metric->label_counts[i] + positions[i];
	return series;
}

size_t net_metric_series_of(const struct net_metric *metric, const char *const *values)
{
	unsigned positions[NET_METRIC_LABELS_MAX];

	for (unsigned i = 0; i < metric->n_labels; i++)
		positions[i] = net_metric_value(metric, i, values[i]);
	return net_metric_series(metric, positions);
}

static void metric_free(struct net_metric *metric)
{
	for (unsigned i = 0; i < NET_METRIC_LABELS_MAX; i++) {
		free(metric->label_names[i]);
		for (unsigned k = 0; metric->label_values[i] && k < metric->label_counts[i]; k++)
			free(metric->label_values[i][k]);
		free(metric->label_values[i]);
	}
	free(metric->numbers);
	free(metric->buckets);
	free(metric->name);
	free(metric->help);
	free(metric);
}

CAIRN_DEFINE_CLEANUP(struct net_metric, metric_free);

int net_metrics_new(struct net_metrics **ret, struct cairn_err *err)
{
	struct net_metrics *metrics = cairn_calloc(1, sizeof(*metrics));

	if (!metrics)
		return cairn_err_nomem(err, "metrics");
	pthread_mutex_init(&metrics->lock, NULL);
	metrics->last = &metrics->first;
	*ret = metrics;
	return 0;
}

void net_metrics_free(struct net_metrics *metrics)
{
	if (!metrics)
		return;
	while (metrics->first) {
		struct net_metric *metric = metrics->first;

		metrics->first = metric->next;
		metric_free(metric);
	}
	while (metrics->hooks) {
		struct metric_hook *hook = metrics->hooks;

		metrics->hooks = hook->next;
		free(hook);
	}
	pthread_mutex_destroy(&metrics->lock);
	free(metrics);
}

/* Letters, digits, underscores, and colons in the names of metrics. */
static bool metrics_name_legal(const char *name, bool colons)
{
	if (!name || !*name || isdigit((unsigned char)*name))
		return false;
	for (; *name; name++)
		if (!isalnum((unsigned char)*name) && *name != '_' && !(colons && *name == ':'))
			return false;
	return true;
}

static int copy_label(struct net_metric *metric, const struct net_metric_label *label,
		      struct cairn_err *err)
{
	unsigned i = metric->n_labels, n = 0;

	if (!metrics_name_legal(label->name, false) || strncmp(label->name, "__", 2) == 0 ||
	    strcmp(label->name, "le") == 0)
		return cairn_err_set(err, CAIRN_INVALID, "illegal label name '%s'", label->name);
	while (label->values && label->values[n])
		n++;
	if (n == 0)
		return cairn_err_set(err, CAIRN_INVALID, "label %s has no values", label->name);
	metric->n_labels++;
	metric->label_names[i] = cairn_strdup(label->name);
	metric->label_values[i] = cairn_calloc(n, sizeof(char *));
	if (!metric->label_names[i] || !metric->label_values[i])
		return cairn_err_nomem(err, "metric");
	metric->label_counts[i] = n;
	for (unsigned k = 0; k < n; k++) {
		metric->label_values[i][k] = cairn_strdup(label->values[k]);
		if (!metric->label_values[i][k])
			return cairn_err_nomem(err, "metric");
	}
	if (__builtin_mul_overflow(metric->n_series, n, &metric->n_series) ||
	    metric->n_series > NET_METRIC_SERIES_MAX)
		return cairn_err_set(err, CAIRN_INVALID, "metric has too many series");
	return 0;
}

static int copy_buckets(struct net_metric *metric, const struct net_metric_spec *spec,
			struct cairn_err *err)
{
	if (spec->kind != NET_HISTOGRAM)
		return 0;
	if (spec->n_buckets > NET_METRIC_BUCKETS_MAX)
		return cairn_err_set(err, CAIRN_INVALID, "metric has too many buckets");
	for (size_t i = 0; i < spec->n_buckets; i++)
		if (!isfinite(spec->buckets[i]) ||
		    (i > 0 && spec->buckets[i] <= spec->buckets[i - 1]))
			return cairn_err_set(err, CAIRN_INVALID, "buckets do not ascend");
	metric->n_buckets = spec->n_buckets;
	metric->cells = spec->n_buckets + 2;
	metric->buckets = cairn_memdup(spec->buckets, spec->n_buckets * sizeof(double));
	return metric->buckets ? 0 : cairn_err_nomem(err, "metric");
}

static int metric_new(const struct net_metric_spec *spec, struct net_metric **ret,
		      struct cairn_err *err)
{
	cairn_cleanup(metric_freep) struct net_metric *metric = cairn_calloc(1, sizeof(*metric));
	int rc = 0;

	if (!metric)
		return cairn_err_nomem(err, "metric");
	metric->kind = spec->kind;
	metric->sparse = spec->sparse;
	metric->n_series = 1;
	metric->cells = 1;
	metric->name = cairn_strdup(spec->name);
	metric->help = cairn_strdup(spec->help ? spec->help : "");
	if (!metric->name || !metric->help)
		return cairn_err_nomem(err, "metric");
	for (unsigned i = 0; rc == 0 && i < NET_METRIC_LABELS_MAX && spec->labels[i].name; i++)
		rc = copy_label(metric, &spec->labels[i], err);
	if (rc == 0)
		rc = copy_buckets(metric, spec, err);
	if (rc < 0)
		return rc;
	metric->numbers = cairn_calloc(METRIC_STRIPES * metric->n_series * metric->cells,
				       sizeof(*metric->numbers));
	if (!metric->numbers)
		return cairn_err_nomem(err, "metric");
	*ret = cairn_take(metric);
	return 0;
}

int net_metrics_add(struct net_metrics *metrics, const struct net_metric_spec *spec,
		    struct net_metric **ret, struct cairn_err *err)
{
	struct net_metric *metric;
	int rc;

	if (!metrics_name_legal(spec->name, true))
		return cairn_err_set(err, CAIRN_INVALID, "illegal metric name '%s'",
				     spec->name ? spec->name : "");
	cairn_scoped_lock(&metrics->lock);
	for (const struct net_metric *m = metrics->first; m; m = m->next)
		if (strcmp(m->name, spec->name) == 0)
			return cairn_err_set(err, CAIRN_EXISTS, "metric %s exists", spec->name);
	rc = metric_new(spec, &metric, err);
	if (rc < 0)
		return cairn_err_wrap(err, "metric %s", spec->name);
	*metrics->last = metric;
	metrics->last = &metric->next;
	*ret = metric;
	return 0;
}

static int add_hook(struct net_metrics *metrics, const struct metric_hook *wanted,
		    struct cairn_err *err)
{
	struct metric_hook *hook = cairn_calloc(1, sizeof(*hook));

	if (!hook)
		return cairn_err_nomem(err, "metrics");
	*hook = *wanted;
	cairn_scoped_lock(&metrics->lock);
	hook->next = metrics->hooks;
	metrics->hooks = hook;
	return 0;
}

int net_metrics_on_render(struct net_metrics *metrics, void (*collect)(void *arg), void *arg,
			  struct cairn_err *err)
{
	return add_hook(metrics, &(struct metric_hook){.collect = collect, .arg = arg}, err);
}

int net_metrics_on_write(struct net_metrics *metrics,
			 void (*write)(void *arg, struct cairn_buf *buf), void *arg,
			 struct cairn_err *err)
{
	return add_hook(metrics, &(struct metric_hook){.write = write, .arg = arg}, err);
}
