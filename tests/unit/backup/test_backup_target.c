/* SPDX-License-Identifier: Apache-2.0 */

#include "cairntest.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "backup/chunk.h"
#include "backup/restore.h"
#include "backup/source.h"
#include "backup/source_file.h"
#include "backup/target.h"
#include "backup/target_mark.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/io.h"
#include "base/mem.h"
#include "base/process.h"

#define SIZE 10000U

static char scratch[64];
static char path[96];
static char partial[112];

static int make_scratch(void **state)
{
	(void)state;
	scratch_template(scratch, "unit");
	if (!mkdtemp(scratch))
		return -1;
	snprintf(path, sizeof(path), "%s/image", scratch);
	snprintf(partial, sizeof(partial), "%s.b1.partial", path);
	return 0;
}

static int remove_scratch(void **state)
{
	const char *const argv[] = {"rm", "-rf", scratch, NULL};

	(void)state;
	return cairn_run(argv, NULL);
}

static int empty_scratch(void **state)
{
	char pool[96];

	(void)state;
	unlink(path);
	unlink(partial);
	snprintf(pool, sizeof(pool), "%s/pool", scratch);
	return access(pool, F_OK) == 0 ? pool_destroy(pool, NULL) : 0;
}

static int try_new(struct target *ret, struct cairn_err *err)
{
	struct target_spec spec = {.to = path, .size = SIZE, .backup = "b1"};

	return backup_target_open(&spec, ret, err);
}

static struct target open_new(void)
{
	struct target target = TARGET_NONE;
	struct cairn_err err = {0};

	assert_ok(try_new(&target, &err), &err);
	return target;
}

static void put(const char *name, const char *text)
{
	cairn_auto_fd int fd = open(name, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);

	assert_int_equal(cairn_write_full(fd, text, strlen(text)), 0);
}

/* `text` and then zeros, `n` bytes in all. */
static void assert_file(const char *name, const char *text, size_t n)
{
	cairn_auto_free char *data = NULL;
	struct cairn_err err = {0};
	size_t len;

	assert_ok(cairn_file_read(AT_FDCWD, name, 1 << 20, &data, &len, &err), &err);
	assert_int_equal(len, n);
	assert_memory_equal(data, text, strlen(text));
	for (size_t i = strlen(text); i < n; i++)
		assert_int_equal(data[i], 0);
}

static void finish(struct target *target)
{
	struct cairn_err err = {0};

	assert_ok(backup_target_finish(target, &err), &err);
	backup_target_done(target);
}

static void a_new_file_appears_when_it_is_whole(void **state)
{
	struct target target = open_new();
	struct cairn_err err = {0};

	(void)state;
	assert_ok(backup_target_write(&target, "whole", 5, 0, &err), &err);
	assert_int_not_equal(access(path, F_OK), 0);
	finish(&target);
	assert_file(path, "whole", SIZE);
	assert_int_not_equal(access(partial, F_OK), 0);
}

static void what_is_not_finished_is_taken_away(void **state)
{
	struct target target = open_new();

	(void)state;
	backup_target_done(&target);
	assert_int_not_equal(access(path, F_OK), 0);
	assert_int_not_equal(access(partial, F_OK), 0);
}

static void what_a_killed_one_left_is_taken_up(void **state)
{
	struct target target;
	struct cairn_err err = {0};

	(void)state;
	put(partial, "half");
	target = open_new();
	assert_true(target.resumes);
	assert_true(target.unfinished);
	assert_false(target.fresh);
	assert_ok(backup_target_write(&target, "w", 1, 0, &err), &err);
	assert_ok(backup_target_zero(&target, 1, SIZE - 1, &err), &err);
	finish(&target);
	assert_file(path, "w", SIZE);
}

static void a_file_of_the_users_beside_it_is_left_alone(void **state)
{
	char theirs[112];
	struct target target;

	(void)state;
	snprintf(theirs, sizeof(theirs), "%s.partial", path);
	put(theirs, "theirs");
	target = open_new();
	finish(&target);
	assert_file(theirs, "theirs", 6);
	unlink(theirs);
}

static void what_is_left_is_there_and_taken_up(void **state)
{
	struct target target = open_new();
	struct cairn_err err = {0};

	(void)state;
	assert_ok(backup_target_write(&target, "half", 4, 0, &err), &err);
	assert_true(backup_target_leave(&target));
	backup_target_done(&target);
	assert_file(partial, "half", SIZE);
	target = open_new();
	assert_true(target.resumes);
	backup_target_done(&target);
}

static int open_over(const char *backup, bool overwrite, struct target *ret, struct cairn_err *err)
{
	struct target_spec spec = {
		.to = path, .size = SIZE, .backup = backup, .overwrite = overwrite};

	return backup_target_open(&spec, ret, err);
}

