/* SPDX-License-Identifier: Apache-2.0 */

#include "conformance/suite.h"

#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/io.h"
#include "base/mem.h"
#include "conformance/options.h"
#include "conformance/report.h"
#include "net/signals.h"

#define SECRETS_FILE_MAX (64U << 10)
#define WATCH_MS         100

static const struct suite_test *const groups[] = {
	suite_capability_tests,  suite_coverage_tests, suite_stream_tests,
	suite_max_results_tests, suite_offset_tests,   suite_error_tests,
	suite_ending_tests,      suite_snapshot_tests, suite_lifetime_tests,
};

const struct suite_test *conformance_suite_test_at(size_t i)
{
	for (size_t g = 0; g < sizeof(groups) / sizeof(groups[0]); g++) {
		for (const struct suite_test *test = groups[g]; test->name; test++) {
			if (i-- == 0)
				return test;
		}
	}
	return NULL;
}

static bool is_wanted(const struct suite_options *options, const struct suite_test *test)
{
	return !options->only || fnmatch(options->only, test->name, 0) == 0;
}

static size_t count_wanted(const struct suite_options *options)
{
	const struct suite_test *test;
	size_t n = 0;

	for (size_t i = 0; (test = conformance_suite_test_at(i)); i++)
		n += is_wanted(options, test);
	return n;
}

static void list_tests(const struct suite_options *options)
{
	const struct suite_test *test;

	for (size_t i = 0; (test = conformance_suite_test_at(i)); i++) {
		if (is_wanted(options, test))
			printf("%-42s rule: %s\n", test->name, test->rule);
	}
}

/* --- a signal ends the run --- */

struct watch {
	struct target *target;
	sigset_t signals;
	pthread_t thread;
	_Atomic bool done;
};

static void *watch_signals(void *arg)
{
	struct watch *w = arg;

	while (!w->done) {
		int signo = net_signals_wait(&w->signals, WATCH_MS);

		if (signo == SIGINT || signo == SIGTERM)
			conformance_target_stop(w->target, signo);
	}
	return NULL;
}

/* --- the run --- */

static int read_options(struct target *t, const struct suite_options *o, struct cairn_err *err)
{
	int rc = 0;

	if (o->parameters)
		rc = conformance_request_map_parse(&t->parameters, o->parameters, ",", err);
	if (!rc && o->snapshot_parameters)
		rc = conformance_request_map_parse(&t->snapshot_parameters, o->snapshot_parameters,
						   ",", err);
	if (!rc && o->secrets_file) {
		cairn_auto_free char *text = NULL;
		size_t n;

		rc = cairn_file_read(AT_FDCWD, o->secrets_file, SECRETS_FILE_MAX, &text, &n, err);
		if (!rc)
			rc = conformance_request_map_parse(&t->secrets, text, "\n", err);
	}
	return rc;
}

static void run_tests(struct suite *suite, const struct suite_options *options, struct report *r)
{
	static struct verdict verdict;
	const struct suite_test *test;

	conformance_report_begin(r, &suite->target, count_wanted(options));
	for (size_t i = 0; (test = conformance_suite_test_at(i)) && !suite->target.stopped; i++) {
		uint64_t started = cairn_monotonic_ns();

		if (!is_wanted(options, test))
			continue;
		verdict = (struct verdict){0};
		test->run(suite, &verdict, test->arg);
		if (!suite->target.stopped)
			conformance_report_result(r, test, &verdict,
						  cairn_monotonic_ns() - started);
	}
}

static void tell_leftover(void *arg, const char *text)
{
	char line[640];

	snprintf(line, sizeof(line), "left behind: %s", text);
	conformance_report_remark(arg, line);
}

static int suite_conclude(const struct suite *suite, const struct suite_options *options,
			  struct report *r, struct cairn_err *err)
{
	size_t n = r->passed + r->failed + r->skipped;
	int rc = 0;

	if (suite->target.stopped)
		conformance_report_bail_out(r, "interrupted");
	conformance_report_end(r);
	if (options->junit_file)
		rc = conformance_report_write_junit(r, options->junit_file, err);
	if (rc)
		return rc;
	if (r->sys_errno)
		return cairn_err_sys(err, r->sys_errno, "write the results");
	if (suite->target.stopped)
		return cairn_err_set(err, CAIRN_CANCELLED, "interrupted");
	if (r->failed > 0)
		return cairn_err_set(err, CAIRN_CANCELLED, "%zu of %zu tests failed", r->failed, n);
	return 0;
}

/* Runs with the driver connected and its capabilities known. */
static int run_watched(struct suite *suite, const struct suite_options *options,
		       struct cairn_err *err)
{
	struct report report;
	int rc;

	rc = conformance_scene_init(&suite->scene, &suite->target, options->size,
				    options->staging_dir, err);
	if (rc)
		return rc;
	conformance_report_init(&report, options->junit_file != NULL);
	run_tests(suite, options, &report);
	suite->target.cleaning = true;
	conformance_scene_clean(&suite->scene, tell_leftover, &report);
	for (size_t i = 0; i < suite->n_streams; i++)
		conformance_listing_free(&suite->streams[i]);
	rc = suite_conclude(suite, options, &report, err);
	conformance_report_done(&report);
	return rc;
}

static int suite_check_options(const struct suite_options *options, struct cairn_err *err)
{
	if (count_wanted(options) == 0)
		return cairn_err_set(err, CAIRN_INVALID, "no test is called '%s'", options->only);
	if (options->size < SCENE_SIZE_MIN)
		return cairn_err_set(err, CAIRN_INVALID, "the size must be 16 MiB or more");
	return 0;
}

int conformance_suite_run(const struct suite_options *options, struct cairn_err *err)
{
	struct suite *suite;
	struct watch watch = {0};
	int rc = suite_check_options(options, err);

	if (rc)
		return rc;
	if (options->list) {
		list_tests(options);
		return 0;
	}
	suite = cairn_calloc(1, sizeof(*suite));
	if (!suite)
		return cairn_err_nomem(err, "suite");
	suite->thorough = options->thorough;
	net_signals_block(&watch.signals);
	watch.target = &suite->target;
	rc = conformance_target_init(&suite->target, options->endpoint, options->timeout_ms, err);
	if (!rc)
		rc = read_options(&suite->target, options, err);
	if (!rc && pthread_create(&watch.thread, NULL, watch_signals, &watch) != 0)
		rc = cairn_err_set(err, CAIRN_NO_SPACE, "no thread can be started");
	if (!rc) {
		rc = conformance_target_learn(&suite->target, err);
		if (!rc)
			rc = run_watched(suite, options, err);
		watch.done = true;
		pthread_join(watch.thread, NULL);
	}
	conformance_target_done(&suite->target);
	free(suite);
	return rc;
}
