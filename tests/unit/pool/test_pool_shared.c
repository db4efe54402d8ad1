/* SPDX-License-Identifier: Apache-2.0 */

#include "cairntest.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "poolfix.h"

#define WORKERS 4
#define ROUNDS  6

/* What a worker may meet when others are at the same volume; anything else is a
 * bug. */
static bool is_fine(int rc)
{
	return rc == 0 || rc == CAIRN_ABORTED || rc == CAIRN_EXISTS || rc == CAIRN_NOT_FOUND;
}

static int snapshot(struct pool *pool, const char *volume, const char *name, struct cairn_err *err)
{
	struct pool_snapshot_spec spec = {.volume = volume, .name = name};
	struct pool_snapshot made;
	int rc = pool_snapshot_create(pool, &spec, 1, &made, err);

	return rc ? rc : pool_snapshot_complete(pool, made.id, NULL, err);
}

/* Own snapshots on the common volume, clones, a name that all fight for. */
static int work(struct pool *pool, unsigned worker, struct cairn_err *err)
{
	char name[32];
	char full[64];
	struct pool_volume volume;
	int rc = 0;

	for (unsigned round = 0; round < ROUNDS && is_fine(rc); round++) {
		struct pool_volume_spec clone = {.name = name, .from = "common"};

		snprintf(name, sizeof(name), "w%u-%u", worker, round);
		snprintf(full, sizeof(full), "common@%s", name);
		rc = snapshot(pool, "common", name, err);
		if (is_fine(rc))
			rc = snapshot(pool, "common", "fought-for", err);
		if (is_fine(rc))
			rc = pool_volume_create(pool, &clone, &volume, err);
		if (is_fine(rc))
			rc = pool_snapshot_delete(pool, "common@fought-for", err);
		if (is_fine(rc) && round % 2)
			rc = pool_snapshot_delete(pool, full, err);
		if (is_fine(rc) && round % 3 == 1)
			rc = pool_volume_delete(pool, name, POOL_DELETE_REFUSE, err);
	}
	return is_fine(rc) ? 0 : rc;
}

static void make_common(struct poolfix *fix)
{
	struct pool_volume_spec spec = {.name = "common", .size = MIB};
	struct pool_volume volume;
	struct cairn_err err = {0};

	assert_ok(pool_volume_create(fix->pool, &spec, &volume, &err), &err);
	poolfix_write(fix, "common", 1, 'x');
}

static void processes_share_a_pool(void **state)
{
	struct poolfix *fix = *state;
	pid_t pids[WORKERS];

	make_common(fix);
	for (unsigned i = 0; i < WORKERS; i++) {
		pids[i] = fork();
		assert_true(pids[i] >= 0);
		if (pids[i] == 0) {
			struct pool_open_spec spec = {.dir = fix->dir, .lock_wait_ms = 60000};
			struct pool *pool = NULL;
			struct cairn_err err = {0};
			int rc = pool_open(&spec, &pool, &err);

			if (!rc)
				rc = work(pool, i, &err);
			if (rc)
				fprintf(stderr, "worker %u: %s\n", i, err.msg);
			_exit(rc ? 1 : 0);
		}
	}
	for (unsigned i = 0; i < WORKERS; i++) {
		int status;

		assert_int_equal(waitpid(pids[i], &status, 0), pids[i]);
		assert_int_equal(status, 0);
	}
	poolfix_reopen(fix);
	poolfix_check_clean(fix);
}

struct thread_work {
	struct pool *pool;
	unsigned worker;
	struct cairn_err err;
	int rc;
};

static void *run_thread(void *arg)
{
	struct thread_work *thread = arg;

	thread->rc = work(thread->pool, thread->worker, &thread->err);
	return NULL;
}

static void threads_share_a_handle(void **state)
{
	struct poolfix *fix = *state;
	struct thread_work threads[WORKERS] = {0};
	pthread_t ids[WORKERS];

	make_common(fix);
	for (unsigned i = 0; i < WORKERS; i++) {
		threads[i].pool = fix->pool;
		threads[i].worker = i;
		assert_int_equal(pthread_create(&ids[i], NULL, run_thread, &threads[i]), 0);
	}
	for (unsigned i = 0; i < WORKERS; i++) {
		pthread_join(ids[i], NULL);
		assert_ok(threads[i].rc, &threads[i].err);
	}
	poolfix_reopen(fix);
	poolfix_check_clean(fix);
}

#define POOL_TEST(fn)                                                         \
	cmocka_unit_test_setup_teardown(fn, poolfix_setup, poolfix_teardown), \
		cmocka_unit_test_setup_teardown(fn, poolfix_setup_impatient, poolfix_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		POOL_TEST(processes_share_a_pool),
		POOL_TEST(threads_share_a_handle),
	};

	return cmocka_run_group_tests_name("pool/shared", tests, NULL, NULL);
}
