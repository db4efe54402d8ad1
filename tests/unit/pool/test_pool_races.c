/* SPDX-License-Identifier: Apache-2.0 */

/* Operations that meet on one pool: each test puts two of them where they once
 * broke one another. */

#include "cairntest.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "pool/catalogue/catalogue.h"
#include "pool/catalogue/ids.h"
#include "pool/catalogue/records.h"
#include "pool/cleanup_queue.h"
#include "pool/pool_impl.h"
#include "poolfix.h"

#define LONG_WAIT_MS 60000

static struct pool *open_again(const struct poolfix *fix)
{
	struct pool_open_spec spec = {.dir = fix->dir, .lock_wait_ms = LONG_WAIT_MS};
	struct pool *pool = NULL;
	struct cairn_err err = {0};

	assert_ok(pool_open(&spec, &pool, &err), &err);
	return pool;
}

static void make(struct poolfix *fix, const char *name, const char *from)
{
	struct pool_volume_spec spec = {.name = name, .size = from ? 0 : 64 * KIB, .from = from};
	struct pool_volume volume;
	struct cairn_err err = {0};

	assert_ok(pool_volume_create(fix->pool, &spec, &volume, &err), &err);
}

static int cut(struct pool *pool, const char *volume, const char *name, struct pool_snapshot *ret,
	       struct cairn_err *err)
{
	struct pool_snapshot_spec spec = {.volume = volume, .name = name};

	return pool_snapshot_create(pool, &spec, 1, ret, err);
}

static void drop(struct poolfix *fix, const char *snapshot)
{
	struct cairn_err err = {0};

	assert_ok(pool_snapshot_delete(fix->pool, snapshot, &err), &err);
}

/* ---- one operation without end, on another thread ------------------------ */

struct looper {
	struct pool *pool;
	pthread_t thread;
	atomic_bool stop;
	int rc;
	struct cairn_err err;
};

static struct looper looper;

static void *expire_on(void *arg)
{
	size_t merged;

	(void)arg;
	while (!atomic_load(&looper.stop) && !looper.rc)
		looper.rc = pool_expire(looper.pool, 1000, &merged, &looper.err);
	return NULL;
}

/* Both wait for a lock that the other holds. */
static void loop_start(struct poolfix *fix, void *(*fn)(void *))
{
	pool_closep(&fix->pool);
	fix->pool = open_again(fix);
	looper = (struct looper){.pool = open_again(fix)};
	assert_int_equal(pthread_create(&looper.thread, NULL, fn, NULL), 0);
}

static void expirer_start(struct poolfix *fix)
{
	loop_start(fix, expire_on);
}

static void looper_end(void)
{
	atomic_store(&looper.stop, true);
	if (looper.pool)
		pthread_join(looper.thread, NULL);
	pool_closep(&looper.pool);
	looper.pool = NULL;
}

static void looper_stop(void)
{
	looper_end();
	assert_ok(looper.rc, &looper.err);
}

/* Also after a test that failed in the middle. */
static int teardown(void **state)
{
	looper_end();
	return poolfix_teardown(state);
}

/* ---- tests --------------------------------------------------------------- */

static uint64_t number_of(const struct pool_snapshot *snapshot)
{
	uint64_t volume;
	uint64_t number = 0;

	assert_true(pool_ids_parse_snapshot(snapshot->id, &volume, &number));
	return number;
}

static void *close_soon(void *arg)
{
	cairn_sleep_ms(1500);
	close(*(int *)arg);
	return NULL;
}

/* The merge of T waits for the set of one clone's snapshot, which the test holds
 * up; meanwhile another clone's snapshot comes to depend on T. */
