/* SPDX-License-Identifier: Apache-2.0 */

#include "cairntest.h"

#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "base/thread.h"

static sigset_t seen;
static char name[16];

static void *look(void *arg)
{
	pthread_sigmask(SIG_SETMASK, NULL, &seen);
	return arg;
}

static void no_signal_reaches_the_thread_but_the_caller_keeps_its_mask(void **state)
{
	sigset_t before, after;
	pthread_t thread;

	pthread_sigmask(SIG_SETMASK, NULL, &before);
	assert_int_equal(cairn_thread_start(&thread, NULL, NULL, look, state), 0);
	pthread_sigmask(SIG_SETMASK, NULL, &after);
	assert_int_equal(pthread_join(thread, NULL), 0);
	assert_true(sigismember(&seen, SIGTERM));
	assert_true(sigismember(&seen, SIGPIPE));
	assert_int_equal(sigismember(&after, SIGTERM), sigismember(&before, SIGTERM));
}

static void *read_name(void *arg)
{
	int end = *(int *)arg;
	char byte;

	/* The name is set after the thread began. */
	assert_int_equal(read(end, &byte, 1), 1);
	pthread_getname_np(pthread_self(), name, sizeof(name));
	return NULL;
}

static void the_thread_has_the_name(void **state)
{
	pthread_t thread;
	int ends[2];

	(void)state;
	assert_int_equal(pipe(ends), 0);
	assert_int_equal(cairn_thread_start(&thread, NULL, "worker", read_name, &ends[0]), 0);
	assert_int_equal(write(ends[1], "x", 1), 1);
	assert_int_equal(pthread_join(thread, NULL), 0);
	assert_string_equal(name, "worker");
	close(ends[0]);
	close(ends[1]);
}

static void a_failure_is_an_errno_and_the_mask_is_restored(void **state)
{
	sigset_t after;
	pthread_attr_t attr;
	pthread_t thread;

	(void)state;
	pthread_attr_init(&attr);
	/* More stack than there are addresses. */
	if (pthread_attr_setstacksize(&attr, (size_t)1 << 60) != 0) {
		pthread_attr_destroy(&attr);
		skip();
	}
	assert_int_equal(cairn_thread_start(&thread, &attr, "n", look, NULL), EAGAIN);
	pthread_attr_destroy(&attr);
	pthread_sigmask(SIG_SETMASK, NULL, &after);
	assert_false(sigismember(&after, SIGTERM));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(no_signal_reaches_the_thread_but_the_caller_keeps_its_mask),
		cmocka_unit_test(the_thread_has_the_name),
		cmocka_unit_test(a_failure_is_an_errno_and_the_mask_is_restored),
	};

	return cmocka_run_group_tests_name("base/thread", tests, NULL, NULL);
}
