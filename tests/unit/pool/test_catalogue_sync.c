/* SPDX-License-Identifier: Apache-2.0 */

/* Syncs of the log that fail. The program's own pwrite() and fdatasync() stand
 * before the C library's, for SQLite too, and keep what would be on the disk: a
 * failed sync drops what is dirty, as Linux does, and a power cut leaves the disk. */
#include "catalogue_helper.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#define PAGE    4096U
#define LOG_MAX (4U << 20)

static uint8_t disk[LOG_MAX];
static bool dirty[LOG_MAX / PAGE];
static off_t disk_size;
static unsigned fail_syncs; /* so many from now on fail */
static bool die_in_sync;    /* and the process with it */
static unsigned headers_written;

static bool is_log(int fd)
{
	char link[64], path[256];
	ssize_t n;

	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	n = readlink(link, path, sizeof(path) - 1);
	return n > 4 && strncmp(path + n - 4, "-wal", 4) == 0;
}

#define FOR_LIBRARIES __attribute__((visibility("default")))

FOR_LIBRARIES ssize_t pwrite64(int fd, const void *buf, size_t n, off64_t offset);
ssize_t pwrite64(int fd, const void *buf, size_t n, off64_t offset)
{
	if (is_log(fd) && (size_t)offset + n <= LOG_MAX) {
		headers_written += offset == 0;
		for (size_t page = (size_t)offset / PAGE; page * PAGE < (size_t)offset + n; page++)
			dirty[page] = true;
	}
	return syscall(SYS_pwrite64, fd, buf, n, offset);
}

/* NOLINTNEXTLINE(readability-inconsistent-declaration-parameter-name) */
FOR_LIBRARIES int fdatasync(int fd)
{
	bool fails = fail_syncs > 0;

	if (!is_log(fd))
		return (int)syscall(SYS_fdatasync, fd);
	fail_syncs -= fails;
	for (size_t page = 0; page < LOG_MAX / PAGE; page++) {
		if (dirty[page] && !fails)
			assert_true(pread(fd, disk + page * PAGE, PAGE, (off_t)(page * PAGE)) > 0);
		dirty[page] = false;
	}
	if (!fails)
		disk_size = lseek(fd, 0, SEEK_END);
	if (fails && die_in_sync)
		_exit(0);
	errno = EIO;
	return fails ? -1 : 0;
}

static void power_cut(void)
{
	int fd = open(in_dir("catalogue.db-wal"), O_WRONLY | O_TRUNC);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, disk, (size_t)disk_size), disk_size);
	close(fd);
	unlink(in_dir("catalogue.db-shm"));
	unlink(in_dir("catalogue.db-trust"));
}

static int setup(void **state)
{
	memset(disk, 0, sizeof(disk));
	memset(dirty, 0, sizeof(dirty));
	disk_size = 0;
	fail_syncs = 0;
	return helper_make_dir(state);
}

static int try_put(struct catalogue *cat, const char *key, enum catalogue_sync sync)
{
	auto_batch *batch = new_batch(cat);

	pool_catalogue_put(batch, text(key), text("1"));
	return pool_catalogue_commit(batch, sync, NULL);
}

static void assert_trusted(bool trusted)
{
	char bytes[2] = "";
	int fd = open(in_dir("catalogue.db-trust"), O_RDONLY);

	assert_int_equal(fd < 0 ? 0 : read(fd, bytes, 2), fd < 0 ? 0 : 2);
	if (fd >= 0)
		close(fd);
	assert_int_equal(bytes[0] == 'y' && bytes[1] == 'y', trusted);
}

static void commits_after_a_failed_sync_survive_a_power_cut(void **state)
{
	struct catalogue *cat = create_and_open();

	(void)state;
	for (unsigned failures = 1; failures < 8; failures++) {
		char key[16];

		snprintf(key, sizeof(key), "o%u", failures);
		put_one(cat, key, "1", CATALOGUE_ORDERED);
		fail_syncs = failures;
		assert_int_not_equal(try_put(cat, "bad", CATALOGUE_DURABLE), 0);
		fail_syncs = 0;
		snprintf(key, sizeof(key), "d%u", failures);
		put_one(cat, key, "1", CATALOGUE_DURABLE);
		assert_trusted(true);
	}
	pool_catalogue_close(cat);
	power_cut();
	cat = open_again(true);
	assert_int_equal(count_rows(cat, "d"), 7);
	assert_int_equal(count_rows(cat, "o"), 7);
	assert_value(cat, "bad", NULL);
	pool_catalogue_close(cat);
}

