/* SPDX-License-Identifier: Apache-2.0 */

#include "cairntest.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"

static bool is_open(int fd)
{
	return fcntl(fd, F_GETFD) >= 0;
}

static int open_null(void)
{
	int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);

	assert_true(fd >= 0);
	return fd;
}

static void a_descriptor_is_closed_with_its_scope(void **state)
{
	int seen;

	(void)state;
	{
		cairn_auto_fd int fd = open_null();

		seen = fd;
		assert_true(is_open(seen));
	}
	assert_false(is_open(seen));
}

static void a_taken_descriptor_stays_open(void **state)
{
	int taken;

	(void)state;
	{
		cairn_auto_fd int fd = open_null();

		taken = cairn_take_fd(&fd);
		assert_int_equal(fd, -1);
	}
	assert_true(is_open(taken));
	close(taken);
}

static void closing_keeps_errno(void **state)
{
	int fd = 1 << 20;

	(void)state;
	errno = EXDEV;
	cairn_closep(&fd);
	assert_int_equal(errno, EXDEV);
}

static int freed;

static void count_free(int *p)
{
	freed++;
	free(p);
}

CAIRN_DEFINE_CLEANUP(int, count_free);

static void a_typed_cleanup_runs_once_and_never_for_null(void **state)
{
	int *kept = NULL;

	(void)state;
	freed = 0;
	{
		cairn_cleanup(count_freep) int *a = malloc(sizeof(int));
		cairn_cleanup(count_freep) int *b = NULL;
		cairn_cleanup(count_freep) int *c = malloc(sizeof(int));

		assert_non_null(a);
		assert_null(b);
		kept = cairn_take(c);
		assert_null(c);
	}
	assert_int_equal(freed, 1);
	free(kept);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_descriptor_is_closed_with_its_scope),
		cmocka_unit_test(a_taken_descriptor_stays_open),
		cmocka_unit_test(closing_keeps_errno),
		cmocka_unit_test(a_typed_cleanup_runs_once_and_never_for_null),
	};

	return cmocka_run_group_tests_name("base/cleanup", tests, NULL, NULL);
}
