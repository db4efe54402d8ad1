/* SPDX-License-Identifier: Apache-2.0 */

#include "net/grpc/grpc_text.h"

#include "cairntest.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "net/grpc/grpc_status.h"

static void percent_encoding_keeps_printable_text_and_nothing_else(void **state)
{
	static const struct {
		const char *plain, *encoded;
	} cases[] = {
		{"", ""},
		{"plain ~text!", "plain ~text!"},
		{"100%", "100%25"},
		{" a b ", "%20a b%20"},
		{" ", "%20"},
		{"a\nb\tc", "a%0Ab%09c"},
		{"größe", "gr%C3%B6%C3%9Fe"},
		{"\x7f\x01", "%7F%01"},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		char out[64], back[64];
		size_t n = grpc_percent_encode(cases[i].plain, strlen(cases[i].plain), out);

		assert_int_equal(n, strlen(cases[i].encoded));
		assert_memory_equal(out, cases[i].encoded, n);
		n = grpc_percent_decode(out, n, back);
		assert_int_equal(n, strlen(cases[i].plain));
		assert_memory_equal(back, cases[i].plain, n);
	}
}

static void percent_decoding_leaves_what_is_no_escape(void **state)
{
	static const struct {
		const char *text, *plain;
	} cases[] = {
		{"%", "%"}, {"%4", "%4"}, {"%4g", "%4g"}, {"%%41", "%A"}, {"a%4aB", "aJB"},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		char out[64];
		size_t n = grpc_percent_decode(cases[i].text, strlen(cases[i].text), out);

		assert_int_equal(n, strlen(cases[i].plain));
		assert_memory_equal(out, cases[i].plain, n);
	}
}

static void timeouts_have_at_most_eight_digits_and_a_unit(void **state)
{
	static const struct {
		const char *text;
		bool ok;
		uint64_t ns;
	} cases[] = {
		{"1n", true, 1},          {"100m", true, 100000000},
		{"0S", true, 0},          {"99999999H", true, UINT64_MAX}, /* more than fits */
		{"20u", true, 20000},     {"3M", true, 180000000000ULL},
		{"123456789S", false, 0}, {"S", false, 0},
		{"", false, 0},           {"1", false, 0},
		{"-1S", false, 0},        {"1s", false, 0},
		{"1.5S", false, 0},       {"1 S", false, 0},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		uint64_t ns = 77;

		assert_int_equal(grpc_timeout_parse(cases[i].text, strlen(cases[i].text), &ns),
				 cases[i].ok);
		if (cases[i].ok)
			assert_int_equal(ns, cases[i].ns);
	}
}

static void a_written_timeout_is_never_shorter(void **state)
{
	static const uint64_t values[] = {1,
					  99999999,
					  100000000,
					  100000001,
					  123456789012ULL,
					  86400ULL * 1000000000ULL,
					  400ULL * 86400 * 1000000000ULL,
					  UINT64_MAX / 2};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(values); i++) {
		char text[GRPC_TIMEOUT_TEXT_MAX];
		size_t n = grpc_timeout_format(values[i], text);
		uint64_t back;

		assert_true(n <= 9);
		assert_int_equal(strlen(text), n);
		assert_true(grpc_timeout_parse(text, n, &back));
		assert_true(back >= values[i]);
		assert_true(back - values[i] <= values[i] / 10000);
	}
}

