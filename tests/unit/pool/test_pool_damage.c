/* SPDX-License-Identifier: Apache-2.0 */

/* A damaged pool in use: what is damaged is refused, never answered wrongly, and
 * it keeps nobody from the undamaged part. */

#include "cairntest.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <sqlite3.h>

#include "base/cleanup.h"
#include "pool/catalogue/catalogue.h"
#include "pool/catalogue/ids.h"
#include "pool/catalogue/record_key.h"
#include "pool/catalogue/records.h"
#include "pool/pool_impl.h"
#include "poolfix.h"

static void make_volume(struct poolfix *fix, const char *name)
{
	struct pool_volume_spec spec = {.name = name, .size = MIB};
	struct pool_volume volume;
	struct cairn_err err = {0};

	assert_ok(pool_volume_create(fix->pool, &spec, &volume, &err), &err);
}

/* Snapshots s1 to s`n`, each with another block written. */
static void fill(struct poolfix *fix, const char *volume, int n)
{
	make_volume(fix, volume);
	for (int i = 1; i <= n; i++) {
		char name[8];

		poolfix_write(fix, volume, (uint64_t)i, 'x');
		snprintf(name, sizeof(name), "s%d", i);
		poolfix_snapshot(fix, volume, name);
	}
}

static void complete(struct poolfix *fix, const char *snapshot)
{
	struct cairn_err err = {0};

	assert_ok(pool_snapshot_complete(fix->pool, snapshot, NULL, &err), &err);
}

static void delete_snapshot(struct poolfix *fix, const char *snapshot)
{
	struct cairn_err err = {0};

	assert_ok(pool_snapshot_delete(fix->pool, snapshot, &err), &err);
}

/* Removes the data of a snapshot behind the pool's back. */
static void lose_data(struct poolfix *fix, const char *snapshot)
{
	cairn_auto_free char *path = NULL;
	struct cairn_err err = {0};

	assert_ok(pool_snapshot_path(fix->pool, snapshot, &path, &err), &err);
	assert_int_equal(unlink(path), 0);
	*strrchr(path, '/') = '\0';
	assert_int_equal(rmdir(path), 0);
}

static void truncate_set(struct poolfix *fix, const char *snapshot)
{
	struct pool_snapshot found;
	struct cairn_err err = {0};
	char path[160];

	assert_ok(pool_snapshot_get(fix->pool, snapshot, &found, &err), &err);
	snprintf(path, sizeof(path), "%s/sets/set-%s-1", fix->dir, strrchr(found.id, '-') + 1);
	assert_int_equal(truncate(path, 10), 0);
}

static size_t expire(struct poolfix *fix)
{
	struct cairn_err err = {0};
	size_t merged = 0;

	assert_ok(pool_expire(fix->pool, SIZE_MAX, &merged, &err), &err);
	return merged;
}

static uint64_t tombstones(struct poolfix *fix)
{
	struct pool_info info;
	struct cairn_err err = {0};

	assert_ok(pool_info_get(fix->pool, &info, &err), &err);
	return info.tombstones;
}

static void one_damaged_set_does_not_stop_the_expiry_of_others(void **state)
{
	struct poolfix *fix = *state;
	struct cairn_err err = {0};
	size_t merged = 0;

	fill(fix, "bad", 3);
	fill(fix, "good", 3);
	complete(fix, "bad@s2");
	complete(fix, "bad@s3");
	complete(fix, "good@s2");
	complete(fix, "good@s3");
	truncate_set(fix, "bad@s2");
	delete_snapshot(fix, "bad@s2");
	delete_snapshot(fix, "good@s2");
	usleep(2000);
	(void)pool_expire(fix->pool, SIZE_MAX, &merged, &err);
	assert_int_equal(tombstones(fix), 1);
	assert_string_equal(poolfix_delta(fix, "good@s1", "good@s3"), "2-3");
	/* Nothing else is to be done: the damage is reported now. */
	assert_code(pool_expire(fix->pool, SIZE_MAX, &merged, &err), CAIRN_DATA_LOSS);
	/* A repair records the set as lost; then it can be merged. */
	struct pool_check_spec spec = {.repair = true};
	struct pool_check_result result;

	assert_ok(pool_check(fix->pool, &spec, &result, &err), &err);
	assert_int_equal(expire(fix), 1);
	assert_int_equal(tombstones(fix), 0);
	assert_string_equal(poolfix_delta(fix, "bad@s1", "bad@s3"), "FAILED_PRECONDITION");
}

static void a_snapshot_without_data_can_be_deleted_and_its_volume_too(void **state)
{
	struct poolfix *fix = *state;
	struct cairn_err err = {0};

	fill(fix, "data", 4); /* all sets are pending */
	lose_data(fix, "data@s2");
	lose_data(fix, "data@s4");
	delete_snapshot(fix, "data@s2");
	assert_string_equal(poolfix_delta(fix, "data@s1", "data@s3"), "FAILED_PRECONDITION");
	assert_ok(pool_volume_delete(fix->pool, "data", POOL_DELETE_SNAPSHOTS, &err), &err);
}

