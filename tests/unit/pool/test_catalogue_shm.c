/* SPDX-License-Identifier: Apache-2.0 */

/* The shared index of the log: it keeps its blocks, is never believed after all
 * have left, and is SQLite's own for processes with the plain VFS. */

#include "catalogue_helper.h"
#include "pool/catalogue/catalogue_conn.h"
#include "pool/catalogue/catalogue_impl.h"

#include <fcntl.h>
#include <sys/wait.h>

#include <sqlite3.h>

#include "pool/catalogue/catalogue_disk_vfs.h"

#define ROWS 60
#define MANY 130

static void the_files_keep_their_blocks(void **state)
{
	struct stat before, after;

	(void)state;
	pool_catalogue_close(create_and_open());
	for (int i = 0; i < 3; i++) {
		auto_catalogue *cat = open_again(true);
		char key[16];

		snprintf(key, sizeof(key), "k%d", i);
		put_one(cat, key, "v", CATALOGUE_DURABLE);
	}
	assert_int_equal(stat(in_dir("catalogue.db-shm"), &before), 0);
	assert_true(before.st_blocks > 0);
	pool_catalogue_close(open_again(true));
	assert_int_equal(stat(in_dir("catalogue.db-shm"), &after), 0);
	assert_int_equal(before.st_ino, after.st_ino);
	assert_int_equal(before.st_blocks, after.st_blocks);
	assert_int_equal(before.st_size, after.st_size);
	assert_int_equal(stat(in_dir("catalogue.db-wal"), &after), 0);
	assert_true((uint64_t)after.st_blocks * 512 >= CATALOGUE_LOG_RESERVE);
}

/* The index as it was before the last commits, or full of rubbish, beside a log
 * that is newer: as after a power cut. */
static void an_index_that_does_not_fit_the_log_is_made_anew(void **state)
{
	static const unsigned char fills[] = {0x00, 0xff, 0x5a};

	(void)state;
	pool_catalogue_close(create_and_open());
	for (size_t i = 0; i < ARRAY_LEN(fills); i++) {
		unsigned char old[32768], junk[32768];
		int fd;

		{
			auto_catalogue *cat = open_again(true);

			put_one(cat, "a", "1", CATALOGUE_DURABLE);
		}
		fd = open(in_dir("catalogue.db-shm"), O_RDWR | O_CLOEXEC);
		assert_true(fd >= 0);
		assert_int_equal(pread(fd, old, sizeof(old), 0), sizeof(old));
		{
			auto_catalogue *cat = open_again(true);

			for (int n = 0; n < 20; n++)
				put_one(cat, "a", n % 2 ? "3" : "2", CATALOGUE_DURABLE);
		}
		assert_int_equal(pwrite(fd, old, sizeof(old), 0), sizeof(old));
		{
			auto_catalogue *cat = open_again(true);

			assert_value(cat, "a", "3");
		}
		memset(junk, fills[i], sizeof(junk));
		assert_int_equal(pwrite(fd, junk, sizeof(junk), 0), sizeof(junk));
		close(fd);
		{
			auto_catalogue *cat = open_again(true);

			assert_value(cat, "a", "3");
			put_one(cat, "b", "4", CATALOGUE_DURABLE);
			assert_value(cat, "b", "4");
		}
	}
}

/* Writes rows through SQLite's own VFS, as another version of the program. */
static int write_plainly(const char *path)
{
	sqlite3 *db = NULL;
	int rc = sqlite3_open_v2(path, &db, SQLITE_OPEN_READWRITE, "unix");

	if (rc == SQLITE_OK)
		rc = sqlite3_busy_timeout(db, 60000);
	for (int i = 0; i < ROWS && rc == SQLITE_OK; i++) {
		char sql[96];

		snprintf(sql, sizeof(sql), "INSERT INTO kv VALUES(x'70%02x',x'00')", i);
		rc = sqlite3_exec(db, sql, NULL, NULL, NULL);
	}
	sqlite3_close(db);
	return rc;
}

static void processes_with_the_plain_vfs_may_write_too(void **state)
{
	auto_catalogue *cat = create_and_open();
	size_t faults = 0;
	int status;
	pid_t pid;

	(void)state;
	put_one(cat, "first", "v", CATALOGUE_ORDERED);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0)
		_exit(write_plainly(in_dir("catalogue.db")));
	for (int i = 0; i < ROWS; i++) {
		char key[16];

		snprintf(key, sizeof(key), "o%02d", i);
		put_one(cat, key, "v", CATALOGUE_ORDERED);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	assert_int_equal(count_rows(cat, "o"), ROWS);
	assert_int_equal(count_rows(cat, "p"), ROWS);
	assert_int_equal(pool_catalogue_check(cat, count_line, &faults, NULL), 0);
	assert_int_equal(faults, 0);
}

