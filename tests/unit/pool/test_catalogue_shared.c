/* SPDX-License-Identifier: Apache-2.0 */

/* The catalogue between threads and processes, killed ones too, and where
 * nothing can be written. */

#include "catalogue_helper.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <time.h>

#include "base/io.h"
#include "base/num.h"

#define CHILD_OK   0
#define CHILD_SKIP 77

/* Runs `fn` in a process of its own and returns its exit status. */
static int in_child(int (*fn)(void))
{
	pid_t pid = fork();
	int status = 0;

	assert_true(pid >= 0);
	if (pid == 0)
		_exit(fn());
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* For children, whose failed assertion cannot reach cmocka. */
#define child_check(cond)                                                  \
	do {                                                               \
		if (!(cond)) {                                             \
			fprintf(stderr, "line %d: %s\n", __LINE__, #cond); \
			return 1;                                          \
		}                                                          \
	} while (0)

static bool child_has(struct catalogue *cat, const char *key, const char *want)
{
	cairn_auto_free uint8_t *data = NULL;
	size_t len;
	struct cairn_err err = {0};
	int rc = pool_catalogue_get(cat, text(key), &data, &len, &err);

	if (rc != 0)
		fprintf(stderr, "get %s: %s\n", key, err.msg);
	return rc == 0 && len == strlen(want) && memcmp(data, want, len) == 0;
}

/* ---- side by side ------------------------------------------------------- */

#define INCREMENTS 150

/* Adds one to "counter", as often as it takes. */
static int increment(struct catalogue *cat)
{
	for (;;) {
		cairn_auto_free uint8_t *data = NULL;
		auto_batch *batch = NULL;
		uint64_t value = 0;
		char digits[24];
		size_t len = 0;
		int rc = pool_catalogue_get(cat, text("counter"), &data, &len, NULL);

		if (rc != 0 && rc != CAIRN_NOT_FOUND)
			return rc;
		if (data && cairn_parse_u64((char *)data, &value, NULL) != 0)
			return CAIRN_DATA_LOSS;
		if (pool_catalogue_batch_new(cat, &batch, NULL) != 0)
			return CAIRN_NO_SPACE;
		snprintf(digits, sizeof(digits), "%llu", (unsigned long long)value + 1);
		pool_catalogue_expect(batch, text("counter"), (struct catalogue_bytes){data, len});
		pool_catalogue_put(batch, text("counter"), text(digits));
		rc = pool_catalogue_commit(batch, CATALOGUE_ORDERED, NULL);
		if (rc != CAIRN_ABORTED)
			return rc;
	}
}

static int increment_many(void)
{
	auto_catalogue *cat = NULL;

	child_check(pool_catalogue_open(helper_dir, true, &cat, NULL) == 0);
	for (int i = 0; i < INCREMENTS; i++)
		child_check(increment(cat) == 0);
	return CHILD_OK;
}

static void expectations_make_processes_count_together(void **state)
{
	auto_catalogue *cat = NULL;
	pid_t pids[3];
	int status;

	(void)state;
	pool_catalogue_close(create_and_open());
	for (size_t i = 0; i < ARRAY_LEN(pids); i++) {
		pids[i] = fork();
		assert_true(pids[i] >= 0);
		if (pids[i] == 0)
			_exit(increment_many());
	}
	for (size_t i = 0; i < ARRAY_LEN(pids); i++) {
		assert_int_equal(waitpid(pids[i], &status, 0), pids[i]);
		assert_int_equal(status, 0);
	}
	cat = open_again(false);
	assert_value(cat, "counter", "450");
}

static void *thread_increments(void *arg)
{
	for (int i = 0; i < INCREMENTS; i++)
		if (increment(arg) != 0)
			return arg;
	return NULL;
}

/* Reads while the others commit: pairs are always equal. */
static int compare_pair(void *arg, struct catalogue_bytes key, struct catalogue_bytes value,
			bool damaged, struct cairn_err *err)
{
	char *first = arg;
	char text_of[24];

	(void)key;
	(void)err;
	snprintf(text_of, sizeof(text_of), "%.*s", (int)value.len, (const char *)value.data);
	if (damaged)
		return CAIRN_DATA_LOSS;
	if (first[0] == '\0')
		snprintf(first, sizeof(text_of), "%s", text_of);
	return strcmp(first, text_of) == 0 ? 0 : CAIRN_INTERNAL;
}

static void *thread_scans(void *arg)
{
	for (int i = 0; i < INCREMENTS; i++) {
		char first[24] = "";

		if (pool_catalogue_scan(arg, text("pair/"), nothing, compare_pair, first, NULL) !=
		    0)
			return arg;
	}
	return NULL;
}

static void *thread_writes_pairs(void *arg)
{
	for (int i = 0; i < INCREMENTS; i++) {
		auto_batch *batch = NULL;
		char value[24];

		snprintf(value, sizeof(value), "%d", i);
		if (pool_catalogue_batch_new(arg, &batch, NULL) != 0)
			return arg;
		for (int j = 0; j < 5; j++) {
			char key[24];

			snprintf(key, sizeof(key), "pair/%d", j);
			pool_catalogue_put(batch, text(key), text(value));
		}
		if (pool_catalogue_commit(batch, i % 16 ? CATALOGUE_ORDERED : CATALOGUE_DURABLE,
					  NULL))
			return arg;
	}
	return NULL;
}

static void threads_share_one_catalogue(void **state)
{
	static void *(*const work[])(void *) = {thread_increments, thread_scans,
						thread_writes_pairs, thread_increments,
						thread_scans};
	auto_catalogue *cat = create_and_open();
	pthread_t threads[ARRAY_LEN(work)];
	void *result;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(work); i++)
		assert_int_equal(pthread_create(&threads[i], NULL, work[i], cat), 0);
	for (size_t i = 0; i < ARRAY_LEN(work); i++) {
		assert_int_equal(pthread_join(threads[i], &result), 0);
		assert_null(result);
	}
	assert_value(cat, "counter", "300");
}

/* ---- kill -9 ------------------------------------------------------------ */

/* Commits pairs for ever and tells each number once it is acknowledged. */
static int commit_for_ever(int pipe_fd, uint64_t from)
{
	auto_catalogue *cat = NULL;

	child_check(pool_catalogue_open(helper_dir, true, &cat, NULL) == 0);
	for (uint64_t i = from;; i++) {
		auto_batch *batch = NULL;
		char key[40], value[40];

		child_check(pool_catalogue_batch_new(cat, &batch, NULL) == 0);
		snprintf(value, sizeof(value), "%llu", (unsigned long long)i);
		for (int c = 'a'; c <= 'c'; c++) {
			snprintf(key, sizeof(key), "%c/%llu", c, (unsigned long long)i);
			pool_catalogue_put(batch, text(key), text(value));
		}
		pool_catalogue_put(batch, text("last"), text(value));
		child_check(pool_catalogue_commit(batch,
						  i % 7 ? CATALOGUE_ORDERED : CATALOGUE_DURABLE,
						  NULL) == 0);
		child_check(cairn_write_full(pipe_fd, &i, sizeof(i)) == 0);
	}
}

/* The last number that the child sent before it was killed: some time after it has
 * sent `least` of them. */
static uint64_t run_and_kill(uint64_t from, unsigned least, long after_ns)
{
	uint64_t acknowledged = from - 1, i;
	const struct timespec pause = {0, after_ns};
	int fds[2];
	pid_t pid;

	assert_int_equal(pipe(fds), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		close(fds[0]);
		_exit(commit_for_ever(fds[1], from));
	}
	close(fds[1]);
	for (; least > 0 && read(fds[0], &i, sizeof(i)) == (ssize_t)sizeof(i); least--)
		acknowledged = i;
	nanosleep(&pause, NULL);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	while (read(fds[0], &i, sizeof(i)) == (ssize_t)sizeof(i))
		acknowledged = i;
	close(fds[0]);
	return acknowledged;
}

static void a_killed_writer_loses_no_acknowledged_batch(void **state)
{
	uint64_t last = 0;
	unsigned seed = 20260101;

	(void)state;
	pool_catalogue_close(create_and_open());
	for (int round = 0; round < 25; round++) {
		uint64_t acknowledged = run_and_kill(last + 1, round < 5 ? 0 : 6,
						     rand_r(&seed) % 40000000 + 500000);
		auto_catalogue *cat = open_again(true);
		cairn_auto_free uint8_t *data = NULL;
		size_t len, faults = 0;
		struct cairn_err err = {0};

		if (pool_catalogue_get(cat, text("last"), &data, &len, NULL) == 0)
			assert_ok(cairn_parse_u64((char *)data, &last, &err), &err);
		assert_true(last >= acknowledged);
		assert_int_equal(count_rows(cat, "a/"), last);
		assert_int_equal(count_rows(cat, "b/"), last);
		assert_int_equal(count_rows(cat, "c/"), last);
		assert_ok(pool_catalogue_check(cat, count_line, &faults, &err), &err);
		assert_int_equal(faults, 0);
	}
	assert_true(last > 100);
}

/* ---- where nothing can be written --------------------------------------- */

/* Mounts a filesystem of its own over the directory; in a child, whose mounts
 * nobody else sees. */
static int private_mount(void)
{
	if (unshare(CLONE_NEWNS) != 0 || mount(NULL, "/", NULL, MS_REC | MS_SLAVE, NULL) != 0 ||
	    mount("tmpfs", helper_dir, "tmpfs", 0, "size=16m") != 0)
		return CHILD_SKIP;
	return CHILD_OK;
}

static int make_read_only(void)
{
	return mount(NULL, helper_dir, NULL, MS_REMOUNT | MS_RDONLY, NULL);
}

static int child_put(const char *key, const char *value)
{
	auto_catalogue *cat = NULL;
	auto_batch *batch = NULL;

	child_check(pool_catalogue_open(helper_dir, true, &cat, NULL) == 0);
	child_check(pool_catalogue_batch_new(cat, &batch, NULL) == 0);
	pool_catalogue_put(batch, text(key), text(value));
	child_check(pool_catalogue_commit(batch, CATALOGUE_DURABLE, NULL) == 0);
	return 0;
}

static int read_only_with(bool keep_log, bool keep_index)
{
	auto_catalogue *cat = NULL;
	struct cairn_err err = {0};
	size_t rows = 0, faults = 0;

	if (private_mount() != CHILD_OK)
		return CHILD_SKIP;
	child_check(pool_catalogue_create(helper_dir, NULL) == 0);
	if (keep_log)
		child_check(child_put("a", "1") == 0);
	if (!keep_index)
		unlink(in_dir("catalogue.db-shm"));
	child_check(make_read_only() == 0);
	child_check(pool_catalogue_open(helper_dir, true, &cat, &err) == CAIRN_PRECONDITION);
	child_check(pool_catalogue_open(helper_dir, false, &cat, &err) == 0);
	child_check(!keep_log || child_has(cat, "a", "1"));
	child_check(pool_catalogue_scan(cat, nothing, nothing, count_row, &rows, &err) == 0);
	child_check(rows == keep_log);
	child_check(pool_catalogue_check(cat, count_line, &faults, &err) == 0 && faults == 0);
	return CHILD_OK;
}

static int read_only_without_log(void)
{
	return read_only_with(false, false);
}

static int read_only_with_log(void)
{
	return read_only_with(true, false);
}

static int read_only_with_log_and_index(void)
{
	return read_only_with(true, true);
}

static void a_read_only_filesystem_can_be_read(void **state)
{
	static int (*const cases[])(void) = {read_only_without_log, read_only_with_log,
					     read_only_with_log_and_index};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		int status = in_child(cases[i]);

		if (status == CHILD_SKIP) {
			print_message("skipped: this process may not mount\n");
			skip();
		}
		assert_int_equal(status, CHILD_OK);
	}
}

