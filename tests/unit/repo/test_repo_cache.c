/* SPDX-License-Identifier: Apache-2.0 */

#include "cairntest.h"

#include "repofix.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "repo/blob.h"
#include "repo/index.h"
#include "repo/presence.h"
#include "repo/repo_cache.h"
#include "repo/repo_impl.h"

#define BLOBS 300U

static uint64_t load_part; /* 0: as usual */

/* Opens, with the cache or as if there were none. */
static void open_repo(struct repofix *fix, bool cached)
{
	struct repo_options options = repofix_options(fix, REPO_LOCK_SHARED);
	struct cairn_err err = {0};
	uint64_t gone;
	char dir[128];

	snprintf(dir, sizeof(dir), "%s/cache", fix->dir);
	options.cache_dir = dir;
	options.cache_min = 1;
	options.load_part = load_part;
	repofix_close(fix);
	assert_ok(repo_open(&options, &fix->repo, &err), &err);
	if (cached)
		assert_ok(repo_load_index_cached(fix->repo, &err), &err);
	else
		assert_ok(repo_load_index(fix->repo, &err), &err);
	assert_ok(repo_confirm_packs(fix->repo, &gone, &err), &err);
}

static struct repo_id put(struct repofix *fix, uint64_t seed)
{
	uint8_t bytes[REPOFIX_BLOB];
	struct cairn_err err = {0};
	struct repo_id id;

	repofix_bytes(seed, bytes, sizeof(bytes));
	assert_ok(repo_blob_put(fix->repo, REPO_BLOB_DATA, bytes, sizeof(bytes), &id, NULL, &err),
		  &err);
	return id;
}

static void add_blobs(struct repofix *fix, uint64_t first, struct repo_id *ids, size_t n)
{
	struct cairn_err err = {0};

	open_repo(fix, true);
	for (size_t i = 0; i < n; i++)
		ids[i] = put(fix, first + i);
	assert_ok(repo_flush(fix->repo, &err), &err);
	repo_cache_save(fix->repo);
}

/* How many are found; those have the bytes that they must have. */
static size_t count_found(struct repofix *fix, uint64_t first, const struct repo_id *ids, size_t n)
{
	uint8_t want[REPOFIX_BLOB];
	size_t found = 0;

	for (size_t i = 0; i < n; i++) {
		cairn_auto_free uint8_t *data = NULL;
		size_t len;

		if (repo_blob_get(fix->repo, REPO_BLOB_DATA, &ids[i], &data, &len, NULL) != 0)
			continue;
		repofix_bytes(first + i, want, sizeof(want));
		assert_int_equal(len, sizeof(want));
		assert_memory_equal(data, want, len);
		found++;
	}
	return found;
}

/* Paths of the cache's files of a kind. */
static size_t list_cache(struct repofix *fix, const char *kind, char paths[][256], size_t max)
{
	char dir[224];
	const struct dirent *entry;
	size_t n = 0;
	DIR *d;

	snprintf(dir, sizeof(dir), "%s/cache/%s", fix->dir, repo_config_id(fix->repo));
	d = opendir(dir);
	while (d && n < max && (entry = readdir(d)))
		if (strncmp(entry->d_name, kind, strlen(kind)) == 0)
			snprintf(paths[n++], 256, "%.150s/%.90s", dir, entry->d_name);
	if (d)
		closedir(d);
	return n;
}

static void what_a_cache_says_is_not_read_again(void **state)
{
	struct repofix *fix = *state;
	static struct repo_id ids[BLOBS], more[10];

	add_blobs(fix, 1, ids, BLOBS);
	open_repo(fix, true);
	assert_int_equal(repo_index_entries(fix->repo->index), 0);
	assert_int_equal(repo_index_attached(fix->repo->index), 1);
	assert_int_equal(count_found(fix, 1, ids, BLOBS), BLOBS);
	/* What is there is not stored again. */
	(void)put(fix, 7);
	assert_int_equal(fix->repo->blobs_new, 0);
	add_blobs(fix, 1000, more, 10);
	open_repo(fix, true);
	assert_int_equal(repo_index_entries(fix->repo->index), 0);
	assert_int_equal(repo_index_attached(fix->repo->index), 2);
	assert_int_equal(count_found(fix, 1, ids, BLOBS), BLOBS);
	assert_int_equal(count_found(fix, 1000, more, 10), 10);
	/* Whoever needs all entries gets them. */
	assert_int_equal(repo_load_index(fix->repo, NULL), 0);
	assert_int_equal(repo_index_entries(fix->repo->index), BLOBS + 10);
}

