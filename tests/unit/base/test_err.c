/* SPDX-License-Identifier: Apache-2.0 */

#include "cairntest.h"

#include <errno.h>
#include <string.h>

#include "base/err_replace.h"
#include "base/text.h"

static void a_frame_adds_context_in_front(void **state)
{
	struct cairn_err err = {0};

	(void)state;
	assert_int_equal(cairn_err_sys(&err, ENOENT, "open '%s'", "x"), CAIRN_NOT_FOUND);
	assert_int_equal(cairn_err_wrap(&err, "volume %s", "data"), CAIRN_NOT_FOUND);
	assert_string_equal(err.msg, "volume data: open 'x': No such file or directory");
	assert_int_equal(err.sys_errno, ENOENT);
}

static void long_text_is_cut_between_characters(void **state)
{
	struct cairn_err err = {0};
	char text[2 * CAIRN_ERR_TEXT_MAX];

	(void)state;
	for (size_t lead = 0; lead < 4; lead++) {
		memset(text, 'a', lead);
		for (size_t i = lead; i + 4 < sizeof(text); i += 3)
			memcpy(text + i, "\xe2\x82\xac", 4);
		cairn_err_set(&err, CAIRN_INVALID, "%s", text);
		assert_true(cairn_utf8_valid(err.msg, strlen(err.msg)));
		cairn_err_wrap(&err, "%s", text);
		assert_true(cairn_utf8_valid(err.msg, strlen(err.msg)));
	}
}

static void a_missing_err_is_allowed(void **state)
{
	(void)state;
	assert_int_equal(cairn_err_set(NULL, CAIRN_RANGE, "x"), CAIRN_RANGE);
	assert_int_equal(cairn_err_sys(NULL, ENOSPC, "x"), CAIRN_NO_SPACE);
	assert_int_equal(cairn_err_recode(NULL, CAIRN_RANGE), CAIRN_RANGE);
}

static void a_failure_with_another_code_keeps_its_text(void **state)
{
	struct cairn_err err = {0};

	(void)state;
	cairn_err_sys(&err, ENOENT, "open '%s'", "x");
	assert_int_equal(cairn_err_recode(&err, CAIRN_PRECONDITION), CAIRN_PRECONDITION);
	assert_int_equal(err.code, CAIRN_PRECONDITION);
	assert_int_equal(err.sys_errno, ENOENT);
	assert_string_equal(err.msg, "open 'x': No such file or directory");
}

static void codes_have_grpc_names_by_either_sign(void **state)
{
	(void)state;
	assert_string_equal(cairn_code_name(CAIRN_PRECONDITION), "FAILED_PRECONDITION");
	assert_string_equal(cairn_code_name(16), "UNAUTHENTICATED");
	assert_string_equal(cairn_code_name(99), "UNKNOWN");
}

static void words_are_replaced_in_the_text(void **state)
{
	static const struct {
		const char *before, *from, *to, *after;
	} cases[] = {
		{"'snap-12' is gone", "snap-12", "monday", "'monday' is gone"},
		{"snap-12 and snap-12", "snap-12", "m", "m and m"},
		{"snap-123 is no snap-12", "snap-12", "m", "snap-123 is no m"},
		{"xsnap-12 of snap-12x", "snap-12", "m", "xsnap-12 of snap-12x"},
		{"'pool/1' is gone", "pool/1", "m", "'m' is gone"},
		{"12 of 12", "12", "m", "12 of 12"}, /* too short to be a handle */
		{"as it is", "", "m", "as it is"},
	};
	char large[300];

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct cairn_err err = {0};

		cairn_err_set(&err, CAIRN_NOT_FOUND, "%s", cases[i].before);
		cairn_err_replace(&err, cases[i].from, cases[i].to);
		assert_string_equal(err.msg, cases[i].after);
		assert_int_equal(err.code, CAIRN_NOT_FOUND);
	}
	memset(large, 'x', sizeof(large));
	large[sizeof(large) - 1] = '\0';
	for (int i = 0; i < 2; i++) {
		struct cairn_err err = {0};

		cairn_err_set(&err, CAIRN_NOT_FOUND, "'snap-12' 'snap-12'");
		cairn_err_replace(&err, "snap-12", large);
		assert_int_equal(strlen(err.msg), sizeof(err.msg) - 1);
	}
	cairn_err_replace(NULL, "snap-12", "m");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(words_are_replaced_in_the_text),
		cmocka_unit_test(a_frame_adds_context_in_front),
		cmocka_unit_test(long_text_is_cut_between_characters),
		cmocka_unit_test(a_missing_err_is_allowed),
		cmocka_unit_test(a_failure_with_another_code_keeps_its_text),
		cmocka_unit_test(codes_have_grpc_names_by_either_sign),
	};

	return cmocka_run_group_tests_name("base/err", tests, NULL, NULL);
}
