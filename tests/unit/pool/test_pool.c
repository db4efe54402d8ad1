/* SPDX-License-Identifier: Apache-2.0 */

#include "cairntest.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "pool/catalogue/catalogue.h"
#include "pool/catalogue/records.h"
#include "pool/pool_impl.h"
#include "pool/store/store.h"
#include "poolfix.h"

static void make_volume(struct poolfix *fix, const char *name, uint64_t size, const char *from)
{
	struct pool_volume_spec spec = {.name = name, .size = size, .from = from};
	struct pool_volume volume;
	struct cairn_err err = {0};

	assert_ok(pool_volume_create(fix->pool, &spec, &volume, &err), &err);
}

static int try_volume(struct poolfix *fix, const char *name, uint64_t size, const char *from)
{
	struct pool_volume_spec spec = {.name = name, .size = size, .from = from};
	struct pool_volume volume;
	struct cairn_err err = {0};

	return pool_volume_create(fix->pool, &spec, &volume, &err);
}

static void delete_snapshot(struct poolfix *fix, const char *name)
{
	struct cairn_err err = {0};

	assert_ok(pool_snapshot_delete(fix->pool, name, &err), &err);
}

static size_t expire_all(struct poolfix *fix)
{
	struct cairn_err err = {0};
	size_t merged;

	cairn_sleep_ms(3);
	assert_ok(pool_expire(fix->pool, 100, &merged, &err), &err);
	return merged;
}

static const char *id_of(struct poolfix *fix, const char *snapshot)
{
	static struct pool_snapshot found;
	struct cairn_err err = {0};

	assert_ok(pool_snapshot_get(fix->pool, snapshot, &found, &err), &err);
	return found.id;
}

static void a_delta_is_what_was_written_in_between(void **state)
{
	struct poolfix *fix = *state;

	make_volume(fix, "data", 1 * MIB, NULL);
	poolfix_write(fix, "data", 1, 'a');
	poolfix_write(fix, "data", 2, 'a');
	poolfix_snapshot(fix, "data", "s1");
	poolfix_write(fix, "data", 2, 'b');
	poolfix_write(fix, "data", 9, 'b');
	poolfix_snapshot(fix, "data", "s2");
	poolfix_write(fix, "data", 9, 'a');
	poolfix_snapshot(fix, "data", "s3");

	assert_string_equal(poolfix_delta(fix, NULL, "data@s1"), "1-2");
	assert_string_equal(poolfix_delta(fix, "data@s1", "data@s2"), "2 9");
	assert_string_equal(poolfix_delta(fix, "data@s2", "data@s3"), "9");
	assert_string_equal(poolfix_delta(fix, "data@s1", "data@s3"), "2 9");
	assert_string_equal(poolfix_delta(fix, "data@s1", "data@s1"), "");
	poolfix_check_clean(fix);
}

static void a_deleted_base_still_answers_by_name_and_by_id(void **state)
{
	struct poolfix *fix = *state;
	char id[POOL_ID_MAX + 1];

	make_volume(fix, "data", 1 * MIB, NULL);
	poolfix_snapshot(fix, "data", "s1");
	poolfix_write(fix, "data", 3, 'x');
	snprintf(id, sizeof(id), "%s", id_of(fix, "data@s1"));
	delete_snapshot(fix, "data@s1"); /* before its successor exists */
	poolfix_snapshot(fix, "data", "s2");
	poolfix_write(fix, "data", 4, 'x');
	poolfix_snapshot(fix, "data", "s3");
	delete_snapshot(fix, "data@s2"); /* in the middle */

	assert_string_equal(poolfix_delta(fix, "data@s1", "data@s3"), "3-4");
	assert_string_equal(poolfix_delta(fix, id, "data@s3"), "3-4");
	assert_string_equal(poolfix_delta(fix, "data@s2", "data@s3"), "4");
	assert_string_equal(poolfix_delta(fix, "data@s1", "data@s2"), "NOT_FOUND");
	poolfix_check_clean(fix);
}

