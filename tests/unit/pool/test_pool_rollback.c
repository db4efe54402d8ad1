/* SPDX-License-Identifier: Apache-2.0 */

/* Rolling volumes back, and renaming volumes and snapshots. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/mem.h"
#include "cairntest.h"
#include "pool/device/open_files.h"
#include "poolfix.h"

static void make(struct poolfix *fix, const char *name)
{
	struct pool_volume_spec spec = {.name = name, .size = MIB};
	struct pool_volume made;
	struct cairn_err err = {0};

	assert_ok(pool_volume_create(fix->pool, &spec, &made, &err), &err);
}

static int byte_at(struct poolfix *fix, const char *volume, uint64_t block)
{
	cairn_auto_free char *path = NULL;
	struct cairn_err err = {0};
	unsigned char byte = 0;
	int fd;

	assert_ok(pool_volume_path(fix->pool, volume, &path, &err), &err);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	assert_true(fd >= 0);
	assert_int_equal(pread(fd, &byte, 1, (off_t)(block * BLK)), 1);
	close(fd);
	return byte;
}

static struct pool_rollback_result roll_back(struct poolfix *fix, const char *to, const char *keep)
{
	struct pool_rollback_spec spec = {.snapshot = to, .keep_as = keep};
	struct pool_rollback_result result;
	struct cairn_err err = {0};

	assert_ok(pool_volume_rollback(fix->pool, &spec, &result, &err), &err);
	return result;
}

static int refused(struct poolfix *fix, const char *to, const char *keep)
{
	struct pool_rollback_spec spec = {.snapshot = to, .keep_as = keep};
	struct pool_rollback_result result;
	struct cairn_err err = {0};

	return pool_volume_rollback(fix->pool, &spec, &result, &err);
}

/* Block 1 is written before the first snapshot, 2 before the second, 3 after it. */
static void set_up_line(struct poolfix *fix)
{
	make(fix, "v");
	poolfix_write(fix, "v", 1, 'a');
	poolfix_snapshot(fix, "v", "mon");
	poolfix_write(fix, "v", 2, 'b');
	poolfix_snapshot(fix, "v", "tue");
	poolfix_write(fix, "v", 3, 'c');
}

static void a_rollback_gives_the_snapshots_bytes_and_keeps_the_way_back(void **state)
{
	struct poolfix *fix = *state;
	struct pool_rollback_result result;

	set_up_line(fix);
	result = roll_back(fix, "v@mon", "safe");
	assert_string_equal(result.volume.name, "v");
	assert_string_equal(result.snapshot.name, "mon");
	assert_string_equal(result.kept.name, "safe");
	assert_int_equal(byte_at(fix, "v", 1), 'a');
	assert_int_equal(byte_at(fix, "v", 2), 0);
	assert_int_equal(byte_at(fix, "v", 3), 0);
	roll_back(fix, "v@safe", NULL);
	assert_int_equal(byte_at(fix, "v", 2), 'b');
	assert_int_equal(byte_at(fix, "v", 3), 'c');
	poolfix_check_clean(fix);
}

static void every_earlier_snapshot_is_a_base_after_a_rollback(void **state)
{
	struct poolfix *fix = *state;

	set_up_line(fix);
	roll_back(fix, "v@mon", "safe");
	poolfix_write(fix, "v", 5, 'd');
	poolfix_snapshot(fix, "v", "wed");
	assert_string_equal(poolfix_delta(fix, "v@tue", "v@wed"), "2-3z 5");
	assert_string_equal(poolfix_delta(fix, "v@safe", "v@wed"), "2-3z 5");
	/* What was changed and rolled back is reported too. */
	assert_string_equal(poolfix_delta(fix, "v@mon", "v@wed"), "2-3z 5");
}

static void a_rollback_without_the_way_back_has_right_deltas(void **state)
{
	struct poolfix *fix = *state;

	set_up_line(fix);
	assert_string_equal(roll_back(fix, "v@mon", NULL).kept.id, "");
	poolfix_write(fix, "v", 3, 'x');
	poolfix_snapshot(fix, "v", "wed");
	assert_string_equal(poolfix_delta(fix, "v@tue", "v@wed"), "2z 3");
	assert_string_equal(poolfix_delta(fix, "v@mon", "v@wed"), "2z 3");
	poolfix_check_clean(fix);
}

