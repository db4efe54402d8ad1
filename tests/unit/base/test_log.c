/* SPDX-License-Identifier: Apache-2.0 */

#include "cairntest.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/io.h"
#include "base/log.h"
#include "base/mem.h"

static char said[1 << 16];
static int capture_fd, saved_fd;

static void begin(void)
{
	capture_fd = memfd_create("log", MFD_CLOEXEC);
	saved_fd = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 0);
	assert_true(capture_fd >= 0 && saved_fd >= 0);
	assert_int_equal(dup2(capture_fd, STDERR_FILENO), STDERR_FILENO);
}

static const char *finish(void)
{
	ssize_t n = cairn_pread_full(capture_fd, said, sizeof(said) - 1, 0);

	dup2(saved_fd, STDERR_FILENO);
	close(saved_fd);
	close(capture_fd);
	assert_true(n >= 0);
	said[n] = '\0';
	return said;
}

#define TIME_LEN 24

static void a_text_line_has_time_level_message_and_fields(void **state)
{
	const char *line;

	(void)state;
	cairn_log_setup(CAIRN_LOG_INFO, CAIRN_LOG_TEXT);
	begin();
	cairn_log(CAIRN_LOG_WARN, "disk is full", CAIRN_STR("volume", "data"),
		  CAIRN_U64("size", UINT64_MAX), CAIRN_I64("delta", -5), CAIRN_BOOL("retry", true),
		  CAIRN_STR("none", NULL));
	line = finish();
	assert_int_equal(line[10], 'T');
	assert_string_equal(line + TIME_LEN,
			    " warn  disk is full volume=data size=18446744073709551615 delta=-5 "
			    "retry=true none=null\n");
}

static void a_json_line_is_one_object(void **state)
{
	const char *line;

	(void)state;
	cairn_log_setup(CAIRN_LOG_INFO, CAIRN_LOG_JSON);
	begin();
	cairn_log(CAIRN_LOG_ERROR, "it \"broke\"", CAIRN_STR("why", "a\nb\xff"), CAIRN_U64("n", 1),
		  CAIRN_STR("none", NULL), CAIRN_BOOL("ok", false));
	line = finish();
	assert_memory_equal(line, "{\"time\":\"", 9);
	assert_string_equal(line + 9 + TIME_LEN,
			    "\",\"level\":\"error\",\"msg\":\"it \\\"broke\\\"\","
			    "\"why\":\"a\\u000ab\\ufffd\",\"n\":1,\"none\":null,\"ok\":false}\n");
}

static void a_line_for_a_host_of_plugins_has_the_keys_of_hclog(void **state)
{
	(void)state;
	cairn_log_setup(CAIRN_LOG_INFO, CAIRN_LOG_HCLOG);
	begin();
	cairn_log(CAIRN_LOG_WARN, "a \"b\"", CAIRN_STR("why", "c d"), CAIRN_U64("n", 1));
	assert_string_equal(finish(), "{\"@level\":\"warn\",\"@message\":\"a \\\"b\\\"\","
				      "\"why\":\"c d\",\"n\":1}\n");
}

static void values_cannot_break_a_line_or_a_terminal(void **state)
{
	static const struct {
		const char *value, *want;
	} cases[] = {
		{"", "\"\""},
		{"a b", "\"a b\""},
		{"a=b", "\"a=b\""},
		{"a\"b\\c", "\"a\\\"b\\\\c\""},
		{"x\ny", "\"x\\u000ay\""},
		{"\x1b[31m", "\"\\u001b[31m\""},
		{"\xc2\x9b"
		 "31m",
		 "\"\\u009b31m\""},
		{"\xff", "\"\\ufffd\""},
		{"\xc3\xa9", "\xc3\xa9"},
	};

	(void)state;
	cairn_log_setup(CAIRN_LOG_INFO, CAIRN_LOG_TEXT);
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		char want[64];

		snprintf(want, sizeof(want), " info  m v=%s\n", cases[i].want);
		begin();
		cairn_log(CAIRN_LOG_INFO, "m", CAIRN_STR("v", cases[i].value));
		assert_string_equal(finish() + TIME_LEN, want);
	}
	begin();
	cairn_log(CAIRN_LOG_INFO, "one\ntwo \x1b[2J");
	assert_string_equal(finish() + TIME_LEN, " info  one\\u000atwo \\u001b[2J\n");
}

static void levels_below_the_chosen_one_are_silent(void **state)
{
	(void)state;
	cairn_log_setup(CAIRN_LOG_WARN, CAIRN_LOG_TEXT);
	begin();
	cairn_log(CAIRN_LOG_INFO, "hidden");
	cairn_log(CAIRN_LOG_DEBUG, "hidden");
	assert_string_equal(finish(), "");
	assert_true(cairn_log_enabled(CAIRN_LOG_ERROR));
	assert_false(cairn_log_enabled(CAIRN_LOG_INFO));
}

static void level_names_are_read_exactly(void **state)
{
	(void)state;
	assert_int_equal(cairn_log_level_parse("error"), CAIRN_LOG_ERROR);
	assert_int_equal(cairn_log_level_parse("warn"), CAIRN_LOG_WARN);
	assert_int_equal(cairn_log_level_parse("info"), CAIRN_LOG_INFO);
	assert_int_equal(cairn_log_level_parse("debug"), CAIRN_LOG_DEBUG);
	assert_int_equal(cairn_log_level_parse("Debug"), -1);
	assert_int_equal(cairn_log_level_parse(""), -1);
	assert_int_equal(cairn_log_level_parse("warning"), -1);
}

/* Around the limit every length gives one whole line. */
static void a_line_too_long_loses_its_fields_and_not_its_end(void **state)
{
	static char value[20001];

	(void)state;
	for (int format = 0; format < 2; format++) {
		cairn_log_setup(CAIRN_LOG_INFO, (enum cairn_log_format)format);
		for (size_t n = 8000; n < 8300; n++) {
			const char *line;

			memset(value, 'x', n);
			value[n] = '\0';
			begin();
			cairn_log(CAIRN_LOG_INFO, "message", CAIRN_STR("v", value));
			line = finish();
			assert_non_null(strstr(line, "message"));
			assert_ptr_equal(strchr(line, '\n'), line + strlen(line) - 1);
			assert_true(strlen(line) <= 8192);
		}
		memset(value, 'x', 20000);
		value[20000] = '\0';
		begin();
		cairn_log(CAIRN_LOG_INFO, value);
		assert_non_null(strstr(finish(), "too long"));
	}
}

static void short_memory_loses_the_line_and_nothing_else(void **state)
{
	(void)state;
	cairn_log_setup(CAIRN_LOG_INFO, CAIRN_LOG_TEXT);
	begin();
	cairn_mem_fail_at(1, 1);
	cairn_log(CAIRN_LOG_INFO, "message", CAIRN_STR("v", "value"));
	cairn_mem_fail_at(0, 0);
	assert_string_equal(finish(), "");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_text_line_has_time_level_message_and_fields),
		cmocka_unit_test(a_json_line_is_one_object),
		cmocka_unit_test(a_line_for_a_host_of_plugins_has_the_keys_of_hclog),
		cmocka_unit_test(values_cannot_break_a_line_or_a_terminal),
		cmocka_unit_test(levels_below_the_chosen_one_are_silent),
		cmocka_unit_test(level_names_are_read_exactly),
		cmocka_unit_test(a_line_too_long_loses_its_fields_and_not_its_end),
		cmocka_unit_test(short_memory_loses_the_line_and_nothing_else),
	};

	return cmocka_run_group_tests_name("base/log", tests, NULL, NULL);
}
