/* SPDX-License-Identifier: Apache-2.0 */

#include "cairntest.h"

#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "pool/catalogue/front_end_note.h"
#include "pool/snapshot_temporary.h"
#include "poolfix.h"

static const char *const both[] = {"data", "logs"};

static int count_one(void *arg, const struct pool_snapshot *snapshot, struct cairn_err *err)
{
	(void)snapshot;
	(void)err;
	++*(int *)arg;
	return 0;
}

static int live(struct poolfix *fix)
{
	struct pool_snapshot_list_spec spec = {0};
	struct cairn_err err = {0};
	int n = 0;

	assert_ok(pool_snapshot_list(fix->pool, &spec, count_one, &n, &err), &err);
	return n;
}

static int count_note(void *arg, const char *key, struct pool_note value, struct cairn_err *err)
{
	(void)key;
	(void)value;
	(void)err;
	++*(int *)arg;
	return 0;
}

static int notes(struct poolfix *fix)
{
	struct cairn_err err = {0};
	int n = 0;

	assert_ok(pool_note_scan(fix->pool, "temporary/", count_note, &n, &err), &err);
	return n;
}

static int setup(void **state)
{
	struct cairn_err err = {0};
	struct pool_volume volume;
	struct poolfix *fix;

	if (poolfix_setup(state))
		return -1;
	fix = *state;
	for (size_t i = 0; i < ARRAY_LEN(both); i++)
		assert_ok(
			pool_volume_create(fix->pool,
					   &(struct pool_volume_spec){.name = both[i], .size = MIB},
					   &volume, &err),
			&err);
	return 0;
}

static uint64_t sweep(struct poolfix *fix)
{
	struct cairn_err err = {0};
	uint64_t deleted = 0;

	assert_ok(pool_temporary_sweep(fix->pool, &deleted, &err), &err);
	return deleted;
}

static void they_have_one_name_and_go_one_by_one(void **state)
{
	struct poolfix *fix = *state;
	struct pool_temporary *t = NULL;
	struct pool_snapshot made[2];
	struct cairn_err err = {0};

	assert_ok(pool_temporary_cut(fix->pool, both, 2, "backup", made, &t, &err), &err);
	assert_string_equal(made[0].name, made[1].name);
	assert_int_equal(strncmp(made[0].name, "backup-", 7), 0);
	assert_int_equal(live(fix), 2);
	assert_int_equal(notes(fix), 1);
	assert_ok(pool_temporary_release(t, 0, false, &err), &err);
	assert_int_equal(live(fix), 1);
	assert_ok(pool_temporary_release(t, 1, true, &err), &err);
	assert_int_equal(notes(fix), 0);
	pool_temporary_free(t);
	assert_int_equal(live(fix), 1);
	assert_int_equal(sweep(fix), 0);
	poolfix_check_clean(fix);
}

static void those_of_a_process_that_lives_are_not_swept(void **state)
{
	struct poolfix *fix = *state;
	struct pool_temporary *t = NULL;
	struct pool_snapshot made;
	struct cairn_err err = {0};

	assert_ok(pool_temporary_cut(fix->pool, both, 1, "backup", &made, &t, &err), &err);
	assert_int_equal(sweep(fix), 0);
	assert_int_equal(live(fix), 1);
	pool_temporary_free(t);
	assert_int_equal(live(fix), 0);
	assert_int_equal(notes(fix), 0);
}

static void those_of_a_process_that_lives_are_in_use(void **state)
{
	struct poolfix *fix = *state;
	struct pool_temporary *t = NULL;
	struct pool_snapshot made[2];
	struct cairn_err err = {0};
	bool used = false;

	assert_ok(pool_temporary_cut(fix->pool, both, 2, "backup", made, &t, &err), &err);
	for (size_t i = 0; i < 2; i++) {
		assert_ok(pool_snapshot_in_use(fix->pool, made[i].id, &used, &err), &err);
		assert_true(used);
	}
	assert_ok(pool_temporary_release(t, 1, true, &err), &err);
	assert_ok(pool_snapshot_in_use(fix->pool, made[1].id, &used, &err), &err);
	assert_false(used);
	assert_ok(pool_snapshot_in_use(fix->pool, made[0].id, &used, &err), &err);
	assert_true(used);
	pool_temporary_free(t);
}

static void those_of_a_process_that_died_are(void **state)
{
	struct poolfix *fix = *state;
	struct pool_snapshot made[2];
	int status = 0;
	pid_t child;

	pool_close(fix->pool);
	child = fork();
	if (child == 0) {
		struct pool_open_spec spec = {.dir = fix->dir, .lock_wait_ms = 60000};
		struct pool_temporary *t = NULL;
		struct pool *pool = NULL;

		_exit(pool_open(&spec, &pool, NULL) ||
		      pool_temporary_cut(pool, both, 2, "backup", made, &t, NULL));
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	fix->pool = NULL;
	poolfix_reopen(fix);
	assert_int_equal(live(fix), 2);
	poolfix_check_clean(fix);
	assert_int_equal(sweep(fix), 2);
	assert_int_equal(live(fix), 0);
	assert_int_equal(notes(fix), 0);
	poolfix_check_clean(fix);
}

static void what_cannot_be_cut_leaves_nothing(void **state)
{
	static const char *const odd[] = {"data", "none"};
	struct poolfix *fix = *state;
	struct pool_temporary *t = NULL;
	struct pool_snapshot made[2];
	struct cairn_err err = {0};

	assert_code(pool_temporary_cut(fix->pool, odd, 2, "backup", made, &t, &err),
		    CAIRN_NOT_FOUND);
	assert_code(pool_temporary_cut(fix->pool, both, 0, "backup", made, &t, &err),
		    CAIRN_INVALID);
	assert_code(
		pool_temporary_cut(fix->pool, both, POOL_GROUP_MAX + 1, "backup", made, &t, &err),
		CAIRN_INVALID);
	assert_int_equal(live(fix), 0);
	assert_int_equal(notes(fix), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(they_have_one_name_and_go_one_by_one, setup,
						poolfix_teardown),
		cmocka_unit_test_setup_teardown(those_of_a_process_that_lives_are_not_swept, setup,
						poolfix_teardown),
		cmocka_unit_test_setup_teardown(those_of_a_process_that_lives_are_in_use, setup,
						poolfix_teardown),
		cmocka_unit_test_setup_teardown(those_of_a_process_that_died_are, setup,
						poolfix_teardown),
		cmocka_unit_test_setup_teardown(what_cannot_be_cut_leaves_nothing, setup,
						poolfix_teardown),
	};

	return cmocka_run_group_tests_name("pool/snapshot_temporary", tests, NULL, NULL);
}
