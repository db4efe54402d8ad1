/* SPDX-License-Identifier: Apache-2.0 */

#include "cairntest.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/mem.h"
#include "net/metrics.h"

static const char *const methods[] = {"Allocated", "Delta", "other", NULL};
static const char *const codes[] = {"OK", "other", NULL};

static struct net_metrics *registry(void)
{
	struct net_metrics *metrics;
	struct cairn_err err = {0};

	assert_ok(net_metrics_new(&metrics, &err), &err);
	return metrics;
}

static char *render(struct net_metrics *metrics)
{
	struct cairn_buf buf = CAIRN_BUF_INIT(NET_METRICS_TEXT_MAX);
	char *text;

	net_metrics_render(metrics, &buf);
	text = cairn_buf_take_string(&buf);
	assert_non_null(text);
	return text;
}

static void assert_has(const char *text, const char *line)
{
	const char *at = strstr(text, line);

	if (!at || (at != text && at[-1] != '\n') || at[strlen(line)] != '\n')
		fail_msg("no line '%s' in:\n%s", line, text);
}

static void counters_gauges_and_histograms_render_as_text(void **state)
{
	cairn_cleanup(net_metrics_freep) struct net_metrics *metrics = registry();
	cairn_auto_free char *text = NULL;
	struct net_metric *calls, *open, *seconds;
	struct cairn_err err = {0};

	(void)state;
	assert_ok(net_metrics_add(metrics,
				  &(struct net_metric_spec){
					  .name = "calls_total",
					  .help = "Calls\nby \\method.",
					  .kind = NET_COUNTER,
					  .labels = {{"method", methods}, {"code", codes}}},
				  &calls, &err),
		  &err);
	assert_ok(net_metrics_add(
			  metrics,
			  &(struct net_metric_spec){.name = "open", .help = "o", .kind = NET_GAUGE},
			  &open, &err),
		  &err);
	assert_ok(
		net_metrics_add(metrics,
				&(struct net_metric_spec){.name = "seconds",
							  .help = "s",
							  .kind = NET_HISTOGRAM,
							  .buckets = (const double[]){0.1, 1, 2.5},
							  .n_buckets = 3},
				&seconds, &err),
		&err);
	net_metric_count(calls, net_metric_series_of(calls, (const char *[]){"Delta", "OK"}), 3);
	net_metric_count(calls, net_metric_series_of(calls, (const char *[]){"evil", "evil"}), 2);
	net_metric_set(open, 0, 2);
	net_metric_change(open, 0, -0.5);
	net_metric_observe(seconds, 0, 0.1);
	net_metric_observe(seconds, 0, 2);
	net_metric_observe(seconds, 0, 99);

	text = render(metrics);
	assert_has(text, "# HELP calls_total Calls\\nby \\\\method.");
	assert_has(text, "# TYPE calls_total counter");
	assert_has(text, "calls_total{method=\"Allocated\",code=\"OK\"} 0");
	assert_has(text, "calls_total{method=\"Delta\",code=\"OK\"} 3");
	assert_has(text, "calls_total{method=\"other\",code=\"other\"} 2");
	assert_has(text, "open 1.5");
	assert_has(text, "# TYPE seconds histogram");
	assert_has(text, "seconds_bucket{le=\"0.1\"} 1");
	assert_has(text, "seconds_bucket{le=\"1\"} 1");
	assert_has(text, "seconds_bucket{le=\"2.5\"} 2");
	assert_has(text, "seconds_bucket{le=\"+Inf\"} 3");
	assert_has(text, "seconds_sum 101.1");
	assert_has(text, "seconds_count 3");
}

static void whatever_is_counted_no_series_is_added(void **state)
{
	cairn_cleanup(net_metrics_freep) struct net_metrics *metrics = registry();
	struct net_metric *calls;
	struct cairn_err err = {0};
	size_t before = 0;

	(void)state;
	assert_ok(net_metrics_add(metrics,
				  &(struct net_metric_spec){.name = "calls_total",
							    .kind = NET_COUNTER,
							    .labels = {{"method", methods}}},
				  &calls, &err),
		  &err);
	for (int round = 0; round < 2; round++) {
		cairn_auto_free char *text = render(metrics);
		size_t lines = 0;

		for (const char *p = text; *p; p++)
			lines += *p == '\n';
		assert_true(round == 0 || lines == before);
		before = lines;
		for (int i = 0; i < 1000; i++) {
			char name[16];

			snprintf(name, sizeof(name), "peer-%d", i);
			net_metric_count(calls, net_metric_series_of(calls, (const char *[]){name}),
					 1);
		}
		net_metric_count(calls, 99999, 1); /* no such series: nothing happens */
	}
}

