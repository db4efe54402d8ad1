/* SPDX-License-Identifier: Apache-2.0 */

#include "cairntest.h"

#include <stdio.h>
#include <string.h>

#include "base/flags.h"

static const char *const formats[] = {"table", "json", "ndjson", NULL};

static struct values {
	bool verbose, quiet, size_given;
	const char *pool;
	uint64_t max, size, wait;
	int64_t shift;
	int format;
} got;

static const struct cairn_flag common[] = {
	{.name = "verbose", .letter = 'v', .kind = CAIRN_FLAG_BOOL, .target = &got.verbose},
	{.name = "quiet", .letter = 'q', .kind = CAIRN_FLAG_BOOL, .target = &got.quiet},
	{.name = "pool",
	 .letter = 'p',
	 .kind = CAIRN_FLAG_STRING,
	 .target = &got.pool,
	 .value_name = "DIR"},
	CAIRN_FLAG_END,
};

static const struct cairn_flag own[] = {
	{.name = "max", .letter = 'n', .kind = CAIRN_FLAG_U64, .target = &got.max},
	{.name = "shift", .kind = CAIRN_FLAG_I64, .target = &got.shift},
	{.name = "size", .kind = CAIRN_FLAG_SIZE, .target = &got.size, .given = &got.size_given},
	{.name = "wait", .kind = CAIRN_FLAG_DURATION, .target = &got.wait},
	{.name = "output",
	 .letter = 'o',
	 .kind = CAIRN_FLAG_CHOICE,
	 .target = &got.format,
	 .choices = formats},
	{.name = "secret", .kind = CAIRN_FLAG_BOOL, .target = &got.quiet, .hidden = true},
	CAIRN_FLAG_END,
};

static const struct cairn_flag *const tables[] = {common, own, NULL};

#define WORDS_MAX 12

/* Parses `line`, words separated by spaces, and joins the arguments again. */
static int parse(const char *line, unsigned how, char *ret_rest, struct cairn_err *err)
{
	static char copy[512];
	char *argv[WORDS_MAX];
	char *save = copy;
	int argc = 0, kept = 0, rc;

	got = (struct values){0};
	snprintf(copy, sizeof(copy), "%s", line);
	while (save && *save && argc < WORDS_MAX)
		argv[argc++] = strsep(&save, " ");
	rc = cairn_flags_parse(tables, argc, argv, how, &kept, err);
	ret_rest[0] = '\0';
	for (int i = 0; rc == 0 && i < kept; i++)
		snprintf(ret_rest + strlen(ret_rest), 64, "%s|", argv[i]);
	return rc;
}

static void every_way_to_write_a_flag_works(void **state)
{
	static const char *const lines[] = {
		"--verbose --pool /p --max 5 --output json a b",
		"-v -p /p -n 5 -o json a b",
		"-v -p/p -n5 -ojson a b",
		"-vp /p -n5 a --output=json b",
		"a --pool=/p -vn5 b -o json",
		"a b -q --no-quiet --pool /x --pool /p -v --max=5 --output json",
		"-v -p /p -n 5 -o json -- a b",
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(lines); i++) {
		struct cairn_err err = {0};
		char rest[128];

		assert_ok(parse(lines[i], 0, rest, &err), &err);
		assert_string_equal(rest, "a|b|");
		assert_true(got.verbose);
		assert_false(got.quiet);
		assert_string_equal(got.pool, "/p");
		assert_int_equal(got.max, 5);
		assert_int_equal(got.format, 1);
	}
}

static void values_are_read_by_their_kind(void **state)
{
	struct cairn_err err = {0};
	char rest[128];

	(void)state;
	assert_ok(parse("--size 8G --shift -3 --wait 1m --pool=", 0, rest, &err), &err);
	assert_int_equal(got.size, 8ULL << 30);
	assert_true(got.size_given);
	assert_int_equal(got.shift, -3);
	assert_int_equal(got.wait, 60000);
	assert_string_equal(got.pool, "");
	assert_ok(parse("--wait none", 0, rest, &err), &err);
	assert_true(got.wait == UINT64_MAX);
	assert_false(got.size_given);
}

static void after_two_dashes_all_are_arguments(void **state)
{
	struct cairn_err err = {0};
	char rest[128];

	(void)state;
	assert_ok(parse("a -- -v --nonsense -- -", 0, rest, &err), &err);
	assert_string_equal(rest, "a|-v|--nonsense|--|-|");
	assert_false(got.verbose);
	assert_ok(parse("-", 0, rest, &err), &err);
	assert_string_equal(rest, "-|");
	assert_ok(parse("", 0, rest, &err), &err);
	assert_string_equal(rest, "");
}

static void parsing_can_stop_at_the_subcommand(void **state)
{
	struct cairn_err err = {0};
	char rest[128];

	(void)state;
	assert_ok(parse("-v volume --size 8G -z", CAIRN_FLAGS_STOP, rest, &err), &err);
	assert_string_equal(rest, "volume|--size|8G|-z|");
	assert_true(got.verbose);
}