static void caches_are_merged(void **state)
{
	struct repofix *fix = *state;
	static struct repo_id ids[64];
	char paths[64][256];

	for (size_t i = 0; i < 64; i++)
		add_blobs(fix, 1 + i, &ids[i], 1);
	assert_in_range(list_cache(fix, "index-", paths, 64), 1, 7);
	open_repo(fix, true);
	assert_int_equal(repo_index_entries(fix->repo->index), 0);
	assert_int_equal(count_found(fix, 1, ids, 64), 64);
}

/* Another machine pruned: the names of index files change. */
static void remove_cache(struct repofix *fix)
{
	static char paths[64][256];
	size_t n = list_cache(fix, "", paths, 64);

	for (size_t i = 0; i < n; i++)
		(void)unlink(paths[i]);
}

/* The index of 1 TiB does not fit into the memory that a backup may use. */
static void a_large_index_is_never_in_memory_as_a_whole(void **state)
{
	struct repofix *fix = *state;
	static struct repo_id ids[8][BLOBS];
	static char paths[64][256];
	struct cairn_err err = {0};

	for (uint64_t i = 0; i < 8; i++)
		add_blobs(fix, 1 + i * BLOBS, ids[i], BLOBS);
	remove_cache(fix);
	load_part = 1;
	open_repo(fix, true);
	load_part = 0;
	assert_int_equal(repo_index_entries(fix->repo->index), 0);
	assert_int_equal(repo_index_attached(fix->repo->index), 1);
	assert_int_equal(list_cache(fix, "index-", paths, 64), 1);
	for (uint64_t i = 0; i < 8; i++)
		assert_int_equal(count_found(fix, 1 + i * BLOBS, ids[i], BLOBS), BLOBS);
	/* What it left serves the next one, which adds to it. */
	add_blobs(fix, 1 + 8 * BLOBS, ids[0], 10);
	assert_int_equal(repo_index_entries(fix->repo->index), 10);
	assert_ok(repo_load_index(fix->repo, &err), &err);
	assert_int_equal(repo_index_entries(fix->repo->index), 8 * BLOBS + 10);
}

/* Where nothing can be written, the index is in memory. */
static void a_large_index_without_a_place_for_it(void **state)
{
	struct repofix *fix = *state;
	static struct repo_id ids[2][BLOBS];
	static char paths[64][256];
	char dir[224];

	for (uint64_t i = 0; i < 2; i++)
		add_blobs(fix, 1 + i * BLOBS, ids[i], BLOBS);
	remove_cache(fix);
	snprintf(dir, sizeof(dir), "%s/cache/%s", fix->dir, repo_config_id(fix->repo));
	assert_int_equal(chmod(dir, 0777), 0); /* others could write there: it is not used */
	load_part = 1;
	open_repo(fix, true);
	load_part = 0;
	assert_int_equal(repo_index_entries(fix->repo->index), 2 * BLOBS);
	assert_int_equal(list_cache(fix, "index-", paths, 64), 0);
	assert_int_equal(count_found(fix, 1, ids[0], BLOBS), BLOBS);
	assert_int_equal(chmod(dir, 0700), 0);
}

static void a_cache_of_index_files_that_are_gone_is_dropped(void **state)
{
	struct repofix *fix = *state;
	static struct repo_id ids[BLOBS];
	char command[160], paths[4][256];

	add_blobs(fix, 1, ids, BLOBS);
	assert_int_equal(list_cache(fix, "index-", paths, 4), 1);
	snprintf(command, sizeof(command), "%s/index", fix->path);
	repofix_close(fix);
	{
		const struct dirent *entry;
		DIR *d = opendir(command);

		assert_non_null(d);
		while ((entry = readdir(d)))
			if (strlen(entry->d_name) == 64)
				assert_int_equal(unlinkat(dirfd(d), entry->d_name, 0), 0);
		closedir(d);
	}
	open_repo(fix, true);
	assert_int_equal(repo_index_attached(fix->repo->index), 0);
	assert_int_equal(count_found(fix, 1, ids, BLOBS), 0);
	assert_int_equal(access(paths[0], F_OK), -1);
}

static void flip(const char *path, off_t at)
{
	int fd = open(path, O_RDWR);
	uint8_t byte;

	assert_true(fd >= 0);
	assert_int_equal(pread(fd, &byte, 1, at), 1);
	byte ^= 0x10;
	assert_int_equal(pwrite(fd, &byte, 1, at), 1);
	close(fd);
}

