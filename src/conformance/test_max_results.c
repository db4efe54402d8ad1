/* SPDX-License-Identifier: Apache-2.0 */

/* max_results limits the tuples of a message, and affects nothing else. */

#include "base/err.h"
#include "conformance/delta_check.h"

/* A rejection takes no work: a driver that takes longer did not reject. */
#define REFUSE_MS 5000U

static void at_most(struct suite *suite, struct verdict *v, int max_results)
{
	if (!conformance_check_main(suite, v))
		return;
	for (int pair = 0; pair < CHECK_PAIRS; pair++) {
		struct listing_request r = conformance_check_request(suite, (enum check_pair)pair);
		struct listing full, l;

		if (!conformance_check_get(suite, v, &r, &full)) {
			conformance_listing_free(&full);
			return;
		}
		r.max_results = max_results;
		if (conformance_check_get(suite, v, &r, &l)) {
			for (size_t i = 0; i < l.n_messages; i++) {
				if (l.messages[i].tuples > (size_t)max_results) {
					conformance_verdict_fail(v,
								 "%s: message %zu has %zu tuples",
								 l.label, i, l.messages[i].tuples);
					break;
				}
			}
			conformance_check_same(suite, v, &full, &l, 0);
		}
		conformance_listing_free(&l);
		conformance_listing_free(&full);
	}
}

static void test_max_results_negative(struct suite *suite, struct verdict *v, int pair)
{
	static const int codes[] = {CAIRN_INVALID, CAIRN_RANGE, 0};
	static const int32_t values[] = {-1, INT32_MIN};

	if (!conformance_check_main(suite, v))
		return;
	for (size_t i = 0; i < sizeof(values) / sizeof(values[0]) && v->state == VERDICT_PASS;
	     i++) {
		struct listing_request r = conformance_check_request(suite, (enum check_pair)pair);

		r.max_results = values[i];
		conformance_check_refused(suite, v, &r, codes, REFUSE_MS);
	}
}

const struct suite_test suite_max_results_tests[] = {
	{"max-results.one", "4", at_most, 1},
	{"max-results.two", "4", at_most, 2},
	{"max-results.256", "4", at_most, 256},
	{"max-results.largest", "4", at_most, INT32_MAX},
	{"max-results.negative-refused-allocated", "4", test_max_results_negative, CHECK_ALLOCATED},
	{"max-results.negative-refused-delta", "4", test_max_results_negative, CHECK_DELTA},
	{.name = NULL},
};