static void a_merge_sees_the_successor_that_came_meanwhile(void **state)
{
	struct pool_volume_settings settings = {.set_retention = true, .retention_ms = 500};
	struct poolfix *fix = *state;
	struct pool_snapshot held, late;
	struct pool_volume volume;
	struct cairn_err err = {0};
	pthread_t closer;
	int set_lock = -1;

	make(fix, "v", NULL);
	assert_ok(pool_volume_modify(fix->pool, "v", &settings, &volume, &err), &err);
	poolfix_write(fix, "v", 1, 'a');
	poolfix_snapshot(fix, "v", "t");
	make(fix, "a", "v@t");
	make(fix, "b", "v@t");
	poolfix_write(fix, "a", 2, 'b');
	poolfix_write(fix, "b", 3, 'c');
	drop(fix, "v@t");
	assert_ok(cut(fix->pool, "a", "held", &held, &err), &err);
	assert_ok(pool_impl_lock_set(fix->pool, number_of(&held), 0, &set_lock, &err), &err);
	expirer_start(fix);
	assert_int_equal(pthread_create(&closer, NULL, close_soon, &set_lock), 0);
	cairn_sleep_ms(900); /* T expires, and its merge waits for the set */
	assert_ok(cut(fix->pool, "b", "late", &late, &err), &err);
	pthread_join(closer, NULL);
	assert_ok(pool_snapshot_complete(fix->pool, held.id, NULL, &err), &err);
	cairn_sleep_ms(100);
	looper_stop();
	assert_ok(pool_snapshot_complete(fix->pool, late.id, NULL, &err), &err);
	poolfix_write(fix, "b", 4, 'd');
	poolfix_snapshot(fix, "b", "next");
	assert_string_equal(poolfix_delta(fix, "b@late", "b@next"), "4");
	poolfix_check_clean(fix);
	assert_ok(pool_volume_delete(fix->pool, "b", POOL_DELETE_SNAPSHOTS, &err), &err);
}

/* A volume "v" beside a thread that expires what can expire. */
static struct poolfix *expiring_start(void **state)
{
	struct poolfix *fix = *state;

	make(fix, "v", NULL);
	expirer_start(fix);
	return fix;
}

static void expiring_stop(struct poolfix *fix)
{
	looper_stop();
	poolfix_check_clean(fix);
}

/* The i-th clone of volume "v", whose snapshot expires at once. */
static void clone_of_expiring(struct poolfix *fix, unsigned i, char clone[32])
{
	char snapshot[32];

	snprintf(snapshot, sizeof(snapshot), "v@s%u", i);
	snprintf(clone, 32, "c%u", i);
	poolfix_snapshot(fix, "v", snapshot + 2);
	make(fix, clone, snapshot);
	drop(fix, snapshot);
}

static void a_clone_is_cut_while_its_head_expires(void **state)
{
	struct poolfix *fix = expiring_start(state);
	struct cairn_err err = {0};

	for (unsigned i = 0; i < 24; i++) {
		struct pool_snapshot made;
		char clone[32];

		clone_of_expiring(fix, i, clone);
		assert_ok(cut(fix->pool, clone, "first", &made, &err), &err);
		assert_ok(pool_snapshot_complete(fix->pool, made.id, NULL, &err), &err);
	}
	expiring_stop(fix);
}

static void a_volume_is_cloned_while_snapshots_expire(void **state)
{
	struct poolfix *fix = expiring_start(state);

	for (unsigned i = 0; i < 24; i++) {
		char clone[32];

		snprintf(clone, sizeof(clone), "c%u", i);
		make(fix, clone, "v");
	}
	expiring_stop(fix);
}

/* Settings of a clone change while its head expires on another volume. */
static void a_clone_is_changed_while_its_head_expires(void **state)
{
	struct poolfix *fix = expiring_start(state);
	struct cairn_err err = {0};

	for (unsigned i = 0; i < 12; i++) {
		struct pool_volume_settings settings = {.set_retention = true};
		struct pool_volume volume;
		char clone[32];

		clone_of_expiring(fix, i, clone);
		for (unsigned j = 1; j < 6; j++) {
			settings.retention_ms = j;
			assert_ok(pool_volume_modify(fix->pool, clone, &settings, &volume, &err),
				  &err);
		}
		assert_ok(pool_volume_delete(fix->pool, clone, POOL_DELETE_REFUSE, &err), &err);
	}
	expiring_stop(fix);
}

/* Opens for writing and closes, without end: the kernel signals the holder of a
 * lease on the file. */
static _Noreturn void open_on(const char *path)
{
	for (;;) {
		int fd = open(path, O_WRONLY | O_CLOEXEC);

		if (fd >= 0)
			close(fd);
	}
}

static void a_writer_comes_while_a_volume_is_cut(void **state)
{
	struct poolfix *fix = *state;
	cairn_auto_free char *path = NULL;
	struct cairn_err err = {0};
	pid_t pid;

	make(fix, "v", NULL);
	assert_ok(pool_volume_path(fix->pool, "v", &path, &err), &err);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0)
		open_on(path);
	for (unsigned i = 0; i < 60; i++) {
		struct pool_snapshot made;
		int rc = cut(fix->pool, "v", "s", &made, &err);

		if (rc == 0)
			drop(fix, "v@s");
		else
			assert_code(rc, CAIRN_ABORTED);
	}
	kill(pid, SIGKILL);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
}