static void a_volume_without_data_can_be_deleted(void **state)
{
	struct poolfix *fix = *state;
	cairn_auto_free char *path = NULL;
	struct cairn_err err = {0};

	fill(fix, "data", 2);
	assert_ok(pool_volume_path(fix->pool, "data", &path, &err), &err);
	assert_int_equal(unlink(path), 0);
	*strrchr(path, '/') = '\0';
	assert_int_equal(rmdir(path), 0);
	assert_ok(pool_volume_delete(fix->pool, "data", POOL_DELETE_SNAPSHOTS, &err), &err);
	poolfix_check_clean(fix);
}

static int put_nonsense(void *arg, struct catalogue_bytes key, struct catalogue_bytes value,
			bool damaged, struct cairn_err *err)
{
	cairn_cleanup(pool_catalogue_batch_freep) struct catalogue_batch *batch = NULL;

	(void)value;
	(void)damaged;
	assert_ok(pool_catalogue_batch_new(arg, &batch, err), err);
	pool_catalogue_put(batch, key, (struct catalogue_bytes){"", 0});
	assert_ok(pool_catalogue_commit(batch, CATALOGUE_DURABLE, err), err);
	return 1;
}

static void a_volume_with_an_unreadable_snapshot_is_abnormal(void **state)
{
	struct poolfix *fix = *state;
	cairn_cleanup(pool_catalogue_closep) struct catalogue *cat = NULL;
	struct pool_condition condition;
	struct cairn_err err = {0};

	fill(fix, "data", 2);
	assert_ok(pool_volume_health(fix->pool, "data", &condition, &err), &err);
	assert_false(condition.abnormal);
	assert_ok(pool_catalogue_open(fix->dir, true, &cat, &err), &err);
	assert_ok(pool_catalogue_scan(cat, (struct catalogue_bytes){"s/", 2},
				      (struct catalogue_bytes){"", 0}, put_nonsense, cat, &err),
		  &err);
	assert_ok(pool_volume_health(fix->pool, "data", &condition, &err), &err);
	assert_true(condition.abnormal);
}

#define HALF_MADE 100

static int syncs_to_live = -1; /* of the log; -1 for ever */

/* NOLINTNEXTLINE(readability-inconsistent-declaration-parameter-name) */
__attribute__((visibility("default"))) int fdatasync(int fd) /* SQLite's */
{
	if (syncs_to_live == 0)
		_exit(0);
	syncs_to_live -= syncs_to_live > 0;
	return (int)syscall(SYS_fdatasync, fd);
}

/* A list of half-made objects in the main file, and one more commit in the log, which is
 * then lost. */
static void lose_log_behind_a_list(struct poolfix *fix)
{
	cairn_cleanup(pool_catalogue_batch_freep) struct catalogue_batch *batch = NULL;
	struct cairn_err err = {0};
	char path[128], id[POOL_ID_MAX + 1];
	sqlite3 *db = NULL;

	assert_ok(pool_catalogue_batch_new(fix->pool->cat, &batch, &err), &err);
	for (uint64_t i = 0; i < HALF_MADE; i++) {
		pool_ids_format_volume(0x1000 + i, id);
		pool_records_cleanup_add(batch, id);
	}
	assert_ok(pool_catalogue_commit(batch, CATALOGUE_DURABLE, &err), &err);
	snprintf(path, sizeof(path), "%s/catalogue.db", fix->dir);
	assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
	assert_int_equal(sqlite3_exec(db, "PRAGMA wal_checkpoint", NULL, NULL, NULL), SQLITE_OK);
	sqlite3_close(db);
	make_volume(fix, "lost");
	pool_close(cairn_take(fix->pool));
	snprintf(path, sizeof(path), "%s/catalogue.db-wal", fix->dir);
	assert_int_equal(unlink(path), 0);
}

static void ignore_fault(void *arg, enum pool_fault_state state, const char *line)
{
	(void)arg;
	(void)state;
	(void)line;
}

