/* SPDX-License-Identifier: Apache-2.0 */

#include "net/metrics.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/buf.h"
#include "base/lock.h"
#include "net/metrics_internal.h"

/* The shortest of the forms that read back as the same number. */
static void add_real(struct cairn_buf *buf, double value)
{
	char text[32];

	if (isnan(value)) {
		cairn_buf_adds(buf, "NaN");
		return;
	}
	if (isinf(value)) {
		cairn_buf_adds(buf, value > 0 ? "+Inf" : "-Inf");
		return;
	}
	for (int digits = 15; digits <= 17; digits++) {
		snprintf(text, sizeof(text), "%.*g", digits, value);
		if (strtod(text, NULL) == value)
			break;
	}
	cairn_buf_adds(buf, text);
}

/* Backslash and line feed are escaped everywhere, quotes in label values. */
static void metrics_text_add_escaped(struct cairn_buf *buf, const char *text, bool quotes)
{
	for (; *text; text++) {
		if (*text == '\n') {
			cairn_buf_adds(buf, "\\n");
			continue;
		}
		if (*text == '\\' || (quotes && *text == '"'))
			cairn_buf_addc(buf, '\\');
		cairn_buf_addc(buf, *text);
	}
}

void net_metrics_add_label(struct cairn_buf *buf, const char *value)
{
	metrics_text_add_escaped(buf, value, true);
}

/* {a="x",b="y"} of a series, and le="bound" when that is given. */
static void add_labels(struct cairn_buf *buf, const struct net_metric *metric, size_t series,
		       const double *bound)
{
	size_t rest = metric->n_series;

	if (metric->n_labels == 0 && !bound)
		return;
	cairn_buf_addc(buf, '{');
	for (unsigned i = 0; i < metric->n_labels; i++) {
		rest /= metric->label_counts[i];
		cairn_buf_adds(buf, i ? "," : "");
		cairn_buf_adds(buf, metric->label_names[i]);
		cairn_buf_adds(buf, "=\"");
		metrics_text_add_escaped(buf, metric->label_values[i][series / rest], true);
		cairn_buf_addc(buf, '"');
		series %= rest;
	}
	if (bound) {
		cairn_buf_adds(buf, metric->n_labels ? ",le=\"" : "le=\"");
		add_real(buf, *bound);
		cairn_buf_addc(buf, '"');
	}
	cairn_buf_addc(buf, '}');
}

static void metrics_text_add_name(struct cairn_buf *buf, const struct net_metric *metric,
				  const char *suffix, size_t series, const double *bound)
{
	cairn_buf_adds(buf, metric->name);
	cairn_buf_adds(buf, suffix);
	add_labels(buf, metric, series, bound);
	cairn_buf_addc(buf, ' ');
}

static bool is_empty(const struct net_metric *metric, size_t series)
{
	for (size_t i = 0; i <= metric->n_buckets; i++)
		if (net_metric_total(metric, series, i) > 0)
			return false;
	return true;
}

static void add_histogram(struct cairn_buf *buf, const struct net_metric *metric, size_t series)
{
	const double infinity = INFINITY;
	uint64_t count = 0;

	for (size_t i = 0; i <= metric->n_buckets; i++) {
		count += net_metric_total(metric, series, i);
		metrics_text_add_name(buf, metric, "_bucket", series,
				      i < metric->n_buckets ? &metric->buckets[i] : &infinity);
		cairn_buf_addf(buf, "%" PRIu64 "\n", count);
	}
	metrics_text_add_name(buf, metric, "_sum", series, NULL);
	add_real(buf, net_metric_total_real(metric, series, metric->n_buckets + 1));
	cairn_buf_addc(buf, '\n');
	metrics_text_add_name(buf, metric, "_count", series, NULL);
	cairn_buf_addf(buf, "%" PRIu64 "\n", count);
}

static void add_metric(struct cairn_buf *buf, const struct net_metric *metric)
{
	static const char *const kinds[] = {"counter", "gauge", "histogram", "counter"};

	cairn_buf_addf(buf, "# HELP %s ", metric->name);
	metrics_text_add_escaped(buf, metric->help, false);
	cairn_buf_addf(buf, "\n# TYPE %s %s\n", metric->name, kinds[metric->kind]);
	for (size_t i = 0; i < metric->n_series; i++) {
		if (metric->kind == NET_HISTOGRAM) {
			if (!metric->sparse || !is_empty(metric, i))
				add_histogram(buf, metric, i);
			continue;
		}
		metrics_text_add_name(buf, metric, "", i, NULL);
		if (metric->kind == NET_COUNTER)
			cairn_buf_addf(buf, "%" PRIu64, net_metric_total(metric, i, 0));
		else
			add_real(buf, net_metric_total_real(metric, i, 0));
		cairn_buf_addc(buf, '\n');
	}
}

void net_metrics_render(struct net_metrics *metrics, struct cairn_buf *buf)
{
	cairn_scoped_lock(&metrics->lock);
	for (const struct metric_hook *hook = metrics->hooks; hook; hook = hook->next)
		if (hook->collect)
			hook->collect(hook->arg);
	for (const struct net_metric *metric = metrics->first; metric; metric = metric->next)
		add_metric(buf, metric);
	for (const struct metric_hook *hook = metrics->hooks; hook; hook = hook->next)
		if (hook->write)
			hook->write(hook->arg, buf);
}