#define DELTA_SNAPSHOTS 30

static void a_delta_answers_while_sets_are_merged(void **state)
{
	struct poolfix *fix = *state;

	make(fix, "v", NULL);
	for (unsigned round = 0; round < 2; round++) {
		char name[32], first[32], last[32];

		snprintf(first, sizeof(first), "v@r%u-0", round);
		snprintf(last, sizeof(last), "v@r%u-%u", round, DELTA_SNAPSHOTS - 1);
		for (unsigned i = 0; i < DELTA_SNAPSHOTS; i++) {
			poolfix_write(fix, "v", i % 16, (int)(1 + i + 50 * round));
			snprintf(name, sizeof(name), "r%u-%u", round, i);
			poolfix_snapshot(fix, "v", name);
		}
		expirer_start(fix);
		for (unsigned i = 1; i + 1 < DELTA_SNAPSHOTS; i++) {
			snprintf(name, sizeof(name), "v@r%u-%u", round, i);
			drop(fix, name);
			for (unsigned j = 0; j < 20; j++)
				assert_string_equal(poolfix_delta(fix, first, last), "0-15");
		}
		looper_stop();
	}
	poolfix_check_clean(fix);
}

/* ---- many at once -------------------------------------------------------- */

#define CROWD  300
#define CLONES 160 /* they are made one after the other */

struct one_of_many {
	struct poolfix *fix;
	pthread_barrier_t *start;
	unsigned index;
	int rc;
	struct cairn_err err;
};

static void *cut_own_volume(void *arg)
{
	struct one_of_many *one = arg;
	struct pool_snapshot made;
	char volume[32];

	snprintf(volume, sizeof(volume), "v%u", one->index);
	pthread_barrier_wait(one->start);
	one->rc = cut(one->fix->pool, volume, "s", &made, &one->err);
	return NULL;
}

static void run_crowd(struct poolfix *fix, unsigned n, void *(*fn)(void *))
{
	static struct one_of_many crowd[CROWD];
	pthread_t threads[CROWD];
	pthread_barrier_t start;

	pthread_barrier_init(&start, NULL, n);
	for (unsigned i = 0; i < n; i++) {
		crowd[i] = (struct one_of_many){.fix = fix, .start = &start, .index = i};
		assert_int_equal(pthread_create(&threads[i], NULL, fn, &crowd[i]), 0);
	}
	for (unsigned i = 0; i < n; i++)
		pthread_join(threads[i], NULL);
	pthread_barrier_destroy(&start);
	for (unsigned i = 0; i < n; i++)
		assert_ok(crowd[i].rc, &crowd[i].err);
}

static void *make_one_of_many(struct one_of_many *one, struct pool_volume_spec spec)
{
	struct pool_volume volume;
	char name[32];

	snprintf(name, sizeof(name), "v%u", one->index);
	spec.name = name;
	pthread_barrier_wait(one->start);
	one->rc = pool_volume_create(one->fix->pool, &spec, &volume, &one->err);
	return NULL;
}

static void *make_own_volume(void *arg)
{
	return make_one_of_many(arg, (struct pool_volume_spec){.size = 4 * KIB});
}

static void *clone_source(void *arg)
{
	return make_one_of_many(arg, (struct pool_volume_spec){.from = "source@s"});
}

static void a_crowd_of_volumes_is_cut_at_once(void **state)
{
	struct poolfix *fix = *state;

	run_crowd(fix, CROWD, make_own_volume);
	run_crowd(fix, CROWD, cut_own_volume);
}

/* All of them have the same head, of another volume. */
static void a_crowd_of_clones_is_cut_at_once(void **state)
{
	struct poolfix *fix = *state;

	pool_closep(&fix->pool);
	fix->pool = open_again(fix); /* they wait for the source's lock */
	make(fix, "source", NULL);
	poolfix_snapshot(fix, "source", "s");
	run_crowd(fix, CLONES, clone_source);
	run_crowd(fix, CLONES, cut_own_volume);
}

#define MANY_SETS   60
#define MANY_DELTAS 64
#define DESCRIPTORS 300

struct delta_thread {
	struct pool *pool;
	pthread_barrier_t *all_open;
	int rc;
	struct cairn_err err;
};

