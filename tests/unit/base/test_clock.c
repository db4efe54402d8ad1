/* SPDX-License-Identifier: Apache-2.0 */

#include "cairntest.h"

#include <signal.h>
#include <sys/time.h>

#include "base/clock.h"

static void times_are_written_in_utc_with_milliseconds(void **state)
{
	static const struct {
		uint64_t ns;
		const char *text;
	} cases[] = {
		{0, "1970-01-01T00:00:00.000Z"},
		{999999, "1970-01-01T00:00:00.000Z"},
		{1999999, "1970-01-01T00:00:00.001Z"},
		{951782400ULL * CAIRN_NS_PER_SEC, "2000-02-29T00:00:00.000Z"},
		{1794731400ULL * CAIRN_NS_PER_SEC + 5 * CAIRN_NS_PER_MS,
		 "2026-11-15T08:30:00.005Z"},
		{UINT64_MAX, "2554-07-21T23:34:33.709Z"},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		char out[CAIRN_TIME_TEXT_MAX];

		assert_string_equal(cairn_format_time(cases[i].ns, out), cases[i].text);
	}
}

static void now_is_after_this_was_written(void **state)
{
	(void)state;
	assert_true(cairn_now_ns() > 1750000000ULL * CAIRN_NS_PER_SEC);
}

static void interrupted(int signal_number)
{
	(void)signal_number;
}

static void a_sleep_lasts_through_interruptions(void **state)
{
	const struct itimerval often = {{0, 2000}, {0, 2000}}, never = {{0, 0}, {0, 0}};
	const struct sigaction action = {.sa_handler = interrupted};
	uint64_t before = cairn_monotonic_ns();

	(void)state;
	assert_int_equal(sigaction(SIGALRM, &action, NULL), 0);
	assert_int_equal(setitimer(ITIMER_REAL, &often, NULL), 0);
	cairn_sleep_ms(30);
	assert_int_equal(setitimer(ITIMER_REAL, &never, NULL), 0);
	assert_true(cairn_monotonic_ns() - before >= 30 * CAIRN_NS_PER_MS);
	cairn_sleep_ms(0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(times_are_written_in_utc_with_milliseconds),
		cmocka_unit_test(now_is_after_this_was_written),
		cmocka_unit_test(a_sleep_lasts_through_interruptions),
	};

	return cmocka_run_group_tests_name("base/clock", tests, NULL, NULL);
}
