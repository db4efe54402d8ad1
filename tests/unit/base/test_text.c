/* SPDX-License-Identifier: Apache-2.0 */

#include "cairntest.h"

#include <string.h>

#include "base/text.h"

static void utf8_is_told_from_what_only_looks_like_it(void **state)
{
	static const struct {
		const char *text;
		bool valid, printable;
	} cases[] = {
		{"", true, true},
		{"plain", true, true},
		{"\xc3\xa9", true, true},
		{"\xe2\x82\xac", true, true},
		{"\xf0\x9f\x97\xbb", true, true},
		{"\xf4\x8f\xbf\xbf", true, true},
		{"\xed\x9f\xbf", true, true},
		{"\xee\x80\x80", true, true},
		{"\xc2\xa0", true, true},
		{"\n", true, false},
		{"a\tb", true, false},
		{"\x1b[31m", true, false},
		{"\x7f", true, false},
		{"\xc2\x80", true, false},
		{"\xc2\x9b", true, false},
		{"\x80", false, false},
		{"a\xff", false, false},
		{"\xc3", false, false},
		{"\xe2\x82", false, false},
		{"\xf0\x9f\x97", false, false},
		{"\xc0\x80", false, false},         /* overlong */
		{"\xc1\xbf", false, false},         /* overlong */
		{"\xe0\x9f\xbf", false, false},     /* overlong */
		{"\xf0\x8f\xbf\xbf", false, false}, /* overlong */
		{"\xed\xa0\x80", false, false},     /* surrogate */
		{"\xed\xbf\xbf", false, false},     /* surrogate */
		{"\xf4\x90\x80\x80", false, false}, /* above U+10FFFF */
		{"\xf5\x80\x80\x80", false, false},
		{"\xe2\x28\xa1", false, false},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		size_t n = strlen(cases[i].text);

		assert_int_equal(cairn_utf8_valid(cases[i].text, n), cases[i].valid);
		assert_int_equal(cairn_text_printable(cases[i].text, n), cases[i].printable);
	}
	assert_true(cairn_utf8_valid("a\0b", 3));
	assert_false(cairn_text_printable("a\0b", 3));
}

static void characters_are_decoded_one_by_one(void **state)
{
	uint32_t c = 0;

	(void)state;
	assert_int_equal(cairn_utf8_next("\xe2\x82\xac!", 4, &c), 3);
	assert_int_equal(c, 0x20ac);
	assert_int_equal(cairn_utf8_next("\xe2\x82\xac", 2, &c), 0);
	assert_int_equal(cairn_utf8_next("\0", 1, &c), 1);
	assert_int_equal(c, 0);
}

static void columns_count_what_a_terminal_shows(void **state)
{
	static const struct {
		const char *text;
		size_t columns;
	} cases[] = {
		{"", 0},
		{"abc", 3},
		{"\xc3\xa9", 1},
		{"e\xcc\x81", 1},                    /* combining accent */
		{"\xe5\xb1\xb1", 2},                 /* wide */
		{"\xf0\x9f\x8f\x94", 2},             /* emoji */
		{"\xf0\x9f\x8f\x94\xef\xb8\x8f", 2}, /* with a variation selector */
		{"a\xffz", 3},                       /* a byte that is nothing */
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++)
		assert_int_equal(cairn_text_columns(cases[i].text), cases[i].columns);
}

static void distance_counts_the_least_edits(void **state)
{
	static const struct {
		const char *a, *b;
		size_t distance;
	} cases[] = {
		{"", "", 0},         {"", "abc", 3},       {"abc", "", 3},
		{"size", "size", 0}, {"size", "sise", 1},  {"size", "szie", 1},
		{"size", "siz", 1},  {"size", "sizes", 1}, {"pool", "loop", 2},
	};
	char longest[CAIRN_TEXT_DISTANCE_MAX + 2];

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		assert_int_equal(cairn_text_distance(cases[i].a, cases[i].b), cases[i].distance);
		assert_int_equal(cairn_text_distance(cases[i].b, cases[i].a), cases[i].distance);
	}
	memset(longest, 'x', sizeof(longest) - 1);
	longest[sizeof(longest) - 1] = '\0';
	assert_true(cairn_text_distance(longest, "x") == SIZE_MAX);
	longest[CAIRN_TEXT_DISTANCE_MAX] = '\0';
	assert_int_equal(cairn_text_distance(longest, "x"), CAIRN_TEXT_DISTANCE_MAX - 1);
	assert_true(cairn_text_near("ab") < 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(utf8_is_told_from_what_only_looks_like_it),
		cmocka_unit_test(characters_are_decoded_one_by_one),
		cmocka_unit_test(columns_count_what_a_terminal_shows),
		cmocka_unit_test(distance_counts_the_least_edits),
	};

	return cmocka_run_group_tests_name("base/text", tests, NULL, NULL);
}