static void *hold_delta(void *arg)
{
	struct delta_thread *self = arg;
	struct pool_delta_spec spec = {.base = "v@s0", .target = "v@last"};
	cairn_cleanup(pool_delta_freep) struct pool_delta *delta = NULL;
	struct block_extent extent;
	size_t n = 1;

	self->rc = pool_delta_open(self->pool, &spec, &delta, &self->err);
	pthread_barrier_wait(self->all_open);
	while (!self->rc && n > 0)
		self->rc = pool_delta_next(delta, &extent, 1, &n, &self->err);
	return NULL;
}

/* In a process of its own, whose limit is lowered for good. */
static int run_many_deltas(const char *dir)
{
	struct rlimit limit = {DESCRIPTORS, DESCRIPTORS};
	struct pool_open_spec spec = {.dir = dir};
	static struct delta_thread deltas[MANY_DELTAS];
	pthread_t threads[MANY_DELTAS];
	pthread_barrier_t all_open;
	struct pool *pool = NULL;
	struct cairn_err err = {0};
	int failed = 0;

	if (setrlimit(RLIMIT_NOFILE, &limit) < 0 || pool_open(&spec, &pool, &err) != 0)
		return 2;
	pthread_barrier_init(&all_open, NULL, MANY_DELTAS);
	for (unsigned i = 0; i < MANY_DELTAS; i++) {
		deltas[i] = (struct delta_thread){.pool = pool, .all_open = &all_open};
		if (pthread_create(&threads[i], NULL, hold_delta, &deltas[i]) != 0)
			return 3;
	}
	for (unsigned i = 0; i < MANY_DELTAS; i++) {
		pthread_join(threads[i], NULL);
		if (deltas[i].rc && failed++ == 0)
			fprintf(stderr, "delta: %s\n", deltas[i].err.msg);
	}
	pool_close(pool);
	return failed ? 1 : 0;
}

static void many_deltas_need_few_descriptors(void **state)
{
	struct poolfix *fix = *state;
	pid_t pid;
	int status;

	make(fix, "v", NULL);
	for (unsigned i = 0; i < MANY_SETS; i++) {
		char name[32];

		snprintf(name, sizeof(name), "s%u", i);
		poolfix_write(fix, "v", i % 16, (int)('a' + i % 26));
		poolfix_snapshot(fix, "v", name);
	}
	poolfix_snapshot(fix, "v", "last");
	pool_closep(&fix->pool);
	fix->pool = NULL;
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0)
		_exit(run_many_deltas(fix->dir));
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	poolfix_reopen(fix);
}

/* ---- leftovers ----------------------------------------------------------- */

static void *settle_on(void *arg)
{
	(void)arg;
	while (!atomic_load(&looper.stop) && !looper.rc)
		looper.rc =
			pool_cleanup_settle(looper.pool, "set-7-1", LEFTOVER_NO_LOCK, &looper.err);
	return NULL;
}

/* A maker that is killed between the file and the commit leaves both the file and
 * the note: whoever settles an older note must not take this one off. */
static void a_note_stays_while_its_file_does(void **state)
{
	struct poolfix *fix = *state;
	struct cairn_err err = {0};

	make(fix, "v", NULL); /* and the reserve: without it each commit opens the catalogue */
	loop_start(fix, settle_on);
	for (unsigned i = 0; i < 100; i++) {
		int lock = -1;
		int fd;
		bool listed = false;

		assert_ok(pool_impl_lock_set(fix->pool, 7, LONG_WAIT_MS, &lock, &err), &err);
		assert_ok(pool_cleanup_note(fix->pool, "set-7-1", &err), &err);
		fd = openat(fix->pool->root_fd, "sets/set-7-1", O_WRONLY | O_CREAT | O_CLOEXEC,
			    0600);
		assert_true(fd >= 0);
		close(fd);
		close(lock);
		cairn_sleep_ms(1);
		assert_ok(pool_impl_lock_set(fix->pool, 7, LONG_WAIT_MS, &lock, &err), &err);
		assert_ok(pool_cleanup_is_listed(fix->pool, "set-7-1", &listed, &err), &err);
		if (!listed)
			assert_int_equal(faccessat(fix->pool->root_fd, "sets/set-7-1", F_OK, 0),
					 -1);
		close(lock);
	}
	looper_stop();
}

static const char *watched_dir; /* what rmdir() of it waits for */
static atomic_bool is_created;
static int create_rc;
static pthread_t creator;