static void a_name_can_be_used_again_after_deletion(void **state)
{
	struct poolfix *fix = *state;
	struct pool_snapshot_spec spec = {.volume = "data", .name = "s"};
	struct pool_snapshot snapshot;
	struct cairn_err err = {0};
	char old[POOL_ID_MAX + 1];
	char full[POOL_ID_MAX + 3];

	make_volume(fix, "data", 1 * MIB, NULL);
	poolfix_snapshot(fix, "data", "s");
	assert_code(pool_snapshot_create(fix->pool, &spec, 1, &snapshot, &err), CAIRN_EXISTS);
	snprintf(old, sizeof(old), "%s", id_of(fix, "data@s"));
	assert_ok(pool_snapshot_get(fix->pool, old, &snapshot, &err), &err);
	snprintf(full, sizeof(full), "%s@s", snapshot.volume_id);
	assert_string_equal(id_of(fix, full), old); /* a volume's id in front works too */
	delete_snapshot(fix, "data@s");
	poolfix_write(fix, "data", 0, 'x');
	poolfix_snapshot(fix, "data", "s");
	assert_string_equal(poolfix_delta(fix, old, "data@s"), "0");
	poolfix_check_clean(fix);
}

static void expired_tombstones_merge_and_lose_nothing(void **state)
{
	struct poolfix *fix = *state;
	char first[POOL_ID_MAX + 1];
	char second[POOL_ID_MAX + 1];

	make_volume(fix, "data", 1 * MIB, NULL);
	for (int i = 0; i < 5; i++) {
		char name[8];

		poolfix_write(fix, "data", (uint64_t)i, 'x');
		snprintf(name, sizeof(name), "s%d", i);
		poolfix_snapshot(fix, "data", name);
	}
	snprintf(first, sizeof(first), "%s", id_of(fix, "data@s1"));
	snprintf(second, sizeof(second), "%s", id_of(fix, "data@s2"));
	delete_snapshot(fix, "data@s1");
	delete_snapshot(fix, "data@s2");
	expire_all(fix);
	assert_string_equal(poolfix_delta(fix, "data@s0", "data@s4"), "1-4");
	assert_string_equal(poolfix_delta(fix, "data@s0", "data@s3"), "1-3");
	assert_string_equal(poolfix_delta(fix, first, "data@s4"), "FAILED_PRECONDITION");
	assert_string_equal(poolfix_delta(fix, second, "data@s4"), "FAILED_PRECONDITION");
	poolfix_check_clean(fix);
}

static void an_expired_first_snapshot_starts_the_line_anew(void **state)
{
	struct poolfix *fix = *state;
	char id[POOL_ID_MAX + 1];

	make_volume(fix, "data", 1 * MIB, NULL);
	poolfix_snapshot(fix, "data", "s1");
	poolfix_write(fix, "data", 1, 'x');
	poolfix_snapshot(fix, "data", "s2");
	poolfix_write(fix, "data", 2, 'x');
	poolfix_snapshot(fix, "data", "s3");
	snprintf(id, sizeof(id), "%s", id_of(fix, "data@s1"));
	delete_snapshot(fix, "data@s1");
	expire_all(fix);
	assert_string_equal(poolfix_delta(fix, id, "data@s3"), "FAILED_PRECONDITION");
	assert_string_equal(poolfix_delta(fix, "data@s2", "data@s3"), "2");
	/* A worker that has still to compute its set finds nothing to do. */
	assert_code(pool_snapshot_complete(fix->pool, id, NULL, NULL), CAIRN_NOT_FOUND);
	poolfix_check_clean(fix);
}

static void an_expired_newest_snapshot_leaves_the_older_as_predecessor(void **state)
{
	struct poolfix *fix = *state;

	make_volume(fix, "data", 1 * MIB, NULL);
	poolfix_snapshot(fix, "data", "s1");
	poolfix_write(fix, "data", 1, 'x');
	poolfix_snapshot(fix, "data", "s2");
	delete_snapshot(fix, "data@s2");
	expire_all(fix);
	poolfix_write(fix, "data", 2, 'x');
	poolfix_snapshot(fix, "data", "s3");
	assert_string_equal(poolfix_delta(fix, "data@s1", "data@s3"), "1-2");
	poolfix_check_clean(fix);
}

