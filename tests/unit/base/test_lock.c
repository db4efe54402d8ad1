/* SPDX-License-Identifier: Apache-2.0 */

#include "cairntest.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/io.h"
#include "base/lock.h"
#include "scratch_dir.h"

#define lock_test(f) cmocka_unit_test_setup_teardown(f, scratch_dir_make, scratch_dir_remove)

static int lock(uint64_t slot, bool exclusive, uint64_t wait_ms, int *ret_fd)
{
	return cairn_file_lock(scratch_dir_fd, "lock", slot, exclusive, wait_ms, ret_fd, NULL);
}

static void holders_exclude_one_another_by_slot(void **state)
{
	static const struct {
		uint64_t slot;
		bool first, second; /* exclusive */
		int code;
	} cases[] = {
		{7, true, true, CAIRN_ABORTED},
		{7, true, false, CAIRN_ABORTED},
		{7, false, true, CAIRN_ABORTED},
		{7, false, false, 0},
		{8, true, true, 0},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		cairn_auto_fd int a = -1;
		cairn_auto_fd int b = -1;

		assert_int_equal(lock(7, cases[i].first, 0, &a), 0);
		assert_code(lock(cases[i].slot, cases[i].second, 0, &b), cases[i].code);
		assert_int_equal(b < 0, cases[i].code != 0);
	}
}

static void closing_gives_the_lock_back(void **state)
{
	int fd = -1;

	(void)state;
	for (int i = 0; i < 3; i++) {
		assert_int_equal(lock(INT64_MAX, true, 0, &fd), 0);
		close(fd);
	}
	assert_true(lock(UINT64_MAX, true, 0, &fd) < 0);
}

static void the_wait_lasts_as_long_as_was_asked(void **state)
{
	cairn_auto_fd int held = -1;
	uint64_t before;
	int fd;

	(void)state;
	assert_int_equal(lock(1, true, 0, &held), 0);
	before = cairn_monotonic_ns();
	assert_code(lock(1, true, 40, &fd), CAIRN_ABORTED);
	assert_true(cairn_monotonic_ns() - before >= 39 * CAIRN_NS_PER_MS);
}

/* Holds slot 1 until it is killed. */
static pid_t start_holder(void)
{
	int ready[2];
	char c;
	pid_t pid;

	assert_int_equal(pipe(ready), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		int fd;

		if (lock(1, true, 0, &fd) != 0 || write(ready[1], "x", 1) != 1)
			_exit(1);
		for (;;)
			pause();
	}
	close(ready[1]);
	assert_int_equal(cairn_read_full(ready[0], &c, 1), 1);
	close(ready[0]);
	return pid;
}

static void a_killed_holder_leaves_no_lock(void **state)
{
	static const uint64_t waits[] = {5000, UINT64_MAX};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(waits); i++) {
		pid_t pid = start_holder();
		cairn_auto_fd int fd = -1;

		assert_code(lock(1, true, 0, &fd), CAIRN_ABORTED);
		kill(pid, SIGKILL);
		assert_int_equal(lock(1, true, waits[i], &fd), 0);
		waitpid(pid, NULL, 0);
	}
}

static void a_missing_directory_is_an_error(void **state)
{
	struct cairn_err err = {0};
	int fd = -1;

	(void)state;
	assert_code(cairn_file_lock(scratch_dir_fd, "none/lock", 1, true, 0, &fd, &err),
		    CAIRN_NOT_FOUND);
	assert_int_equal(fd, -1);
}

static int share_as_nobody(void)
{
	int fd;

	if (setgid(65534) != 0 || setuid(65534) != 0)
		return 2;
	if (lock(1, true, 0, &fd) != CAIRN_DENIED)
		return 3;
	return lock(1, false, 0, &fd) == 0 ? 0 : 4;
}

static void who_may_only_read_may_share(void **state)
{
	cairn_auto_fd int fd = -1;
	int status;
	pid_t pid;

	(void)state;
	if (geteuid() != 0) {
		print_message("skipped: only root can become somebody else\n");
		skip();
	}
	assert_int_equal(lock(1, false, 0, &fd), 0);
	assert_int_equal(fchmod(fd, 0644), 0);
	assert_int_equal(chmod(scratch_dir, 0755), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0)
		_exit(share_as_nobody());
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

static int leave_early(bool early)
{
	cairn_scoped_lock(&mutex);

	assert_int_not_equal(pthread_mutex_trylock(&mutex), 0);
	if (early)
		return 1;
	return 0;
}

static void a_scoped_lock_ends_with_every_exit(void **state)
{
	(void)state;
	for (int early = 0; early < 2; early++) {
		assert_int_equal(leave_early(early), early);
		assert_int_equal(pthread_mutex_trylock(&mutex), 0);
		pthread_mutex_unlock(&mutex);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		lock_test(holders_exclude_one_another_by_slot),
		lock_test(closing_gives_the_lock_back),
		lock_test(the_wait_lasts_as_long_as_was_asked),
		lock_test(a_killed_holder_leaves_no_lock),
		lock_test(a_missing_directory_is_an_error),
		lock_test(who_may_only_read_may_share),
		cmocka_unit_test(a_scoped_lock_ends_with_every_exit),
	};

	return cmocka_run_group_tests_name("base/lock", tests, NULL, NULL);
}
