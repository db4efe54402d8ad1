/* SPDX-License-Identifier: Apache-2.0 */

/* The catalogue over files that are cut short, overwritten or not its own. */

#include "catalogue_helper.h"
#include "pool/catalogue/catalogue_impl.h"
#include "pool/catalogue/catalogue_log.h"
#include "pool/catalogue/catalogue_mark.h"

#include <fcntl.h>
#include <malloc.h>
#include <signal.h>
#include <sqlite3.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/io.h"
#include "base/mem.h"
#include "block/checksum.h"

#define PAGE    4096U
#define RECORDS 120

static void key_of(int i, char out[16])
{
	snprintf(out, 16, "key/%05d", i);
}

/* Some values are longer than a page, so that overflow pages exist. */
static size_t value_of(int i, uint8_t out[CATALOGUE_VALUE_MAX])
{
	size_t len = i % 40 == 7 ? 9000 : 20 + (size_t)i * 3;

	for (size_t j = 0; j < len; j++)
		out[j] = (uint8_t)(i * 31 + (int)j * 7 + (int)(j >> 8));
	return len;
}

static void sql(const char *statement)
{
	sqlite3 *db = NULL;

	assert_int_equal(sqlite3_open(in_dir("catalogue.db"), &db), SQLITE_OK);
	assert_int_equal(sqlite3_exec(db, statement, NULL, NULL, NULL), SQLITE_OK);
	sqlite3_close(db);
}

/* One main file that holds everything. */
static void make_full_file(void)
{
	auto_catalogue *cat = create_and_open();
	auto_batch *batch = new_batch(cat);
	struct cairn_err err = {0};
	static uint8_t value[CATALOGUE_VALUE_MAX];
	char key[16];

	for (int i = 0; i < RECORDS; i++) {
		key_of(i, key);
		pool_catalogue_put(batch, text(key),
				   (struct catalogue_bytes){value, value_of(i, value)});
	}
	assert_ok(pool_catalogue_commit(batch, CATALOGUE_DURABLE, &err), &err);
	pool_catalogue_close(cairn_take(cat));
	sql("PRAGMA wal_checkpoint(TRUNCATE)");
}

static uint8_t *load(const char *name, size_t *ret_len)
{
	struct cairn_err err = {0};
	char *data = NULL;

	assert_ok(cairn_file_read(AT_FDCWD, in_dir(name), 64 << 20, &data, ret_len, &err), &err);
	return (uint8_t *)data;
}