static void lines_stay_related_when_the_snapshot_rolled_to_expires(void **state)
{
	struct poolfix *fix = *state;
	struct cairn_err err = {0};
	size_t merged;

	set_up_line(fix);
	roll_back(fix, "v@mon", "safe");
	poolfix_write(fix, "v", 7, 'd');
	poolfix_snapshot(fix, "v", "wed");
	assert_ok(pool_snapshot_delete(fix->pool, "v@mon", &err), &err);
	usleep(2000);
	assert_ok(pool_expire(fix->pool, 10, &merged, &err), &err);
	assert_string_equal(poolfix_delta(fix, "v@tue", "v@wed"), "2-3z 7");
}

static void a_grown_volume_keeps_its_size(void **state)
{
	struct poolfix *fix = *state;
	struct pool_volume grown;
	struct cairn_err err = {0};

	set_up_line(fix);
	assert_ok(pool_volume_expand(fix->pool, "v", 2 * MIB, &grown, &err), &err);
	poolfix_write(fix, "v", 300, 'g');
	assert_int_equal(roll_back(fix, "v@mon", "safe").volume.size, 2 * MIB);
	assert_int_equal(byte_at(fix, "v", 300), 0);
	poolfix_snapshot(fix, "v", "wed");
	assert_string_equal(poolfix_delta(fix, "v@safe", "v@wed"), "2-3z 300z");
}

static void what_cannot_be_rolled_back_stays_as_it_is(void **state)
{
	struct poolfix *fix = *state;
	cairn_auto_free char *path = NULL;
	struct pool_snapshot mon;
	struct cairn_err err = {0};
	int fd;

	set_up_line(fix);
	assert_int_equal(refused(fix, "v@sun", NULL), CAIRN_NOT_FOUND);
	assert_int_equal(refused(fix, "v", NULL), CAIRN_NOT_FOUND);
	assert_int_equal(refused(fix, "v@mon", "tue"), CAIRN_EXISTS);
	assert_int_equal(refused(fix, "v@mon", ""), CAIRN_INVALID);
	assert_ok(pool_volume_path(fix->pool, "v", &path, &err), &err);
	fd = open(path, O_RDWR | O_CLOEXEC);
	assert_true(fd >= 0);
	if (pool_open_files_for_writing(path) == OPENED)
		assert_int_equal(refused(fix, "v@mon", "safe"), CAIRN_PRECONDITION);
	close(fd);
	assert_int_equal(byte_at(fix, "v", 3), 'c');
	assert_int_equal(pool_snapshot_get(fix->pool, "v@safe", &mon, &err), CAIRN_NOT_FOUND);
	assert_ok(pool_snapshot_get(fix->pool, "v@mon", &mon, &err), &err);
	assert_ok(pool_volume_delete(fix->pool, "v", POOL_DELETE_KEEP_SNAPSHOTS, &err), &err);
	assert_int_equal(refused(fix, mon.id, NULL), CAIRN_PRECONDITION);
	poolfix_check_clean(fix);
}

static void half_a_restore_is_made_whole_by_a_rollback(void **state)
{
	struct poolfix *fix = *state;
	struct cairn_err err = {0};

	set_up_line(fix);
	assert_ok(pool_volume_set_restoring(fix->pool, "v", "0123456789", &err), &err);
	assert_int_equal(refused(fix, "v@mon", "safe"), CAIRN_PRECONDITION);
	assert_string_equal(roll_back(fix, "v@mon", NULL).volume.restoring, "");
	poolfix_snapshot(fix, "v", "wed");
	assert_int_equal(byte_at(fix, "v", 3), 0);
}

/* Whoever waits for the lock of the file that a rollback replaces gets that of the new. */
static void the_lock_is_of_the_file_that_has_the_name(void **state)
{
	struct poolfix *fix = *state;
	cairn_auto_free char *path = NULL;
	struct cairn_err err = {0};
	int lock = -1;
	int fd;

	set_up_line(fix);
	roll_back(fix, "v@mon", NULL);
	assert_ok(pool_volume_path(fix->pool, "v", &path, &err), &err);
	assert_ok(pool_volume_lock_file(fix->pool, "v", &lock, &err), &err);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	assert_true(fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) < 0);
	close(fd);
	close(lock);
}

