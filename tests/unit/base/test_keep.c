/* SPDX-License-Identifier: Apache-2.0 */

#include "base/keep.h"

#include "base/clock.h"
#include "cairntest.h"

#define HOUR ((int64_t)3600 * (int64_t)CAIRN_NS_PER_SEC)
#define DAY  (24 * HOUR)

/* Why each of `n` moments, `step` apart from `newest` back, is kept. */
static void apply(const struct cairn_keep_policy *policy, int64_t newest, int64_t step, size_t n,
		  unsigned *ret)
{
	struct cairn_keep keep;

	cairn_keep_init(&keep, policy);
	for (size_t i = 0; i < n; i++)
		ret[i] = cairn_keep_next(&keep, newest - (int64_t)i * step);
}

static void a_policy_without_rules_is_empty(void **state)
{
	const struct cairn_keep_policy none = {0};
	const struct cairn_keep_policy within = {.within_ms = 1};

	(void)state;
	assert_true(cairn_keep_policy_empty(&none));
	assert_false(cairn_keep_policy_empty(&within));
}

static void the_last_and_the_newest_of_each_day_are_kept(void **state)
{
	const struct cairn_keep_policy policy = {.last = 2, .daily = 2};
	unsigned why[6];

	(void)state;
	/* 13:00, 07:00 and 01:00 of one day; 19:00, 13:00 and 07:00 of the day before. */
	apply(&policy, 20000 * DAY + 13 * HOUR, 6 * HOUR, 6, why);
	assert_int_equal(why[0], CAIRN_KEEP_LAST | CAIRN_KEEP_DAILY);
	assert_int_equal(why[1], CAIRN_KEEP_LAST);
	assert_int_equal(why[2], 0);
	assert_int_equal(why[3], CAIRN_KEEP_DAILY);
	assert_int_equal(why[4], 0);
	assert_int_equal(why[5], 0);
}

static void weeks_begin_on_monday_and_months_are_those_of_the_calendar(void **state)
{
	const struct cairn_keep_policy weekly = {.weekly = 2};
	const struct cairn_keep_policy monthly = {.monthly = CAIRN_KEEP_ALL};
	const struct cairn_keep_policy yearly = {.yearly = 2};
	unsigned why[400];
	unsigned kept = 0;

	(void)state;
	/* 2026-11-17 is a Tuesday: 20774 days after 1970-01-01. */
	apply(&weekly, 20774 * DAY, DAY, 4, why);
	assert_int_equal(why[0], CAIRN_KEEP_WEEKLY);
	assert_int_equal(why[1], 0);                 /* Monday */
	assert_int_equal(why[2], CAIRN_KEEP_WEEKLY); /* Sunday */
	assert_int_equal(why[3], 0);
	apply(&monthly, 20774 * DAY, DAY, 400, why);
	assert_int_equal(why[17], CAIRN_KEEP_MONTHLY); /* the last of October */
	for (size_t i = 0; i < 400; i++)
		kept += why[i] != 0;
	assert_int_equal(kept, 14);
	apply(&yearly, 20774 * DAY, DAY, 400, why);
	assert_int_equal(why[0], CAIRN_KEEP_YEARLY);
	assert_int_equal(why[321], CAIRN_KEEP_YEARLY); /* the last of 2025 */
	assert_int_equal(why[322], 0);
}

static void within_counts_from_the_newest(void **state)
{
	const struct cairn_keep_policy policy = {.within_ms = 2 * 3600000};
	unsigned why[4];

	(void)state;
	apply(&policy, 1000 * DAY, HOUR, 4, why);
	assert_int_equal(why[0], CAIRN_KEEP_WITHIN);
	assert_int_equal(why[1], CAIRN_KEEP_WITHIN);
	assert_int_equal(why[2], 0);
	assert_string_equal(cairn_keep_reason_text(CAIRN_KEEP_WITHIN), "within");
}

static void times_before_1970_and_far_limits_do_no_harm(void **state)
{
	const struct cairn_keep_policy policy = {
		.hourly = 1, .daily = 1, .monthly = 1, .yearly = 1, .within_ms = UINT64_MAX};
	unsigned why[2];

	(void)state;
	apply(&policy, -HOUR, DAY, 2, why);
	assert_true(why[0] & CAIRN_KEEP_YEARLY);
	assert_int_equal(why[1], CAIRN_KEEP_WITHIN);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_policy_without_rules_is_empty),
		cmocka_unit_test(the_last_and_the_newest_of_each_day_are_kept),
		cmocka_unit_test(weeks_begin_on_monday_and_months_are_those_of_the_calendar),
		cmocka_unit_test(within_counts_from_the_newest),
		cmocka_unit_test(times_before_1970_and_far_limits_do_no_harm),
	};

	return cmocka_run_group_tests_name("base/keep", tests, NULL, NULL);
}