static void store(const char *name, const uint8_t *data, size_t len)
{
	int fd = open(in_dir(name), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	assert_true(fd >= 0);
	assert_int_equal(cairn_write_full(fd, data, len), 0);
	close(fd);
}

static void drop_log(void)
{
	unlink(in_dir("catalogue.db-wal"));
	unlink(in_dir("catalogue.db-shm"));
}

struct segment_walk {
	size_t rows, damaged;
};

static int survey_row(void *arg, struct catalogue_bytes key, struct catalogue_bytes value,
		      bool damaged, struct cairn_err *err)
{
	static uint8_t want[CATALOGUE_VALUE_MAX];
	struct segment_walk *survey = arg;
	char name[16];

	(void)err;
	survey->rows++;
	if (damaged) {
		assert_int_equal(value.len, 0);
		survey->damaged++;
		return 0;
	}
	for (int i = 0; i < RECORDS; i++) {
		key_of(i, name);
		if (key.len == strlen(name) && memcmp(key.data, name, key.len) == 0) {
			assert_int_equal(value.len, value_of(i, want));
			assert_memory_equal(value.data, want, value.len);
			return 0;
		}
	}
	fail_msg("a key that was never put passed its checksum");
	return 0;
}

/* How many records a get does not give; what it gives must be right. */
static size_t count_missing(struct catalogue *cat)
{
	static uint8_t want[CATALOGUE_VALUE_MAX];
	size_t missing = 0, len;
	char key[16];

	for (int i = 0; i < RECORDS; i++) {
		uint8_t *data = NULL;
		int rc;

		key_of(i, key);
		rc = pool_catalogue_get(cat, text(key), &data, &len, NULL);
		if (rc != 0) {
			assert_true(rc == CAIRN_NOT_FOUND || rc == CAIRN_DATA_LOSS);
			missing++;
			continue;
		}
		assert_int_equal(len, value_of(i, want));
		assert_memory_equal(data, want, len);
		free(data);
	}
	return missing;
}

/* Whatever the file holds: values that are given out are right, and what is
 * gone is noticed by the opening, the scan or the check. */
static void survive(void)
{
	struct segment_walk survey = {0};
	struct cairn_err err = {0};
	struct catalogue *cat = NULL;
	size_t missing, faults = 0;
	int rc = pool_catalogue_open(helper_dir, true, &cat, &err);

	if (rc != 0) {
		assert_true(rc == CAIRN_DATA_LOSS || rc == CAIRN_UNIMPLEMENTED);
		return;
	}
	missing = count_missing(cat);
	rc = pool_catalogue_scan(cat, nothing, nothing, survey_row, &survey, &err);
	assert_true(rc == 0 || rc == CAIRN_DATA_LOSS);
	assert_ok(pool_catalogue_check(cat, count_line, &faults, &err), &err);
	if (missing > 0 || survey.rows != RECORDS)
		assert_true(rc != 0 || survey.damaged > 0 || faults > 0);
	auto_batch *batch = new_batch(cat);

	pool_catalogue_put(batch, text("key/00050"), text("other"));
	rc = pool_catalogue_commit(batch, CATALOGUE_ORDERED, &err);
	assert_true(rc == 0 || rc == CAIRN_DATA_LOSS || rc == CAIRN_PRECONDITION);
	pool_catalogue_close(cat);
}

static void overwritten_regions_are_noticed(void **state)
{
	cairn_auto_free uint8_t *good = NULL, *bad = NULL;
	const size_t region = 256;
	size_t len;

	(void)state;
	make_full_file();
	good = load("catalogue.db", &len);
	bad = malloc(len);
	assert_non_null(bad);
	for (size_t at = 0; at < len; at += region) {
		for (int how = 0; how < 3; how++) {
			memcpy(bad, good, len);
			for (size_t i = 0; i < region; i++)
				bad[at + i] = how == 0   ? 0
					      : how == 1 ? 0xff
							 : (uint8_t)(bad[at + i] ^ (0x11 * i + 1));
			drop_log();
			store("catalogue.db", bad, len);
			survive();
		}
	}
}

static void flipped_bits_in_the_first_page_are_survived(void **state)
{
	cairn_auto_free uint8_t *data = NULL;
	size_t len;

	(void)state;
	make_full_file();
	data = load("catalogue.db", &len);
	for (size_t at = 0; at < 120; at++) {
		data[at] ^= (uint8_t)(1U << (at % 8));
		drop_log();
		store("catalogue.db", data, len);
		survive();
		data[at] ^= (uint8_t)(1U << (at % 8));
	}
}

static void a_truncated_file_is_noticed(void **state)
{
	static const size_t odd[] = {0, 1, 15, 16, 99, 100, 511, 512, PAGE - 1, PAGE + 1};
	cairn_auto_free uint8_t *data = NULL;
	size_t len;

	(void)state;
	make_full_file();
	data = load("catalogue.db", &len);
	for (size_t n = PAGE; n < len; n += PAGE) {
		drop_log();
		store("catalogue.db", data, n);
		survive();
	}
	for (size_t i = 0; i < ARRAY_LEN(odd); i++) {
		drop_log();
		store("catalogue.db", data, odd[i]);
		survive();
	}
}

static void a_file_truncated_while_it_is_open_is_an_error(void **state)
{
	auto_catalogue *cat = NULL;

	(void)state;
	make_full_file();
	cat = open_again(true);
	assert_int_equal(truncate(in_dir("catalogue.db"), PAGE), 0);
	assert_true(count_missing(cat) > 0);
}

/* Commit i writes both keys, so a whole commit shows in both. */
static void a_damaged_log_loses_its_end_and_never_half_a_commit(void **state)
{
	cairn_auto_free uint8_t *log = NULL, *file = NULL, *bad = NULL;
	size_t log_len, file_len;
	struct catalogue *cat = create_and_open();
	char value[32];

	(void)state;
	for (int i = 1; i <= 12; i++) {
		auto_batch *batch = new_batch(cat);
		struct cairn_err err = {0};

		snprintf(value, sizeof(value), "%d", i);
		pool_catalogue_put(batch, text("one"), text(value));
		pool_catalogue_put(batch, text("two"), text(value));
		assert_ok(pool_catalogue_commit(batch, CATALOGUE_ORDERED, &err), &err);
	}
	pool_catalogue_close(cat);
	log = load("catalogue.db-wal", &log_len);
	file = load("catalogue.db", &file_len);
	bad = malloc(log_len);
	for (size_t at = 0; at < log_len; at += 509) {
		for (int cut = 0; cut < 2; cut++) {
			uint8_t *one = NULL, *two = NULL;
			struct cairn_err err = {0};
			size_t one_len, two_len;
			int rc;

			drop_log();
			store("catalogue.db", file, file_len);
			memcpy(bad, log, log_len);
			bad[at] ^= 0x40;
			store("catalogue.db-wal", bad, cut ? at : log_len);
			store("catalogue.db-shm", bad, cut ? at : log_len);
			assert_ok(pool_catalogue_open_lossy(helper_dir, false, &cat, &err), &err);
			rc = pool_catalogue_get(cat, text("one"), &one, &one_len, NULL);
			assert_int_equal(pool_catalogue_get(cat, text("two"), &two, &two_len, NULL),
					 rc);
			if (rc == 0)
				assert_string_equal((char *)one, (char *)two);
			free(one);
			free(two);
			pool_catalogue_close(cat);
		}
	}
}

static void flip_log_at(uint64_t at)
{
	int fd = open(in_dir("catalogue.db-wal"), O_RDWR | O_CLOEXEC);
	uint8_t byte;

	assert_true(fd >= 0);
	assert_int_equal(pread(fd, &byte, 1, (off_t)at), 1);
	byte ^= 1;
	assert_int_equal(pwrite(fd, &byte, 1, (off_t)at), 1);
	close(fd);
}

static void a_damaged_last_commit_is_noticed(void **state)
{
	struct catalogue *cat = create_and_open();
	struct cairn_err err = {0};
	struct catalogue_mark mark;

	(void)state;
	put_one(cat, "one", "1", CATALOGUE_DURABLE);
	put_one(cat, "two", "2", CATALOGUE_DURABLE);
	pool_catalogue_close(cat);
	mark = pool_catalogue_mark_read(in_dir("catalogue.db"));
	flip_log_at(mark.end - 100);
	for (int writable = 0; writable < 2; writable++)
		assert_code(pool_catalogue_open(helper_dir, writable, &cat, &err), CAIRN_DATA_LOSS);
	flip_log_at(mark.end - 100);
	cat = open_again(true);
	assert_value(cat, "two", "2");
	pool_catalogue_close(cat);
}

/* A commit whose process was killed before the index had it is written over. */
static void a_mark_moves_back_only_over_a_whole_log(void **state)
{
	struct catalogue *cat = create_and_open();
	struct catalogue_mark mark, now;
	char path[128];
	int fd;

	(void)state;
	put_one(cat, "one", "1", CATALOGUE_DURABLE);
	put_one(cat, "two", "2", CATALOGUE_DURABLE);
	pool_catalogue_close(cat);
	snprintf(path, sizeof(path), "%s", in_dir("catalogue.db"));
	fd = open(in_dir("catalogue.db-trust"), O_RDWR | O_CLOEXEC);
	assert_true(fd >= 0);
	mark = pool_catalogue_mark_read(path);
	flip_log_at(mark.end - 100);
	pool_catalogue_mark_lower(fd, path, mark.salt, mark.start);
	now = pool_catalogue_mark_read(path);
	assert_memory_equal(&now, &mark, sizeof(mark));
	flip_log_at(mark.end - 100);
	pool_catalogue_mark_lower(fd, path, mark.salt, mark.end);
	assert_int_equal(pool_catalogue_mark_read(path).end, mark.end);
	pool_catalogue_mark_lower(fd, path, mark.salt, mark.start);
	assert_int_equal(pool_catalogue_mark_read(path).end, mark.start);
	close(fd);
	flip_log_at(mark.end - 100);
	pool_catalogue_close(open_again(true));
}

static void an_older_log_that_was_put_back_is_noticed(void **state)
{
	cairn_auto_free uint8_t *old = NULL, *log = NULL;
	size_t old_len, len;
	struct catalogue *cat = create_and_open();
	struct cairn_err err = {0};

	(void)state;
	put_one(cat, "one", "1", CATALOGUE_DURABLE);
	old = load("catalogue.db-wal", &old_len);
	sql("PRAGMA wal_checkpoint");
	put_one(cat, "two", "2", CATALOGUE_DURABLE);
	pool_catalogue_close(cat);
	log = load("catalogue.db-wal", &len);
	assert_memory_not_equal(old + 16, log + 16, CATALOGUE_SALT_SIZE);
	unlink(in_dir("catalogue.db-shm"));
	store("catalogue.db-wal", old, old_len);
	for (int writable = 0; writable < 2; writable++)
		assert_code(pool_catalogue_open(helper_dir, writable, &cat, &err), CAIRN_DATA_LOSS);
	store("catalogue.db-wal", log, len);
	cat = open_again(true);
	assert_value(cat, "two", "2");
	pool_catalogue_close(cat);
}

static void assert_lost(void)
{
	for (int writable = 0; writable < 2; writable++) {
		struct catalogue *cat = NULL;
		struct cairn_err err = {0};

		assert_code(pool_catalogue_open(helper_dir, writable, &cat, &err), CAIRN_DATA_LOSS);
	}
}

/* What the main file alone can tell. */
static void a_log_lost_together_with_the_trust_file_is_noticed(void **state)
{
	static const char *const damages[] = {NULL, "",
					      "no log at all, but some bytes in its place"};

	(void)state;
	for (int commits = 0; commits < 2; commits++) {
		cairn_auto_free uint8_t *log = NULL;
		size_t len;
		struct catalogue *cat = create_and_open();

		if (commits)
			put_one(cat, "one", "1", CATALOGUE_DURABLE);
		pool_catalogue_close(cat);
		log = load("catalogue.db-wal", &len);
		for (size_t i = 0; i < ARRAY_LEN(damages); i++) {
			drop_log();
			unlink(in_dir("catalogue.db-trust"));
			if (damages[i])
				store("catalogue.db-wal", (const uint8_t *)damages[i],
				      strlen(damages[i]));
			assert_lost();
		}
		unlink(in_dir("catalogue.db-shm"));
		store("catalogue.db-wal", log, len);
		cat = open_again(true);
		assert_value(cat, "one", commits ? "1" : NULL);
		put_one(cat, "two", "2", CATALOGUE_DURABLE);
		pool_catalogue_close(cat);
		pool_catalogue_close(open_again(true));
		unlink(in_dir("catalogue.db"));
	}
}

/* Without the mark, the log that is left is taken for all of it. */
static void a_trust_file_that_cannot_be_read_is_an_error(void **state)
{
	cairn_auto_free uint8_t *log = NULL;
	struct catalogue *cat = create_and_open();
	struct cairn_err err = {0};
	size_t len;

	(void)state;
	put_one(cat, "one", "1", CATALOGUE_DURABLE);
	put_one(cat, "two", "2", CATALOGUE_DURABLE);
	pool_catalogue_close(cat);
	log = load("catalogue.db-wal", &len);
	store("catalogue.db-wal", log, len - 4120);
	unlink(in_dir("catalogue.db-shm"));
	assert_lost();
	/* It can be opened and every read of it fails; then opening fails as well. */
	assert_int_equal(unlink(in_dir("catalogue.db-trust")), 0);
	assert_int_equal(mkdir(in_dir("catalogue.db-trust"), 0700), 0);
	for (int writable = 0; writable < 2; writable++)
		assert_true(pool_catalogue_open(helper_dir, writable, &cat, &err) < 0);
	assert_int_equal(rmdir(in_dir("catalogue.db-trust")), 0);
	assert_int_equal(symlink("catalogue.db-trust", in_dir("catalogue.db-trust")), 0);
	for (int writable = 0; writable < 2; writable++)
		assert_true(pool_catalogue_open(helper_dir, writable, &cat, &err) < 0);
}

static void touch_main(void)
{
	const struct timespec times[2] = {{.tv_sec = 1}, {.tv_sec = 1}};

	assert_int_equal(utimensat(AT_FDCWD, in_dir("catalogue.db"), times, 0), 0);
}

static void a_log_lost_beside_a_touched_main_file_is_noticed(void **state)
{
	struct catalogue *cat = create_and_open();

	(void)state;
	put_one(cat, "one", "1", CATALOGUE_DURABLE);
	sql("PRAGMA wal_checkpoint");
	/* The first synced commit of a log leaves the proof: before it, a killed process
	 * could not be told from a lost log. */
	put_one(cat, "two", "2", CATALOGUE_DURABLE);
	pool_catalogue_close(cat);
	drop_log();
	touch_main();
	assert_lost();
}

/* SQLite's own programs copy the log into the main file and remove it, and may change
 * the same records before. */
static void a_log_that_was_folded_in_is_not_lost(void **state)
{
	static const char *const statements[] = {"SELECT 1 FROM kv", "UPDATE kv SET v=k"};

	(void)state;
	for (int touched = 0; touched < 2; touched++)
		for (size_t i = 0; i < ARRAY_LEN(statements); i++) {
			struct catalogue *cat = create_and_open();

			put_one(cat, "one", "1", CATALOGUE_DURABLE);
			put_one(cat, "two", "2", CATALOGUE_ORDERED);
			pool_catalogue_close(cat);
			sql(statements[i]);
			assert_int_not_equal(access(in_dir("catalogue.db-wal"), F_OK), 0);
			if (touched)
				touch_main();
			cat = open_again(true);
			assert_int_equal(count_rows(cat, ""), 2);
			put_one(cat, "three", "3", CATALOGUE_DURABLE);
			pool_catalogue_close(cat);
			pool_catalogue_close(open_again(true));
			unlink(in_dir("catalogue.db"));
			drop_log();
		}
}

/* As an older version made it: the first checkpoint makes it say that it has a log. */
static void an_older_main_file_learns_of_its_log(void **state)
{
	struct catalogue *cat;

	(void)state;
	pool_catalogue_close(create_and_open());
	sql("PRAGMA default_cache_size=0");
	unlink(in_dir("catalogue.db-trust"));
	cat = open_again(true);
	for (int i = 0; i < 200; i++)
		put_one(cat, "one", "1", CATALOGUE_ORDERED);
	pool_catalogue_close(cat);
	drop_log();
	unlink(in_dir("catalogue.db-trust"));
	assert_lost();
}

/* A process that closes begins the log anew: its header is synced, its first frame is not.
 * After a power cut the rest of the log is what it was before. */
static void a_restart_of_the_log_that_was_cut_short_refuses_nothing(void **state)
{
	bool restarted = false;

	(void)state;
	pool_catalogue_close(create_and_open());
	for (int i = 0; i < 400 && !restarted; i++) {
		cairn_auto_free uint8_t *before = NULL, *after = NULL;
		size_t before_len, after_len;
		struct catalogue *cat = open_again(true);

		put_one(cat, "one", "1", CATALOGUE_DURABLE);
		before = load("catalogue.db-wal", &before_len);
		pool_catalogue_close(cat);
		after = load("catalogue.db-wal", &after_len);
		restarted = memcmp(before + 16, after + 16, CATALOGUE_SALT_SIZE) != 0;
		if (!restarted)
			continue;
		memcpy(before, after, CATALOGUE_LOG_HEADER);
		store("catalogue.db-wal", before, before_len);
		unlink(in_dir("catalogue.db-shm"));
		cat = open_again(true);
		assert_value(cat, "one", "1");
		pool_catalogue_close(cat);
	}
	assert_true(restarted);
}

/* As a transaction leaves it whose process was killed after its last frame: nothing of the page
 * that it wrote is in the main file. */
static void note_uncommitted_page(void)
{
	struct catalogue_page page = {.number = 1, .size = PAGE, .after = 1};
	cairn_auto_free uint8_t *main_file = NULL;
	size_t len;
	int fd = open(in_dir("catalogue.db-trust"), O_RDWR | O_CLOEXEC);

	main_file = load("catalogue.db", &len);
	page.before = block_checksum(main_file, PAGE);
	assert_true(fd >= 0);
	pool_catalogue_page_write(fd, &page);
	close(fd);
}

/* The limit lets the header of a log and the trust file be written, and no whole frame. */
static int put_until_killed(void)
{
	pid_t child = fork();
	int status;

	if (child == 0) {
		const struct rlimit limit = {96, 96}, no_core = {0, 0};
		struct catalogue *cat = open_again(true);

		assert_value(cat, "one", "1");
		signal(SIGXFSZ, SIG_DFL);
		setrlimit(RLIMIT_CORE, &no_core);
		setrlimit(RLIMIT_FSIZE, &limit);
		put_one(cat, "two", "2", CATALOGUE_DURABLE);
		_exit(0);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

static void a_restart_killed_before_its_first_commit_refuses_nothing(void **state)
{
	struct catalogue *cat = create_and_open();
	uint8_t salt[2][CATALOGUE_SALT_SIZE];

	(void)state;
	put_one(cat, "one", "1", CATALOGUE_DURABLE);
	sql("PRAGMA wal_checkpoint");
	note_uncommitted_page();
	for (int i = 0; i < 2; i++) {
		cairn_auto_free uint8_t *log = NULL;
		size_t len;

		if (i)
			assert_int_equal(put_until_killed(), SIGXFSZ);
		log = load("catalogue.db-wal", &len);
		memcpy(salt[i], log + CATALOGUE_LOG_SALT_OFFSET, sizeof(salt[i]));
	}
	assert_memory_not_equal(salt[0], salt[1], sizeof(salt[0]));
	pool_catalogue_close(cat);
	for (int writable = 0; writable < 2; writable++) {
		cat = open_again(writable);
		assert_value(cat, "one", "1");
		pool_catalogue_close(cat);
	}
}

static void put_big(uint8_t *p, uint32_t value)
{
	for (int i = 0; i < 4; i++)
		p[i] = (uint8_t)(value >> (24 - 8 * i));
}

/* A log of nothing but its header, with checksums of big-endian words. */
static void store_log_header(uint32_t generation)
{
	uint32_t words[6] = {0x377f0683, 3007000, PAGE, 0, generation, 7}, sum[2] = {0, 0};
	uint8_t header[32];

	for (int i = 0; i < 6; i += 2) {
		sum[0] += words[i] + sum[1];
		sum[1] += words[i + 1] + sum[0];
	}
	for (int i = 0; i < 6; i++)
		put_big(header + (size_t)i * 4, words[i]);
	put_big(header + 24, sum[0]);
	put_big(header + 28, sum[1]);
	store("catalogue.db-wal", header, sizeof(header));
}

static void generations_of_a_log_wrap_around(void **state)
{
	static const struct {
		int from_log;
		bool is_fault;
	} cases[] = {{1, true}, {3, true}, {-1, false}, {-3, false}, {1 << 24, false}};
	struct catalogue_mark mark;
	bool is_proven;
	char path[128];

	(void)state;
	pool_catalogue_close(create_and_open());
	snprintf(path, sizeof(path), "%s", in_dir("catalogue.db"));
	mark = (struct catalogue_mark){.end = 1};
	for (uint32_t first = UINT32_MAX - 4; first != 4; first++)
		for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
			uint32_t marked = first + (uint32_t)cases[i].from_log;

			store_log_header(first);
			put_big(mark.salt, marked);
			(void)pool_catalogue_mark_fault(path, &mark, &is_proven);
			assert_int_equal(is_proven, cases[i].is_fault);
		}
}

/* Whoever removes the data of what has no record must not be told that there is none. */
static void a_missing_file_is_no_missing_record(void **state)
{
	auto_catalogue *cat = create_and_open();
	struct cairn_err err = {0};
	struct conn *idle = NULL;
	uint8_t *data = NULL;
	char moved[128];
	size_t len = 0;

	(void)state;
	put_one(cat, "k/1", "value", CATALOGUE_DURABLE);
	/* Another thread uses it, so the question opens one more. */
	assert_ok(pool_catalogue_reader_take((struct catalogue_sqlite *)cat, &idle, &err), &err);
	snprintf(moved, sizeof(moved), "%s", in_dir("moved"));
	assert_int_equal(rename(in_dir("catalogue.db"), moved), 0);
	assert_code(pool_catalogue_get(cat, text("k/1"), &data, &len, &err), CAIRN_UNAVAILABLE);
	assert_int_equal(rename(moved, in_dir("catalogue.db")), 0);
	pool_catalogue_reader_release((struct catalogue_sqlite *)cat, idle, true);
	assert_value(cat, "k/1", "value");
}

/* The log may hold all that is left. */
static void the_log_beside_an_empty_file_stays(void **state)
{
	struct catalogue *cat = create_and_open();
	struct cairn_err err = {0};
	struct stat st;

	(void)state;
	put_one(cat, "k", "value", CATALOGUE_DURABLE);
	pool_catalogue_close(cat);
	assert_int_equal(truncate(in_dir("catalogue.db"), 0), 0);
	for (int writable = 0; writable < 2; writable++)
		assert_code(pool_catalogue_open(helper_dir, writable, &cat, &err), CAIRN_DATA_LOSS);
	assert_int_equal(stat(in_dir("catalogue.db-wal"), &st), 0);
	assert_true(st.st_size > 0);
}

static void nobody_waits_for_a_journal(void **state)
{
	struct cairn_err err = {0};
	struct catalogue *cat = NULL;

	(void)state;
	pool_catalogue_close(create_and_open());
	assert_int_equal(mkfifo(in_dir("catalogue.db-journal"), 0600), 0);
	alarm(60); /* it hung for ever */
	assert_code(pool_catalogue_open(helper_dir, true, &cat, &err), CAIRN_DATA_LOSS);
	alarm(0);
}

static void what_is_not_a_catalogue_is_refused(void **state)
{
	static const struct {
		const char *statement;
		int code;
	} cases[] = {
		{"PRAGMA user_version=2", CAIRN_UNIMPLEMENTED},
		{"PRAGMA user_version=2147483647", CAIRN_UNIMPLEMENTED},
		{"PRAGMA user_version=0", CAIRN_DATA_LOSS},
		{"PRAGMA user_version=-1", CAIRN_DATA_LOSS},
		{"PRAGMA application_id=7", CAIRN_DATA_LOSS},
	};
	struct cairn_err err = {0};
	struct catalogue *cat = NULL;

	(void)state;
	assert_code(pool_catalogue_open(helper_dir, true, &cat, &err), CAIRN_NOT_FOUND);
	assert_code(pool_catalogue_open("/nonexistent/x", true, &cat, &err), CAIRN_NOT_FOUND);
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		pool_catalogue_close(create_and_open());
		sql(cases[i].statement);
		for (int writable = 0; writable < 2; writable++)
			assert_code(pool_catalogue_open(helper_dir, writable, &cat, &err),
				    cases[i].code);
		unlink(in_dir("catalogue.db"));
		drop_log();
	}
	store("catalogue.db", (const uint8_t *)"plain text, and more than sixteen bytes", 39);
	assert_code(pool_catalogue_open(helper_dir, true, &cat, &err), CAIRN_DATA_LOSS);
	unlink(in_dir("catalogue.db"));
	assert_int_equal(mkfifo(in_dir("catalogue.db"), 0600), 0);
	assert_code(pool_catalogue_open(helper_dir, true, &cat, &err), CAIRN_DATA_LOSS);
}

static void a_catalogue_without_its_table_is_damaged(void **state)
{
	auto_catalogue *cat = NULL;
	struct cairn_err err = {0};
	uint8_t *data;
	size_t len, faults = 0;

	(void)state;
	pool_catalogue_close(create_and_open());
	sql("DROP TABLE kv");
	cat = open_again(true);
	assert_code(pool_catalogue_get(cat, text("a"), &data, &len, &err), CAIRN_DATA_LOSS);
	assert_ok(pool_catalogue_check(cat, count_line, &faults, &err), &err);
	assert_true(faults > 0);
}

/* ---- the n-th allocation, SQLite's own included ------------------------- */

static void *sqlite_alloc(int n)
{
	return cairn_alloc((size_t)n);
}

static void *sqlite_realloc(void *p, int n)
{
	return cairn_realloc_array(p, (size_t)n, 1);
}

static int sqlite_size(void *p)
{
	return (int)malloc_usable_size(p);
}

static int sqlite_roundup(int n)
{
	return (n + 7) & ~7;
}

static int sqlite_init(void *p)
{
	(void)p;
	return SQLITE_OK;
}

static void sqlite_shutdown(void *p)
{
	(void)p;
}

static int use_all(struct cairn_err *err)
{
	auto_catalogue *cat = NULL;
	auto_batch *batch = NULL;
	cairn_auto_free uint8_t *data = NULL;
	size_t len, rows = 0;
	int rc = pool_catalogue_open(helper_dir, true, &cat, err);

	if (rc == 0)
		rc = pool_catalogue_get(cat, text("one"), &data, &len, err);
	if (rc == 0)
		rc = pool_catalogue_scan(cat, nothing, nothing, count_row, &rows, err);
	if (rc == 0)
		rc = pool_catalogue_batch_new(cat, &batch, err);
	if (rc != 0)
		return rc;
	assert_int_equal(rows, 2);
	pool_catalogue_expect(batch, text("one"), (struct catalogue_bytes){data, len});
	pool_catalogue_put(batch, text("one"), text("new"));
	pool_catalogue_put(batch, text("two"), text("new"));
	return pool_catalogue_commit(batch, CATALOGUE_DURABLE, err);
}

static void memory_that_runs_out_is_an_error_and_half_changes_nothing(void **state)
{
	struct catalogue *cat = create_and_open();
	int rc = CAIRN_NO_SPACE;
	size_t n, failures = 0;

	(void)state;
	pool_catalogue_close(cat);
	for (int after = 0; after < 2; after++) {
		rc = CAIRN_NO_SPACE;
		for (n = 1; n < 5000; n++) {
			struct cairn_err err = {0};

			cat = open_again(true);
			put_one(cat, "one", "old", CATALOGUE_ORDERED);
			put_one(cat, "two", "old", CATALOGUE_ORDERED);
			pool_catalogue_close(cat);
			cairn_mem_fail_at(n, after);
			rc = use_all(&err);
			bool reached = cairn_mem_count() >= n;

			cairn_mem_fail_at(0, 0);
			if (rc != 0)
				assert_int_equal(err.code, CAIRN_NO_SPACE);
			failures += rc != 0;
			cat = open_again(false);
			assert_value(cat, "one", rc == 0 ? "new" : "old");
			assert_value(cat, "two", rc == 0 ? "new" : "old");
			pool_catalogue_close(cat);
			if (!reached)
				break;
		}
		assert_int_equal(rc, 0);
	}
	assert_true(failures > 50);
}

int main(void)
{
	static const sqlite3_mem_methods methods = {
		sqlite_alloc,   free,        sqlite_realloc,  sqlite_size,
		sqlite_roundup, sqlite_init, sqlite_shutdown, NULL,
	};
	const struct CMUnitTest tests[] = {
		catalogue_test(overwritten_regions_are_noticed),
		catalogue_test(flipped_bits_in_the_first_page_are_survived),
		catalogue_test(a_truncated_file_is_noticed),
		catalogue_test(a_file_truncated_while_it_is_open_is_an_error),
		catalogue_test(a_damaged_log_loses_its_end_and_never_half_a_commit),
		catalogue_test(a_damaged_last_commit_is_noticed),
		catalogue_test(a_mark_moves_back_only_over_a_whole_log),
		catalogue_test(a_log_lost_together_with_the_trust_file_is_noticed),
		catalogue_test(a_trust_file_that_cannot_be_read_is_an_error),
		catalogue_test(a_log_lost_beside_a_touched_main_file_is_noticed),
		catalogue_test(a_log_that_was_folded_in_is_not_lost),
		catalogue_test(an_older_main_file_learns_of_its_log),
		catalogue_test(a_restart_of_the_log_that_was_cut_short_refuses_nothing),
		catalogue_test(a_restart_killed_before_its_first_commit_refuses_nothing),
		catalogue_test(an_older_log_that_was_put_back_is_noticed),
		catalogue_test(generations_of_a_log_wrap_around),
		catalogue_test(a_missing_file_is_no_missing_record),
		catalogue_test(the_log_beside_an_empty_file_stays),
		catalogue_test(nobody_waits_for_a_journal),
		catalogue_test(what_is_not_a_catalogue_is_refused),
		catalogue_test(a_catalogue_without_its_table_is_damaged),
		catalogue_test(memory_that_runs_out_is_an_error_and_half_changes_nothing),
	};

	if (sqlite3_config(SQLITE_CONFIG_MALLOC, &methods) != SQLITE_OK)
		return 1;
	return cmocka_run_group_tests_name("pool/catalogue damage", tests, NULL, NULL);
}