static int full_disk(void)
{
	auto_catalogue *cat = NULL;
	char value[20000], key[32];
	int rc = 0, done = 0;

	if (private_mount() != CHILD_OK)
		return CHILD_SKIP;
	child_check(pool_catalogue_create(helper_dir, NULL) == 0);
	child_check(pool_catalogue_open(helper_dir, true, &cat, NULL) == 0);
	memset(value, 'v', sizeof(value));
	for (; rc == 0 && done < 10000; done++) {
		auto_batch *batch = NULL;

		snprintf(key, sizeof(key), "key/%d", done);
		child_check(pool_catalogue_batch_new(cat, &batch, NULL) == 0);
		pool_catalogue_put(batch, text(key),
				   (struct catalogue_bytes){value, sizeof(value)});
		snprintf(key, sizeof(key), "also/%d", done);
		pool_catalogue_put(batch, text(key), text("1"));
		rc = pool_catalogue_commit(batch, CATALOGUE_ORDERED, NULL);
	}
	child_check(rc == CAIRN_NO_SPACE);
	size_t keys = 0, also = 0;

	child_check(pool_catalogue_scan(cat, text("key/"), nothing, count_row, &keys, NULL) == 0);
	child_check(pool_catalogue_scan(cat, text("also/"), nothing, count_row, &also, NULL) == 0);
	child_check(keys == also && keys == (size_t)done - 1);
	return CHILD_OK;
}

