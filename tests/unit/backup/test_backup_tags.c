/* SPDX-License-Identifier: Apache-2.0 */

#include "cairntest.h"

#include <stdlib.h>
#include <string.h>

#include "backup/tags.h"
#include "base/flags.h"
#include "repo/repo_check.h"
#include "repo/repo_snapshot.h"

static void lists_of_tags_are_split_and_counted_once(void **state)
{
	struct cairn_strings lists = {.at = {"a,b", "b", "c"}, .n = 3};
	struct cairn_err err = {0};
	struct tags tags;

	(void)state;
	assert_ok(backup_tag_list_parse(&lists, &tags, &err), &err);
	assert_int_equal(tags.n, 3);
	assert_string_equal(tags.at[0], "a");
	assert_string_equal(tags.at[1], "b");
	assert_string_equal(tags.at[2], "c");
	backup_tag_list_done(&tags);
}

static void tags_of_ours_cannot_be_given(void **state)
{
	static const char *const bad[] = {"", "a,", ",a", "cairn", "volume=x", "read=1", "x\ny"};
	static const char *const good[] = {"cairns", "volume", "volumes=x", "a=b"};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		struct cairn_strings lists = {.at = {bad[i]}, .n = 1};
		struct tags tags = {0};

		assert_code(backup_tag_list_parse(&lists, &tags, NULL), CAIRN_INVALID);
		assert_int_equal(tags.n, 0);
	}
	for (size_t i = 0; i < ARRAY_LEN(good); i++) {
		struct cairn_strings lists = {.at = {good[i]}, .n = 1};
		struct tags tags = {0};

		assert_code(backup_tag_list_parse(&lists, &tags, NULL), 0);
		backup_tag_list_done(&tags);
	}
}

static void a_list_means_all_of_it_and_several_mean_any(void **state)
{
	const char *have[] = {"cairn", "volume=data", "a", "b"};
	struct repo_snapshot snapshot = {.tags = have, .n_tags = ARRAY_LEN(have)};
	static const struct {
		struct cairn_strings lists;
		bool want;
	} cases[] = {
		{{.n = 0}, true},
		{{.at = {"a"}, .n = 1}, true},
		{{.at = {"a,b"}, .n = 1}, true},
		{{.at = {"a,c"}, .n = 1}, false},
		{{.at = {"c", "b"}, .n = 2}, true},
		{{.at = {"c", "a,c"}, .n = 2}, false},
	};
	char *text = backup_tag_list_text(&snapshot);

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++)
		assert_int_equal(backup_tag_list_match(&snapshot, &cases[i].lists), cases[i].want);
	assert_string_equal(text, "a,b");
	free(text);
}

static void subsets_are_parts_shares_or_sizes(void **state)
{
	static const char *const bad[] = {"",  "0/1", "2/1",  "1/257", "1/x",
					  "/", "0%",  "101%", "%",     "1.%%",
					  "x", "-1%", "0",    "1/2/3", "1.2.3%"};
	struct repo_subset subset = {0};
	struct cairn_err err = {0};

	(void)state;
	assert_ok(repo_subset_parse("2/5", &subset, &err), &err);
	assert_int_equal(subset.part, 2);
	assert_int_equal(subset.parts, 5);
	assert_ok(repo_subset_parse("2.5%", &subset, &err), &err);
	assert_true(subset.share > 0.0249 && subset.share < 0.0251 && subset.parts == 0);
	assert_ok(repo_subset_parse("100%", &subset, &err), &err);
	assert_ok(repo_subset_parse("3M", &subset, &err), &err);
	assert_int_equal(subset.bytes, 3 << 20);
	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		assert_code(repo_subset_parse(bad[i], &subset, NULL), CAIRN_INVALID);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(lists_of_tags_are_split_and_counted_once),
		cmocka_unit_test(tags_of_ours_cannot_be_given),
		cmocka_unit_test(a_list_means_all_of_it_and_several_mean_any),
		cmocka_unit_test(subsets_are_parts_shares_or_sizes),
	};

	return cmocka_run_group_tests_name("backup/tags", tests, NULL, NULL);
}
