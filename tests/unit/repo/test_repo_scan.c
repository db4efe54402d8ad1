/* SPDX-License-Identifier: Apache-2.0 */

#include "cairntest.h"

#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "repo/instant.h"
#include "repo/node_name.h"
#include "repo/repo_json.h"
#include "repo/scan.h"

static void values_are_skipped_only_if_they_are_json(void **state)
{
	static const struct {
		const char *json;
		bool fine;
	} cases[] = {
		{"{}", true},
		{" [ ] \n", true},
		{"{\"a\":1,\"b\":[true,false,null,-1.5e3,\"x\"]}", true},
		{"\"\\u0041\\\"\"", true},
		{"[1,]", false},
		{"[,1]", false},
		{"{\"a\":1,}", false},
		{"{\"a\" 1}", false},
		{"{a:1}", false},
		{"[1 2]", false},
		{"\"abc", false},
		{"\"abc\\", false},
		{"\"a\nb\"", false},
		{"tru", false},
		{"", false},
		{"{", false},
		{"[[[[", false},
		{"1 2", false},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct repo_scan scan;

		repo_scan_init(&scan, cases[i].json, strlen(cases[i].json));
		repo_scan_skip(&scan);
		if (repo_scan_end(&scan) != cases[i].fine)
			fail_msg("%s", cases[i].json);
	}
}

static void nesting_has_a_limit(void **state)
{
	char json[2 * REPO_SCAN_DEPTH_MAX + 8];
	struct repo_scan scan;

	(void)state;
	for (unsigned depth = REPO_SCAN_DEPTH_MAX; depth <= REPO_SCAN_DEPTH_MAX + 1; depth++) {
		memset(json, '[', depth);
		memset(json + depth, ']', depth);
		repo_scan_init(&scan, json, 2 * depth);
		repo_scan_skip(&scan);
		assert_int_equal(repo_scan_end(&scan), depth <= REPO_SCAN_DEPTH_MAX);
	}
}

static void numbers_are_whole_and_fit(void **state)
{
	static const struct {
		const char *json;
		bool fine;
		uint64_t value;
	} cases[] = {
		{"0", true, 0},
		{"18446744073709551615", true, UINT64_MAX},
		{"18446744073709551616", false, 0},
		{"-1", false, 0},
		{"1.0", false, 0},
		{"1e3", false, 0},
		{"\"1\"", false, 0},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct repo_scan scan;
		uint64_t value;

		repo_scan_init(&scan, cases[i].json, strlen(cases[i].json));
		value = repo_scan_u64(&scan);
		assert_int_equal(repo_scan_failed(&scan), !cases[i].fine);
		if (cases[i].fine)
			assert_true(value == cases[i].value);
	}
}

static void strings_mean_what_json_says(void **state)
{
	static const struct {
		const char *text, *plain;
	} cases[] = {
		{"abc", "abc"},
		{"a\\\"\\\\\\/\\b\\f\\n\\r\\tz", "a\"\\/\b\f\n\r\tz"},
		{"\\u00e9\\u20ac", "\xc3\xa9\xe2\x82\xac"},
		{"\\ud83d\\ude00", "\xf0\x9f\x98\x80"},
		{"\\ud83dx", "\xef\xbf\xbdx"},
		{"\\ude00", "\xef\xbf\xbd"},
		{"\\u12", NULL},
		{"\\q", NULL},
		{"\\", NULL},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		cairn_auto_buf struct cairn_buf out = CAIRN_BUF_INIT(100);
		struct repo_scan_text text = {.at = cases[i].text, .n = strlen(cases[i].text)};

		assert_int_equal(repo_scan_unescape(&text, &out), cases[i].plain != NULL);
		if (cases[i].plain) {
			assert_int_equal(out.len, strlen(cases[i].plain));
			assert_memory_equal(out.data, cases[i].plain, out.len);
		}
	}
}

