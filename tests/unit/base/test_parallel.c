/* SPDX-License-Identifier: Apache-2.0 */

#include "cairntest.h"

#include <stdatomic.h>
#include <string.h>

#include "base/parallel.h"

#define ITEMS 1000

struct counts {
	atomic_uint calls[ITEMS];
	size_t bad; /* the item that fails; ITEMS: none */
};

static int count(void *arg, size_t i, struct cairn_err *err)
{
	struct counts *counts = arg;

	counts->calls[i]++;
	return i == counts->bad ? cairn_err_set(err, CAIRN_INVALID, "item %zu", i) : 0;
}

static void each_item_is_processed_once(void **state)
{
	static const unsigned threads[] = {0, 1, 2, 7, CAIRN_PARALLEL_EACH_MAX + 9};

	(void)state;
	for (size_t t = 0; t < ARRAY_LEN(threads); t++) {
		struct counts counts = {.bad = ITEMS};
		struct cairn_err err = {0};

		assert_ok(cairn_parallel_each(ITEMS, threads[t], count, &counts, &err), &err);
		for (size_t i = 0; i < ITEMS; i++)
			assert_int_equal(counts.calls[i], 1);
	}
	assert_int_equal(cairn_parallel_each(0, 4, count, NULL, NULL), 0);
}

static void a_failure_ends_the_loop_and_is_returned(void **state)
{
	struct counts counts = {.bad = 3};
	struct cairn_err err = {0};
	size_t calls = 0;

	(void)state;
	assert_code(cairn_parallel_each(ITEMS, 1, count, &counts, &err), CAIRN_INVALID);
	assert_string_equal(err.msg, "item 3");
	for (size_t i = 0; i < ITEMS; i++)
		calls += counts.calls[i];
	assert_int_equal(calls, 4);
	assert_code(cairn_parallel_each(ITEMS, 4, count, &counts, NULL), CAIRN_INVALID);
}

struct failing {
	atomic_uint runs;
};

/* The first thread fails; the others return only when they see that. */
static int wait_for_failure(void *arg, const atomic_bool *failed, struct cairn_err *err)
{
	struct failing *failing = arg;

	if (failing->runs++ == 0)
		return cairn_err_set(err, CAIRN_NO_SPACE, "first");
	while (!*failed)
		;
	return cairn_err_set(err, CAIRN_INTERNAL, "later");
}

static void the_first_failure_stops_the_others(void **state)
{
	struct failing failing = {0};
	struct cairn_err err = {0};

	(void)state;
	assert_code(cairn_parallel_run(3, wait_for_failure, &failing, &err), CAIRN_NO_SPACE);
	assert_string_equal(err.msg, "first");
	assert_int_equal(failing.runs, 3);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_item_is_processed_once),
		cmocka_unit_test(a_failure_ends_the_loop_and_is_returned),
		cmocka_unit_test(the_first_failure_stops_the_others),
	};

	return cmocka_run_group_tests_name("base/parallel", tests, NULL, NULL);
}
