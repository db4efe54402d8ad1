/* SPDX-License-Identifier: Apache-2.0 */

#include "cairntest.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/io.h"
#include "base/json.h"

/* Written to a file in memory and read back. */
static char output[1 << 20];
static struct cairn_json json;
static int fd;

static void begin(bool pretty)
{
	fd = memfd_create("json", MFD_CLOEXEC);
	assert_true(fd >= 0);
	cairn_json_init(&json, fd, pretty);
}

static const char *finish(void)
{
	struct cairn_err err = {0};
	ssize_t n;

	assert_ok(cairn_json_finish(&json, &err), &err);
	n = cairn_pread_full(fd, output, sizeof(output) - 1, 0);
	assert_true(n >= 0);
	output[n] = '\0';
	close(fd);
	return output;
}

static void write_sample(void)
{
	cairn_json_object_begin(&json);
	cairn_json_key(&json, "name");
	cairn_json_string(&json, "a");
	cairn_json_key(&json, "list");
	cairn_json_array_begin(&json);
	cairn_json_u64(&json, UINT64_MAX);
	cairn_json_i64(&json, INT64_MIN);
	cairn_json_i64(&json, 5);
	cairn_json_bool(&json, true);
	cairn_json_bool(&json, false);
	cairn_json_null(&json);
	cairn_json_string(&json, NULL);
	cairn_json_array_end(&json);
	cairn_json_key(&json, "empty");
	cairn_json_object_begin(&json);
	cairn_json_object_end(&json);
	cairn_json_key(&json, "none");
	cairn_json_array_begin(&json);
	cairn_json_array_end(&json);
	cairn_json_object_end(&json);
	cairn_json_newline(&json);
}

static void commas_and_colons_stand_where_they_belong(void **state)
{
	(void)state;
	begin(false);
	write_sample();
	assert_string_equal(finish(), "{\"name\":\"a\",\"list\":[18446744073709551615,"
				      "-9223372036854775808,5,true,false,null,null],"
				      "\"empty\":{},\"none\":[]}\n");
}

static void pretty_output_is_indented(void **state)
{
	(void)state;
	begin(true);
	cairn_json_object_begin(&json);
	cairn_json_key(&json, "list");
	cairn_json_array_begin(&json);
	cairn_json_u64(&json, 1);
	cairn_json_u64(&json, 2);
	cairn_json_array_end(&json);
	cairn_json_key(&json, "empty");
	cairn_json_array_begin(&json);
	cairn_json_array_end(&json);
	cairn_json_object_end(&json);
	cairn_json_newline(&json);
	assert_string_equal(finish(),
			    "{\n  \"list\": [\n    1,\n    2\n  ],\n  \"empty\": []\n}\n");
}

static void lines_of_a_stream_have_no_comma_between_them(void **state)
{
	(void)state;
	begin(false);
	for (int i = 0; i < 3; i++) {
		cairn_json_object_begin(&json);
		cairn_json_key(&json, "n");
		cairn_json_i64(&json, i);
		cairn_json_object_end(&json);
		cairn_json_newline(&json);
	}
	assert_string_equal(finish(), "{\"n\":0}\n{\"n\":1}\n{\"n\":2}\n");
}

static void strings_are_escaped_for_programs_and_terminals(void **state)
{
	static const struct {
		const char *text, *want;
	} cases[] = {
		{"", "\"\""},
		{"\"\\/", "\"\\\"\\\\/\""},
		{"\n\t\x01\x1f", "\"\\u000a\\u0009\\u0001\\u001f\""},
		{"\x1b[2J\x7f", "\"\\u001b[2J\\u007f\""},
		{"\xc2\x9b", "\"\\u009b\""},
		{"\xc3\xa9\xf0\x9f\x8f\x94", "\"\xc3\xa9\xf0\x9f\x8f\x94\""},
		{"a\xffz", "\"a\\ufffdz\""},
		{"\xe2\x82", "\"\\ufffd\\ufffd\""},
		{"\xed\xa0\x80", "\"\\ufffd\\ufffd\\ufffd\""},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		begin(false);
		cairn_json_string(&json, cases[i].text);
		assert_string_equal(finish(), cases[i].want);
	}
}

static void output_longer_than_the_buffer_is_whole(void **state)
{
	static char text[100001];
	const char *got;

	(void)state;
	memset(text, 'x', sizeof(text) - 1);
	begin(false);
	cairn_json_array_begin(&json);
	for (int i = 0; i < 3; i++)
		cairn_json_string(&json, text);
	cairn_json_raw(&json, text, sizeof(text) - 1);
	cairn_json_array_end(&json);
	got = finish();
	assert_int_equal(strlen(got), 4 * 100000 + 3 * 2 + 2 + 2);
	assert_memory_equal(got, "[\"x", 3);
	assert_memory_equal(got + 100000, "xx\",\"x", 6);
}

static void the_first_failed_write_is_reported_at_the_end(void **state)
{
	static const char text[80000];
	struct cairn_err err = {0};

	(void)state;
	fd = open("/dev/full", O_WRONLY | O_CLOEXEC);
	assert_true(fd >= 0);
	cairn_json_init(&json, fd, false);
	cairn_json_raw(&json, text, sizeof(text));
	assert_code(cairn_json_finish(&json, &err), CAIRN_NO_SPACE);
	assert_int_equal(err.sys_errno, ENOSPC);
	close(fd);
}

static void too_deep_a_nesting_harms_nothing(void **state)
{
	(void)state;
	begin(true);
	for (int i = 0; i < 3 * CAIRN_JSON_DEPTH_MAX; i++)
		cairn_json_array_begin(&json);
	for (int i = 0; i < 3 * CAIRN_JSON_DEPTH_MAX; i++)
		cairn_json_array_end(&json);
	assert_non_null(finish());
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(commas_and_colons_stand_where_they_belong),
		cmocka_unit_test(pretty_output_is_indented),
		cmocka_unit_test(lines_of_a_stream_have_no_comma_between_them),
		cmocka_unit_test(strings_are_escaped_for_programs_and_terminals),
		cmocka_unit_test(output_longer_than_the_buffer_is_whole),
		cmocka_unit_test(the_first_failed_write_is_reported_at_the_end),
		cmocka_unit_test(too_deep_a_nesting_harms_nothing),
	};

	return cmocka_run_group_tests_name("base/json", tests, NULL, NULL);
}