/* What happens at the first sync of a rollback, which is before the exchange, and at the
 * exchange itself. */
static char *file_to_open;
static int opened_fd = -1;
static bool new_file_is_locked;

/* NOLINTNEXTLINE(readability-inconsistent-declaration-parameter-name) */
__attribute__((visibility("default"))) int fdatasync(int fd) /* SQLite's */
{
	if (file_to_open && opened_fd < 0)
		opened_fd = open(file_to_open, O_RDWR | O_CLOEXEC);
	return (int)syscall(SYS_fdatasync, fd);
}

/* NOLINTNEXTLINE(readability-inconsistent-declaration-parameter-name) */
int renameat2(int from_dir, const char *from, int to_dir, const char *to, unsigned flags)
{
	char path[512];
	int fd;

	snprintf(path, sizeof(path), "%s%s", from, strstr(from, "/disk") ? "" : "/disk");
	fd = openat(from_dir, path, O_RDONLY | O_CLOEXEC);
	if (flags == RENAME_EXCHANGE && fd >= 0)
		new_file_is_locked = flock(fd, LOCK_EX | LOCK_NB) < 0;
	if (fd >= 0)
		close(fd);
	return (int)syscall(SYS_renameat2, from_dir, from, to_dir, to, flags);
}

static void nobody_gets_at_the_new_file_before_the_rollback_is_done(void **state)
{
	struct poolfix *fix = *state;

	set_up_line(fix);
	new_file_is_locked = false;
	roll_back(fix, "v@mon", NULL);
	assert_true(new_file_is_locked);
}

static void a_writer_that_comes_during_a_rollback_is_noticed(void **state)
{
	struct poolfix *fix = *state;
	struct cairn_err err = {0};

	set_up_line(fix);
	assert_ok(pool_volume_path(fix->pool, "v", &file_to_open, &err), &err);
	assert_code(refused(fix, "v@mon", NULL), CAIRN_PRECONDITION);
	assert_true(opened_fd >= 0);
	assert_int_equal(byte_at(fix, "v", 3), 'c');
	close(opened_fd);
	free(cairn_take(file_to_open));
	poolfix_check_clean(fix);
	roll_back(fix, "v@mon", NULL);
	assert_int_equal(byte_at(fix, "v", 3), 0);
}

static void short_memory_rolls_back_whole_or_not_at_all(void **state)
{
	struct poolfix *fix = *state;
	struct cairn_err err = {0};
	int rc = -1;

	set_up_line(fix);
	for (size_t at = 1; at < 2000 && rc; at++) {
		struct pool_rollback_spec spec = {.snapshot = "v@mon"};
		struct pool_rollback_result result;

		cairn_mem_fail_at(at, 0);
		rc = pool_volume_rollback(fix->pool, &spec, &result, &err);
		cairn_mem_fail_at(0, 0);
		assert_int_equal(byte_at(fix, "v", 3), rc ? 'c' : 0);
	}
	assert_int_equal(rc, 0);
	poolfix_reopen(fix);
	poolfix_check_clean(fix);
}

static void a_renamed_volume_is_found_by_its_new_name_only(void **state)
{
	struct poolfix *fix = *state;
	struct pool_volume before, after, found;
	struct cairn_err err = {0};

	set_up_line(fix);
	make(fix, "other");
	assert_ok(pool_volume_get(fix->pool, "v", &before, &err), &err);
	assert_ok(pool_volume_rename(fix->pool, "v", "w@x", &after, &err), &err);
	assert_string_equal(after.id, before.id);
	assert_string_equal(after.name, "w@x");
	assert_int_equal(pool_volume_get(fix->pool, "v", &found, &err), CAIRN_NOT_FOUND);
	assert_string_equal(poolfix_delta(fix, "w@x@mon", "w@x@tue"), "2");
	assert_ok(pool_volume_rename(fix->pool, "w@x", "w@x", &after, &err), &err);
	assert_int_equal(pool_volume_rename(fix->pool, "w@x", "other", &after, &err), CAIRN_EXISTS);
	assert_int_equal(pool_volume_rename(fix->pool, "w@x", "", &after, &err), CAIRN_INVALID);
	assert_int_equal(pool_volume_rename(fix->pool, "w@x", before.id, &after, &err),
			 CAIRN_INVALID);
	assert_int_equal(pool_volume_rename(fix->pool, "v", "z", &after, &err), CAIRN_NOT_FOUND);
	make(fix, "v"); /* the old name is free */
	assert_ok(pool_volume_rename(fix->pool, before.id, "back", &after, &err), &err);
	poolfix_reopen(fix);
	poolfix_check_clean(fix);
}

