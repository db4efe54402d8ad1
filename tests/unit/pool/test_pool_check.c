/* SPDX-License-Identifier: Apache-2.0 */

#include "cairntest.h"

#include <dirent.h>
#include <fcntl.h>
#include <sqlite3.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "pool/catalogue/catalogue.h"
#include "pool/catalogue/records.h"
#include "poolfix.h"

/* Three snapshots, each with another block written. */
static void fill(struct poolfix *fix)
{
	struct pool_volume_spec spec = {.name = "data", .size = MIB};
	struct pool_volume volume;
	struct cairn_err err = {0};

	assert_ok(pool_volume_create(fix->pool, &spec, &volume, &err), &err);
	for (int i = 1; i <= 3; i++) {
		char name[8];

		poolfix_write(fix, "data", (uint64_t)i, 'x');
		snprintf(name, sizeof(name), "s%d", i);
		poolfix_snapshot(fix, "data", name);
	}
	/* Makes all the sets. */
	assert_string_equal(poolfix_delta(fix, "data@s1", "data@s3"), "2-3");
}

static struct pool_check_result check(struct poolfix *fix, bool repair)
{
	struct pool_check_spec spec = {.repair = repair};
	struct pool_check_result result;
	struct cairn_err err = {0};

	assert_ok(pool_check(fix->pool, &spec, &result, &err), &err);
	return result;
}

/* Calls `fn` on every set file and returns how many there were. */
static unsigned for_each_set(struct poolfix *fix, void (*fn)(int dir_fd, const char *name))
{
	char path[128];
	DIR *dir;
	struct dirent *entry;
	unsigned n = 0;

	snprintf(path, sizeof(path), "%s/sets", fix->dir);
	dir = opendir(path);
	assert_non_null(dir);
	while ((entry = readdir(dir))) {
		if (strchr(entry->d_name, '.'))
			continue; /* none, or in quarantine */
		fn(dirfd(dir), entry->d_name);
		n++;
	}
	closedir(dir);
	return n;
}

static void damage(int dir_fd, const char *name)
{
	int fd = openat(dir_fd, name, O_RDWR | O_CLOEXEC);
	struct stat st;
	unsigned char byte;

	assert_int_equal(fstat(fd, &st), 0);
	assert_int_equal(pread(fd, &byte, 1, st.st_size / 2), 1);
	byte ^= 0x40;
	assert_int_equal(pwrite(fd, &byte, 1, st.st_size / 2), 1);
	close(fd);
}

static void cut_short(int dir_fd, const char *name)
{
	int fd = openat(dir_fd, name, O_RDWR | O_CLOEXEC);

	assert_int_equal(ftruncate(fd, 10), 0);
	close(fd);
}

static void remove_it(int dir_fd, const char *name)
{
	assert_int_equal(unlinkat(dir_fd, name, 0), 0);
}

static void damaged_sets_are_found_refused_and_made_again(void **state)
{
	static void (*const harms[])(int, const char *) = {damage, cut_short, remove_it};
	struct poolfix *fix = *state;

	fill(fix);
	for (size_t i = 0; i < ARRAY_LEN(harms); i++) {
		struct pool_check_result result;

		assert_int_equal(for_each_set(fix, harms[i]), 2);
		assert_string_equal(poolfix_delta(fix, "data@s1", "data@s3"), "DATA_LOSS");
		result = check(fix, false);
		assert_int_equal(result.found, 2);
		assert_int_equal(result.repaired, 0);
		result = check(fix, true);
		assert_int_equal(result.repaired, 2);
		assert_int_equal(result.lost, 0);
		assert_string_equal(poolfix_delta(fix, "data@s1", "data@s3"), "2-3");
		poolfix_check_clean(fix);
	}
}

static void a_set_that_can_not_be_made_again_is_lost_and_said_to_be(void **state)
{
	struct poolfix *fix = *state;
	struct pool_check_result result;
	struct cairn_err err = {0};

	fill(fix);
	assert_ok(pool_snapshot_delete(fix->pool, "data@s1", &err), &err);
	for_each_set(fix, damage);
	result = check(fix, true);
	assert_int_equal(result.lost, 1);     /* s2 against s1, whose data is gone */
	assert_int_equal(result.repaired, 1); /* s3 against s2 */
	assert_string_equal(poolfix_delta(fix, "data@s1", "data@s3"), "FAILED_PRECONDITION");
	assert_string_equal(poolfix_delta(fix, "data@s2", "data@s3"), "3");
	poolfix_check_clean(fix);
}