static void repair_until(struct poolfix *fix, int syncs)
{
	struct pool_open_spec open_spec = {.dir = fix->dir, .for_check = true};
	struct pool_check_spec spec = {.repair = true, .fault = ignore_fault};
	struct pool_check_result result;
	struct pool *pool = NULL;
	int status;
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (pid == 0) {
		syncs_to_live = syncs;
		if (pool_open(&open_spec, &pool, NULL) == 0)
			(void)pool_check(pool, &spec, &result, NULL);
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

/* The first catalogue that opens again must list nothing: opening a pool removes what is
 * on the list, and it may have been finished in a lost commit. */
static void a_repair_that_is_killed_leaves_no_list_behind(void **state)
{
	struct poolfix *fix = *state;
	struct catalogue *cat = NULL;
	char ids[HALF_MADE][POOL_ID_MAX + 1];
	struct cairn_err err = {0};
	size_t n = 0;

	lose_log_behind_a_list(fix);
	for (int syncs = 1; syncs < 20 && !cat; syncs++) {
		repair_until(fix, syncs);
		if (pool_catalogue_open(fix->dir, true, &cat, &err) != 0)
			assert_int_equal(err.code, CAIRN_DATA_LOSS);
	}
	assert_non_null(cat);
	assert_ok(pool_records_leftovers(cat, "", ids, HALF_MADE, &n, &err), &err);
	pool_catalogue_close(cat);
	assert_int_equal(n, 0);
	poolfix_reopen(fix);
}

/* ---- lost records ---------------------------------------------------------- */

struct named {
	struct pool_volume volume;
	struct pool_snapshot s1, s2;
	uint64_t bits, number; /* of s1 */
};

static void make_named(struct poolfix *fix, struct named *ret)
{
	struct cairn_err err = {0};

	fill(fix, "data", 2);
	complete(fix, "data@s2");
	assert_ok(pool_volume_get(fix->pool, "data", &ret->volume, &err), &err);
	assert_ok(pool_snapshot_get(fix->pool, "data@s1", &ret->s1, &err), &err);
	assert_ok(pool_snapshot_get(fix->pool, "data@s2", &ret->s2, &err), &err);
	assert_true(pool_ids_parse_snapshot(ret->s1.id, &ret->bits, &ret->number));
}

/* As a flipped bit in its key does. */
static void lose_record(struct poolfix *fix, char kind, uint64_t number)
{
	cairn_cleanup(pool_catalogue_batch_freep) struct catalogue_batch *batch = NULL;
	struct ledger_key key = pool_records_key_number(kind, number);
	struct cairn_err err = {0};

	assert_ok(pool_catalogue_batch_new(fix->pool->cat, &batch, &err), &err);
	pool_catalogue_delete(batch, pool_records_key_bytes(&key));
	assert_ok(pool_catalogue_commit(batch, CATALOGUE_DURABLE, &err), &err);
}

static void repair(struct poolfix *fix)
{
	struct pool_check_spec spec = {.repair = true};
	struct pool_check_result result;
	struct cairn_err err = {0};

	assert_ok(pool_check(fix->pool, &spec, &result, &err), &err);
	poolfix_check_clean(fix);
}

static void a_snapshot_without_a_record_is_not_deleted(void **state)
{
	struct poolfix *fix = *state;
	struct pool_snapshot found;
	struct cairn_err err = {0};
	struct named named;

	make_named(fix, &named);
	lose_record(fix, 's', named.number);
	assert_code(pool_snapshot_get(fix->pool, named.s1.id, &found, &err), CAIRN_DATA_LOSS);
	assert_code(pool_snapshot_delete(fix->pool, named.s1.id, &err), CAIRN_DATA_LOSS);
	assert_code(pool_snapshot_get(fix->pool, "data@s1", &found, &err), CAIRN_DATA_LOSS);
	repair(fix);
	delete_snapshot(fix, named.s1.id);
}

static void a_volume_without_a_record_is_not_deleted(void **state)
{
	struct poolfix *fix = *state;
	struct pool_snapshot snapshot;
	struct pool_volume volume;
	struct cairn_err err = {0};
	struct named named;

	make_named(fix, &named);
	lose_record(fix, 'v', named.bits);
	assert_code(pool_volume_get(fix->pool, named.volume.id, &volume, &err), CAIRN_DATA_LOSS);
	assert_code(pool_volume_get(fix->pool, "data", &volume, &err), CAIRN_DATA_LOSS);
	assert_code(
		pool_volume_delete(fix->pool, named.volume.id, POOL_DELETE_KEEP_SNAPSHOTS, &err),
		CAIRN_DATA_LOSS);
	/* Nor is its snapshot. */
	assert_code(pool_snapshot_get(fix->pool, named.s1.id, &snapshot, &err), CAIRN_DATA_LOSS);
	assert_code(pool_snapshot_delete(fix->pool, named.s1.id, &err), CAIRN_DATA_LOSS);
	repair(fix);
	delete_snapshot(fix, named.s1.id);
	assert_ok(pool_volume_delete(fix->pool, named.volume.id, POOL_DELETE_KEEP_SNAPSHOTS, &err),
		  &err);
}

/* The list has an entry for a live object after a process was killed. */
static void list_for_cleanup(struct poolfix *fix, const char *id)
{
	cairn_cleanup(pool_catalogue_batch_freep) struct catalogue_batch *batch = NULL;
	struct cairn_err err = {0};

	assert_ok(pool_catalogue_batch_new(fix->pool->cat, &batch, &err), &err);
	pool_records_cleanup_add(batch, id);
	assert_ok(pool_catalogue_commit(batch, CATALOGUE_DURABLE, &err), &err);
}

static void data_whose_record_is_lost_is_not_cleaned_up(void **state)
{
	struct poolfix *fix = *state;
	cairn_auto_free char *of_snapshot = NULL;
	cairn_auto_free char *of_volume = NULL;
	struct cairn_err err = {0};
	struct named named;

	make_named(fix, &named);
	assert_ok(pool_snapshot_path(fix->pool, "data@s1", &of_snapshot, &err), &err);
	assert_ok(pool_volume_path(fix->pool, "data", &of_volume, &err), &err);
	list_for_cleanup(fix, named.s1.id);
	list_for_cleanup(fix, named.volume.id);
	lose_record(fix, 's', named.number);
	lose_record(fix, 'v', named.bits);
	poolfix_reopen(fix);
	assert_int_equal(access(of_snapshot, F_OK), 0);
	assert_int_equal(access(of_volume, F_OK), 0);
	repair(fix);
	poolfix_reopen(fix);
	assert_int_equal(access(of_snapshot, F_OK), 0);
	assert_int_equal(access(of_volume, F_OK), 0);
	assert_string_equal(poolfix_delta(fix, "data@s1", "data@s2"), "2");
}

/* Not the snapshot is missing, but what its deletion needs. */
static void a_deletion_that_lacks_a_directory_has_not_deleted(void **state)
{
	struct poolfix *fix = *state;
	struct cairn_err err = {0};
	char sets[160];

	fill(fix, "data", 2); /* the set of s2 is pending */
	snprintf(sets, sizeof(sets), "%s/sets", fix->dir);
	assert_int_equal(rmdir(sets), 0);
	assert_code(pool_snapshot_delete(fix->pool, "data@s1", &err), CAIRN_UNAVAILABLE);
	assert_int_equal(mkdir(sets, 0700), 0);
	poolfix_reopen(fix);
	delete_snapshot(fix, "data@s1");
}

static void read_marker_text(const struct poolfix *fix, char *ret, size_t size)
{
	char path[128];
	FILE *file;

	snprintf(path, sizeof(path), "%s/cairn.pool", fix->dir);
	file = fopen(path, "re");
	assert_non_null(file);
	ret[fread(ret, 1, size - 1, file)] = '\0';
	fclose(file);
}

/* Each finds an id of its own for a marker that has lost it. */
static void two_repairs_of_one_marker_agree(void **state)
{
	struct poolfix *fix = *state;
	struct pool_open_spec open_spec = {.dir = fix->dir, .for_check = true};
	struct pool_check_spec spec = {.repair = true, .fault = ignore_fault};
	char path[128], first[512], second[512];
	struct pool_check_result result;
	struct pool *pools[2] = {NULL, NULL};
	struct cairn_err err = {0};

	snprintf(path, sizeof(path), "%s/cairn.pool", fix->dir);
	assert_int_equal(truncate(path, 60), 0);
	for (int i = 0; i < 2; i++)
		assert_ok(pool_open(&open_spec, &pools[i], &err), &err);
	assert_ok(pool_check(pools[0], &spec, &result, &err), &err);
	read_marker_text(fix, first, sizeof(first));
	assert_ok(pool_check(pools[1], &spec, &result, &err), &err);
	read_marker_text(fix, second, sizeof(second));
	assert_string_equal(first, second);
	for (int i = 0; i < 2; i++)
		pool_close(pools[i]);
}

#define POOL_TEST(fn) cmocka_unit_test_setup_teardown(fn, poolfix_setup, poolfix_teardown)
#define IMPATIENT_TEST(fn) \
	cmocka_unit_test_setup_teardown(fn, poolfix_setup_impatient, poolfix_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		IMPATIENT_TEST(one_damaged_set_does_not_stop_the_expiry_of_others),
		POOL_TEST(a_snapshot_without_data_can_be_deleted_and_its_volume_too),
		POOL_TEST(a_volume_without_data_can_be_deleted),
		POOL_TEST(a_repair_that_is_killed_leaves_no_list_behind),
		POOL_TEST(a_volume_with_an_unreadable_snapshot_is_abnormal),
		POOL_TEST(two_repairs_of_one_marker_agree),
		POOL_TEST(a_snapshot_without_a_record_is_not_deleted),
		POOL_TEST(a_volume_without_a_record_is_not_deleted),
		POOL_TEST(data_whose_record_is_lost_is_not_cleaned_up),
		POOL_TEST(a_deletion_that_lacks_a_directory_has_not_deleted),
	};

	return cmocka_run_group_tests_name("pool/damage", tests, NULL, NULL);
}