static void names_are_quoted_as_go_does_and_come_back(void **state)
{
	static const struct {
		const char *name, *quoted;
	} cases[] = {
		{"vol.img", "vol.img"},
		{"a\"b\\c", "a\\\"b\\\\c"},
		{"\x01\x7f\n", "\\x01\\x7f\\n"},
		{"\xff\xc3(", "\\xff\\xc3("},
		{"gr\xc3\xbc\xc3\x9f", "gr\xc3\xbc\xc3\x9f"},
		{"\xc2\x80\xc2\xad", "\\u0080\\u00ad"},
		{"\xf3\xa0\x80\x81", "\\U000e0001"},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		cairn_auto_buf struct cairn_buf quoted = CAIRN_BUF_INIT(100);
		cairn_auto_buf struct cairn_buf back = CAIRN_BUF_INIT(100);

		repo_name_quote(&quoted, cases[i].name);
		assert_int_equal(quoted.len, strlen(cases[i].quoted));
		assert_memory_equal(quoted.data, cases[i].quoted, quoted.len);
		assert_true(repo_name_unquote(&back, (char *)quoted.data, quoted.len));
		assert_int_equal(back.len, strlen(cases[i].name));
		assert_memory_equal(back.data, cases[i].name, back.len);
	}
}

static void wrong_escapes_in_names_are_refused(void **state)
{
	static const char *const cases[] = {"\\",      "\\x",         "\\xg0", "\\u12",
					    "\\ud800", "\\U00110000", "\\400", "\\q"};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		cairn_auto_buf struct cairn_buf out = CAIRN_BUF_INIT(100);

		assert_false(repo_name_unquote(&out, cases[i], strlen(cases[i])));
	}
}

static void strings_are_written_as_go_does(void **state)
{
	cairn_auto_buf struct cairn_buf out = CAIRN_BUF_INIT(200);
	static const char want[] =
		"\"a\\u0026\\u003c\\u003e\\\"\\\\\\n\\u0001\\u2028\xc3\xa9\\ufffd\"";

	(void)state;
	repo_json_string(&out, "a&<>\"\\\n\x01\xe2\x80\xa8\xc3\xa9\xff");
	assert_int_equal(out.len, strlen(want));
	assert_memory_equal(out.data, want, out.len);
}

static void instants_are_written_and_read(void **state)
{
	static const struct {
		int64_t ns;
		const char *text;
	} cases[] = {
		{0, "1970-01-01T00:00:00Z"},
		{1, "1970-01-01T00:00:00.000000001Z"},
		{120000000, "1970-01-01T00:00:00.12Z"},
		{-1, "1969-12-31T23:59:59.999999999Z"},
		{951782400000000000, "2000-02-29T00:00:00Z"},
		{1794797084165889045, "2026-11-16T02:44:44.165889045Z"},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		char text[REPO_INSTANT_TEXT_MAX];
		int64_t ns;

		assert_string_equal(repo_instant_format(cases[i].ns, text), cases[i].text);
		assert_true(repo_instant_parse(text, strlen(text), &ns));
		assert_true(ns == cases[i].ns);
	}
}

static void zones_are_understood(void **state)
{
	static const char text[] = "2026-11-16T04:14:44.5+01:30", far[] = "9999-12-31T23:59:59Z";
	int64_t ns;

	(void)state;
	assert_true(repo_instant_parse(text, strlen(text), &ns));
	assert_true(ns == 1794797084500000000);
	assert_true(repo_instant_parse(far, strlen(far), &ns));
	assert_true(ns == INT64_MAX);
}

static void what_is_no_instant_is_refused(void **state)
{
	static const char *const cases[] = {"",
					    "2026-11-16",
					    "2026-11-16T02:44:44",
					    "2026-13-16T02:44:44Z",
					    "2026-11-31x02:44:44Z",
					    "2026-11-16T24:44:44Z",
					    "2026-11-16T02:44:44.Z",
					    "2026-11-16T02:44:44Zx",
					    "2026-11-16T02:44:44+1:00"};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		int64_t ns;

		if (repo_instant_parse(cases[i], strlen(cases[i]), &ns))
			fail_msg("%s", cases[i]);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(values_are_skipped_only_if_they_are_json),
		cmocka_unit_test(nesting_has_a_limit),
		cmocka_unit_test(numbers_are_whole_and_fit),
		cmocka_unit_test(strings_mean_what_json_says),
		cmocka_unit_test(names_are_quoted_as_go_does_and_come_back),
		cmocka_unit_test(wrong_escapes_in_names_are_refused),
		cmocka_unit_test(strings_are_written_as_go_does),
		cmocka_unit_test(instants_are_written_and_read),
		cmocka_unit_test(zones_are_understood),
		cmocka_unit_test(what_is_no_instant_is_refused),
	};

	return cmocka_run_group_tests_name("repo/scan", tests, NULL, NULL);
}