static void specs_that_would_not_scrape_are_refused(void **state)
{
	static const char *const none[] = {NULL};
	static const char *many[NET_METRIC_SERIES_MAX + 2];
	static const double falling[] = {1, 1};
	const struct {
		struct net_metric_spec spec;
		int code;
	} cases[] = {
		{{.name = "taken"}, CAIRN_EXISTS},
		{{.name = "9lives"}, CAIRN_INVALID},
		{{.name = "a-b"}, CAIRN_INVALID},
		{{.name = ""}, CAIRN_INVALID},
		{{.name = "a", .labels = {{"le", codes}}}, CAIRN_INVALID},
		{{.name = "a", .labels = {{"__x", codes}}}, CAIRN_INVALID},
		{{.name = "a", .labels = {{"a:b", codes}}}, CAIRN_INVALID},
		{{.name = "a", .labels = {{"x", none}}}, CAIRN_INVALID},
		{{.name = "a", .labels = {{"x", many}}}, CAIRN_INVALID},
		{{.name = "a", .kind = NET_HISTOGRAM, .buckets = falling, .n_buckets = 2},
		 CAIRN_INVALID},
	};
	cairn_cleanup(net_metrics_freep) struct net_metrics *metrics = registry();
	struct net_metric *metric;
	struct cairn_err err = {0};

	(void)state;
	for (size_t i = 0; i <= NET_METRIC_SERIES_MAX; i++)
		many[i] = "v";
	assert_ok(
		net_metrics_add(metrics, &(struct net_metric_spec){.name = "taken"}, &metric, &err),
		&err);
	for (size_t i = 0; i < ARRAY_LEN(cases); i++)
		if (net_metrics_add(metrics, &cases[i].spec, &metric, &err) != cases[i].code)
			fail_msg("case %zu", i);
}

struct job {
	struct net_metric *counter, *gauge, *histogram;
};

static void *hammer(void *arg)
{
	struct job *job = arg;

	for (int i = 0; i < 20000; i++) {
		net_metric_count(job->counter, 0, 1);
		net_metric_change(job->gauge, 0, 1);
		net_metric_observe(job->histogram, 0, 1);
	}
	return NULL;
}

static void no_update_is_lost_between_threads(void **state)
{
	cairn_cleanup(net_metrics_freep) struct net_metrics *metrics = registry();
	cairn_auto_free char *text = NULL;
	struct job job;
	struct cairn_err err = {0};
	pthread_t threads[8];

	(void)state;
	assert_ok(net_metrics_add(metrics, &(struct net_metric_spec){.name = "c"}, &job.counter,
				  &err),
		  &err);
	assert_ok(net_metrics_add(metrics,
				  &(struct net_metric_spec){.name = "g", .kind = NET_GAUGE},
				  &job.gauge, &err),
		  &err);
	assert_ok(net_metrics_add(metrics,
				  &(struct net_metric_spec){.name = "h",
							    .kind = NET_HISTOGRAM,
							    .buckets = (const double[]){5},
							    .n_buckets = 1},
				  &job.histogram, &err),
		  &err);
	for (size_t i = 0; i < ARRAY_LEN(threads); i++)
		assert_int_equal(pthread_create(&threads[i], NULL, hammer, &job), 0);
	free(render(metrics));
	for (size_t i = 0; i < ARRAY_LEN(threads); i++)
		pthread_join(threads[i], NULL);
	text = render(metrics);
	assert_has(text, "c 160000");
	assert_has(text, "g 160000");
	assert_has(text, "h_bucket{le=\"5\"} 160000");
	assert_has(text, "h_sum 160000");
}

static void the_process_has_numbers(void **state)
{
	cairn_cleanup(net_metrics_freep) struct net_metrics *metrics = registry();
	cairn_auto_free char *text = NULL;
	struct cairn_err err = {0};

	(void)state;
	assert_ok(net_metrics_add_process(metrics, &err), &err);
	text = render(metrics);
	assert_has(text, "# TYPE process_cpu_seconds_total counter");
	assert_non_null(strstr(text, "\nprocess_start_time_seconds 1"));
	assert_null(strstr(text, "\nprocess_resident_memory_bytes 0\n"));
	assert_null(strstr(text, "\nprocess_open_fds 0\n"));
}

static void short_memory_is_an_error_at_every_allocation(void **state)
{
	struct cairn_err err = {0};
	size_t n;

	(void)state;
	for (n = 1; n < 100; n++) {
		cairn_cleanup(net_metrics_freep) struct net_metrics *metrics = registry();
		struct net_metric *metric;
		int rc;

		cairn_mem_fail_at(n, 0);
		rc = net_metrics_add(metrics,
				     &(struct net_metric_spec){.name = "a",
							       .kind = NET_HISTOGRAM,
							       .labels = {{"m", methods}},
							       .buckets = (const double[]){1},
							       .n_buckets = 1},
				     &metric, &err);
		cairn_mem_fail_at(0, 0);
		if (rc == 0)
			break;
		assert_int_equal(rc, CAIRN_NO_SPACE);
	}
	assert_true(n > 5 && n < 50);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(counters_gauges_and_histograms_render_as_text),
		cmocka_unit_test(whatever_is_counted_no_series_is_added),
		cmocka_unit_test(specs_that_would_not_scrape_are_refused),
		cmocka_unit_test(no_update_is_lost_between_threads),
		cmocka_unit_test(the_process_has_numbers),
		cmocka_unit_test(short_memory_is_an_error_at_every_allocation),
	};

	return cmocka_run_group_tests_name("net/metrics", tests, NULL, NULL);
}
