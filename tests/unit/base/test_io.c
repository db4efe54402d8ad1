/* SPDX-License-Identifier: Apache-2.0 */

#include "cairntest.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/io.h"
#include "base/mem.h"
#include "scratch_dir.h"

#define io_test(f) cmocka_unit_test_setup_teardown(f, scratch_dir_make, scratch_dir_remove)

static void assert_holds(const char *want)
{
	cairn_auto_free char *data = NULL;
	struct cairn_err err = {0};
	size_t len = 0;

	assert_ok(cairn_file_read(scratch_dir_fd, "file", 1 << 20, &data, &len, &err), &err);
	assert_int_equal(len, strlen(want));
	assert_string_equal(data, want);
}

static void a_file_is_replaced_whole(void **state)
{
	struct cairn_err err = {0};
	struct stat st;

	(void)state;
	assert_ok(cairn_file_replace(scratch_dir_fd, "file", "first", 5, &err), &err);
	assert_holds("first");
	assert_int_equal(fstatat(scratch_dir_fd, "file", &st, 0), 0);
	assert_int_equal(st.st_mode & 07777, 0600);
	assert_ok(cairn_file_replace(scratch_dir_fd, "file", "2", 1, &err), &err);
	assert_holds("2");
	assert_ok(cairn_file_replace(scratch_dir_fd, "file", NULL, 0, &err), &err);
	assert_holds("");
	assert_int_equal(faccessat(scratch_dir_fd, "file.tmp", F_OK, 0), -1);
}

static void a_leftover_temporary_file_is_overwritten(void **state)
{
	cairn_auto_fd int fd =
		openat(scratch_dir_fd, "file.tmp", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	struct cairn_err err = {0};

	(void)state;
	assert_int_equal(cairn_write_full(fd, "a long leftover", 15), 0);
	assert_ok(cairn_file_replace(scratch_dir_fd, "file", "new", 3, &err), &err);
	assert_holds("new");
}

static void a_failed_replace_keeps_the_old_bytes(void **state)
{
	struct cairn_err err = {0};

	(void)state;
	assert_ok(cairn_file_replace(scratch_dir_fd, "file", "old", 3, &err), &err);
	cairn_mem_fail_at(1, 0);
	assert_code(cairn_file_replace(scratch_dir_fd, "file", "new", 3, &err), CAIRN_NO_SPACE);
	cairn_mem_fail_at(0, 0);
	assert_holds("old");
	assert_int_equal(mkdirat(scratch_dir_fd, "sub", 0700), 0);
	assert_true(cairn_file_replace(scratch_dir_fd, "sub", "new", 3, &err) < 0);
	assert_int_equal(faccessat(scratch_dir_fd, "sub.tmp", F_OK, 0), -1);
	assert_code(cairn_file_replace(scratch_dir_fd, "none/file", "x", 1, &err), CAIRN_NOT_FOUND);
}

static void a_file_is_read_up_to_its_limit(void **state)
{
	static const struct {
		size_t max;
		int code;
	} cases[] = {{0, CAIRN_RANGE}, {9, CAIRN_RANGE}, {10, 0}, {11, 0}, {SIZE_MAX, 0}};

	(void)state;
	assert_int_equal(cairn_file_replace(scratch_dir_fd, "file", "0123456789", 10, NULL), 0);
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		char *data = NULL;
		size_t len = 99;

		assert_code(
			cairn_file_read(scratch_dir_fd, "file", cases[i].max, &data, &len, NULL),
			cases[i].code);
		assert_int_equal(len, cases[i].code ? 99 : 10);
		assert_int_equal(data == NULL, cases[i].code != 0);
		free(data);
	}
	char *data;
	size_t len;

	assert_code(cairn_file_read(scratch_dir_fd, "none", 10, &data, &len, NULL),
		    CAIRN_NOT_FOUND);
	assert_code(cairn_file_read(scratch_dir_fd, ".", 1 << 20, &data, &len, NULL),
		    CAIRN_PRECONDITION);
}

/* procfs says that its files have no bytes. */
static void a_file_without_a_size_is_read_to_its_end(void **state)
{
	struct cairn_err err = {0};
	char *data = NULL;
	size_t len = 0;

	(void)state;
	assert_ok(cairn_file_read(AT_FDCWD, "/proc/self/mountinfo", 1 << 20, &data, &len, &err),
		  &err);
	assert_true(len > 10);
	free(data);
	assert_code(cairn_file_read(AT_FDCWD, "/proc/self/mountinfo", 10, &data, &len, &err),
		    CAIRN_RANGE);
	assert_ok(cairn_file_read(AT_FDCWD, "/proc/self/smaps", 64 << 20, &data, &len, &err), &err);
	free(data);
}

static void reading_survives_short_memory(void **state)
{
	size_t n;

	(void)state;
	assert_int_equal(cairn_file_replace(scratch_dir_fd, "file", "0123456789", 10, NULL), 0);
	for (n = 1; n < 10; n++) {
		char *data = NULL;
		size_t len;
		int rc;

		cairn_mem_fail_at(n, 0);
		rc = cairn_file_read(scratch_dir_fd, "file", 100, &data, &len, NULL);
		cairn_mem_fail_at(0, 0);
		free(data);
		if (rc == 0)
			break;
		assert_int_equal(rc, CAIRN_NO_SPACE);
	}
	assert_in_range(n, 2, 9);
}

