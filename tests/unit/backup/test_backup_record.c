/* SPDX-License-Identifier: Apache-2.0 */

/* The record of a claim's backups: what is counted, and what is believed of an annotation. */

#include "cairntest.h"

#include <stdlib.h>
#include <string.h>

#include "backup/cluster/cluster_record.h"
#include "base/cleanup.h"
#include "base/mem.h"
#include "kube/object.h"

#define UID "0b6e51ab"

static bool add(struct cluster_record *record, const char *mode, const char *reason, uint64_t now)
{
	kube_auto_json json_t *summary =
		json_pack("{s:s,s:s,s:i,s:i,s:i,s:i}", "mode", mode, "reason", reason, "size_bytes",
			  1000, "bytes_changed", 100, "bytes_read", 10, "bytes_stored", -1);

	return backup_cluster_record_success(record, summary, now, 7);
}

static void backups_failures_and_fallbacks_are_counted(void **state)
{
	struct cluster_record r = {0};

	(void)state;
	assert_false(add(&r, "allocated", "there is no backup to build on", 1)); /* the first */
	assert_false(add(&r, "changed", "what changed is known", 2));
	assert_true(add(&r, "allocated", "the changed blocks are unknown", 3));
	assert_true(add(&r, "full", "the changed blocks are unknown", 4));
	assert_false(add(&r, "full", "asked for", 5));
	backup_cluster_record_failure(&r, 6);
	assert_int_equal(r.backups, 5);
	assert_int_equal(r.fallbacks, 2);
	assert_int_equal(r.failures, 1);
	assert_int_equal(r.attempt_s, 6);
	assert_int_equal(r.success_s, 5);
	assert_false(r.ok);
	assert_int_equal(r.mode, CLUSTER_RECORD_FULL); /* of the last backup */
	assert_int_equal(r.size, 1000);
	assert_int_equal(r.changed, 100);
	assert_int_equal(r.read, 10);
	assert_int_equal(r.stored, 0);
	assert_int_equal(r.seconds, 7);
	/* A Job whose log could not be read: the backup counts, what it read is unknown. */
	assert_false(backup_cluster_record_success(&r, NULL, 7, 1));
	assert_int_equal(r.backups, 6);
	assert_int_equal(r.mode, CLUSTER_RECORD_UNKNOWN);
	assert_int_equal(r.read, 0);
}

static void a_record_is_read_as_it_was_written(void **state)
{
	struct cluster_record r = {.repository = "backup-repository", .fallbacks = UINT64_MAX};
	struct cluster_record back;
	cairn_auto_free char *text = NULL;
	struct cairn_err err = {0};

	(void)state;
	add(&r, "changed", "", 99);
	assert_ok(backup_cluster_record_text(&r, UID, &text, &err), &err);
	assert_true(strlen(text) < CLUSTER_RECORD_TEXT_MAX);
	assert_true(backup_cluster_record_parse(text, UID, &back));
	r.fallbacks = CLUSTER_RECORD_NUMBER_MAX;
	assert_string_equal(back.repository, r.repository);
	assert_int_equal(back.success_s, 99);
	assert_int_equal(back.fallbacks, r.fallbacks);
	assert_int_equal(back.mode, CLUSTER_RECORD_CHANGED);
	assert_true(back.ok);
	/* Annotations are copied with claims. */
	assert_false(backup_cluster_record_parse(text, "another", &back));
}

#define NUMBERS(success, read)                                 \
	"\"attempt\":1,\"success\":" success                   \
	",\"seconds\":1,\"size_bytes\":1,\"changed_bytes\":1," \
	"\"read_bytes\":" read ",\"stored_bytes\":1,\"backups\":1,\"failures\":1,\"fallbacks\":1}"
#define HEAD(version, claim, repository)                                              \
	"{\"version\":" version ",\"claim\":\"" claim "\",\"repository\":" repository \
	",\"ok\":true,"                                                               \
	"\"mode\":\"changed\","

#define GOOD HEAD("1", UID, "\"r\"") NUMBERS("1", "1")

static void what_users_write_there_is_not_believed(void **state)
{
	static const char *const bad[] = {
		"",
		"{}",
		"[]",
		"{",
		HEAD("2", UID, "\"r\"") NUMBERS("1", "1"),
		HEAD("1", "", "\"r\"") NUMBERS("1", "1"),
		HEAD("1", UID, "7") NUMBERS("1", "1"),
		HEAD("1", UID, "\"a\\nb\"") NUMBERS("1", "1"),
		HEAD("1", UID, "\"\\u001b[2J\"") NUMBERS("1", "1"),
		HEAD("1", UID, "\"\\u00fc\"") NUMBERS("1", "1"),
		HEAD("1", UID, "\"r\"") NUMBERS("-1", "1"),
		HEAD("1", UID, "\"r\"") NUMBERS("\"1\"", "1"),
		HEAD("1", UID, "\"r\"") NUMBERS("1", "1e300"),
		HEAD("1", UID, "\"r\"") NUMBERS("1", "null"),
	};
	struct cluster_record r = {.backups = 42};
	cairn_auto_free char *longest = cairn_calloc(1, 3 * CLUSTER_RECORD_TEXT_MAX);

	(void)state;
	assert_true(backup_cluster_record_parse(GOOD, UID, &(struct cluster_record){0}));
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_false(backup_cluster_record_parse(bad[i], UID, &r));
	assert_false(backup_cluster_record_parse(NULL, UID, &r));
	assert_non_null(longest);
	memset(longest, ' ', 2 * CLUSTER_RECORD_TEXT_MAX);
	memcpy(longest + 2 * CLUSTER_RECORD_TEXT_MAX, GOOD, sizeof(GOOD));
	assert_false(backup_cluster_record_parse(longest, UID, &r));
	assert_int_equal(r.backups, 42);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(backups_failures_and_fallbacks_are_counted),
		cmocka_unit_test(a_record_is_read_as_it_was_written),
		cmocka_unit_test(what_users_write_there_is_not_believed),
	};

	return cmocka_run_group_tests_name("backup/record", tests, NULL, NULL);
}