static void a_renamed_snapshot_is_found_by_its_new_name_only(void **state)
{
	struct poolfix *fix = *state;
	struct pool_snapshot before, after, found;
	struct cairn_err err = {0};

	set_up_line(fix);
	assert_ok(pool_snapshot_get(fix->pool, "v@mon", &before, &err), &err);
	assert_ok(pool_snapshot_rename(fix->pool, "v@mon", "first", &after, &err), &err);
	assert_string_equal(after.id, before.id);
	assert_int_equal(pool_snapshot_get(fix->pool, "v@mon", &found, &err), CAIRN_NOT_FOUND);
	assert_string_equal(poolfix_delta(fix, "v@first", "v@tue"), "2");
	assert_ok(pool_snapshot_rename(fix->pool, "v@first", "first", &after, &err), &err);
	assert_int_equal(pool_snapshot_rename(fix->pool, "v@first", "tue", &after, &err),
			 CAIRN_EXISTS);
	assert_int_equal(pool_snapshot_rename(fix->pool, "v@first", "", &after, &err),
			 CAIRN_INVALID);
	poolfix_snapshot(fix, "v", "mon"); /* the old name is free */
	poolfix_check_clean(fix);
}

static void a_name_of_a_deleted_snapshot_is_taken_over(void **state)
{
	struct poolfix *fix = *state;
	struct pool_snapshot tue, after, found;
	struct cairn_err err = {0};

	set_up_line(fix);
	poolfix_snapshot(fix, "v", "wed");
	assert_ok(pool_snapshot_get(fix->pool, "v@tue", &tue, &err), &err);
	assert_ok(pool_snapshot_delete(fix->pool, "v@tue", &err), &err);
	assert_int_equal(pool_snapshot_rename(fix->pool, tue.id, "x", &after, &err),
			 CAIRN_NOT_FOUND);
	assert_ok(pool_snapshot_rename(fix->pool, "v@wed", "tue", &after, &err), &err);
	assert_ok(pool_snapshot_get(fix->pool, "v@tue", &found, &err), &err);
	assert_string_equal(found.id, after.id);
	assert_ok(pool_snapshot_get(fix->pool, tue.id, &found, &err), &err);
	assert_true(found.deleted);
	assert_string_equal(poolfix_delta(fix, tue.id, "v@tue"), "3");
	poolfix_reopen(fix);
	poolfix_check_clean(fix);
}

#define T(f) cmocka_unit_test_setup_teardown(f, poolfix_setup, poolfix_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(a_rollback_gives_the_snapshots_bytes_and_keeps_the_way_back),
		T(every_earlier_snapshot_is_a_base_after_a_rollback),
		T(a_rollback_without_the_way_back_has_right_deltas),
		cmocka_unit_test_setup_teardown(
			lines_stay_related_when_the_snapshot_rolled_to_expires,
			poolfix_setup_impatient, poolfix_teardown),
		T(a_grown_volume_keeps_its_size),
		T(what_cannot_be_rolled_back_stays_as_it_is),
		T(half_a_restore_is_made_whole_by_a_rollback),
		T(the_lock_is_of_the_file_that_has_the_name),
		T(nobody_gets_at_the_new_file_before_the_rollback_is_done),
		T(a_writer_that_comes_during_a_rollback_is_noticed),
		T(short_memory_rolls_back_whole_or_not_at_all),
		T(a_renamed_volume_is_found_by_its_new_name_only),
		T(a_renamed_snapshot_is_found_by_its_new_name_only),
		T(a_name_of_a_deleted_snapshot_is_taken_over),
	};

	return cmocka_run_group_tests_name("pool/rollback", tests, NULL, NULL);
}