static void *create_copy(void *arg)
{
	struct pool_create_spec spec = {.dir = arg, .backend = POOL_BACKEND_COPY};
	struct pool_create_result made;

	create_rc = pool_create(&spec, &made, NULL);
	is_created = true;
	return NULL;
}

/* Gives another process the time to make a pool before the directory goes. */
int rmdir(const char *path)
{
	if (watched_dir && strcmp(path, watched_dir) == 0) {
		char *dir = (char *)(uintptr_t)watched_dir;

		watched_dir = NULL;
		assert_int_equal(pthread_create(&creator, NULL, create_copy, dir), 0);
		for (int i = 0; i < 300 && !is_created; i++)
			cairn_sleep_ms(1);
	}
	return unlinkat(AT_FDCWD, path, AT_REMOVEDIR);
}

static void a_pool_is_made_while_another_goes(void **state)
{
	struct poolfix *fix = *state;
	struct cairn_err err = {0};
	char dir[256];

	snprintf(dir, sizeof(dir), "%s-other", fix->dir);
	create_copy(dir);
	assert_int_equal(create_rc, 0);
	is_created = false;
	watched_dir = dir;
	assert_ok(pool_destroy(dir, &err), &err);
	pthread_join(creator, NULL);
	assert_int_equal(create_rc, 0);
	assert_ok(pool_destroy(dir, &err), &err);
	assert_int_equal(access(dir, F_OK), -1);
}

static const char *link_target; /* that the owner of a pool puts in place of a new directory */
static char link_name[64];

/* NOLINTNEXTLINE(readability-inconsistent-declaration-parameter-name) */
int mkdirat(int dir_fd, const char *name, mode_t mode)
{
	long rc = syscall(SYS_mkdirat, dir_fd, name, mode);

	if (rc == 0 && link_target && strstr(name, ".new")) {
		assert_int_equal(unlinkat(dir_fd, name, AT_REMOVEDIR), 0);
		assert_int_equal(symlinkat(link_target, dir_fd, name), 0);
		snprintf(link_name, sizeof(link_name), "%s", name);
	}
	return (int)rc;
}

static void a_link_in_place_of_a_new_directory_is_not_followed(void **state)
{
	static const char *const parts[] = {"", "/volumes", "/snapshots", "/sets"};
	struct pool_volume_spec spec = {.name = "data", .size = MIB};
	struct poolfix *fix = *state;
	struct pool_volume made;
	char victim[192];
	struct stat st;

	if (geteuid() != 0)
		skip();
	for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
		snprintf(victim, sizeof(victim), "%s%s", fix->dir, parts[i]);
		assert_int_equal(chown(victim, 65534, 65534), 0);
	}
	snprintf(victim, sizeof(victim), "%s-victim", fix->dir);
	assert_int_equal(mkdir(victim, 0700), 0);
	link_target = victim;
	assert_true(pool_volume_create(fix->pool, &spec, &made, NULL) < 0);
	link_target = NULL;
	assert_int_equal(stat(victim, &st), 0);
	assert_int_equal(st.st_uid, 0);
	assert_int_equal(rmdir(victim), 0); /* nothing was made in it */
	snprintf(victim, sizeof(victim), "%s/volumes/%s", fix->dir, link_name);
	assert_int_equal(unlink(victim), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define PATIENT(fn)   cmocka_unit_test_setup_teardown(fn, poolfix_setup, teardown)
#define IMPATIENT(fn) cmocka_unit_test_setup_teardown(fn, poolfix_setup_impatient, teardown)
		IMPATIENT(a_merge_sees_the_successor_that_came_meanwhile),
		IMPATIENT(a_clone_is_cut_while_its_head_expires),
		IMPATIENT(a_volume_is_cloned_while_snapshots_expire),
		IMPATIENT(a_clone_is_changed_while_its_head_expires),
		IMPATIENT(a_writer_comes_while_a_volume_is_cut),
		IMPATIENT(a_delta_answers_while_sets_are_merged),
		PATIENT(a_crowd_of_volumes_is_cut_at_once),
		PATIENT(a_crowd_of_clones_is_cut_at_once),
		PATIENT(many_deltas_need_few_descriptors),
		PATIENT(a_note_stays_while_its_file_does),
		PATIENT(a_pool_is_made_while_another_goes),
		PATIENT(a_link_in_place_of_a_new_directory_is_not_followed),
	};

	return cmocka_run_group_tests_name("pool/races", tests, NULL, NULL);
}