static void what_no_record_knows_is_moved_aside_by_repair_only(void **state)
{
	static const char *const strays[] = {"sets/set-77-1", "sets/set-1-9",
					     "volumes/vol-0123456789abcdef",
					     "snapshots/snap-0123456789abcdef-9"};
	struct poolfix *fix = *state;
	struct pool_check_result result;
	char path[128];

	fill(fix);
	for (size_t i = 0; i < ARRAY_LEN(strays); i++) {
		int fd;

		snprintf(path, sizeof(path), "%s/%s", fix->dir, strays[i]);
		if (strays[i][1] != 'e') {
			assert_int_equal(mkdir(path, 0700), 0);
			continue;
		}
		fd = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
		assert_true(fd >= 0);
		close(fd);
	}
	result = check(fix, false);
	assert_int_equal(result.found, ARRAY_LEN(strays));
	assert_int_equal(access(path, F_OK), 0);
	result = check(fix, true);
	assert_int_equal(result.repaired, ARRAY_LEN(strays));
	assert_int_equal(access(path, F_OK), -1);
	poolfix_check_clean(fix);
}

/* Drops or spoils one key of the catalogue behind the pool's back. */
struct tamper {
	char kind;
	bool spoil;
	bool done;
	struct catalogue *cat;
};

static int tamper_one(void *arg, struct catalogue_bytes key, struct catalogue_bytes value,
		      bool damaged, struct cairn_err *err)
{
	struct tamper *tamper = arg;
	cairn_cleanup(pool_catalogue_batch_freep) struct catalogue_batch *batch = NULL;

	(void)value;
	(void)damaged;
	assert_ok(pool_catalogue_batch_new(tamper->cat, &batch, err), err);
	if (tamper->spoil)
		pool_catalogue_put(batch, key, (struct catalogue_bytes){"nonsense", 8});
	else
		pool_catalogue_delete(batch, key);
	assert_ok(pool_catalogue_commit(batch, CATALOGUE_DURABLE, err), err);
	tamper->done = true;
	return 1;
}

static bool tamper_with(struct poolfix *fix, char kind, bool spoil)
{
	cairn_cleanup(pool_catalogue_closep) struct catalogue *cat = NULL;
	struct tamper tamper = {.kind = kind, .spoil = spoil};
	struct cairn_err err = {0};
	char prefix[] = {kind, '/'};

	assert_ok(pool_catalogue_open(fix->dir, true, &cat, &err), &err);
	tamper.cat = cat;
	assert_ok(pool_catalogue_scan(cat, (struct catalogue_bytes){prefix, 2},
				      (struct catalogue_bytes){"", 0}, tamper_one, &tamper, &err),
		  &err);
	return tamper.done;
}

static void indexes_are_made_again_from_the_records(void **state)
{
	struct poolfix *fix = *state;
	struct cairn_err err = {0};

	fill(fix);
	assert_ok(pool_snapshot_delete(fix->pool, "data@s2", &err), &err);
	for (const char *kind = "wlmcht"; *kind; kind++) {
		struct pool_check_result result;

		assert_true(tamper_with(fix, *kind, false));
		result = check(fix, false);
		assert_true(result.found > 0);
		result = check(fix, true);
		assert_true(result.repaired > 0);
		assert_int_equal(result.lost, 0);
		poolfix_check_clean(fix);
		assert_string_equal(poolfix_delta(fix, "data@s1", "data@s3"), "2-3");
	}
}

static void an_unreadable_record_is_reported_not_believed(void **state)
{
	struct poolfix *fix = *state;

	fill(fix);
	assert_true(tamper_with(fix, 's', true));
	assert_true(check(fix, false).found > 0);
	assert_string_equal(poolfix_delta(fix, "data@s1", "data@s3"), "UNIMPLEMENTED");
	assert_string_equal(poolfix_delta(fix, "data@s2", "data@s3"), "3");
}

/* Spoils the bytes of a value in the database file itself, behind its checksum. */
static void spoil_on_disk(struct poolfix *fix, const char *sql)
{
	char path[128];
	sqlite3 *db;

	pool_closep(&fix->pool);
	fix->pool = NULL;
	snprintf(path, sizeof(path), "%s/catalogue.db", fix->dir);
	assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
	assert_int_equal(sqlite3_exec(db, sql, NULL, NULL, NULL), SQLITE_OK);
	assert_int_equal(sqlite3_changes(db), 1);
	sqlite3_close(db);
	poolfix_reopen(fix);
}

static void a_lost_counter_never_gives_a_number_twice(void **state)
{
	struct poolfix *fix = *state;
	struct pool_snapshot_spec spec = {.volume = "data", .name = "s4"};
	struct pool_snapshot made;
	struct cairn_err err = {0};

	fill(fix);
	spoil_on_disk(fix, "UPDATE kv SET v = x'00112233445566778899' WHERE k = x'6e2f'");
	assert_code(pool_snapshot_create(fix->pool, &spec, 1, &made, &err), CAIRN_DATA_LOSS);
	assert_int_equal(check(fix, false).found, 1);
	assert_int_equal(check(fix, true).repaired, 1);
	assert_ok(pool_snapshot_create(fix->pool, &spec, 1, &made, &err), &err);
	assert_true(strlen(made.id) > strlen("snap-0123456789abcdef-4"));
	poolfix_check_clean(fix);
}

