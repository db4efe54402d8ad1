/* SPDX-License-Identifier: Apache-2.0 */

/* How streams end: OK means that the listing is complete, so incomplete streams must not
 * end with it.
 *
 * A caller that cancels does not receive the driver's status, so those tests only check
 * that the driver is unharmed. For deadlines, the tests send a short one to the driver and
 * go on listening, with a tiny flow control window, so that the driver's deadline passes
 * in the middle of a stream.
 */

#include <inttypes.h>
#include <stdatomic.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/thread_group.h"
#include "conformance/delta_check.h"

#define CANCELS      24
#define HOLD_MS      150U
#define GRACE_MS     10000U
#define SWEEP_MS     24
#define THREADS      8
#define STREAMS_EACH 3

/* A stream that ended with OK must be complete. */
static void look_at_end(struct verdict *v, const struct listing *full, const struct listing *l,
			uint64_t timeout_ms)
{
	struct listing_range gap;

	if (l->code == 0 && conformance_listing_missing(full, l, 0, UINT64_MAX, &gap))
		conformance_verdict_fail(v,
					 "%s: ended with OK after a deadline of %" PRIu64
					 " ms, but byte %" PRIu64 " and what follows is missing",
					 l->label, timeout_ms, gap.start);
	if (l->code != 0 && l->code != CAIRN_DEADLINE && l->code != CAIRN_CANCELLED)
		conformance_verdict_note(v, "%s: ended with %s", l->label,
					 cairn_code_name(l->code));
}

static bool test_ending_whole(struct suite *suite, struct verdict *v, int pair, struct listing *ret)
{
	struct listing_request r;

	if (!conformance_check_main(suite, v))
		return false;
	r = conformance_check_request(suite, (enum check_pair)pair);
	if (conformance_check_get(suite, v, &r, ret))
		return true;
	conformance_listing_free(ret);
	return false;
}

static void deadline_held(struct suite *suite, struct verdict *v, int pair)
{
	struct listing_request r;
	struct listing full, l;

	if (!test_ending_whole(suite, v, pair, &full))
		return;
	r = conformance_check_request(suite, (enum check_pair)pair);
	r.max_results = 1;
	r.narrow = true;
	r.timeout_ms = HOLD_MS;
	r.grace_ms = GRACE_MS;
	r.pause_ms = HOLD_MS * 2;
	conformance_listing_get(&suite->target, &r, &l);
	look_at_end(v, &full, &l, HOLD_MS);
	if (l.code == 0)
		conformance_verdict_note(v, "the driver had sent everything before its deadline");
	conformance_listing_free(&l);
	conformance_listing_free(&full);
}

static void deadline_sweep(struct suite *suite, struct verdict *v, int pair)
{
	struct listing full, l;

	if (!test_ending_whole(suite, v, pair, &full))
		return;
	for (uint64_t ms = 1; ms <= SWEEP_MS && v->state == VERDICT_PASS; ms++) {
		struct listing_request r = conformance_check_request(suite, (enum check_pair)pair);

		r.max_results = (int32_t)(ms % 3);
		r.timeout_ms = ms;
		r.grace_ms = GRACE_MS;
		conformance_listing_get(&suite->target, &r, &l);
		look_at_end(v, &full, &l, ms);
		conformance_listing_free(&l);
	}
	conformance_listing_free(&full);
}

static void test_ending_cancel(struct suite *suite, struct verdict *v, int pair)
{
	struct listing_request r;
	struct listing full, l;

	if (!test_ending_whole(suite, v, pair, &full))
		return;
	for (int i = 0; i < CANCELS && v->state == VERDICT_PASS; i++) {
		r = conformance_check_request(suite, (enum check_pair)pair);
		r.max_results = 1;
		r.narrow = true;
		r.cancel_after = 1 + (size_t)i % 3;
		conformance_listing_get(&suite->target, &r, &l);
		/* A stream that ended before the cancel must be complete. */
		if (l.code == 0)
			look_at_end(v, &full, &l, 0);
		if (l.code == CAIRN_DEADLINE)
			conformance_verdict_fail(
				v, "the driver gives no message after %d cancelled streams", i);
		conformance_listing_free(&l);
	}
	if (v->state != VERDICT_PASS) {
		conformance_listing_free(&full);
		return;
	}
	r = conformance_check_request(suite, (enum check_pair)pair);
	if (conformance_check_get(suite, v, &r, &l))
		conformance_check_same(suite, v, &full, &l, 0);
	else
		conformance_verdict_fail(
			v, "the driver does not answer any more after %d cancelled streams",
			CANCELS);
	conformance_listing_free(&l);
	conformance_listing_free(&full);
}

/* --- many at a time --- */

struct worker {
	struct suite *suite;
	const struct listing *full; /* one for each pair */
	struct verdict verdict;
};

struct workers {
	atomic_size_t next;
	struct worker each[THREADS];
};

static void *test_ending_work(void *arg)
{
	struct workers *workers = arg;
	struct worker *w = &workers->each[workers->next++];

	for (int i = 0; i < STREAMS_EACH; i++) {
		for (int pair = 0; pair < CHECK_PAIRS; pair++) {
			struct listing_request r =
				conformance_check_request(w->suite, (enum check_pair)pair);
			struct listing l;

			r.max_results = i * 7;
			if (conformance_check_get(w->suite, &w->verdict, &r, &l))
				conformance_check_same(w->suite, &w->verdict, &w->full[pair], &l,
						       0);
			conformance_listing_free(&l);
		}
	}
	return NULL;
}

static void run_workers(struct suite *suite, struct verdict *v, const struct listing *full)
{
	static struct workers workers; /* verdicts are large; one run at a time */
	struct cairn_thread_group threads = {0};
	unsigned n;

	workers.next = 0;
	for (size_t i = 0; i < THREADS; i++)
		workers.each[i] = (struct worker){.suite = suite, .full = full};
	n = cairn_thread_group_start(&threads, THREADS, test_ending_work, &workers);
	cairn_thread_group_join(&threads);
	for (unsigned i = 0; i < n; i++)
		if (workers.each[i].verdict.state == VERDICT_FAIL)
			conformance_verdict_fail(v, "stream %u of %u: %s", i, n,
						 workers.each[i].verdict.lines[0]);
}

static void test_ending_concurrent(struct suite *suite, struct verdict *v, int arg)
{
	struct listing full[CHECK_PAIRS] = {{0}};

	(void)arg;
	if (test_ending_whole(suite, v, CHECK_ALLOCATED, &full[CHECK_ALLOCATED]) &&
	    test_ending_whole(suite, v, CHECK_DELTA, &full[CHECK_DELTA]))
		run_workers(suite, v, full);
	for (int i = 0; i < CHECK_PAIRS; i++)
		conformance_listing_free(&full[i]);
}

const struct suite_test suite_ending_tests[] = {
	{"ending.deadline-in-mid-stream-allocated", "5", deadline_held, CHECK_ALLOCATED},
	{"ending.deadline-in-mid-stream-delta", "5", deadline_held, CHECK_DELTA},
	{"ending.short-deadlines-allocated", "5", deadline_sweep, CHECK_ALLOCATED},
	{"ending.short-deadlines-delta", "5", deadline_sweep, CHECK_DELTA},
	{"ending.cancel-allocated", "5", test_ending_cancel, CHECK_ALLOCATED},
	{"ending.cancel-delta", "5", test_ending_cancel, CHECK_DELTA},
	{"ending.concurrent-streams", "5", test_ending_concurrent, 0},
	{.name = NULL},
};