static void lines_go_on_in_clones(void **state)
{
	struct poolfix *fix = *state;

	make_volume(fix, "data", 1 * MIB, NULL);
	poolfix_write(fix, "data", 0, 'x');
	poolfix_snapshot(fix, "data", "s1");
	make_volume(fix, "restored", 0, "data@s1");
	make_volume(fix, "cloned", 2 * MIB, "data");
	poolfix_write(fix, "restored", 5, 'r');
	poolfix_write(fix, "cloned", 6, 'c');
	poolfix_write(fix, "data", 7, 'd');
	poolfix_snapshot(fix, "restored", "r1");
	poolfix_snapshot(fix, "cloned", "c1");
	poolfix_snapshot(fix, "data", "s2");

	assert_string_equal(poolfix_delta(fix, "data@s1", "restored@r1"), "5");
	assert_string_equal(poolfix_delta(fix, "data@s1", "cloned@c1"), "6 256-511z");
	/* Siblings: what either of them changed since their common ancestor. */
	assert_string_equal(poolfix_delta(fix, "data@s2", "restored@r1"), "5 7");
	assert_string_equal(poolfix_delta(fix, "restored@r1", "data@s2"), "5 7");
	/* The origin may go; the clone's line stays whole. */
	delete_snapshot(fix, "data@s1");
	assert_string_equal(poolfix_delta(fix, "data@s1", "restored@r1"), "5");
	poolfix_check_clean(fix);
}

static void a_snapshot_with_a_clone_keeps_its_data_until_it_is_compared(void **state)
{
	struct poolfix *fix = *state;

	make_volume(fix, "data", 1 * MIB, NULL);
	poolfix_snapshot(fix, "data", "s1");
	make_volume(fix, "restored", 0, "data@s1");
	delete_snapshot(fix, "data@s1");
	poolfix_write(fix, "restored", 2, 'r');
	poolfix_snapshot(fix, "restored", "r1");
	assert_string_equal(poolfix_delta(fix, "data@s1", "restored@r1"), "2");
	poolfix_check_clean(fix);
}

/* A merge reads the snapshot and who depends on it, works, and commits. */
static void a_merge_that_missed_a_clones_first_snapshot_fails(void **state)
{
	struct poolfix *fix = *state;
	cairn_cleanup(pool_catalogue_batch_freep) struct catalogue_batch *merge = NULL;
	struct record_snapshot origin;
	struct cairn_err err = {0};

	make_volume(fix, "data", 1 * MIB, NULL);
	poolfix_write(fix, "data", 1, 'a');
	poolfix_snapshot(fix, "data", "s1");
	make_volume(fix, "clone", 0, "data@s1");
	poolfix_write(fix, "clone", 2, 'b');
	assert_ok(pool_impl_find_snapshot(fix->pool, "data@s1", &origin, &err), &err);
	assert_ok(pool_catalogue_batch_new(fix->pool->cat, &merge, &err), &err);
	assert_ok(pool_records_snapshot_change(fix->pool->cat, merge, &origin, NULL, &err), &err);

	poolfix_snapshot(fix, "clone", "c1");
	assert_code(pool_catalogue_commit(merge, CATALOGUE_DURABLE, &err), CAIRN_ABORTED);
	assert_string_equal(poolfix_delta(fix, "data@s1", "clone@c1"), "2");
	poolfix_check_clean(fix);
}

static void what_grew_is_changed(void **state)
{
	struct poolfix *fix = *state;
	struct pool_volume volume;
	struct cairn_err err = {0};

	make_volume(fix, "data", 1 * MIB, NULL);
	poolfix_snapshot(fix, "data", "s1");
	assert_code(pool_volume_expand(fix->pool, "data", MIB / 2, &volume, &err), CAIRN_INVALID);
	assert_ok(pool_volume_expand(fix->pool, "data", 2 * MIB, &volume, &err), &err);
	assert_int_equal(volume.size, 2 * MIB);
	poolfix_write(fix, "data", 300, 'x');
	poolfix_snapshot(fix, "data", "s2");
	assert_string_equal(poolfix_delta(fix, "data@s1", "data@s2"), "256-299z 300 301-511z");
	poolfix_check_clean(fix);
}

