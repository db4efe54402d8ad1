/* SPDX-License-Identifier: Apache-2.0 */

#include "cairntest.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "repo/forget.h"
#include "repo/instant.h"
#include "repo/repo_snapshot.h"
#include "repo/snapshot_json.h"

#define N 12

static const char *const times[N] = {
	"2026-01-01T00:00:00Z", "2026-10-01T10:00:00Z", "2026-11-01T10:00:00Z",
	"2026-11-08T23:59:59Z", "2026-11-09T00:00:00Z", "2026-11-14T10:00:00Z",
	"2026-11-15T08:00:00Z", "2026-11-15T09:10:00Z", "2026-11-15T09:50:00Z",
	"2026-11-15T23:00:00Z", "2026-11-16T00:00:00Z", "2026-11-16T00:30:00Z",
};

/* Which are kept, as one letter each: k or '.'. */
static const char *kept(const struct repo_policy *policy, const char *hosts, char out[N + 1])
{
	struct repo_snapshot snapshots[N] = {0}, *list[N];
	char names[N][2];
	unsigned reasons[N];
	struct cairn_err err = {0};

	for (size_t i = 0; i < N; i++) {
		names[i][0] = hosts ? hosts[i] : 'h';
		names[i][1] = '\0';
		snapshots[i].hostname = names[i];
		assert_true(repo_instant_parse(times[i], strlen(times[i]), &snapshots[i].time_ns));
		list[i] = &snapshots[i];
	}
	assert_ok(repo_policy_apply(policy, list, N, reasons, &err), &err);
	for (size_t i = 0; i < N; i++)
		out[i] = reasons[i] ? 'k' : '.';
	out[N] = '\0';
	return out;
}

static void rules_keep_the_newest_of_each_period(void **state)
{
	static const struct {
		struct repo_policy policy;
		const char *hosts, *kept;
	} cases[] = {
		{{.last = 3}, NULL, ".........kkk"},
		{{.last = REPO_KEEP_ALL}, NULL, "kkkkkkkkkkkk"},
		{{.last = 100}, NULL, "kkkkkkkkkkkk"},
		{{.hourly = 4}, NULL, "......k.kk.k"},
		{{.daily = 2}, NULL, ".........k.k"},
		{{.daily = 4}, NULL, "....kk...k.k"},
		{{.weekly = 2}, NULL, ".........k.k"},
		{{.weekly = 4}, NULL, "..kk.....k.k"},
		{{.monthly = 2}, NULL, ".k.........k"},
		{{.yearly = 2}, NULL, "...........k"},
		{{.monthly = 3, .last = 2}, NULL, "kk........kk"},
		{{.within_ms = (uint64_t)25 * 3600 * 1000}, NULL, "......kkkkkk"},
		{{.last = 1, .group_host = true}, "aaaaaabbbbbb", ".....k.....k"},
		{{.last = 1}, "aaaaaabbbbbb", "...........k"},
	};
	char out[N + 1];

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		if (strcmp(kept(&cases[i].policy, cases[i].hosts, out), cases[i].kept) != 0)
			fail_msg("case %zu: %s, not %s", i, out, cases[i].kept);
	}
}

static void an_empty_policy_is_refused(void **state)
{
	const struct repo_policy policy = {.group_host = true};
	struct repo_snapshot snapshot = {0}, *list = &snapshot;
	unsigned reason = 7;

	(void)state;
	assert_true(repo_policy_empty(&policy));
	assert_code(repo_policy_apply(&policy, &list, 1, &reason, NULL), CAIRN_INVALID);
	assert_int_equal(reason, 7);
}

static void tags_are_kept(void **state)
{
	static const char *const wanted[] = {"gold"};
	const char *tags[] = {"x", "gold"};
	const struct repo_policy policy = {.tags = wanted, .n_tags = 1};
	struct repo_snapshot a = {.tags = tags, .n_tags = 2}, b = {.tags = tags, .n_tags = 1};
	struct repo_snapshot *list[] = {&a, &b};
	unsigned reasons[2];

	(void)state;
	assert_int_equal(repo_policy_apply(&policy, list, 2, reasons, NULL), 0);
	assert_int_equal(reasons[0], REPO_KEEP_TAG);
	assert_int_equal(reasons[1], 0);
}

#define HEX "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