/* It opened the log before, and its own descriptor reports no error. */
static void another_process_knows_of_a_sync_that_failed(void **state)
{
	struct catalogue *cat = create_and_open();
	struct catalogue *other = open_again(true);

	(void)state;
	put_one(other, "a", "1", CATALOGUE_DURABLE);
	put_one(cat, "b", "1", CATALOGUE_ORDERED);
	fail_syncs = 100;
	assert_int_not_equal(try_put(cat, "bad", CATALOGUE_DURABLE), 0);
	assert_false(pool_catalogue_is_certain(cat));
	fail_syncs = 0;
	assert_trusted(false);
	put_one(other, "c", "1", CATALOGUE_DURABLE);
	assert_trusted(true);
	pool_catalogue_close(cat);
	pool_catalogue_close(other);
	power_cut();
	cat = open_again(true);
	assert_value(cat, "a", "1");
	assert_value(cat, "b", "1");
	assert_value(cat, "c", "1");
	pool_catalogue_close(cat);
}

static void a_process_killed_in_a_failing_sync_leaves_word(void **state)
{
	struct catalogue *cat = create_and_open();
	int status = 0;
	pid_t child;

	(void)state;
	put_one(cat, "a", "1", CATALOGUE_DURABLE);
	pool_catalogue_close(cat);
	child = fork();
	if (child == 0) {
		cat = open_again(true);
		fail_syncs = 1;
		die_in_sync = true;
		(void)try_put(cat, "lost", CATALOGUE_DURABLE);
		_exit(1);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	assert_trusted(false);
	headers_written = 0;
	cat = open_again(true);
	put_one(cat, "b", "1", CATALOGUE_DURABLE);
	assert_true(headers_written > 0); /* all of it was written again */
	assert_trusted(true);
	pool_catalogue_close(cat);
	power_cut();
	cat = open_again(true);
	assert_value(cat, "a", "1");
	assert_value(cat, "b", "1");
	pool_catalogue_close(cat);
}

static void no_checkpoint_runs_on_a_log_that_is_not_trusted(void **state)
{
	struct catalogue *cat = create_and_open();
	struct stat before, after;
	char key[16];

	(void)state;
	put_one(cat, "a", "1", CATALOGUE_DURABLE);
	fail_syncs = 100;
	assert_int_not_equal(try_put(cat, "bad", CATALOGUE_DURABLE), 0);
	fail_syncs = 0;
	assert_int_equal(stat(in_dir("catalogue.db"), &before), 0);
	for (int i = 0; i < 200; i++) {
		snprintf(key, sizeof(key), "k%d", i);
		put_one(cat, key, "1", CATALOGUE_ORDERED);
	}
	assert_int_equal(stat(in_dir("catalogue.db"), &after), 0);
	assert_int_equal(before.st_size, after.st_size);
	assert_int_equal(before.st_mtim.tv_nsec, after.st_mtim.tv_nsec);
	assert_trusted(false);
	put_one(cat, "b", "1", CATALOGUE_DURABLE); /* and then one may */
	assert_int_equal(stat(in_dir("catalogue.db"), &after), 0);
	assert_int_not_equal(before.st_mtim.tv_nsec, after.st_mtim.tv_nsec);
	pool_catalogue_close(cat);
}

/* Memory was short, and a page that was never written was read from disk again. */
static void a_log_that_lost_a_part_acknowledges_nothing(void **state)
{
	struct catalogue *cat = create_and_open();
	uint8_t byte = 0, flipped;
	int fd;

	(void)state;
	put_one(cat, "a", "1", CATALOGUE_DURABLE);
	put_one(cat, "b", "1", CATALOGUE_ORDERED);
	assert_int_equal(unlink(in_dir("catalogue.db-trust")), 0);
	fd = open(in_dir("catalogue.db-wal"), O_RDWR);
	assert_int_equal(pread(fd, &byte, 1, 5000), 1);
	flipped = (uint8_t)~byte;
	assert_int_equal(syscall(SYS_pwrite64, fd, &flipped, 1, 5000L), 1);
	assert_int_not_equal(try_put(cat, "c", CATALOGUE_DURABLE), 0);
	assert_trusted(false);
	assert_int_equal(syscall(SYS_pwrite64, fd, &byte, 1, 5000L), 1);
	close(fd);
	put_one(cat, "d", "1", CATALOGUE_DURABLE);
	assert_trusted(true);
	assert_value(cat, "c", NULL);
	pool_catalogue_close(cat);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(commits_after_a_failed_sync_survive_a_power_cut,
						setup, helper_remove_dir),
		cmocka_unit_test_setup_teardown(another_process_knows_of_a_sync_that_failed, setup,
						helper_remove_dir),
		cmocka_unit_test_setup_teardown(a_process_killed_in_a_failing_sync_leaves_word,
						setup, helper_remove_dir),
		cmocka_unit_test_setup_teardown(no_checkpoint_runs_on_a_log_that_is_not_trusted,
						setup, helper_remove_dir),
		cmocka_unit_test_setup_teardown(a_log_that_lost_a_part_acknowledges_nothing, setup,
						helper_remove_dir),
	};

	return cmocka_run_group_tests_name("pool/catalogue sync", tests, NULL, NULL);
}