static void wrong_pairs_are_refused(void **state)
{
	struct poolfix *fix = *state;

	make_volume(fix, "data", 1 * MIB, NULL);
	make_volume(fix, "other", 1 * MIB, NULL);
	poolfix_snapshot(fix, "data", "s1");
	poolfix_snapshot(fix, "data", "s2");
	poolfix_snapshot(fix, "other", "o1");
	assert_string_equal(poolfix_delta(fix, "data@s2", "data@s1"), "INVALID_ARGUMENT");
	assert_string_equal(poolfix_delta(fix, "other@o1", "data@s1"), "INVALID_ARGUMENT");
	assert_string_equal(poolfix_delta(fix, "data@none", "data@s1"), "NOT_FOUND");
	assert_string_equal(poolfix_delta(fix, "data@s1", "none@s1"), "NOT_FOUND");
	assert_string_equal(poolfix_delta(fix, "snap-0123456789abcdef-1", "data@s1"), "NOT_FOUND");
}

static void bad_volumes_are_refused(void **state)
{
	struct poolfix *fix = *state;
	char name[140];
	static const struct {
		const char *name;
		uint64_t size;
		int code;
	} cases[] = {
		{"", MIB, CAIRN_INVALID},
		{"a\nb", MIB, CAIRN_INVALID},
		{"\xff", MIB, CAIRN_INVALID},
		{"z", 0, CAIRN_INVALID},
		{"z", 1000, CAIRN_INVALID},
		{"z", 1ULL << 63, CAIRN_RANGE},
		{"z", UINT64_MAX - 511, CAIRN_RANGE},
		{"taken", MIB, CAIRN_EXISTS},
		{"vol-0123456789abcdef", MIB, CAIRN_INVALID},
	};

	make_volume(fix, "taken", MIB, NULL);
	for (size_t i = 0; i < ARRAY_LEN(cases); i++)
		assert_code(try_volume(fix, cases[i].name, cases[i].size, NULL), cases[i].code);
	memset(name, 'n', sizeof(name));
	name[129] = '\0';
	assert_code(try_volume(fix, name, MIB, NULL), CAIRN_INVALID);
	name[128] = '\0';
	assert_code(try_volume(fix, name, MIB, NULL), 0);
	assert_code(try_volume(fix, "z", MIB / 2, "taken"), CAIRN_RANGE);
	assert_code(try_volume(fix, "z", 0, "nothing"), CAIRN_NOT_FOUND);
	poolfix_check_clean(fix);
}

static void names_may_hold_any_text(void **state)
{
	struct poolfix *fix = *state;
	struct pool_snapshot found;
	struct cairn_err err = {0};
	cairn_auto_free char *volume = NULL;
	cairn_auto_free char *name = NULL;

	make_volume(fix, "a@b", MIB, NULL);
	make_volume(fix, "a", MIB, NULL);
	make_volume(fix, "../x/\xc3\xa9 ", MIB, NULL);
	poolfix_snapshot(fix, "a@b", "c@d");
	poolfix_snapshot(fix, "../x/\xc3\xa9 ", "./..");
	assert_ok(pool_snapshot_get(fix->pool, "a@b@c@d", &found, &err), &err);
	assert_string_equal(found.volume_name, "a@b");
	assert_ok(pool_snapshot_get(fix->pool, "../x/\xc3\xa9 @./..", &found, &err), &err);
	assert_ok(pool_snapshot_spec_parse(fix->pool, "a@b@new", &volume, &name, &err), &err);
	assert_string_equal(volume, "a@b");
	assert_string_equal(name, "new");
	poolfix_check_clean(fix);
}

static void several_volumes_are_cut_together_or_not_at_all(void **state)
{
	struct poolfix *fix = *state;
	struct pool_snapshot_spec specs[] = {{"one", "s"}, {"two", "s"}};
	struct pool_snapshot_spec twice[] = {{"one", "x"}, {"one", "y"}};
	struct pool_snapshot found[2];
	struct cairn_err err = {0};

	make_volume(fix, "one", MIB, NULL);
	make_volume(fix, "two", MIB, NULL);
	assert_code(pool_snapshot_create(fix->pool, twice, 2, found, &err), CAIRN_INVALID);
	poolfix_snapshot(fix, "two", "s");
	assert_code(pool_snapshot_create(fix->pool, specs, 2, found, &err), CAIRN_EXISTS);
	assert_code(pool_snapshot_get(fix->pool, "one@s", &found[0], &err), CAIRN_NOT_FOUND);
	delete_snapshot(fix, "two@s");
	assert_ok(pool_snapshot_create(fix->pool, specs, 2, found, &err), &err);
	assert_string_equal(found[0].volume_name, "one");
	assert_string_equal(found[1].volume_name, "two");
	poolfix_check_clean(fix);
}

