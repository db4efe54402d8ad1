/* SPDX-License-Identifier: Apache-2.0 */

#include "cairntest.h"

#include <stdlib.h>
#include <string.h>

#include "base/process.h"

static int shell(const char *script, struct cairn_err *err)
{
	return cairn_run((const char *const[]){"sh", "-c", script, NULL}, err);
}

static void a_program_that_ends_well_is_success(void **state)
{
	struct cairn_err err = {0};

	(void)state;
	assert_ok(shell("echo unheard; echo also unheard >&2", &err), &err);
	assert_ok(shell("test -z \"$(cat)\"", &err), &err);
}

static void a_failure_carries_status_and_the_end_of_what_was_said(void **state)
{
	struct cairn_err err = {0};

	(void)state;
	assert_code(shell("echo no such luck >&2; exit 3", &err), CAIRN_INTERNAL);
	assert_string_equal(err.msg, "sh failed with status 3: no such luck");
	assert_code(shell("seq 100000 >&2; printf 'the\\treason\\n\\n' >&2; exit 1", &err),
		    CAIRN_INTERNAL);
	assert_non_null(strstr(err.msg, "100000 the reason"));
	assert_null(strpbrk(err.msg, "\n\t"));
	assert_code(shell("kill -9 $$", &err), CAIRN_INTERNAL);
	assert_string_equal(err.msg, "sh was ended by signal 9");
	assert_code(shell("exit 1", NULL), CAIRN_INTERNAL);
}

static void what_is_not_installed_is_not_found(void **state)
{
	struct cairn_err err = {0};

	(void)state;
	assert_code(cairn_run((const char *const[]){"no-such-program-here", NULL}, &err),
		    CAIRN_NOT_FOUND);
	assert_non_null(strstr(err.msg, "no-such-program-here"));
	assert_code(cairn_run((const char *const[]){"/etc/passwd", NULL}, &err), CAIRN_DENIED);
}

static void arguments_pass_no_shell(void **state)
{
	struct cairn_err err = {0};

	(void)state;
	assert_ok(
		cairn_run((const char *const[]){"test", "$HOME; false", "=", "$HOME; false", NULL},
			  &err),
		&err);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_program_that_ends_well_is_success),
		cmocka_unit_test(a_failure_carries_status_and_the_end_of_what_was_said),
		cmocka_unit_test(what_is_not_installed_is_not_found),
		cmocka_unit_test(arguments_pass_no_shell),
	};

	return cmocka_run_group_tests_name("base/process", tests, NULL, NULL);
}
