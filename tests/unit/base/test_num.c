/* SPDX-License-Identifier: Apache-2.0 */

#include "cairntest.h"

#include <stdio.h>
#include <string.h>

#include "base/num.h"

#define KIB 1024ULL

struct number_case {
	const char *text;
	int code;
	uint64_t value;
};

static void check(int (*parse)(const char *, uint64_t *, struct cairn_err *),
		  const struct number_case *cases, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		struct cairn_err err = {0};
		uint64_t value = 4711;
		int rc = parse(cases[i].text, &value, &err);

		if (rc != cases[i].code)
			fail_msg("'%s' gave %d", cases[i].text, rc);
		assert_int_equal(err.code, cases[i].code);
		assert_int_equal(value, rc == 0 ? cases[i].value : 4711);
		assert_int_equal(parse(cases[i].text, &value, NULL), cases[i].code);
	}
}

static void whole_numbers_take_all_of_the_text_or_nothing(void **state)
{
	static const struct number_case cases[] = {
		{"0", 0, 0},
		{"007", 0, 7},
		{"18446744073709551615", 0, UINT64_MAX},
		{"18446744073709551616", CAIRN_RANGE, 0},
		{"99999999999999999999999999", CAIRN_RANGE, 0},
		{"", CAIRN_INVALID, 0},
		{" 1", CAIRN_INVALID, 0},
		{"1 ", CAIRN_INVALID, 0},
		{"+1", CAIRN_INVALID, 0},
		{"-1", CAIRN_INVALID, 0},
		{"-", CAIRN_INVALID, 0},
		{"0x10", CAIRN_INVALID, 0},
		{"1e3", CAIRN_INVALID, 0},
		{"1.0", CAIRN_INVALID, 0},
		{"1\n", CAIRN_INVALID, 0},
		{"\xd9\xa1", CAIRN_INVALID, 0},
	};

	(void)state;
	check(cairn_parse_u64, cases, ARRAY_LEN(cases));
}

static void signed_numbers_reach_both_ends(void **state)
{
	static const struct {
		const char *text;
		int code;
		int64_t value;
	} cases[] = {
		{"0", 0, 0},
		{"-0", 0, 0},
		{"-1", 0, -1},
		{"9223372036854775807", 0, INT64_MAX},
		{"-9223372036854775808", 0, INT64_MIN},
		{"9223372036854775808", CAIRN_RANGE, 0},
		{"-9223372036854775809", CAIRN_RANGE, 0},
		{"-18446744073709551616", CAIRN_RANGE, 0},
		{"--1", CAIRN_INVALID, 0},
		{"-", CAIRN_INVALID, 0},
		{"", CAIRN_INVALID, 0},
		{"1-", CAIRN_INVALID, 0},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		int64_t value = 4711;

		assert_int_equal(cairn_parse_i64(cases[i].text, &value, NULL), cases[i].code);
		assert_true(value == (cases[i].code == 0 ? cases[i].value : 4711));
	}
}

static void sizes_have_binary_and_decimal_units(void **state)
{
	static const struct number_case cases[] = {
		{"0", 0, 0},
		{"4096", 0, 4096},
		{"512B", 0, 512},
		{"1K", 0, KIB},
		{"1k", 0, KIB},
		{"1Ki", 0, KIB},
		{"1KiB", 0, KIB},
		{"1KB", 0, 1000},
		{"8G", 0, 8 * KIB * KIB * KIB},
		{"10MB", 0, 10000000},
		{"1.5T", 0, 3 * KIB * KIB * KIB * KIB / 2},
		{"0.5K", 0, 512},
		{"1.000001M", 0, 1048577},
		{"2P", 0, 2 * KIB * KIB * KIB * KIB * KIB},
		{"15E", 0, 15ULL << 60},
		{"15.999999E", 0, 18446742920788047009ULL},
		{"16E", CAIRN_RANGE, 0},
		{"18446744073709551615", 0, UINT64_MAX},
		{"18446744073709551616", CAIRN_RANGE, 0},
		{"18014398509481984K", CAIRN_RANGE, 0},
		{"", CAIRN_INVALID, 0},
		{"G", CAIRN_INVALID, 0},
		{".5G", CAIRN_INVALID, 0},
		{"1.G", CAIRN_INVALID, 0},
		{"1.5", CAIRN_INVALID, 0},
		{"1.5B", CAIRN_INVALID, 0},
		{"1.2345678G", CAIRN_INVALID, 0},
		{"1.5.5G", CAIRN_INVALID, 0},
		{"-1G", CAIRN_INVALID, 0},
		{"1 G", CAIRN_INVALID, 0},
		{"1GG", CAIRN_INVALID, 0},
		{"1Gib", CAIRN_INVALID, 0},
		{"1b", CAIRN_INVALID, 0},
		{"1X", CAIRN_INVALID, 0},
		{"1iB", CAIRN_INVALID, 0},
		{"8G ", CAIRN_INVALID, 0},
		{"1\xff", CAIRN_INVALID, 0},
	};

	(void)state;
	check(cairn_parse_size, cases, ARRAY_LEN(cases));
}

