/* SPDX-License-Identifier: Apache-2.0 */

/* Deleting snapshots by rules, and what they take. */
#include <stdio.h>
#include <string.h>

#include "cairntest.h"
#include "pool/store/store.h"
#include "poolfix.h"

static void make(struct poolfix *fix, int snapshots)
{
	struct pool_volume_spec spec = {.name = "v", .size = MIB};
	struct pool_volume made;
	struct cairn_err err = {0};
	char name[8];

	assert_ok(pool_volume_create(fix->pool, &spec, &made, &err), &err);
	for (int i = 0; i < snapshots; i++) {
		poolfix_write(fix, "v", (uint64_t)i, 'a' + i);
		snprintf(name, sizeof(name), "s%d", i);
		poolfix_snapshot(fix, "v", name);
	}
}

/* "s0 s1:last ..." */
static int note(void *arg, const struct pool_snapshot *snapshot, unsigned reasons,
		struct cairn_err *err)
{
	char *text = arg;
	size_t len = strlen(text);

	(void)err;
	len += (size_t)snprintf(text + len, 200 - len, "%s%s", len ? " " : "", snapshot->name);
	for (unsigned bit = 1; bit <= reasons; bit <<= 1)
		if (reasons & bit)
			len += (size_t)snprintf(text + len, 200 - len, ":%s",
						pool_keep_reason_text(bit));
	return 0;
}

static const char *prune(struct poolfix *fix, struct cairn_keep_policy keep, bool dry_run)
{
	static char text[200];
	struct pool_prune_spec spec = {
		.volume = "v", .keep = keep, .dry_run = dry_run, .fn = note, .arg = text};
	struct cairn_err err = {0};

	text[0] = '\0';
	assert_ok(pool_snapshot_prune(fix->pool, &spec, &err), &err);
	return text;
}

static void what_no_rule_keeps_goes(void **state)
{
	struct poolfix *fix = *state;

	make(fix, 4);
	assert_string_equal(prune(fix, (struct cairn_keep_policy){.last = 2}, true),
			    "s0 s1 s2:last s3:last");
	assert_string_equal(prune(fix, (struct cairn_keep_policy){.last = 2}, false),
			    "s0 s1 s2:last s3:last");
	assert_string_equal(prune(fix, (struct cairn_keep_policy){.last = 2}, false),
			    "s2:last s3:last");
	assert_string_equal(prune(fix, (struct cairn_keep_policy){.within_ms = 3600000}, false),
			    "s2:within s3:within");
	poolfix_check_clean(fix);
}

static void no_rule_deletes_nothing(void **state)
{
	struct poolfix *fix = *state;
	char text[200] = "";
	struct pool_prune_spec spec = {.volume = "v", .fn = note, .arg = text};
	struct cairn_err err = {0};

	make(fix, 2);
	assert_int_equal(pool_snapshot_prune(fix->pool, &spec, &err), CAIRN_INVALID);
	assert_string_equal(text, "");
	spec.keep.last = 1;
	spec.volume = "other";
	assert_int_equal(pool_snapshot_prune(fix->pool, &spec, &err), CAIRN_NOT_FOUND);
}

static void what_is_being_read_stays(void **state)
{
	struct poolfix *fix = *state;
	struct store_reader *reader = NULL;
	struct cairn_err err = {0};
	bool used = true;

	make(fix, 3);
	assert_ok(pool_snapshot_in_use(fix->pool, "v@s0", &used, &err), &err);
	assert_false(used);
	assert_ok(pool_snapshot_reader(fix->pool, "v@s0", &reader, &err), &err);
	assert_ok(pool_snapshot_in_use(fix->pool, "v@s0", &used, &err), &err);
	assert_true(used);
	assert_string_equal(prune(fix, (struct cairn_keep_policy){.last = 1}, false),
			    "s0:in use s1 s2:last");
	pool_store_reader_free(reader);
	assert_string_equal(prune(fix, (struct cairn_keep_policy){.last = 1}, true), "s0 s2:last");
}

static void a_deleted_snapshot_of_a_prune_is_still_a_base(void **state)
{
	struct poolfix *fix = *state;

	make(fix, 3);
	prune(fix, (struct cairn_keep_policy){.daily = 1}, false);
	assert_string_equal(poolfix_delta(fix, "v@s0", "v@s2"), "1-2");
}

static void usage_is_what_the_file_takes(void **state)
{
	struct poolfix *fix = *state;
	struct pool_attached *attached = NULL;
	struct pool_usage usage;
	struct cairn_err err = {0};
	uint64_t exclusive = 0;

	make(fix, 3);
	assert_ok(pool_attached_get(&attached, &err), &err);
	assert_ok(pool_usage_get(fix->pool, "v", attached, &usage, &err), &err);
	assert_true(usage.used_bytes >= 3 * BLK && usage.used_bytes < MIB);
	assert_string_equal(usage.device, "");
	assert_string_equal(usage.mounted, "");
	assert_ok(pool_usage_get(fix->pool, "v@s0", NULL, &usage, &err), &err);
	assert_true(usage.used_bytes >= BLK);
	assert_ok(pool_exclusive_bytes(fix->pool, "v@s0", &exclusive, &err), &err);
	assert_int_equal(exclusive, usage.used_bytes); /* copies share nothing */
	assert_int_equal(pool_usage_get(fix->pool, "none", attached, &usage, &err),
			 CAIRN_NOT_FOUND);
	pool_attached_free(attached);
	assert_int_equal(pool_exclusive_bytes(fix->pool, "v@x", &exclusive, &err), CAIRN_NOT_FOUND);
}

#define T(f) cmocka_unit_test_setup_teardown(f, poolfix_setup, poolfix_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(what_no_rule_keeps_goes),      T(no_rule_deletes_nothing),
		T(what_is_being_read_stays),     T(a_deleted_snapshot_of_a_prune_is_still_a_base),
		T(usage_is_what_the_file_takes),
	};

	return cmocka_run_group_tests_name("pool/prune", tests, NULL, NULL);
}