/* A restore of backup b1 over "theirs" that wrote all but was not completed. */
static void leave_unfinished(void)
{
	struct target target;
	struct cairn_err err = {0};

	put(path, "theirs");
	assert_ok(open_over("b1", true, &target, &err), &err);
	assert_ok(backup_target_hold(&target, &err), &err);
	assert_ok(backup_target_write(&target, "whole", 5, 0, &err), &err);
	assert_ok(backup_target_zero(&target, 5, SIZE - 5, &err), &err);
	backup_target_done(&target);
}

static void a_file_that_is_written_over_is_marked_until_it_is_whole(void **state)
{
	struct target target;
	struct cairn_err err = {0};

	(void)state;
	leave_unfinished();
	assert_file(path,
		    "cairn: unfinished restore of backup b1\nWhat follows is not whole. The same "
		    "'cairn backup restore' again finishes it.\n",
		    SIZE);
	assert_ok(open_over("b1", false, &target, &err), &err);
	assert_true(target.resumes);
	assert_ok(backup_target_hold(&target, &err), &err);
	assert_ok(backup_target_write(&target, "whole", 5, 0, &err), &err);
	assert_ok(backup_target_mark_replace(&target, &err), &err);
	finish(&target);
	assert_file(path, "whole", SIZE);
}

static void another_backup_does_not_take_up_a_marked_file(void **state)
{
	struct target target = TARGET_NONE;
	struct cairn_err err = {0};

	(void)state;
	leave_unfinished();
	assert_code(open_over("b2", false, &target, &err), CAIRN_EXISTS);
	assert_non_null(strstr(err.msg, "unfinished restore of backup b1"));
	assert_ok(open_over("b2", true, &target, &err), &err);
	assert_true(target.unfinished);
	assert_false(target.resumes);
	backup_target_done(&target);
}

static void a_marked_file_is_not_backed_up(void **state)
{
	struct source_file_spec spec = {.path = path};
	cairn_cleanup(backup_source_closep) struct backup_source *source = NULL;
	struct cairn_err err = {0};

	(void)state;
	leave_unfinished();
	assert_code(backup_source_file(&spec, &source, &err), CAIRN_PRECONDITION);
	assert_non_null(strstr(err.msg, "unfinished restore of backup b1"));
	put(path, "whole");
	assert_ok(backup_source_file(&spec, &source, &err), &err);
}

static void a_file_of_another_size_holds_no_other_image(void **state)
{
	struct target target = TARGET_NONE;
	struct cairn_err err = {0};

	(void)state;
	put(path, "theirs");
	assert_ok(open_over("b1", true, &target, &err), &err);
	assert_ok(backup_target_can_hold(&target, 6, &err), &err);
	assert_code(backup_target_can_hold(&target, 5, &err), CAIRN_PRECONDITION);
	assert_code(backup_target_can_hold(&target, SIZE, &err), CAIRN_PRECONDITION);
	backup_target_done(&target);
}

static void two_do_not_write_over_one_file(void **state)
{
	struct target first, second = TARGET_NONE;
	struct cairn_err err = {0};

	(void)state;
	put(path, "theirs");
	assert_ok(open_over("b1", true, &first, &err), &err);
	assert_code(open_over("b1", true, &second, &err), CAIRN_ABORTED);
	backup_target_done(&first);
	assert_file(path, "theirs", 6);
}

/* Writes of any alignment around the end of what is kept in memory. */
static void the_beginning_is_put_together_from_all_writes(void **state)
{
	static uint8_t want[3 * TARGET_HEAD_BYTES];
	struct target_spec spec = {
		.to = path, .size = sizeof(want), .backup = "b1", .overwrite = true};
	cairn_auto_free char *got = NULL;
	struct target target;
	struct cairn_err err = {0};
	size_t n;

	(void)state;
	for (size_t i = 0; i < sizeof(want); i++)
		want[i] = (uint8_t)(i * 2654435761U >> 16);
	memset(want + 1000, 0, 3000);
	put(path, "theirs");
	assert_ok(backup_target_open(&spec, &target, &err), &err);
	assert_ok(backup_target_hold(&target, &err), &err);
	assert_ok(backup_target_zero(&target, 1000, 3000, &err), &err);
	assert_ok(backup_target_write(&target, want + 4000, sizeof(want) - 4000, 4000, &err), &err);
	assert_ok(backup_target_write(&target, want, 1000, 0, &err), &err);
	assert_ok(backup_target_mark_replace(&target, &err), &err);
	finish(&target);
	assert_ok(cairn_file_read(AT_FDCWD, path, sizeof(want), &got, &n, &err), &err);
	assert_int_equal(n, sizeof(want));
	assert_memory_equal(got, want, n);
}