static void a_snapshot_comes_back_with_all_it_said(void **state)
{
	static const char json[] =
		"{\"time\":\"2026-11-16T02:44:44.5Z\",\"parent\":\"" HEX "\",\"tree\":\"" HEX
		"\",\"paths\":[\"/a\",\"/b\"],\"hostname\":\"h\\u0026\",\"username\":\"u\","
		"\"uid\":5,\"gid\":6,\"tags\":[\"t\"],\"original\":\"" HEX
		"\",\"program_version\":\"p 1\",\"summary\":{\"backup_start\":"
		"\"2026-11-16T02:44:40Z\",\"backup_end\":\"2026-11-16T02:44:44Z\",\"files_new\":1,"
		"\"files_changed\":2,\"files_unmodified\":3,\"dirs_new\":4,\"dirs_changed\":5,"
		"\"dirs_unmodified\":6,\"data_blobs\":7,\"tree_blobs\":8,\"data_added\":9,"
		"\"data_added_packed\":10,\"total_files_processed\":11,"
		"\"total_bytes_processed\":12}}";
	cairn_cleanup(repo_snapshot_freep) struct repo_snapshot *snapshot = NULL;
	cairn_auto_buf struct cairn_buf out = CAIRN_BUF_INIT(10000);
	struct cairn_err err = {0};

	(void)state;
	assert_ok(repo_snapshot_decode(json, strlen(json), &snapshot, &err), &err);
	assert_string_equal(snapshot->hostname, "h&");
	assert_int_equal(snapshot->n_paths, 2);
	assert_int_equal(snapshot->summary.total_bytes_processed, 12);
	repo_snapshot_encode(snapshot, "other", &out);
	assert_int_equal(out.len, strlen(json));
	assert_memory_equal(out.data, json, out.len);
}

static void what_is_no_snapshot_is_refused(void **state)
{
	static const char *const cases[] = {
		"{}",
		"[]",
		"{\"tree\":\"12\"}",
		("{\"tree\":\"" HEX "\",\"parent\":\"x\"}"),
		("{\"tree\":\"" HEX "\",\"time\":\"2026-11-16T02:44:44\"}"),
		("{\"tree\":\"" HEX "\",\"paths\":\"/a\"}"),
		("{\"tree\":\"" HEX "\",\"tags\":[1]}"),
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct repo_snapshot *snapshot;

		assert_code(repo_snapshot_decode(cases[i], strlen(cases[i]), &snapshot, NULL),
			    CAIRN_DATA_LOSS);
	}
}

/* Times in hours; each but the first was made from the one before. */
static void a_clock_that_was_wrong_costs_no_backup(void **state)
{
	enum { NOW = 1000, COUNT = 5 };
	static const struct {
		const char *what;
		int64_t hours[COUNT];
		struct repo_policy policy;
		const char *kept;
	} cases[] = {
		{"right", {900, 910, 920, 930, 940}, {.last = 2}, "...kk"},
		{"one is of a time to come", {900, 910, 9000, 930, 940}, {.last = 2}, "..kkk"},
		{"the last one is", {900, 910, 920, 930, 9000}, {.last = 2}, "..kkk"},
		{"ours is wrong: all are", {2000, 2010, 2020, 2030, 2040}, {.last = 1}, "kkkkk"},
		{"one is older than its parent", {900, 910, 3, 930, 940}, {.last = 1}, "..k.k"},
		{"the last one is", {900, 910, 920, 930, 3}, {.last = 1}, "...kk"},
		{"within is counted from the newest that is not to come",
		 {900, 910, 9000, 930, 940},
		 {.within_ms = 15 * 3600 * 1000},
		 "..kkk"},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct repo_snapshot snapshots[COUNT] = {0}, *list[COUNT];
		struct repo_policy policy = cases[i].policy;
		unsigned reasons[COUNT];
		char got[COUNT + 1] = "";
		struct cairn_err err = {0};

		policy.now_ns = (int64_t)NOW * 3600 * (int64_t)CAIRN_NS_PER_SEC;
		for (size_t k = 0; k < COUNT; k++) {
			list[k] = &snapshots[k];
			snapshots[k].time_ns = cases[i].hours[k] * 3600 * (int64_t)CAIRN_NS_PER_SEC;
			snapshots[k].id.bytes[0] = (uint8_t)(7 * k + 1); /* any order */
			snapshots[k].has_parent = k > 0;
			if (k > 0)
				snapshots[k].parent = snapshots[k - 1].id;
		}
		assert_ok(repo_policy_apply(&policy, list, COUNT, reasons, &err), &err);
		for (size_t k = 0; k < COUNT; k++)
			got[k] = reasons[k] ? 'k' : '.';
		if (strcmp(got, cases[i].kept) != 0)
			fail_msg("%s: %s, not %s", cases[i].what, got, cases[i].kept);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rules_keep_the_newest_of_each_period),
		cmocka_unit_test(an_empty_policy_is_refused),
		cmocka_unit_test(tags_are_kept),
		cmocka_unit_test(a_clock_that_was_wrong_costs_no_backup),
		cmocka_unit_test(a_snapshot_comes_back_with_all_it_said),
		cmocka_unit_test(what_is_no_snapshot_is_refused),
	};

	return cmocka_run_group_tests_name("repo/forget", tests, NULL, NULL);
}