static void a_full_disk_is_an_error_and_changes_nothing(void **state)
{
	int status = in_child(full_disk);

	(void)state;
	if (status == CHILD_SKIP) {
		print_message("skipped: this process may not mount\n");
		skip();
	}
	assert_int_equal(status, CHILD_OK);
}

/* ---- without the rights ------------------------------------------------- */

#define NOBODY 65534

static int become_nobody(void)
{
	return setgid(NOBODY) == 0 && setuid(NOBODY) == 0 ? 0 : -1;
}

static int open_private_file_as_nobody(void)
{
	struct catalogue *cat = NULL;

	child_check(become_nobody() == 0);
	child_check(pool_catalogue_open(helper_dir, false, &cat, NULL) == CAIRN_DENIED);
	return CHILD_OK;
}

static void set_modes(mode_t file, mode_t directory)
{
	chmod(in_dir("catalogue.db"), file);
	chmod(in_dir("catalogue.db-wal"), file);
	chmod(in_dir("catalogue.db-shm"), file);
	chmod(helper_dir, directory);
}

static int read_public_file_as_nobody(void)
{
	auto_catalogue *cat = NULL;
	struct catalogue *other = NULL;

	child_check(become_nobody() == 0);
	child_check(pool_catalogue_open(helper_dir, true, &other, NULL) == CAIRN_DENIED);
	child_check(pool_catalogue_open(helper_dir, false, &cat, NULL) == 0);
	child_check(child_has(cat, "a", "1"));
	return CHILD_OK;
}