static void two_do_not_write_one_file(void **state)
{
	struct target first, second = TARGET_NONE;
	struct cairn_err err = {0};

	(void)state;
	assert_ok(try_new(&first, &err), &err);
	assert_code(try_new(&second, &err), CAIRN_ABORTED);
	assert_ok(backup_target_write(&first, "first", 5, 0, &err), &err);
	assert_ok(backup_target_finish(&first, &err), &err);
	backup_target_done(&first);
	assert_file(path, "first", SIZE);
	assert_code(try_new(&second, &err), CAIRN_EXISTS);
}

static void a_file_that_came_meanwhile_stays(void **state)
{
	struct target target = open_new();
	struct cairn_err err = {0};

	(void)state;
	put(path, "theirs");
	assert_code(backup_target_finish(&target, &err), CAIRN_EXISTS);
	backup_target_done(&target);
	assert_file(path, "theirs", 6);
	assert_int_not_equal(access(partial, F_OK), 0);
}

static struct pool *open_pool(void)
{
	static char dir[96];
	struct pool_create_spec make = {.dir = dir, .backend = POOL_BACKEND_COPY};
	struct pool_open_spec spec = {.dir = dir};
	struct pool_create_result made;
	struct pool *pool = NULL;
	struct cairn_err err = {0};

	snprintf(dir, sizeof(dir), "%s/pool", scratch);
	assert_ok(pool_create(&make, &made, &err), &err);
	assert_ok(pool_open(&spec, &pool, &err), &err);
	return pool;
}

static struct target_spec overwriting(struct pool *pool)
{
	return (struct target_spec){.to = "data",
				    .size = 1 << 20,
				    .overwrite = true,
				    .other_volume = true,
				    .backup = "b1",
				    .pool = pool};
}

/* Whoever attaches it waits for that lock, for half a minute. */
static void assert_file_is_locked(struct pool *pool)
{
	cairn_auto_free char *file = NULL;
	cairn_auto_fd int fd = -1;
	struct cairn_err err = {0};

	assert_ok(pool_volume_path(pool, "data", &file, &err), &err);
	fd = open(file, O_RDONLY | O_CLOEXEC);
	assert_int_equal(flock(fd, LOCK_EX | LOCK_NB), -1);
	assert_int_equal(errno, EWOULDBLOCK);
}

static void nobody_is_at_a_volume_that_is_restored_to(void **state)
{
	cairn_cleanup(pool_closep) struct pool *pool = open_pool();
	struct target_spec spec = overwriting(pool);
	struct pool_volume volume;
	struct cairn_err err = {0};

	(void)state;
	for (int turn = 0; turn < 2; turn++) { /* a new one, and that again */
		struct target target = TARGET_NONE;

		assert_ok(backup_target_open(&spec, &target, &err), &err);
		assert_int_equal(target.fresh, turn == 0);
		assert_ok(backup_target_hold(&target, &err), &err);
		assert_file_is_locked(pool);
		assert_code(pool_volume_delete(pool, "data", POOL_DELETE_REFUSE, &err),
			    CAIRN_ABORTED);
		assert_code(pool_volume_expand(pool, "data", 2 << 20, &volume, &err),
			    CAIRN_ABORTED);
		assert_ok(backup_target_write(&target, "data", 4, 0, &err), &err);
		assert_ok(backup_target_finish(&target, &err), &err);
		backup_target_done(&target);
	}
	assert_ok(pool_volume_delete(pool, "data", POOL_DELETE_REFUSE, &err), &err);
}

/* As a rollback does it. */
static void replace_volume_file(struct pool *pool)
{
	cairn_auto_free char *disk = NULL;
	cairn_auto_free char *other = NULL;
	struct cairn_err err = {0};
	int fd;

	assert_ok(pool_volume_path(pool, "data", &disk, &err), &err);
	other = cairn_printf("%s/other", scratch);
	fd = open(other, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, 1 << 20), 0);
	close(fd);
	assert_int_equal(rename(other, disk), 0);
}

static void nothing_is_restored_to_a_file_that_lost_its_name(void **state)
{
	cairn_cleanup(pool_closep) struct pool *pool = open_pool();
	cairn_cleanup(backup_target_done) struct target target = TARGET_NONE;
	struct pool_volume_spec make = {.name = "data", .size = 1 << 20};
	struct target_spec spec = overwriting(pool);
	struct pool_volume volume;
	struct cairn_err err = {0};

	(void)state;
	assert_ok(pool_volume_create(pool, &make, &volume, &err), &err);
	assert_ok(backup_target_open(&spec, &target, &err), &err);
	replace_volume_file(pool);
	assert_code(backup_target_hold(&target, &err), CAIRN_ABORTED);
}