/* A log that readers keep from being reset grows past one region of the index. */
static int commit_in_scan(void *arg, struct catalogue_bytes key, struct catalogue_bytes value,
			  bool damaged, struct cairn_err *err)
{
	struct catalogue *cat = arg;
	static char large[16000];

	(void)key;
	(void)value;
	(void)damaged;
	(void)err;
	memset(large, 'x', sizeof(large) - 1);
	for (int i = 0; i < 1200; i++) {
		char name[16];

		snprintf(name, sizeof(name), "l%d", i % 50);
		put_one(cat, name, large, CATALOGUE_ORDERED);
	}
	return 1;
}

static void a_long_log_has_an_index_of_several_regions(void **state)
{
	auto_catalogue *cat = create_and_open();
	static char large[60000];
	struct stat st;

	(void)state;
	memset(large, 'y', sizeof(large) - 1);
	/* Above 256 KiB a scan keeps its transaction open through its callbacks. */
	for (int i = 0; i < 10; i++) {
		char name[16];

		snprintf(name, sizeof(name), "s%d", i);
		put_one(cat, name, large, CATALOGUE_ORDERED);
	}
	assert_int_equal(pool_catalogue_scan(cat, text("s"), nothing, commit_in_scan, cat, NULL),
			 0);
	assert_int_equal(count_rows(cat, "l"), 50);
	assert_int_equal(stat(in_dir("catalogue.db-shm"), &st), 0);
	assert_true(st.st_size > 32768);
	pool_catalogue_closep(&cat);
	cat = open_again(true);
	assert_int_equal(count_rows(cat, "l"), 50);
	assert_value(cat, "s9", large);
}

/* A byte of the header that SQLite does not use: cleared when the index is made anew. */
#define UNUSED_BYTE 133

static unsigned char swap_unused_byte(unsigned char value)
{
	int fd = open(in_dir("catalogue.db-shm"), O_RDWR | O_CLOEXEC);
	unsigned char found;

	assert_true(fd >= 0);
	assert_int_equal(pread(fd, &found, 1, UNUSED_BYTE), 1);
	assert_int_equal(pwrite(fd, &value, 1, UNUSED_BYTE), 1);
	close(fd);
	return found;
}