static void a_deleted_volume_leaves_its_snapshots_where_asked(void **state)
{
	struct poolfix *fix = *state;
	struct pool_volume volume;
	struct cairn_err err = {0};
	char id[POOL_ID_MAX + 1];

	make_volume(fix, "data", MIB, NULL);
	poolfix_write(fix, "data", 1, 'x');
	poolfix_snapshot(fix, "data", "s1");
	snprintf(id, sizeof(id), "%s", id_of(fix, "data@s1"));
	assert_code(pool_volume_delete(fix->pool, "data", POOL_DELETE_REFUSE, &err),
		    CAIRN_PRECONDITION);
	assert_ok(pool_volume_delete(fix->pool, "data", POOL_DELETE_KEEP_SNAPSHOTS, &err), &err);
	assert_code(pool_volume_get(fix->pool, "data", &volume, &err), CAIRN_NOT_FOUND);
	assert_string_equal(poolfix_delta(fix, NULL, id), "1");
	make_volume(fix, "data", MIB, NULL); /* the name is free again */
	make_volume(fix, "restored", 0, id);
	assert_ok(pool_volume_delete(fix->pool, "restored", POOL_DELETE_REFUSE, &err), &err);
	delete_snapshot(fix, id);
	poolfix_check_clean(fix);
}

static void a_deleted_volumes_record_goes_with_its_last_tombstone(void **state)
{
	struct poolfix *fix = *state;
	struct pool_info info;
	struct cairn_err err = {0};

	make_volume(fix, "data", MIB, NULL);
	poolfix_snapshot(fix, "data", "s1");
	poolfix_snapshot(fix, "data", "s2");
	assert_ok(pool_volume_delete(fix->pool, "data", POOL_DELETE_SNAPSHOTS, &err), &err);
	while (expire_all(fix) > 0)
		;
	assert_ok(pool_info_get(fix->pool, &info, &err), &err);
	assert_int_equal(info.volumes + info.snapshots + info.tombstones, 0);
	poolfix_check_clean(fix);
}

static void a_pool_with_half_made_objects_can_be_destroyed(void **state)
{
	static const char *const left[] = {"volumes/vol-0123456789abcdef.new",
					   "snapshots/snap-0123456789abcdef-7.new"};
	struct pool_create_spec spec = {.backend = POOL_BACKEND_COPY};
	struct pool_create_result made;
	struct cairn_err err = {0};
	char dir[64], path[128];

	(void)state;
	scratch_template(dir, "half");
	assert_non_null(mkdtemp(dir));
	spec.dir = dir;
	assert_ok(pool_create(&spec, &made, &err), &err);
	for (size_t i = 0; i < ARRAY_LEN(left); i++) {
		snprintf(path, sizeof(path), "%s/%s", dir, left[i]);
		assert_int_equal(mkdir(path, 0700), 0);
	}
	assert_ok(pool_destroy(dir, &err), &err);
	assert_int_equal(rmdir(dir), 0); /* nothing is left in it */
}

static void starting_offsets_follow_the_rules(void **state)
{
	struct poolfix *fix = *state;
	static const struct {
		uint64_t offset;
		int code;
		uint64_t first; /* offset of the first extent; UINT64_MAX: none */
	} cases[] = {
		{0, 0, 2 * BLK},      {2 * BLK + 1, 0, 2 * BLK + 1}, {3 * BLK, 0, UINT64_MAX},
		{MIB, 0, UINT64_MAX}, {MIB + 1, CAIRN_RANGE, 0},
	};

	make_volume(fix, "data", MIB, NULL);
	poolfix_snapshot(fix, "data", "s1");
	poolfix_write(fix, "data", 2, 'x');
	poolfix_snapshot(fix, "data", "s2");
	for (int with_base = 0; with_base < 2; with_base++) {
		for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
			cairn_cleanup(pool_delta_freep) struct pool_delta *delta = NULL;
			struct pool_delta_spec spec = {.base = with_base ? "data@s1" : NULL,
						       .target = "data@s2",
						       .starting_offset = cases[i].offset};
			struct block_extent extent = {.offset = UINT64_MAX};
			struct cairn_err err = {0};
			size_t n;

			assert_code(pool_delta_open(fix->pool, &spec, &delta, &err), cases[i].code);
			if (cases[i].code)
				continue;
			assert_ok(pool_delta_next(delta, &extent, 1, &n, &err), &err);
			assert_int_equal(extent.offset, cases[i].first);
		}
	}
}