static void a_volume_that_is_not_finished_is_taken_away(void **state)
{
	cairn_cleanup(pool_closep) struct pool *pool = open_pool();
	struct target_spec spec = {.to = "data", .size = 1 << 20, .backup = "b1"};
	struct target target = TARGET_NONE;
	struct pool_volume volume;
	struct cairn_err err = {0};

	(void)state;
	spec.pool = pool;
	assert_ok(backup_target_open(&spec, &target, &err), &err);
	backup_target_done(&target);
	assert_code(pool_volume_get(pool, "data", &volume, &err), CAIRN_NOT_FOUND);
}

#define DELETER_WAIT_MS 60000U

static void *take_away(void *arg)
{
	backup_target_done(arg);
	return NULL;
}

/* Two restores of one backup to a new volume: the one that waits for the file must not
 * take up the volume that the other is about to delete. */
static void a_volume_that_is_taken_away_is_not_taken_up(void **state)
{
	cairn_cleanup(pool_closep) struct pool *pool = open_pool();
	cairn_cleanup(pool_closep) struct pool *deleter = NULL;
	struct target_spec spec = {.to = "data", .size = 1 << 20, .backup = "b1"};
	struct target target = TARGET_NONE;
	cairn_auto_fd int lock = -1;
	struct pool_volume volume;
	struct cairn_err err = {0};
	char dir[96];
	pthread_t thread;

	(void)state;
	snprintf(dir, sizeof(dir), "%s/pool", scratch);
	assert_ok(pool_open(&(struct pool_open_spec){.dir = dir, .lock_wait_ms = DELETER_WAIT_MS},
			    &deleter, &err),
		  &err);
	spec.pool = deleter;
	assert_ok(backup_target_open(&spec, &target, &err), &err);
	assert_ok(pool_volume_lock(pool, "data", &lock, &err), &err);
	assert_int_equal(pthread_create(&thread, NULL, take_away, &target), 0);
	for (int i = 0; i < 20; i++) { /* the deletion waits for our lock */
		assert_file_is_locked(pool);
		cairn_sleep_ms(5);
	}
	cairn_closep(&lock);
	assert_int_equal(pthread_join(thread, NULL), 0);
	assert_code(pool_volume_get(pool, "data", &volume, &err), CAIRN_NOT_FOUND);
}

static void zeros_behind_the_end_are_not_verified(void **state)
{
	static const struct {
		off_t size;
		int code;
	} cases[] = {{SIZE, 0}, {SIZE + 1, 0}, {SIZE - 1, CAIRN_DATA_LOSS}, {0, CAIRN_DATA_LOSS}};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct chunk_map map = {0};
		struct target target;
		struct cairn_err err = {0};

		target = open_new();
		assert_ok(backup_chunk_map_add(&map, CHUNK_ZERO, NULL, SIZE, &err), &err);
		assert_int_equal(ftruncate(target.fd, cases[i].size), 0);
		assert_int_equal(backup_restore_verify(&target, &map, 1, NULL, &err),
				 cases[i].code);
		backup_target_done(&target);
		backup_chunk_map_done(&map);
	}
}

#define in_scratch(test) cmocka_unit_test_teardown(test, empty_scratch)

int main(void)
{
	const struct CMUnitTest tests[] = {
		in_scratch(a_new_file_appears_when_it_is_whole),
		in_scratch(what_is_not_finished_is_taken_away),
		in_scratch(what_a_killed_one_left_is_taken_up),
		in_scratch(a_file_of_the_users_beside_it_is_left_alone),
		in_scratch(what_is_left_is_there_and_taken_up),
		in_scratch(a_file_that_is_written_over_is_marked_until_it_is_whole),
		in_scratch(another_backup_does_not_take_up_a_marked_file),
		in_scratch(a_marked_file_is_not_backed_up),
		in_scratch(a_file_of_another_size_holds_no_other_image),
		in_scratch(two_do_not_write_over_one_file),
		in_scratch(the_beginning_is_put_together_from_all_writes),
		in_scratch(two_do_not_write_one_file),
		in_scratch(a_file_that_came_meanwhile_stays),
		in_scratch(nobody_is_at_a_volume_that_is_restored_to),
		in_scratch(nothing_is_restored_to_a_file_that_lost_its_name),
		in_scratch(a_volume_that_is_not_finished_is_taken_away),
		in_scratch(a_volume_that_is_taken_away_is_not_taken_up),
		in_scratch(zeros_behind_the_end_are_not_verified),
	};

	return cmocka_run_group_tests_name("backup/target", tests, make_scratch, remove_scratch);
}
