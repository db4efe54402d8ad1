/* SPDX-License-Identifier: Apache-2.0 */

#include "cairntest.h"

#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "base/thread_group.h"

struct seen {
	atomic_uint runs;
	atomic_bool unblocked; /* a signal could have come to one of them */
};

static void *look(void *arg)
{
	struct seen *seen = arg;
	sigset_t mask;

	pthread_sigmask(SIG_SETMASK, NULL, &mask);
	if (!sigismember(&mask, SIGINT) || !sigismember(&mask, SIGTERM))
		seen->unblocked = true;
	seen->runs++;
	return NULL;
}

static void each_thread_runs_once_without_signals(void **state)
{
	static const unsigned wanted[] = {0, 1, 7, CAIRN_THREAD_GROUP_MAX,
					  CAIRN_THREAD_GROUP_MAX + 5};
	sigset_t before, after;

	(void)state;
	pthread_sigmask(SIG_SETMASK, NULL, &before);
	for (size_t i = 0; i < sizeof(wanted) / sizeof(wanted[0]); i++) {
		unsigned most =
			wanted[i] < CAIRN_THREAD_GROUP_MAX ? wanted[i] : CAIRN_THREAD_GROUP_MAX;
		struct cairn_thread_group group = {0};
		struct seen seen = {0};

		assert_int_equal(cairn_thread_group_start(&group, wanted[i], look, &seen), most);
		cairn_thread_group_join(&group);
		assert_int_equal(seen.runs, most);
		assert_false(seen.unblocked);
		assert_int_equal(group.n, 0);
	}
	pthread_sigmask(SIG_SETMASK, NULL, &after);
	assert_int_equal(sigismember(&after, SIGINT), sigismember(&before, SIGINT));
}

static void joining_nobody_is_fine(void **state)
{
	struct cairn_thread_group group = {0};

	(void)state;
	cairn_thread_group_join(&group);
	cairn_thread_group_join(&group);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_thread_runs_once_without_signals),
		cmocka_unit_test(joining_nobody_is_fine),
	};

	return cmocka_run_group_tests_name("base/group", tests, NULL, NULL);
}