static void times_have_units_and_sums(void **state)
{
	static const struct number_case cases[] = {
		{"0", 0, 0},
		{"90", 0, 90000},
		{"500ms", 0, 500},
		{"30s", 0, 30000},
		{"5m", 0, 300000},
		{"12h", 0, 43200000},
		{"30d", 0, 2592000000},
		{"1h30m", 0, 5400000},
		{"1d2h3m4s5ms", 0, 93784005},
		{"0s", 0, 0},
		{"1h30", CAIRN_INVALID, 0},
		{"0h30", CAIRN_INVALID, 0},
		{"", CAIRN_INVALID, 0},
		{"s", CAIRN_INVALID, 0},
		{"-1s", CAIRN_INVALID, 0},
		{"1.5h", CAIRN_INVALID, 0},
		{"1w", CAIRN_INVALID, 0},
		{"1H", CAIRN_INVALID, 0},
		{"1s ", CAIRN_INVALID, 0},
		{"1 s", CAIRN_INVALID, 0},
		{"18446744073709551615ms", 0, UINT64_MAX},
		{"18446744073709551615s", CAIRN_RANGE, 0},
		{"18446744073709551615ms1ms", CAIRN_RANGE, 0},
		{"99999999999999999999d", CAIRN_RANGE, 0},
	};

	(void)state;
	check(cairn_parse_duration_ms, cases, ARRAY_LEN(cases));
}

static void sizes_are_written_short(void **state)
{
	static const struct {
		uint64_t bytes;
		const char *text;
	} cases[] = {
		{0, "0 B"},
		{1023, "1023 B"},
		{1024, "1 KiB"},
		{1536, "1.5 KiB"},
		{1025, "1 KiB"},
		{KIB * KIB - 1, "1023 KiB"},
		{8 * KIB * KIB * KIB, "8 GiB"},
		{100 * KIB + 512, "100 KiB"},
		{99 * KIB + 512, "99.5 KiB"},
		{1ULL << 60, "1 EiB"},
		{UINT64_MAX, "15.9 EiB"},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		char out[CAIRN_SIZE_TEXT_MAX];

		assert_string_equal(cairn_format_size(cases[i].bytes, out), cases[i].text);
	}
}

static void digits_match_printf(void **state)
{
	static const uint64_t values[] = {0, 9, 10, 12345678901234567ULL, UINT64_MAX};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(values); i++) {
		char digits[21] = "", want[32];

		snprintf(want, sizeof(want), "%llu", (unsigned long long)values[i]);
		assert_int_equal(cairn_format_u64(values[i], digits), strlen(want));
		assert_memory_equal(digits, want, strlen(want));
	}
}

static void digits_are_taken_from_a_text(void **state)
{
	const char *text = "12 0x";
	uint64_t value = 7;

	(void)state;
	assert_true(cairn_take_u64(&text, &value));
	assert_int_equal(value, 12);
	assert_string_equal(text, " 0x");
	assert_false(cairn_take_u64(&text, &value));
	assert_string_equal(text++, " 0x");
	assert_true(cairn_take_u64(&text, &value));
	assert_int_equal(value, 0);
	text = "18446744073709551616";
	assert_false(cairn_take_u64(&text, &value));
	assert_int_equal(value, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(digits_are_taken_from_a_text),
		cmocka_unit_test(whole_numbers_take_all_of_the_text_or_nothing),
		cmocka_unit_test(signed_numbers_reach_both_ends),
		cmocka_unit_test(sizes_have_binary_and_decimal_units),
		cmocka_unit_test(times_have_units_and_sums),
		cmocka_unit_test(sizes_are_written_short),
		cmocka_unit_test(digits_match_printf),
	};

	return cmocka_run_group_tests_name("base/num", tests, NULL, NULL);
}