static void a_damaged_cache_is_never_believed(void **state)
{
	struct repofix *fix = *state;
	static struct repo_id ids[BLOBS];
	char paths[4][256];
	struct stat st;

	add_blobs(fix, 1, ids, BLOBS);
	assert_int_equal(list_cache(fix, "index-", paths, 4), 1);
	assert_int_equal(stat(paths[0], &st), 0);
	for (off_t at = 0; at < st.st_size; at += at < 200 ? 7 : 997) {
		size_t found;
		int mended;

		if (at >= 200 && at < 4096) /* between the header and the entries */
			continue;
		flip(paths[0], at);
		open_repo(fix, true);
		found = count_found(fix, 1, ids, BLOBS);
		mended = repo_cache_mend(fix->repo, NULL);
		assert_int_equal(found < BLOBS, mended);
		assert_int_equal(count_found(fix, 1, ids, BLOBS), BLOBS);
		/* The next one makes it again. */
		fix->repo->packs_whole = true;
		repo_cache_save(fix->repo);
		assert_int_equal(list_cache(fix, "index-", paths, 4), 1);
	}
	assert_int_equal(truncate(paths[0], 100), 0);
	open_repo(fix, true);
	assert_int_equal(count_found(fix, 1, ids, BLOBS), BLOBS);
}

/* The n-th file of the repository's index. */
static void index_path(struct repofix *fix, size_t number, char ret[256])
{
	const struct dirent *entry;
	char dir[128];
	DIR *d;

	snprintf(dir, sizeof(dir), "%s/index", fix->path);
	d = opendir(dir);
	assert_non_null(d);
	while ((entry = readdir(d)))
		if (strlen(entry->d_name) == 64 && number-- == 0)
			break;
	assert_non_null(entry);
	snprintf(ret, 256, "%.120s/%.64s", dir, entry->d_name);
	closedir(d);
}

/* Opens with the cache; what loading and checking the index comes to. */
static int load_cached(struct repofix *fix)
{
	struct repo_options options = repofix_options(fix, REPO_LOCK_SHARED);
	struct cairn_err err = {0};
	char dir[128];
	int rc;

	snprintf(dir, sizeof(dir), "%s/cache", fix->dir);
	options.cache_dir = dir;
	options.cache_min = 1;
	repofix_close(fix);
	assert_ok(repo_open(&options, &fix->repo, &err), &err);
	rc = repo_load_index_cached(fix->repo, &err);
	return rc ? rc : repo_cache_check(fix->repo, false, &err);
}

/* It is listed with its size: only reading it shows that nobody else can. */
static void an_index_file_that_is_damaged_in_the_store_is_found(void **state)
{
	struct repofix *fix = *state;
	static struct repo_id ids[8];
	char path[256], paths[8][256];
	int tries = 0;

	add_blobs(fix, 1, ids, 1);
	index_path(fix, 0, path);
	flip(path, 40);
	assert_int_equal(load_cached(fix), CAIRN_DATA_LOSS);
	assert_int_equal(list_cache(fix, "index-", paths, 8), 0);
	flip(path, 40);
	/* Of many, some are read each time. */
	for (size_t i = 1; i < 8; i++)
		add_blobs(fix, 1 + i, &ids[i], 1);
	index_path(fix, 5, path);
	flip(path, 40);
	while (load_cached(fix) == 0)
		assert_true(tries++ < 300);
}

static void a_fifo_among_the_caches_is_not_waited_for(void **state)
{
	struct repofix *fix = *state;
	static struct repo_id ids[10];
	char fifo[256];

	add_blobs(fix, 1, ids, 10);
	snprintf(fifo, sizeof(fifo), "%s/cache/%s/index-fifo", fix->dir, repo_config_id(fix->repo));
	assert_int_equal(mkfifo(fifo, 0600), 0);
	assert_int_equal(load_cached(fix), 0);
	assert_int_equal(count_found(fix, 1, ids, 10), 10);
}

static void a_tree_is_whole_only_as_long_as_nothing_vanished(void **state)
{
	struct repofix *fix = *state;
	static struct repo_id ids[10];
	char paths[4][256];

	add_blobs(fix, 1, ids, 10);
	assert_false(repo_cache_is_whole(fix->repo, &ids[0]));
	repo_cache_set_whole(fix->repo, &ids[0], NULL);
	open_repo(fix, true);
	assert_true(repo_cache_is_whole(fix->repo, &ids[0]));
	assert_false(repo_cache_is_whole(fix->repo, &ids[1]));
	fix->repo->packs_whole = false;
	assert_false(repo_cache_is_whole(fix->repo, &ids[0]));
	assert_int_equal(list_cache(fix, "whole-", paths, 4), 1);
	flip(paths[0], 5);
	open_repo(fix, true);
	assert_false(repo_cache_is_whole(fix->repo, &ids[0]));
	flip(paths[0], 5);
	open_repo(fix, true);
	assert_true(repo_cache_is_whole(fix->repo, &ids[0]));
	/* An index file that is longer or shorter than it was. */
	fix->repo->index_listed.items[0].size++;
	assert_false(repo_cache_is_whole(fix->repo, &ids[0]));
}