static void rights_decide_what_can_be_opened(void **state)
{
	struct catalogue *cat;

	(void)state;
	if (geteuid() != 0) {
		print_message("skipped: only root can become somebody else\n");
		skip();
	}
	cat = create_and_open();
	put_one(cat, "a", "1", CATALOGUE_DURABLE);
	set_modes(0600, 0755);
	assert_int_equal(in_child(open_private_file_as_nobody), CHILD_OK);
	set_modes(0644, 0755);
	assert_int_equal(in_child(read_public_file_as_nobody), CHILD_OK);
	pool_catalogue_close(cat);
	assert_int_equal(in_child(read_public_file_as_nobody), CHILD_OK);
	unlink(in_dir("catalogue.db-shm"));
	assert_int_equal(in_child(read_public_file_as_nobody), CHILD_OK);
}

static int find_damage_as_nobody(void)
{
	struct catalogue *cat = NULL;

	child_check(become_nobody() == 0);
	child_check(pool_catalogue_open(helper_dir, false, &cat, NULL) == CAIRN_DATA_LOSS);
	return CHILD_OK;
}

static void a_reader_without_locks_notices_a_damaged_log(void **state)
{
	static const uint64_t back[] = {100, 9000};
	struct catalogue *cat;
	struct stat st;

	(void)state;
	if (geteuid() != 0) {
		print_message("skipped: only root can become somebody else\n");
		skip();
	}
	cat = create_and_open();
	put_one(cat, "b", "1", CATALOGUE_DURABLE);
	put_one(cat, "a", "1", CATALOGUE_DURABLE);
	put_one(cat, "c", "1", CATALOGUE_DURABLE);
	pool_catalogue_close(cat);
	set_modes(0644, 0755);
	chmod(in_dir("catalogue.db-trust"), 0644);
	unlink(in_dir("catalogue.db-shm"));
	assert_int_equal(in_child(read_public_file_as_nobody), CHILD_OK);
	assert_int_equal(stat(in_dir("catalogue.db-wal"), &st), 0);
	for (size_t i = 0; i < ARRAY_LEN(back); i++) {
		int fd = open(in_dir("catalogue.db-wal"), O_RDWR | O_CLOEXEC);
		off_t at = st.st_size - (off_t)back[i];
		char good, bad;

		assert_int_equal(pread(fd, &good, 1, at), 1);
		bad = (char)(good ^ 1);
		assert_int_equal(pwrite(fd, &bad, 1, at), 1);
		assert_int_equal(in_child(find_damage_as_nobody), CHILD_OK);
		assert_int_equal(pwrite(fd, &good, 1, at), 1);
		close(fd);
	}
	assert_int_equal(in_child(read_public_file_as_nobody), CHILD_OK);
}

