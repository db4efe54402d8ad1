/* SPDX-License-Identifier: Apache-2.0 */

#include "pool/copy/sparse.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cairntest.h"
#include "store_helper.h"

#define SIZE (4 * MIB)

static char path_a[300], path_b[300];

static int make_file(char *path, size_t room, const char *dir, const char *name, uint64_t size)
{
	int fd;

	snprintf(path, room, "%s/%s", dir, name);
	fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, (off_t)size), 0);
	return fd;
}

static void put(int fd, uint64_t offset, size_t n, int byte)
{
	char *buf = malloc(n);

	assert_non_null(buf);
	memset(buf, byte, n);
	assert_int_equal(pwrite(fd, buf, n, (off_t)offset), (ssize_t)n);
	free(buf);
}

static void a_copy_is_equal_and_as_sparse(void **state)
{
	const char *dir = scratchfs_make(SCRATCHFS_PLAIN, 0);
	int a = make_file(path_a, sizeof(path_a), dir, "a", SIZE + 512);
	int b = make_file(path_b, sizeof(path_b), dir, "b", 0);
	struct cairn_err err = {0};
	struct collected c = {0};
	struct stat st;
	uint64_t runs;

	(void)state;
	put(a, 64 * KIB, 4096, 1);
	put(a, MIB, MIB, 0); /* zeros that take room */
	put(a, SIZE, 512, 2);
	assert_ok(copy_sparse_copy_still(a, b, &err), &err);
	assert_ok(copy_sparse_compare(a, b, collected_sink(&c), NULL, &runs, &err), &err);
	assert_int_equal(c.n, 0);
	assert_int_equal(fstat(b, &st), 0);
	assert_int_equal(st.st_size, SIZE + 512);
	assert_true((uint64_t)st.st_blocks * 512 < MIB);
	put(b, 100, 1, 7);
	put(b, SIZE + 511, 1, 0);
	assert_ok(copy_sparse_compare(a, b, collected_sink(&c), NULL, &runs, &err), &err);
	assert_int_equal(c.n, 2);
	assert_int_equal(c.list[0].offset, 0);
	assert_int_equal(c.list[0].length, 512);
	assert_int_equal(c.list[1].offset, SIZE);
	assert_int_equal(c.list[1].length, 512);
	collected_done(&c);
	close(a);
	close(b);
	scratchfs_remove();
}

static atomic_bool stop;

static void *write_on(void *arg)
{
	unsigned i = 0;

	while (!stop) {
		char byte = (char)++i;

		(void)!pwrite(*(int *)arg, &byte, 1, 12345);
	}
	return NULL;
}

/* Without its writer the file is copied. */
static void end_writer(pthread_t writer, int a, int b)
{
	struct cairn_err err = {0};

	stop = true;
	pthread_join(writer, NULL);
	assert_ok(copy_sparse_copy_still(a, b, &err), &err);
	close(a);
	close(b);
	scratchfs_remove();
}

static void a_file_that_is_written_on_is_not_copied(void **state)
{
	const char *dir = scratchfs_make(SCRATCHFS_PLAIN, 0);
	int a = make_file(path_a, sizeof(path_a), dir, "a", SIZE);
	int b = make_file(path_b, sizeof(path_b), dir, "b", 0);
	struct cairn_err err = {0};
	pthread_t writer;
	int rc = 0;

	(void)state;
	put(a, 0, SIZE, 1);
	stop = false;
	assert_int_equal(pthread_create(&writer, NULL, write_on, &a), 0);
	/* A busy machine may let the writer rest for as long as a copy takes. */
	for (int i = 0; i < 200 && rc == 0; i++)
		rc = copy_sparse_copy_still(a, b, &err);
	assert_int_equal(rc, CAIRN_ABORTED);
	end_writer(writer, a, b);
}

/* Writes a counter to the first block and then to the last one. */
static void *write_pairs(void *arg)
{
	for (uint64_t i = 1; !stop; i++) {
		(void)!pwrite(*(int *)arg, &i, sizeof(i), 0);
		(void)!pwrite(*(int *)arg, &i, sizeof(i), SIZE - 4096);
		usleep(50);
	}
	return NULL;
}