static int collect_names(void *arg, const struct pool_snapshot *snapshot, struct cairn_err *e)
{
	char *text = arg;
	size_t n = strlen(text);

	(void)e;
	snprintf(text + n, 64 - n, "%s", snapshot->name);
	return 0;
}

static void listings_are_in_order_and_can_be_continued(void **state)
{
	struct poolfix *fix = *state;
	struct cairn_err err = {0};
	char after[POOL_ID_MAX + 1];
	char text[64] = "";

	make_volume(fix, "data", MIB, NULL);
	poolfix_snapshot(fix, "data", "b");
	poolfix_snapshot(fix, "data", "a");
	poolfix_snapshot(fix, "data", "c");
	delete_snapshot(fix, "data@a");
	snprintf(after, sizeof(after), "%s", id_of(fix, "data@b"));

	struct pool_snapshot_list_spec all = {.volume = "data"};
	struct pool_snapshot_list_spec rest = {.after = after, .with_deleted = true};

	assert_ok(pool_snapshot_list(fix->pool, &all, collect_names, text, &err), &err);
	assert_string_equal(text, "bc");
	text[0] = '\0';
	assert_ok(pool_snapshot_list(fix->pool, &rest, collect_names, text, &err), &err);
	assert_string_equal(text, "ac");
}

#define POOL_TEST(fn) cmocka_unit_test_setup_teardown(fn, poolfix_setup, poolfix_teardown)
#define IMPATIENT_TEST(fn) \
	cmocka_unit_test_setup_teardown(fn, poolfix_setup_impatient, poolfix_teardown)

static void a_pool_that_is_held_is_in_use(void **state)
{
	struct poolfix *fix = *state;
	struct pool_hold hold = pool_hold_take(fix->pool);
	cairn_auto_fd int dir = open(fix->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	cairn_auto_fd int lock = -1;
	struct cairn_err err = {0};

	pool_closep(&fix->pool);
	fix->pool = NULL;
	assert_true(dir >= 0);
	assert_code(pool_impl_lock_pool(dir, true, 0, &lock, &err), CAIRN_ABORTED);
	pool_hold_release(&hold);
	assert_ok(pool_impl_lock_pool(dir, true, 0, &lock, &err), &err);
	pool_hold_release(&hold);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		POOL_TEST(a_delta_is_what_was_written_in_between),
		POOL_TEST(a_deleted_base_still_answers_by_name_and_by_id),
		POOL_TEST(a_name_can_be_used_again_after_deletion),
		IMPATIENT_TEST(expired_tombstones_merge_and_lose_nothing),
		IMPATIENT_TEST(an_expired_first_snapshot_starts_the_line_anew),
		IMPATIENT_TEST(an_expired_newest_snapshot_leaves_the_older_as_predecessor),
		POOL_TEST(lines_go_on_in_clones),
		POOL_TEST(a_snapshot_with_a_clone_keeps_its_data_until_it_is_compared),
		POOL_TEST(a_merge_that_missed_a_clones_first_snapshot_fails),
		POOL_TEST(what_grew_is_changed),
		POOL_TEST(wrong_pairs_are_refused),
		POOL_TEST(bad_volumes_are_refused),
		POOL_TEST(names_may_hold_any_text),
		POOL_TEST(several_volumes_are_cut_together_or_not_at_all),
		POOL_TEST(a_deleted_volume_leaves_its_snapshots_where_asked),
		IMPATIENT_TEST(a_deleted_volumes_record_goes_with_its_last_tombstone),
		POOL_TEST(a_pool_with_half_made_objects_can_be_destroyed),
		POOL_TEST(starting_offsets_follow_the_rules),
		POOL_TEST(listings_are_in_order_and_can_be_continued),
		POOL_TEST(a_pool_that_is_held_is_in_use),
	};

	return cmocka_run_group_tests_name("pool/pool", tests, NULL, NULL);
}