static void reads_end_early_only_at_the_end(void **state)
{
	cairn_auto_fd int fd = openat(scratch_dir_fd, "file", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	char buf[32];

	(void)state;
	assert_int_equal(cairn_pwrite_full(fd, "0123456789", 10, 5), 0);
	assert_int_equal(cairn_pread_full(fd, buf, 32, 5), 10);
	assert_memory_equal(buf, "0123456789", 10);
	assert_int_equal(cairn_pread_full(fd, buf, 3, 12), 3);
	assert_int_equal(cairn_pread_full(fd, buf, 3, 15), 0);
	assert_int_equal(cairn_read_full(fd, buf, 32), 15);
	assert_int_equal(cairn_pread_full(-1, buf, 1, 0), -1);
	assert_int_equal(cairn_write_full(-1, buf, 1), -1);
	assert_int_equal(cairn_pwrite_full(fd, buf, 1, UINT64_MAX), -1);
	assert_int_equal(cairn_write_full(-1, buf, 0), 0);
}

static void *write_in_pieces(void *arg)
{
	int fd = *(int *)arg;
	static char chunk[5000];

	for (int i = 0; i < 60; i++)
		if (cairn_write_full(fd, chunk, sizeof(chunk)) != 0)
			return arg;
	close(fd);
	return NULL;
}

/* More than a pipe holds, so both sides wait for one another. */
static void pipes_carry_all_bytes(void **state)
{
	cairn_auto_free char *buf = malloc(400000);
	pthread_t thread;
	void *result;
	int ends[2];

	(void)state;
	assert_int_equal(pipe(ends), 0);
	assert_int_equal(pthread_create(&thread, NULL, write_in_pieces, &ends[1]), 0);
	assert_int_equal(cairn_read_full(ends[0], buf, 400000), 300000);
	assert_int_equal(pthread_join(thread, &result), 0);
	assert_null(result);
	close(ends[0]);
}

static void a_directory_may_be_there_already(void **state)
{
	struct cairn_err err = {0};

	(void)state;
	assert_ok(cairn_make_dir(scratch_dir_fd, "sub", 0700, &err), &err);
	assert_ok(cairn_make_dir(scratch_dir_fd, "sub", 0700, &err), &err);
	assert_int_equal(cairn_file_replace(scratch_dir_fd, "file", "x", 1, NULL), 0);
	assert_code(cairn_make_dir(scratch_dir_fd, "file", 0700, &err), CAIRN_EXISTS);
	assert_code(cairn_make_dir(scratch_dir_fd, "none/sub", 0700, &err), CAIRN_NOT_FOUND);
	assert_true(cairn_sync_dir(-1, "x", &err) < 0);
}

/* In a directory of another user every fixed name may be a link or a FIFO. */
static void links_and_fifos_are_neither_followed_nor_waited_for(void **state)
{
	static const char *const names[] = {"link", "fifo", "sub"};
	struct cairn_err err = {0};
	struct stat st;
	char *data;
	size_t len;
	int fd;

	(void)state;
	assert_int_equal(cairn_file_replace(scratch_dir_fd, "victim", "precious", 8, NULL), 0);
	assert_int_equal(symlinkat("victim", scratch_dir_fd, "link"), 0);
	assert_int_equal(symlinkat("victim", scratch_dir_fd, "file.tmp"), 0);
	assert_int_equal(mkfifoat(scratch_dir_fd, "fifo", 0600), 0);
	assert_int_equal(mkdirat(scratch_dir_fd, "sub", 0700), 0);
	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		assert_code(cairn_open_regular(scratch_dir_fd, names[i], O_RDONLY, 0, &fd, &err),
			    CAIRN_PRECONDITION);
		assert_code(cairn_open_regular(scratch_dir_fd, names[i], O_RDWR | O_CREAT, 0600,
					       &fd, &err),
			    CAIRN_PRECONDITION);
		assert_code(cairn_file_read_regular(scratch_dir_fd, names[i], 9, &data, &len, &err),
			    CAIRN_PRECONDITION);
	}
	assert_code(cairn_file_read(scratch_dir_fd, "fifo", 9, &data, &len, &err),
		    CAIRN_PRECONDITION);
	assert_code(cairn_open_readable(scratch_dir_fd, "fifo", &fd, &err), CAIRN_PRECONDITION);
	assert_ok(cairn_open_readable(scratch_dir_fd, "link", &fd, &err), &err);
	close(fd);
	assert_code(cairn_open_regular(scratch_dir_fd, "none", O_RDONLY, 0, &fd, &err),
		    CAIRN_NOT_FOUND);
	assert_ok(cairn_file_replace(scratch_dir_fd, "file", "new", 3, &err), &err);
	assert_ok(cairn_file_read_regular(scratch_dir_fd, "victim", 9, &data, &len, &err), &err);
	assert_string_equal(data, "precious");
	free(data);
	assert_int_equal(fstatat(scratch_dir_fd, "file", &st, AT_SYMLINK_NOFOLLOW), 0);
	assert_true(S_ISREG(st.st_mode));
	unlinkat(scratch_dir_fd, "link", 0);
	unlinkat(scratch_dir_fd, "fifo", 0);
	unlinkat(scratch_dir_fd, "victim", 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		io_test(a_file_is_replaced_whole),
		io_test(a_leftover_temporary_file_is_overwritten),
		io_test(a_failed_replace_keeps_the_old_bytes),
		io_test(a_file_is_read_up_to_its_limit),
		io_test(a_file_without_a_size_is_read_to_its_end),
		io_test(reading_survives_short_memory),
		io_test(reads_end_early_only_at_the_end),
		io_test(pipes_carry_all_bytes),
		io_test(a_directory_may_be_there_already),
		io_test(links_and_fifos_are_neither_followed_nor_waited_for),
	};

	return cmocka_run_group_tests_name("base/io", tests, NULL, NULL);
}