/* Two writes within a second leave the same time there. */
static void a_copy_is_not_torn_where_times_are_whole_seconds(void **state)
{
	const char *dir = scratchfs_make(SCRATCHFS_EXT4_SECONDS, 64 * MIB);
	struct cairn_err err = {0};
	pthread_t writer;
	int a, b;

	(void)state;
	if (!dir)
		skip();
	a = make_file(path_a, sizeof(path_a), dir, "a", SIZE);
	b = make_file(path_b, sizeof(path_b), dir, "b", 0);
	put(a, 0, SIZE, 0x55);
	stop = false;
	assert_int_equal(pthread_create(&writer, NULL, write_pairs, &a), 0);
	for (int i = 0; i < 2; i++) {
		uint64_t first = 0, last = 0;
		int rc = copy_sparse_copy_still(a, b, &err);

		assert_true(rc == 0 || rc == CAIRN_ABORTED);
		if (rc)
			continue;
		assert_int_equal(pread(b, &first, sizeof(first), 0), sizeof(first));
		assert_int_equal(pread(b, &last, sizeof(last), SIZE - 4096), sizeof(last));
		assert_true(first == last || first == last + 1);
	}
	end_writer(writer, a, b);
}

#define LONG_WRITE (48 * MIB)

/* One write at a time, each of the whole file. */
static void *write_long(void *arg)
{
	char *buf = malloc(LONG_WRITE);

	for (int i = 1; buf && !stop; i++) {
		memset(buf, i, LONG_WRITE);
		(void)!pwrite(*(int *)arg, buf, LONG_WRITE, 0);
	}
	free(buf);
	return NULL;
}

/* Such a write sets the time of change when it begins. */
static void check_long_writes(enum scratchfs_kind kind)
{
	const char *dir = scratchfs_make(kind, 512 * MIB);
	char *copy = malloc(LONG_WRITE);
	struct cairn_err err = {0};
	pthread_t writer;
	int a, b;

	if (!dir)
		skip();
	assert_non_null(copy);
	a = make_file(path_a, sizeof(path_a), dir, "a", LONG_WRITE);
	b = make_file(path_b, sizeof(path_b), dir, "b", 0);
	stop = false;
	assert_int_equal(pthread_create(&writer, NULL, write_long, &a), 0);
	for (int i = 0; i < 2; i++) {
		int rc = copy_sparse_copy_still(a, b, &err);

		assert_true(rc == 0 || rc == CAIRN_ABORTED);
		if (rc)
			continue;
		assert_int_equal(pread(b, copy, LONG_WRITE, 0), LONG_WRITE);
		assert_int_equal(memcmp(copy, copy + 1, LONG_WRITE - 1), 0);
	}
	stop = true;
	pthread_join(writer, NULL);
	free(copy);
	close(a);
	close(b);
	scratchfs_remove();
}

static void a_long_write_is_not_torn(void **state)
{
	(void)state;
	check_long_writes(SCRATCHFS_PLAIN);
	check_long_writes(SCRATCHFS_XFS);
	check_long_writes(SCRATCHFS_BTRFS);
}

/* A time to come is no reason to refuse: it may have been set, or the clock. */
static void a_file_of_a_time_to_come_is_copied(void **state)
{
	const struct timespec times[2] = {{.tv_sec = 4000000000}, {.tv_sec = 4000000000}};
	const char *dir = scratchfs_make(SCRATCHFS_PLAIN, 0);
	int a = make_file(path_a, sizeof(path_a), dir, "a", SIZE);
	int b = make_file(path_b, sizeof(path_b), dir, "b", 0);
	struct cairn_err err = {0};

	(void)state;
	assert_int_equal(futimens(a, times), 0);
	assert_ok(copy_sparse_copy_still(a, b, &err), &err);
	close(a);
	close(b);
	scratchfs_remove();
}

static void zeros_are_recognised(void **state)
{
	char buf[4097] = {0};

	(void)state;
	assert_true(copy_sparse_is_zero(buf, 0));
	assert_true(copy_sparse_is_zero(buf, sizeof(buf)));
	for (size_t i = 0; i < sizeof(buf); i += 511) {
		buf[i] = 1;
		assert_false(copy_sparse_is_zero(buf, sizeof(buf)));
		buf[i] = 0;
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_copy_is_equal_and_as_sparse),
		cmocka_unit_test(a_file_that_is_written_on_is_not_copied),
		cmocka_unit_test(a_copy_is_not_torn_where_times_are_whole_seconds),
		cmocka_unit_test(a_long_write_is_not_torn),
		cmocka_unit_test(a_file_of_a_time_to_come_is_copied),
		cmocka_unit_test(zeros_are_recognised),
	};

	return cmocka_run_group_tests_name("pool/copy/sparse", tests, NULL, NULL);
}
