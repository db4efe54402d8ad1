/* SPDX-License-Identifier: Apache-2.0 */

#include "cairntest.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "base/io.h"
#include "conformance/block_listing.h"
#include "conformance/csi_request.h"
#include "conformance/report.h"
#include "conformance/suite.h"

static void every_test_has_a_name_of_its_own(void **state)
{
	const struct suite_test *a, *b;

	(void)state;
	for (size_t i = 0; (a = conformance_suite_test_at(i)); i++) {
		assert_non_null(strchr(a->name, '.'));
		assert_non_null(a->run);
		assert_non_null(a->rule);
		for (size_t j = 0; j < i; j++) {
			b = conformance_suite_test_at(j);
			assert_string_not_equal(a->name, b->name);
		}
	}
	assert_non_null(conformance_suite_test_at(60));
}

static void maps_are_read_from_lists(void **state)
{
	static const struct {
		const char *text;
		int code;
		size_t n;
	} cases[] = {
		{"", 0, 0},   {"a=b", 0, 1},           {"a=b,c=d=e,", 0, 2},
		{"a=", 0, 1}, {"a", CAIRN_INVALID, 0}, {"=b", CAIRN_INVALID, 0},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct request_map map = {0};
		struct cairn_err err = {0};

		assert_int_equal(conformance_request_map_parse(&map, cases[i].text, ",", &err),
				 cases[i].code);
		if (cases[i].code == 0)
			assert_int_equal(map.n, cases[i].n);
		conformance_request_map_done(&map);
	}
}

static void a_map_has_a_limit(void **state)
{
	struct request_map map = {0};
	struct cairn_err err = {0};

	(void)state;
	for (unsigned i = 0; i < REQUEST_MAP_MAX; i++)
		assert_int_equal(conformance_request_map_add(&map, "k", "v", &err), 0);
	assert_int_equal(conformance_request_map_add(&map, "k", "v", &err), CAIRN_NO_SPACE);
	assert_int_equal(map.n, REQUEST_MAP_MAX);
	conformance_request_map_done(&map);
}

static void a_bad_item_is_not_repeated_in_the_error(void **state)
{
	struct request_map map = {0};
	struct cairn_err err = {0};

	(void)state;
	assert_int_equal(conformance_request_map_parse(&map, "user=x\nhunter2", "\n", &err),
			 CAIRN_INVALID);
	assert_null(strstr(err.msg, "hunter2"));
	conformance_request_map_done(&map);
}

static void requests_are_protobuf(void **state)
{
	static const uint8_t expected[] = {0x0a, 2, 'i', 'd', 0x10, 0x80, 0x20};
	struct cairn_buf buf = CAIRN_BUF_INIT(64);

	(void)state;
	conformance_request_add_string(&buf, 1, "id");
	conformance_request_add_int(&buf, 2, 4096);
	conformance_request_add_int(&buf, 3, 0);
	conformance_request_add_string(&buf, 4, "");
	assert_false(cairn_buf_failed(&buf));
	assert_int_equal(buf.len, sizeof(expected));
	assert_memory_equal(buf.data, expected, sizeof(expected));
	cairn_buf_done(&buf);
}

static void what_a_listing_does_not_cover_is_found(void **state)
{
	static struct listing_range cover[] = {{10, 20}, {30, 40}};
	const struct listing l = {.cover = cover, .n_cover = 2};
	static const struct {
		uint64_t start, end, uncovered;
	} cases[] = {
		{10, 20, 20}, {10, 21, 20}, {9, 20, 9},   {15, 35, 20}, {30, 40, 40},
		{40, 50, 40}, {0, 5, 0},    {20, 30, 20}, {19, 20, 20}, {5, 5, 5},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		assert_int_equal(conformance_listing_uncovered(&l, cases[i].start, cases[i].end),
				 cases[i].uncovered);
}

static void what_one_listing_lacks_of_another_is_found(void **state)
{
	static struct listing_range all[] = {{10, 20}, {30, 40}};
	static struct listing_range some[] = {{10, 20}, {32, 50}};
	const struct listing a = {.cover = all, .n_cover = 2};
	const struct listing b = {.cover = some, .n_cover = 2};
	struct listing_range gap = {0};

	(void)state;
	assert_true(conformance_listing_missing(&a, &b, 0, UINT64_MAX, &gap));
	assert_int_equal(gap.start, 30);
	assert_false(conformance_listing_missing(&a, &b, 32, UINT64_MAX, &gap));
	assert_false(conformance_listing_missing(&a, &b, 0, 30, &gap));
	assert_true(conformance_listing_missing(&b, &a, 0, UINT64_MAX, &gap));
	assert_int_equal(gap.start, 40);
}

static void a_failed_test_stays_failed(void **state)
{
	static struct verdict v;

	(void)state;
	conformance_verdict_fail(&v, "a\nb");
	conformance_verdict_skip(&v, "c");
	assert_int_equal(v.state, VERDICT_FAIL);
	assert_string_equal(v.lines[0], "a b");
	for (unsigned i = 0; i < 2 * VERDICT_LINES_MAX; i++)
		conformance_verdict_note(&v, "d");
	assert_int_equal(v.n_lines, VERDICT_LINES_MAX);
	assert_int_equal(v.lines_dropped, VERDICT_LINES_MAX + 2);
}

/* The report prints to standard output; for the test that is nowhere. */
static void the_junit_file_escapes_and_counts(void **state)
{
	static const struct suite_test test = {.name = "group.name", .rule = "1"};
	static struct verdict v;
	int fd, out = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3);
	int nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);
	struct cairn_err err = {0};
	struct report report;
	char path[64], *text;
	size_t n;

	(void)state;
	scratch_template(path, "conformance");
	fd = mkstemp(path);
	conformance_verdict_fail(&v, "<a> & \"b\"");
	conformance_report_init(&report, true);
	dup2(nowhere, STDOUT_FILENO);
	conformance_report_result(&report, &test, &v, 1500000);
	dup2(out, STDOUT_FILENO);
	assert_int_equal(report.failed, 1);
	assert_ok(conformance_report_write_junit(&report, path, &err), &err);
	assert_ok(cairn_file_read(AT_FDCWD, path, 65536, &text, &n, &err), &err);
	assert_non_null(strstr(text, "tests=\"1\" failures=\"1\" errors=\"0\" skipped=\"0\""));
	assert_non_null(strstr(text, "message=\"&lt;a> &amp; &quot;b&quot;\""));
	assert_non_null(strstr(text, "</testsuite>\n"));
	free(text);
	conformance_report_done(&report);
	unlink(path);
	close(fd);
	close(out);
	close(nowhere);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_test_has_a_name_of_its_own),
		cmocka_unit_test(maps_are_read_from_lists),
		cmocka_unit_test(a_map_has_a_limit),
		cmocka_unit_test(a_bad_item_is_not_repeated_in_the_error),
		cmocka_unit_test(requests_are_protobuf),
		cmocka_unit_test(what_a_listing_does_not_cover_is_found),
		cmocka_unit_test(what_one_listing_lacks_of_another_is_found),
		cmocka_unit_test(a_failed_test_stays_failed),
		cmocka_unit_test(the_junit_file_escapes_and_counts),
	};

	return cmocka_run_group_tests_name("conformance", tests, NULL, NULL);
}