static void bad_flags_are_refused_with_their_name(void **state)
{
	static const struct {
		const char *line, *text;
	} cases[] = {
		{"--nonsense", "unknown option '--nonsense'"},
		{"--sise 8G", "did you mean '--size'?"},
		{"--secre", "unknown option '--secre'"},
		{"--verb", "unknown option '--verb'"},
		{"--=5", "unknown option '--'"},
		{"-z", "unknown option '-z'"},
		{"-vz", "unknown option '-z'"},
		{"-\xc3\xa9", "unknown option '-\xc3\xa9'"},
		{"--verbose=yes", "--verbose takes no value"},
		{"--no-pool", "unknown option '--no-pool'"},
		{"--no-verbose=1", "unknown option '--no-verbose"},
		{"--pool", "--pool needs a value (DIR)"},
		{"-p", "-p needs a value (DIR)"},
		{"--max", "--max needs a value (VALUE)"},
		{"--max -1", "--max: '-1' is not a whole number"},
		{"--max 18446744073709551616", "--max: '18446744073709551616' is too large"},
		{"--size 8X", "--size: '8X' is not a size"},
		{"--size=", "--size: '' is not a size"},
		{"--wait soon", "--wait: 'soon' is not a time"},
		{"--output xml", "--output: 'xml' is not one of table, json, ndjson"},
		{"--output=", "--output: '' is not one of"},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct cairn_err err = {0};
		char rest[128];

		assert_code(parse(cases[i].line, 0, rest, &err), CAIRN_INVALID);
		assert_int_equal(err.code, CAIRN_INVALID);
		if (!strstr(err.msg, cases[i].text))
			fail_msg("'%s' gave: %s", cases[i].line, err.msg);
		assert_code(parse(cases[i].line, 0, rest, NULL), CAIRN_INVALID);
	}
}

static void a_very_long_name_is_refused(void **state)
{
	struct cairn_err err = {0};
	char line[300], rest[128];

	(void)state;
	memset(line, 'x', sizeof(line));
	memcpy(line, "--", 2);
	line[sizeof(line) - 1] = '\0';
	assert_code(parse(line, 0, rest, &err), CAIRN_INVALID);
}

static void hidden_flags_work_but_are_never_suggested(void **state)
{
	struct cairn_err err = {0};
	char rest[128];

	(void)state;
	assert_ok(parse("--secret", 0, rest, &err), &err);
	assert_true(got.quiet);
	assert_code(parse("--secrte", 0, rest, &err), CAIRN_INVALID);
	assert_null(strstr(err.msg, "secret"));
	assert_ptr_equal(cairn_flags_find(tables, "secret"), &own[5]);
	assert_null(cairn_flags_find(tables, "none"));
}

static void flags_of_a_go_program_are_read_as_go_reads_them(void **state)
{
	static const struct {
		const char *line;
		bool verbose, quiet;
		uint64_t max;
		int code;
	} cases[] = {
		{"-verbose -max=5", true, false, 5, 0},
		{"-max 5 --verbose=true", true, false, 5, 0},
		{"-verbose=false -quiet=T --max 5", false, true, 5, 0},
		{"-vn5", true, false, 5, 0}, /* letters still are letters */
		{"--quiet=0 -n 5", false, false, 5, 0},
		{"-verbose=maybe", false, false, 0, CAIRN_INVALID},
		{"-verbose=", false, false, 0, CAIRN_INVALID},
		{"-max=", false, false, 0, CAIRN_INVALID},
		{"-unknown=1", false, false, 0, CAIRN_INVALID},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct cairn_err err = {0};
		char rest[256];

		assert_int_equal(parse(cases[i].line, CAIRN_FLAGS_GO, rest, &err), cases[i].code);
		if (cases[i].code != 0)
			continue;
		assert_int_equal(got.verbose, cases[i].verbose);
		assert_int_equal(got.quiet, cases[i].quiet);
		assert_int_equal(got.max, cases[i].max);
	}
}

static void one_dash_before_a_long_name_is_letters_elsewhere(void **state)
{
	struct cairn_err err = {0};
	char rest[256];

	(void)state;
	assert_code(parse("-max=5", 0, rest, &err), CAIRN_INVALID);
	assert_code(parse("--verbose=true", 0, rest, &err), CAIRN_INVALID);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_way_to_write_a_flag_works),
		cmocka_unit_test(values_are_read_by_their_kind),
		cmocka_unit_test(after_two_dashes_all_are_arguments),
		cmocka_unit_test(parsing_can_stop_at_the_subcommand),
		cmocka_unit_test(bad_flags_are_refused_with_their_name),
		cmocka_unit_test(a_very_long_name_is_refused),
		cmocka_unit_test(hidden_flags_work_but_are_never_suggested),
		cmocka_unit_test(flags_of_a_go_program_are_read_as_go_reads_them),
		cmocka_unit_test(one_dash_before_a_long_name_is_letters_elsewhere),
	};

	return cmocka_run_group_tests_name("base/flags", tests, NULL, NULL);
}