static void names_values_types_and_paths_are_checked(void **state)
{
	static const struct {
		bool (*check)(const char *, size_t);
		const char *text;
		bool want;
	} cases[] = {
		{grpc_name_valid, "x-request.id_2", true},
		{grpc_name_valid, "X", false},
		{grpc_name_valid, "", false},
		{grpc_name_valid, "a:b", false},
		{grpc_name_reserved, ":path", true},
		{grpc_name_reserved, "grpc-timeout", true},
		{grpc_name_reserved, "te", true},
		{grpc_name_reserved, "tea", false},
		{grpc_name_reserved, "connection", true},
		{grpc_name_is_bin, "x-bin", true},
		{grpc_name_is_bin, "-bin", false},
		{grpc_name_is_bin, "x-bins", false},
		{grpc_value_valid, "", true},
		{grpc_value_valid, "a b~", true},
		{grpc_value_valid, " a", false},
		{grpc_value_valid, "a ", false},
		{grpc_value_valid, "a\rb", false},
		{grpc_value_valid, "\x80", false},
		{grpc_content_type_valid, "application/grpc", true},
		{grpc_content_type_valid, "application/grpc+proto", true},
		{grpc_content_type_valid, "application/grpc;x=y", true},
		{grpc_content_type_valid, "application/grpc-web", false},
		{grpc_content_type_valid, "application/json", false},
		{grpc_content_type_valid, "", false},
		{grpc_path_valid, "/a.B/C", true},
		{grpc_path_valid, "a.B/C", false},
		{grpc_path_valid, "//C", false},
		{grpc_path_valid, "/a/", false},
		{grpc_path_valid, "/a/b/c", false},
		{grpc_path_valid, "/a b/c", false},
		{grpc_path_valid, "/", false},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		if (cases[i].check(cases[i].text, strlen(cases[i].text)) != cases[i].want)
			fail_msg("case %zu: '%s'", i, cases[i].text);
	}
}

static void statuses_follow_the_tables_of_grpc(void **state)
{
	static const struct {
		unsigned http;
		int code;
	} http[] = {
		{400, CAIRN_INTERNAL},      {401, CAIRN_UNAUTHENTICATED}, {403, CAIRN_DENIED},
		{404, CAIRN_UNIMPLEMENTED}, {429, CAIRN_UNAVAILABLE},     {502, CAIRN_UNAVAILABLE},
		{503, CAIRN_UNAVAILABLE},   {504, CAIRN_UNAVAILABLE},     {200, CAIRN_UNKNOWN},
		{500, CAIRN_UNKNOWN},       {0, CAIRN_UNKNOWN},
	};
	static const struct {
		uint32_t h2;
		int code;
	} h2[] = {
		{0, CAIRN_INTERNAL},  {1, CAIRN_INTERNAL},      {7, CAIRN_UNAVAILABLE},
		{8, CAIRN_CANCELLED}, {11, CAIRN_NO_SPACE},     {12, CAIRN_DENIED},
		{2, CAIRN_INTERNAL},  {0xffff, CAIRN_INTERNAL},
	};
	static const struct {
		const char *text;
		bool ok;
		int code;
	} status[] = {
		{"0", true, 0},
		{"16", true, CAIRN_UNAUTHENTICATED},
		{"17", true, CAIRN_UNKNOWN},
		{"9999", true, CAIRN_UNKNOWN},
		{"", false, 0},
		{"-1", false, 0},
		{"x", false, 0},
		{"12345", false, 0},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(http); i++)
		assert_int_equal(grpc_code_of_http(http[i].http), http[i].code);
	for (size_t i = 0; i < ARRAY_LEN(h2); i++)
		assert_int_equal(grpc_code_of_h2_error(h2[i].h2), h2[i].code);
	for (size_t i = 0; i < ARRAY_LEN(status); i++) {
		int code = 0;

		assert_int_equal(grpc_status_parse(status[i].text, strlen(status[i].text), &code),
				 status[i].ok);
		if (status[i].ok)
			assert_int_equal(code, status[i].code);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(percent_encoding_keeps_printable_text_and_nothing_else),
		cmocka_unit_test(percent_decoding_leaves_what_is_no_escape),
		cmocka_unit_test(timeouts_have_at_most_eight_digits_and_a_unit),
		cmocka_unit_test(a_written_timeout_is_never_shorter),
		cmocka_unit_test(names_values_types_and_paths_are_checked),
		cmocka_unit_test(statuses_follow_the_tables_of_grpc),
	};

	return cmocka_run_group_tests_name("net/grpc_text", tests, NULL, NULL);
}