static int wait_for(int fd)
{
	char c;

	return cairn_read_full(fd, &c, 1) == 1 ? 0 : -1;
}

/* Opens without locks, waits while the other side writes, reads again. */
static int read_around_a_write(int in, int out)
{
	auto_catalogue *cat = NULL;
	uint8_t *data = NULL;
	size_t len;
	int rc = CAIRN_ABORTED;

	child_check(become_nobody() == 0);
	child_check(pool_catalogue_open(helper_dir, false, &cat, NULL) == 0);
	child_check(child_has(cat, "a", "1"));
	child_check(cairn_write_full(out, "x", 1) == 0 && wait_for(in) == 0);
	for (int i = 0; i < 100 && rc == CAIRN_ABORTED; i++)
		rc = pool_catalogue_get(cat, text("a"), &data, &len, NULL);
	child_check(rc == 0 && len == 1 && *data == '2');
	free(data);
	return CHILD_OK;
}

static void a_reader_without_locks_sees_what_others_write(void **state)
{
	int to_child[2], from_child[2], status;
	pid_t pid;

	(void)state;
	if (geteuid() != 0) {
		print_message("skipped: only root can become somebody else\n");
		skip();
	}
	assert_int_equal(pipe(to_child), 0);
	assert_int_equal(pipe(from_child), 0);
	struct catalogue *cat = create_and_open();

	put_one(cat, "a", "1", CATALOGUE_DURABLE);
	pool_catalogue_close(cat);
	unlink(in_dir("catalogue.db-shm"));
	set_modes(0644, 0755);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0)
		_exit(read_around_a_write(to_child[0], from_child[1]));
	assert_int_equal(wait_for(from_child[0]), 0);
	cat = open_again(true);
	put_one(cat, "a", "2", CATALOGUE_DURABLE);
	assert_int_equal(cairn_write_full(to_child[1], "x", 1), 0);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	pool_catalogue_close(cat);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		catalogue_test(expectations_make_processes_count_together),
		catalogue_test(threads_share_one_catalogue),
		catalogue_test(a_killed_writer_loses_no_acknowledged_batch),
		catalogue_test(a_read_only_filesystem_can_be_read),
		catalogue_test(a_full_disk_is_an_error_and_changes_nothing),
		catalogue_test(rights_decide_what_can_be_opened),
		catalogue_test(a_reader_without_locks_notices_a_damaged_log),
		catalogue_test(a_reader_without_locks_sees_what_others_write),
	};

	return cmocka_run_group_tests_name("pool/catalogue shared", tests, NULL, NULL);
}