static void what_is_known_of_a_tree_is_its_own_and_sealed(void **state)
{
	struct repofix *fix = *state;
	static struct repo_id ids[2];
	char paths[4][256];
	uint8_t *data = NULL;
	size_t n = 0;

	add_blobs(fix, 1, ids, 2);
	assert_false(repo_cache_get_sealed(fix->repo, REPO_CACHED_LAYOUT, &ids[0], &data, &n));
	repo_cache_put_sealed(fix->repo, REPO_CACHED_LAYOUT, &ids[0], "four", 4);
	assert_true(repo_cache_get_sealed(fix->repo, REPO_CACHED_LAYOUT, &ids[0], &data, &n));
	assert_int_equal(n, 4);
	assert_memory_equal(data, "four", 4);
	free(data);
	assert_false(repo_cache_get_sealed(fix->repo, REPO_CACHED_HEAD, &ids[0], &data, &n));
	assert_int_equal(list_cache(fix, "layout-", paths, 4), 1);
	for (off_t at = 0; at < 36; at += 5) {
		flip(paths[0], at);
		assert_false(
			repo_cache_get_sealed(fix->repo, REPO_CACHED_LAYOUT, &ids[0], &data, &n));
		flip(paths[0], at);
	}
	assert_int_equal(truncate(paths[0], 32), 0);
	assert_false(repo_cache_get_sealed(fix->repo, REPO_CACHED_LAYOUT, &ids[0], &data, &n));
	repo_cache_drop_sealed(fix->repo, REPO_CACHED_LAYOUT, &ids[0]);
	assert_int_equal(list_cache(fix, "layout-", paths, 4), 0);
}

static void a_snapshot_is_fetched_once(void **state)
{
	struct repofix *fix = *state;
	static struct repo_id ids[10];
	struct repo_snapshot *snapshot;
	struct cairn_err err = {0};
	struct repo_id id;
	char paths[4][256];

	add_blobs(fix, 1, ids, 10);
	open_repo(fix, true);
	assert_ok(repofix_backup(fix->repo, 100, 2, &id, &err), &err);
	for (int round = 0; round < 2; round++) {
		uint64_t before;

		open_repo(fix, true);
		before = repo_get_store(fix->repo)->requests;
		assert_ok(repo_snapshot_load(fix->repo, &id, &snapshot, &err), &err);
		repo_snapshot_free(snapshot);
		assert_int_equal(repo_get_store(fix->repo)->requests - before, round);
		/* One that is damaged here is fetched again. */
		assert_int_equal(list_cache(fix, "snapshot-", paths, 4), 1);
		flip(paths[0], 20);
	}
	/* Whoever does without the cache does without these, too. */
	open_repo(fix, false);
	assert_false(fix->repo->cache_used);
}

static void a_directory_that_others_can_write_to_is_not_used(void **state)
{
	struct repofix *fix = *state;
	static struct repo_id ids[10];
	char dir[224];

	add_blobs(fix, 1, ids, 10);
	snprintf(dir, sizeof(dir), "%s/cache/%s", fix->dir, repo_config_id(fix->repo));
	assert_int_equal(chmod(dir, 0770), 0);
	open_repo(fix, true);
	assert_int_equal(repo_index_attached(fix->repo->index), 0);
	assert_int_equal(count_found(fix, 1, ids, 10), 10);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, repofix_setup, repofix_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(what_a_cache_says_is_not_read_again),
		TEST(caches_are_merged),
		TEST(a_large_index_is_never_in_memory_as_a_whole),
		TEST(a_large_index_without_a_place_for_it),
		TEST(a_cache_of_index_files_that_are_gone_is_dropped),
		TEST(a_damaged_cache_is_never_believed),
		TEST(an_index_file_that_is_damaged_in_the_store_is_found),
		TEST(a_fifo_among_the_caches_is_not_waited_for),
		TEST(a_tree_is_whole_only_as_long_as_nothing_vanished),
		TEST(what_is_known_of_a_tree_is_its_own_and_sealed),
		TEST(a_snapshot_is_fetched_once),
		TEST(a_directory_that_others_can_write_to_is_not_used),
	};

	return cmocka_run_group_tests_name("repo/cache", tests, NULL, NULL);
}