static unsigned count_entries(struct poolfix *fix, const char *kind)
{
	char path[128];
	DIR *dir;
	struct dirent *entry;
	unsigned n = 0;

	snprintf(path, sizeof(path), "%s/%s", fix->dir, kind);
	dir = opendir(path);
	assert_non_null(dir);
	while ((entry = readdir(dir)))
		n += entry->d_name[0] != '.' && !strchr(entry->d_name, '.');
	closedir(dir);
	return n;
}

/* The worst that a repair can do: a record that can not be read is no proof
 * that its data are unwanted. */
static void repair_keeps_the_data_of_unreadable_records(void **state)
{
	struct poolfix *fix = *state;

	fill(fix);
	spoil_on_disk(fix, "UPDATE kv SET v = x'00112233445566778899' "
			   "WHERE substr(k, 1, 2) = x'732f' AND substr(k, -1) = x'32'");
	check(fix, true);
	assert_int_equal(count_entries(fix, "snapshots"), 3);
	assert_int_equal(count_entries(fix, "volumes"), 1);
	spoil_on_disk(fix, "UPDATE kv SET v = x'00112233445566778899' "
			   "WHERE substr(k, 1, 2) = x'762f'");
	check(fix, true);
	assert_int_equal(count_entries(fix, "snapshots"), 3);
	assert_int_equal(count_entries(fix, "volumes"), 1);
}

/* Index entries of two volumes that have no record; the second one gets its record when
 * the first entry was removed. */
#define GONE  0x1111111111111111ULL
#define COMES 0x2222222222222222ULL

struct arrival {
	struct catalogue *cat;
	bool arrived;
};

static void put_entry(struct catalogue *cat, const struct record_volume *volume)
{
	cairn_cleanup(pool_catalogue_batch_freep) struct catalogue_batch *batch = NULL;
	struct cairn_err err = {0};

	assert_ok(pool_catalogue_batch_new(cat, &batch, &err), &err);
	pool_records_volume_reindex(batch, volume);
	assert_ok(pool_catalogue_commit(batch, CATALOGUE_DURABLE, &err), &err);
}

static const struct record_volume comes = {.volume = COMES, .name = "zzz", .size = MIB};

static void arrive_at_first_fault(void *arg, enum pool_fault_state state, const char *text)
{
	cairn_cleanup(pool_catalogue_batch_freep) struct catalogue_batch *batch = NULL;
	struct arrival *arrival = arg;
	struct cairn_err err = {0};

	(void)state;
	(void)text;
	if (arrival->arrived)
		return;
	arrival->arrived = true;
	assert_ok(pool_catalogue_batch_new(arrival->cat, &batch, &err), &err);
	pool_records_volume_put(batch, &comes);
	assert_ok(pool_catalogue_commit(batch, CATALOGUE_DURABLE, &err), &err);
}

/* What was decided on records that have changed since is not done. */
static void a_repair_leaves_the_index_of_a_record_that_came_meanwhile(void **state)
{
	const struct record_volume gone = {.volume = GONE, .name = "aaa", .size = MIB};
	cairn_cleanup(pool_catalogue_closep) struct catalogue *cat = NULL;
	struct arrival arrival = {0};
	struct pool_check_spec spec = {
		.repair = true, .fault = arrive_at_first_fault, .arg = &arrival};
	struct pool_check_result result;
	struct poolfix *fix = *state;
	struct record_volume found;
	struct cairn_err err = {0};

	assert_ok(pool_catalogue_open(fix->dir, true, &cat, &err), &err);
	arrival.cat = cat;
	put_entry(cat, &gone);
	put_entry(cat, &comes);
	assert_ok(pool_check(fix->pool, &spec, &result, &err), &err);
	assert_true(arrival.arrived);
	assert_code(pool_records_volume_by_name(cat, "aaa", &found, &err), CAIRN_NOT_FOUND);
	assert_ok(pool_records_volume_by_name(cat, "zzz", &found, &err), &err);
	assert_int_equal(found.volume, COMES);
}

#define POOL_TEST(fn) cmocka_unit_test_setup_teardown(fn, poolfix_setup, poolfix_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		POOL_TEST(damaged_sets_are_found_refused_and_made_again),
		POOL_TEST(a_set_that_can_not_be_made_again_is_lost_and_said_to_be),
		POOL_TEST(what_no_record_knows_is_moved_aside_by_repair_only),
		POOL_TEST(indexes_are_made_again_from_the_records),
		POOL_TEST(an_unreadable_record_is_reported_not_believed),
		POOL_TEST(a_lost_counter_never_gives_a_number_twice),
		POOL_TEST(repair_keeps_the_data_of_unreadable_records),
		POOL_TEST(a_repair_leaves_the_index_of_a_record_that_came_meanwhile),
	};

	return cmocka_run_group_tests_name("pool/check", tests, NULL, NULL);
}