static void commit_in_child(int held)
{
	int status;
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (pid == 0) {
		auto_catalogue *cat = open_again(true);

		close(held);
		put_one(cat, "child", "v", CATALOGUE_DURABLE);
		pool_catalogue_closep(&cat);
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

static void an_index_that_is_held_is_kept_across_fork(void **state)
{
	struct catalogue *cat = create_and_open();
	int held;

	(void)state;
	put_one(cat, "parent", "v", CATALOGUE_DURABLE);
	held = pool_catalogue_hold(cat);
	assert_true(held >= 0);
	pool_catalogue_close(cat);
	swap_unused_byte(0x77);
	commit_in_child(held);
	cat = open_again(true);
	assert_int_equal(swap_unused_byte(0x77), 0x77);
	assert_value(cat, "parent", "v");
	assert_value(cat, "child", "v");
	pool_catalogue_close(cat);
	close(held);
	cat = open_again(true);
	assert_int_equal(swap_unused_byte(0), 0);
	assert_value(cat, "child", "v");
	pool_catalogue_close(cat);
}

/* Connections are opened when they are needed, by a path that had no link in it. */
static void a_link_that_appears_on_the_way_is_not_followed(void **state)
{
	struct catalogue *cat = create_and_open();
	struct cairn_err err = {0};
	auto_batch *batch = new_batch(cat);
	char moved[80];

	(void)state;
	snprintf(moved, sizeof(moved), "%s-moved", helper_dir);
	assert_int_equal(rename(helper_dir, moved), 0);
	assert_int_equal(symlink(moved, helper_dir), 0);
	pool_catalogue_put(batch, text("a"), text("1"));
	assert_int_not_equal(pool_catalogue_commit(batch, CATALOGUE_DURABLE, &err), 0);
	assert_int_equal(unlink(helper_dir), 0);
	assert_int_equal(rename(moved, helper_dir), 0);
	pool_catalogue_close(cat);
}

/* Two processes, and an index that is removed or replaced under the first. */
static void commits_after_the_index_was_removed_are_kept(void **state)
{
	static const char *const keys[] = {"a", "b"};

	(void)state;
	pool_catalogue_close(create_and_open());
	for (int renamed = 0; renamed < 2; renamed++) {
		auto_catalogue *first = open_again(true);
		auto_catalogue *second = NULL;
		char path[128];

		put_one(first, "first", "1", CATALOGUE_DURABLE);
		snprintf(path, sizeof(path), "%s", in_dir("catalogue.db-shm"));
		assert_int_equal(renamed ? rename(path, in_dir("moved")) : unlink(path), 0);
		second = open_again(true);
		for (int i = 0; i < 4; i++) {
			put_one(second, keys[renamed], i % 2 ? "3" : "2", CATALOGUE_DURABLE);
			put_one(first, "first", i % 2 ? "3" : "2", CATALOGUE_DURABLE);
		}
		if (!renamed)
			assert_value(first, keys[renamed], "3");
		assert_value(second, "first", "3");
		pool_catalogue_close(cairn_take(first));
		pool_catalogue_close(cairn_take(second));
		second = open_again(true);
		assert_value(second, keys[renamed], "3");
		assert_value(second, "first", "3");
	}
}

/* When it closes, a process that has copied the whole log begins it anew. */
static void a_closing_process_without_its_index_keeps_the_commits_of_others(void **state)
{
	auto_catalogue *first = NULL, *second = NULL;

	(void)state;
	pool_catalogue_close(create_and_open());
	first = open_again(true);
	for (int i = 0; i < 1000 && !(((struct catalogue_sqlite *)first)->writer &&
				      ((struct catalogue_sqlite *)first)->writer->log_is_copied);
	     i++)
		put_one(first, "first", "1", CATALOGUE_DURABLE);
	assert_true(((struct catalogue_sqlite *)first)->writer->log_is_copied);
	assert_int_equal(unlink(in_dir("catalogue.db-shm")), 0);
	/* The first of them copies the log and begins it anew as well. */
	for (int i = 0; i < 3; i++) {
		second = open_again(true);
		put_one(second, "second", i == 2 ? "3" : "2", CATALOGUE_DURABLE);
		pool_catalogue_close(cairn_take(second));
	}
	pool_catalogue_close(cairn_take(first));
	second = open_again(true);
	assert_value(second, "second", "3");
	assert_value(second, "first", "1");
}

/* More pages than start a checkpoint. */
static void put_many(struct catalogue *cat, char byte)
{
	auto_batch *batch = new_batch(cat);
	struct cairn_err err = {0};
	char key[16], value[2001];

	memset(value, byte, sizeof(value) - 1);
	value[sizeof(value) - 1] = '\0';
	for (int i = 0; i < MANY; i++) {
		snprintf(key, sizeof(key), "k%d", i);
		pool_catalogue_put(batch, text(key), text(value));
	}
	assert_ok(pool_catalogue_commit(batch, CATALOGUE_DURABLE, &err), &err);
}

static int looks_to_removal; /* at the index by its name; 0 for no removal */

/* Right after this look the index is removed, and another process commits, copies its log
 * and begins it anew. */
/* NOLINTNEXTLINE(readability-inconsistent-declaration-parameter-name) */
int lstat(const char *path, struct stat *ret)
{
	int rc = fstatat(AT_FDCWD, path, ret, AT_SYMLINK_NOFOLLOW);

	if (strstr(path, "-shm") && looks_to_removal > 0 && --looks_to_removal == 0) {
		struct catalogue *other;

		assert_int_equal(unlink(path), 0);
		other = open_again(true);
		put_many(other, 'n');
		assert_true(((struct catalogue_sqlite *)other)->writer->log_is_copied);
		pool_catalogue_close(other);
		pool_catalogue_close(open_again(true));
	}
	return rc;
}

static void assert_newer(struct catalogue *cat)
{
	char key[16];

	for (int i = 0; i < MANY; i++) {
		struct cairn_err err = {0};
		uint8_t *data = NULL;
		size_t len;

		snprintf(key, sizeof(key), "k%d", i);
		assert_ok(pool_catalogue_get(cat, text(key), &data, &len, &err), &err);
		assert_int_equal(data[0], 'n');
		free(data);
	}
}

static void no_older_pages_are_copied_after_the_index_was_removed(void **state)
{
	auto_catalogue *cat = NULL;
	size_t faults = 0;

	(void)state;
	pool_catalogue_close(create_and_open());
	cat = open_again(true);
	put_one(cat, "one", "1", CATALOGUE_DURABLE);
	looks_to_removal = 2; /* before the commit, after it */
	put_many(cat, 'o');
	assert_int_equal(looks_to_removal, 0);
	pool_catalogue_close(cairn_take(cat));
	cat = open_again(true);
	assert_newer(cat);
	assert_int_equal(pool_catalogue_check(cat, count_line, &faults, NULL), 0);
	assert_int_equal(faults, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		catalogue_test(the_files_keep_their_blocks),
		catalogue_test(an_index_that_does_not_fit_the_log_is_made_anew),
		catalogue_test(processes_with_the_plain_vfs_may_write_too),
		catalogue_test(a_long_log_has_an_index_of_several_regions),
		catalogue_test(an_index_that_is_held_is_kept_across_fork),
		catalogue_test(a_link_that_appears_on_the_way_is_not_followed),
		catalogue_test(commits_after_the_index_was_removed_are_kept),
		catalogue_test(a_closing_process_without_its_index_keeps_the_commits_of_others),
		catalogue_test(no_older_pages_are_copied_after_the_index_was_removed),
	};

	return cmocka_run_group_tests_name("pool/catalogue shm", tests, NULL, NULL);
}
