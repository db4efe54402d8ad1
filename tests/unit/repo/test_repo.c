/* SPDX-License-Identifier: Apache-2.0 */

#include "cairntest.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/mem.h"
#include "repo/blob.h"
#include "repo/blob_impl.h"
#include "repo/index.h"
#include "repo/prune.h"
#include "repo/repo_check.h"
#include "repo/repo_lock.h"
#include "repo/tree.h"
#include "repofix.h"

/* ---- files of the repository ---------------------------------------------------- */

/* Calls `fn` for each file below `dir`; returns how many there were. */
static unsigned each_file(const char *dir, void (*fn)(const char *path, void *arg), void *arg)
{
	DIR *stream = opendir(dir);
	struct dirent *entry;
	unsigned n = 0;

	assert_non_null(stream);
	while ((entry = readdir(stream))) {
		char path[400];

		if (entry->d_name[0] == '.')
			continue;
		snprintf(path, sizeof(path), "%s/%s", dir, entry->d_name);
		if (entry->d_type == DT_DIR) {
			n += each_file(path, fn, arg);
		} else {
			n++;
			if (fn)
				fn(path, arg);
		}
	}
	closedir(stream);
	return n;
}

static unsigned count_files(const struct repofix *fix, const char *kind)
{
	char path[200];

	snprintf(path, sizeof(path), "%s/%s", fix->path, kind);
	return each_file(path, NULL, NULL);
}

static void remove_file(const char *path, void *arg)
{
	(void)arg;
	assert_int_equal(unlink(path), 0);
}

static void remove_all(const struct repofix *fix, const char *kind)
{
	char path[200];

	snprintf(path, sizeof(path), "%s/%s", fix->path, kind);
	each_file(path, remove_file, NULL);
}

static void flip(const char *path, off_t at, uint8_t bits)
{
	cairn_auto_fd int fd = -1;
	uint8_t byte;

	assert_int_equal(chmod(path, 0600), 0);
	fd = open(path, O_RDWR | O_CLOEXEC);
	assert_int_equal(pread(fd, &byte, 1, at), 1);
	byte ^= bits;
	assert_int_equal(pwrite(fd, &byte, 1, at), 1);
}

static void copy_file(const char *from, const char *to)
{
	cairn_auto_fd int in = open(from, O_RDONLY | O_CLOEXEC);
	cairn_auto_fd int out = open(to, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);

	while (sendfile(out, in, NULL, 1 << 20) > 0)
		;
}

/* ---- tests ---------------------------------------------------------------------- */

static void what_was_put_comes_back_after_reopening(void **state)
{
	struct repofix *fix = *state;
	struct cairn_err err = {0};
	struct repo_id a, b;

	repofix_open(fix, REPO_LOCK_SHARED);
	assert_ok(repofix_backup(fix->repo, 1, 100, &a, &err), &err);
	assert_ok(repofix_backup(fix->repo, 51, 100, &b, &err), &err);
	repofix_open(fix, REPO_LOCK_SHARED);
	repofix_verify(fix->repo, &a, 1, 100);
	repofix_verify(fix->repo, &b, 51, 100);
	assert_int_equal(repofix_problems(fix->repo, true), 0);
}

/* `n` blobs of `size` bytes each, flushed. */
static void put_blobs(struct repo *repo, size_t n, size_t size, struct repo_id *ret_ids)
{
	cairn_auto_free uint8_t *data = cairn_calloc(1, size);

	assert_non_null(data);
	for (size_t i = 0; i < n; i++) {
		repofix_bytes(i, data, size);
		assert_int_equal(
			repo_blob_put(repo, REPO_BLOB_DATA, data, size, &ret_ids[i], NULL, NULL),
			0);
	}
	assert_int_equal(repo_flush(repo, NULL), 0);
}

static void blobs_come_into_their_rooms_also_those_that_repeat(void **state)
{
	enum { N = 50, SIZE = 3000 };
	static uint8_t want[SIZE], got[2 * N][SIZE];
	struct repofix *fix = *state;
	struct repo_blob_room rooms[2 * N];
	struct repo_id ids[2 * N];

	repofix_open(fix, REPO_LOCK_SHARED);
	put_blobs(fix->repo, N, SIZE, ids);
	for (size_t i = 0; i < 2 * N; i++) {
		ids[i] = ids[i % N];
		rooms[i] = (struct repo_blob_room){.at = got[i], .n = SIZE};
	}
	assert_int_equal(repo_blob_get_into(fix->repo, ids, rooms, 2 * N, NULL), 0);
	for (size_t i = 0; i < 2 * N; i++) {
		repofix_bytes(i % N, want, SIZE);
		assert_memory_equal(got[i], want, SIZE);
	}
	rooms[7].n--;
	assert_code(repo_blob_get_into(fix->repo, ids, rooms, 2 * N, NULL), CAIRN_DATA_LOSS);
}

/* Blobs of one size are opened two at a time. */
static void a_damaged_blob_is_named_also_beside_others(void **state)
{
	enum { N = 7, SIZE = 3000 };
	static uint8_t want[SIZE], got[N][SIZE];
	struct repofix *fix = *state;
	struct repo_blob_room rooms[N];
	struct repo_id ids[N];

	repofix_open(fix, REPO_LOCK_SHARED);
	put_blobs(fix->repo, N, SIZE, ids);
	for (size_t i = 0; i < N; i++)
		rooms[i] = (struct repo_blob_room){.at = got[i], .n = SIZE};
	for (size_t bad = 0; bad < N; bad++) {
		char pack[REPO_ID_TEXT_MAX], blob[REPO_ID_TEXT_MAX], path[512];
		struct repo_place place;
		struct cairn_err err = {0};

		assert_ok(repo_blob_place(fix->repo, REPO_BLOB_DATA, &ids[bad], &place, &err),
			  &err);
		repo_id_format(&place.pack_id, pack);
		snprintf(path, sizeof(path), "%s/data/%.2s/%s", fix->path, pack, pack);
		flip(path, (off_t)place.offset + 100, 1);
		assert_code(repo_blob_get_into(fix->repo, ids, rooms, N, &err), CAIRN_DATA_LOSS);
		assert_non_null(strstr(err.msg, repo_id_format(&ids[bad], blob)));
		flip(path, (off_t)place.offset + 100, 1);
		assert_ok(repo_blob_get_into(fix->repo, ids, rooms, N, &err), &err);
		repofix_bytes(bad, want, SIZE);
		assert_memory_equal(got[bad], want, SIZE);
	}
}

static void a_blob_is_stored_once(void **state)
{
	struct repofix *fix = *state;
	struct repo_stats stats;
	uint8_t bytes[1000];
	struct repo_id a, b;
	bool fresh;

	repofix_open(fix, REPO_LOCK_SHARED);
	repofix_bytes(1, bytes, sizeof(bytes));
	assert_int_equal(repo_blob_put(fix->repo, REPO_BLOB_DATA, bytes, 1000, &a, &fresh, NULL),
			 0);
	assert_true(fresh);
	assert_int_equal(repo_blob_put(fix->repo, REPO_BLOB_DATA, bytes, 1000, &b, &fresh, NULL),
			 0);
	assert_false(fresh);
	assert_true(repo_id_equal(&a, &b));
	assert_int_equal(repo_flush(fix->repo, NULL), 0);
	repo_get_stats(fix->repo, &stats);
	assert_int_equal(stats.blobs_new, 1);
	assert_int_equal(stats.blobs_known, 1);
	repofix_open(fix, REPO_LOCK_SHARED);
	assert_int_equal(repo_blob_put(fix->repo, REPO_BLOB_DATA, bytes, 1000, &b, &fresh, NULL),
			 0);
	assert_false(fresh);
}

/* What is restored together is read with one request, and nothing else with it. */
static void blobs_of_a_batch_stay_together(void **state)
{
	struct repofix *fix = *state;
	struct repo_blob_batch *batch = NULL;
	struct repo_place places[3];
	struct repo_id ids[3], other;
	struct cairn_err err = {0};
	uint8_t data[REPOFIX_BLOB];
	bool new;

	repofix_open(fix, REPO_LOCK_SHARED);
	assert_ok(repo_blob_batch_new(fix->repo, &batch, &err), &err);
	for (uint64_t i = 0; i < 3; i++) {
		repofix_bytes(i, data, sizeof(data));
		assert_ok(repo_blob_batch_put(batch, data, sizeof(data), &ids[i], &new, &err),
			  &err);
		assert_true(new);
		repofix_bytes(100 + i, data, sizeof(data));
		assert_ok(repo_blob_put(fix->repo, REPO_BLOB_DATA, data, sizeof(data), &other, &new,
					&err),
			  &err);
	}
	assert_ok(repo_blob_batch_put(batch, data, sizeof(data), &other, &new, &err), &err);
	assert_false(new);
	assert_ok(repo_blob_batch_end(batch, &err), &err);
	repo_blob_batch_free(batch);
	assert_ok(repo_flush(fix->repo, &err), &err);
	for (size_t i = 0; i < 3; i++) {
		assert_ok(repo_blob_place(fix->repo, REPO_BLOB_DATA, &ids[i], &places[i], &err),
			  &err);
		if (i > 0)
			assert_int_equal(places[i].offset,
					 places[i - 1].offset + places[i - 1].length);
	}
	assert_int_equal(repofix_problems(fix->repo, true), 0);
}

static void a_blob_cannot_be_read_before_it_is_stored(void **state)
{
	struct repofix *fix = *state;
	cairn_auto_free uint8_t *data = NULL;
	struct repo_id id;
	size_t n;

	repofix_open(fix, REPO_LOCK_SHARED);
	assert_int_equal(repo_blob_put(fix->repo, REPO_BLOB_DATA, "abc", 3, &id, NULL, NULL), 0);
	assert_code(repo_blob_get(fix->repo, REPO_BLOB_DATA, &id, &data, &n, NULL),
		    CAIRN_PRECONDITION);
	assert_int_equal(repo_flush(fix->repo, NULL), 0);
	assert_int_equal(repo_blob_get(fix->repo, REPO_BLOB_DATA, &id, &data, &n, NULL), 0);
	assert_int_equal(n, 3);
	assert_memory_equal(data, "abc", 3);
}

static void opening_says_what_is_wrong(void **state)
{
	struct repofix *fix = *state;
	struct repo_options options = repofix_options(fix, REPO_LOCK_NONE);
	struct cairn_err err = {0};
	struct repo *repo;

	options.password = "wrong!";
	assert_code(repo_open(&options, &repo, &err), CAIRN_UNAUTHENTICATED);
	options.password_len = 0;
	assert_code(repo_open(&options, &repo, &err), CAIRN_INVALID);
	options = repofix_options(fix, REPO_LOCK_NONE);
	assert_code(repo_init(&options, &repo, &err), CAIRN_EXISTS);
	options.store.location = fix->dir;
	assert_code(repo_open(&options, &repo, &err), CAIRN_NOT_FOUND);
	remove_all(fix, "keys");
	options.store.location = fix->path;
	assert_code(repo_open(&options, &repo, &err), CAIRN_DATA_LOSS);
}

/* As after an init that died before its last step, or a config that was lost. */
static void a_repository_without_config_is_made_again_with_its_key(void **state)
{
	struct repofix *fix = *state;
	struct repo_options options = repofix_options(fix, REPO_LOCK_NONE);
	struct cairn_err err = {0};
	struct repo *repo = NULL;
	char config[200];
	struct repo_id a;

	repofix_open(fix, REPO_LOCK_SHARED);
	assert_ok(repofix_backup(fix->repo, 1, 10, &a, &err), &err);
	repofix_close(fix);
	snprintf(config, sizeof(config), "%s/config", fix->path);
	assert_int_equal(unlink(config), 0);
	options.password = "other!";
	assert_code(repo_init(&options, &repo, &err), CAIRN_PRECONDITION);
	options.password = "secret";
	assert_ok(repo_init(&options, &repo, &err), &err);
	repo_close(repo);
	assert_int_equal(count_files(fix, "keys"), 1);
	repofix_open(fix, REPO_LOCK_SHARED);
	repofix_verify(fix->repo, &a, 1, 10);
}

struct kept_key {
	char path[400];
	char copy[200];
};

static void keep_key(const char *path, void *arg)
{
	struct kept_key *key = arg;

	snprintf(key->path, sizeof(key->path), "%s", path);
	copy_file(path, key->copy);
}

/* Both keys have the password, one of them is the config's; which one is listed
 * first is a matter of chance. */
static void a_key_that_an_init_left_does_not_hide_the_right_one(void **state)
{
	struct repofix *fix = *state;
	struct repo_options options = repofix_options(fix, REPO_LOCK_NONE);

	for (int i = 0; i < 12; i++) {
		struct cairn_err err = {0};
		struct kept_key key = {0};
		struct repo *repo = NULL;
		char path[200];

		snprintf(key.copy, sizeof(key.copy), "%s/key", fix->dir);
		snprintf(path, sizeof(path), "%s/keys", fix->path);
		each_file(path, keep_key, &key);
		remove_all(fix, "keys");
		snprintf(path, sizeof(path), "%s/config", fix->path);
		assert_int_equal(unlink(path), 0);
		assert_ok(repo_init(&options, &repo, &err), &err);
		repo_close(repo);
		assert_int_equal(rename(key.copy, key.path), 0);
		assert_int_equal(count_files(fix, "keys"), 2);
		assert_ok(repo_open(&options, &repo, &err), &err);
		repo_close(repo);
		assert_int_equal(unlink(key.path), 0);
	}
}

static void nothing_is_written_without_a_lock(void **state)
{
	struct repofix *fix = *state;
	struct repo_prune_options prune = {0};
	struct repo_prune_stats stats;
	struct repo_id id;

	repofix_open(fix, REPO_LOCK_NONE);
	assert_code(repo_blob_put(fix->repo, REPO_BLOB_DATA, "abc", 3, &id, NULL, NULL),
		    CAIRN_PRECONDITION);
	repofix_open(fix, REPO_LOCK_SHARED);
	assert_code(repo_prune(fix->repo, &prune, &stats, NULL), CAIRN_PRECONDITION);
	assert_code(repo_snapshot_remove(fix->repo, &id, NULL), CAIRN_PRECONDITION);
}

static void a_tree_whose_sizes_do_not_add_up_is_refused(void **state)
{
	struct repofix *fix = *state;
	struct repo_node node = {.name = "f", .type = REPO_NODE_FILE, .size = 4};
	cairn_cleanup(repo_tree_writer_freep) struct repo_tree_writer *writer = NULL;
	struct repo_id id, unknown = {{1}};
	struct cairn_err err = {0};

	repofix_open(fix, REPO_LOCK_SHARED);
	assert_int_equal(repo_blob_put(fix->repo, REPO_BLOB_DATA, "abc", 3, &id, NULL, NULL), 0);
	assert_ok(repo_tree_writer_new(fix->repo, &writer, &err), &err);
	assert_ok(repo_tree_writer_file_begin(writer, &node, &err), &err);
	assert_code(repo_tree_writer_content(writer, &unknown, 1, &err), CAIRN_NOT_FOUND);
	assert_ok(repo_tree_writer_content(writer, &id, 1, &err), &err);
	assert_code(repo_tree_writer_file_end(writer, &err), CAIRN_INVALID);
}

static void packs_of_a_dead_writer_are_found_again(void **state)
{
	struct repofix *fix = *state;
	struct repo_stats stats;
	struct cairn_err err = {0};
	uint64_t packs, blobs;
	struct repo_id a;

	repofix_open(fix, REPO_LOCK_SHARED);
	assert_ok(repofix_backup(fix->repo, 1, 100, &a, &err), &err);
	repofix_close(fix);
	remove_all(fix, "index");
	remove_all(fix, "snapshots");
	repofix_open(fix, REPO_LOCK_SHARED);
	assert_ok(repo_adopt_packs(fix->repo, &packs, &blobs, &err), &err);
	assert_int_equal(packs, count_files(fix, "data"));
	assert_int_equal(blobs, 102);
	assert_ok(repofix_backup(fix->repo, 1, 100, &a, &err), &err);
	repo_get_stats(fix->repo, &stats);
	assert_int_equal(stats.blobs_new, 0);
	assert_int_equal(stats.packs_stored, 0);
	repofix_open(fix, REPO_LOCK_SHARED);
	repofix_verify(fix->repo, &a, 1, 100);
	assert_int_equal(repofix_problems(fix->repo, true), 0);
}

static void spoil_first(const char *path, void *arg)
{
	bool *done = arg;
	uint8_t byte;
	int fd;

	if (*done)
		return;
	*done = true;
	assert_int_equal(chmod(path, 0600), 0);
	fd = open(path, O_RDWR | O_CLOEXEC);
	assert_true(fd >= 0);
	assert_int_equal(pread(fd, &byte, 1, 100), 1);
	byte ^= 1;
	assert_int_equal(pwrite(fd, &byte, 1, 100), 1);
	close(fd);
}

static void a_damaged_pack_of_a_dead_writer_is_left_alone(void **state)
{
	struct repofix *fix = *state;
	struct cairn_err err = {0};
	bool spoilt = false;
	uint64_t packs;
	struct repo_id a;
	char path[200];

	repofix_open(fix, REPO_LOCK_SHARED);
	assert_ok(repofix_backup(fix->repo, 1, 100, &a, &err), &err);
	repofix_close(fix);
	remove_all(fix, "index");
	remove_all(fix, "snapshots");
	snprintf(path, sizeof(path), "%s/data", fix->path);
	each_file(path, spoil_first, &spoilt);
	repofix_open(fix, REPO_LOCK_SHARED);
	assert_ok(repo_adopt_packs(fix->repo, &packs, NULL, &err), &err);
	assert_int_equal(packs, count_files(fix, "data") - 1);
	assert_ok(repofix_backup(fix->repo, 1, 100, &a, &err), &err);
	repofix_open(fix, REPO_LOCK_SHARED);
	repofix_verify(fix->repo, &a, 1, 100);
}

static int prune(struct repo *repo, unsigned max_unused, struct repo_prune_stats *stats,
		 struct cairn_err *err)
{
	const struct repo_prune_options options = {.max_unused_tenth = max_unused};

	return repo_prune(repo, &options, stats, err);
}

static void prune_deletes_what_no_snapshot_needs_and_nothing_else(void **state)
{
	struct repofix *fix = *state;
	struct repo_prune_stats stats;
	struct cairn_err err = {0};
	struct repo_id a, b, c;
	unsigned before;

	repofix_open(fix, REPO_LOCK_SHARED);
	assert_ok(repofix_backup(fix->repo, 1, 100, &a, &err), &err);
	assert_ok(repofix_backup(fix->repo, 51, 100, &b, &err), &err);
	repofix_open(fix, REPO_LOCK_EXCLUSIVE);
	assert_ok(repo_snapshot_remove(fix->repo, &a, &err), &err);
	before = count_files(fix, "data");
	assert_ok(prune(fix->repo, 0, &stats, &err), &err);
	assert_int_equal(stats.blobs_unused, 50 + 2);
	assert_int_equal(stats.blobs_used, 100 + 2);
	assert_true(count_files(fix, "data") < before);
	repofix_verify(fix->repo, &b, 51, 100);
	assert_int_equal(repofix_problems(fix->repo, true), 0);
	assert_ok(prune(fix->repo, 0, &stats, &err), &err);
	assert_int_equal(stats.blobs_unused + stats.packs_deleted + stats.packs_repacked, 0);
	/* and it goes on */
	assert_ok(repofix_backup(fix->repo, 1, 100, &c, &err), &err);
	repofix_open(fix, REPO_LOCK_SHARED);
	repofix_verify(fix->repo, &b, 51, 100);
	repofix_verify(fix->repo, &c, 1, 100);
}

static void touch(const struct repofix *fix, const char *name)
{
	char path[256];
	FILE *file;

	snprintf(path, sizeof(path), "%s/%s", fix->path, name);
	file = fopen(path, "w");
	assert_non_null(file);
	assert_int_equal(fputs("half", file) >= 0, 1);
	assert_int_equal(fclose(file), 0);
}

/* Ours and restic's have the same form; what has another is somebody's. */
static void prune_deletes_what_was_left_half_written(void **state)
{
#define ID "0000000000000000000000000000000000000000000000000000000000000abc"
	struct repofix *fix = *state;
	struct repo_prune_stats stats;
	struct cairn_err err = {0};
	struct repo_id a;
	unsigned packs;

	repofix_open(fix, REPO_LOCK_EXCLUSIVE);
	assert_ok(repofix_backup(fix->repo, 1, 10, &a, &err), &err);
	packs = count_files(fix, "data/00"); /* their names are random */
	touch(fix, "data/00/" ID "-tmp-77-1");
	touch(fix, "data/00/" ID "-tmp-2193847");
	touch(fix, "index/" ID "-tmp-77-2");
	touch(fix, "snapshots/" ID "-tmp-77-3");
	touch(fix, "config-tmp-77-4");
	touch(fix, "data/00/notes-tmp-of-somebody");
	assert_int_equal(repofix_problems(fix->repo, true), 0);
	assert_ok(prune(fix->repo, 0, &stats, &err), &err);
	assert_int_equal(stats.files_half, 5);
	assert_ok(prune(fix->repo, 0, &stats, &err), &err);
	assert_int_equal(stats.files_half, 0);
	assert_int_equal(count_files(fix, "data/00"), packs + 1);
	repofix_verify(fix->repo, &a, 1, 10);
#undef ID
}

static void prune_of_everything_leaves_an_empty_repository(void **state)
{
	struct repofix *fix = *state;
	struct repo_prune_stats stats;
	struct cairn_err err = {0};
	struct repo_id a;

	repofix_open(fix, REPO_LOCK_EXCLUSIVE);
	assert_ok(repofix_backup(fix->repo, 1, 30, &a, &err), &err);
	assert_ok(repo_snapshot_remove(fix->repo, &a, &err), &err);
	assert_ok(prune(fix->repo, 50, &stats, &err), &err);
	assert_int_equal(count_files(fix, "data"), 0);
	assert_int_equal(count_files(fix, "index"), 0);
	assert_ok(repofix_backup(fix->repo, 1, 30, &a, &err), &err);
	repofix_verify(fix->repo, &a, 1, 30);
}

static void a_dry_run_changes_nothing(void **state)
{
	struct repofix *fix = *state;
	const struct repo_prune_options options = {.dry_run = true};
	struct repo_prune_stats stats;
	struct cairn_err err = {0};
	struct repo_id a;
	unsigned before;

	repofix_open(fix, REPO_LOCK_EXCLUSIVE);
	assert_ok(repofix_backup(fix->repo, 1, 30, &a, &err), &err);
	assert_ok(repo_snapshot_remove(fix->repo, &a, &err), &err);
	before = count_files(fix, "data");
	assert_ok(repo_prune(fix->repo, &options, &stats, &err), &err);
	assert_true(stats.packs_deleted > 0);
	assert_int_equal(count_files(fix, "data"), before);
}

static void small_packs_are_written_together(void **state)
{
	struct repofix *fix = *state;
	struct repo_prune_stats stats;
	struct cairn_err err = {0};
	struct repo_id ids[60];
	unsigned before;

	repofix_open(fix, REPO_LOCK_EXCLUSIVE);
	for (unsigned i = 0; i < 60; i++)
		assert_ok(repofix_backup(fix->repo, 1000 * i, 1, &ids[i], &err), &err);
	before = count_files(fix, "data");
	assert_ok(prune(fix->repo, 50, &stats, &err), &err);
	assert_true(count_files(fix, "data") < before / 2 + 10);
	for (unsigned i = 0; i < 60; i++)
		repofix_verify(fix->repo, &ids[i], 1000 * i, 1);
	assert_int_equal(repofix_problems(fix->repo, true), 0);
}

static void prune_refuses_when_something_needed_is_missing(void **state)
{
	struct repofix *fix = *state;
	struct repo_prune_stats stats;
	struct cairn_err err = {0};
	struct repo_id a, b;
	unsigned before;

	repofix_open(fix, REPO_LOCK_EXCLUSIVE);
	assert_ok(repofix_backup(fix->repo, 1, 30, &a, &err), &err);
	assert_ok(repofix_backup(fix->repo, 100, 30, &b, &err), &err);
	assert_ok(repo_snapshot_remove(fix->repo, &b, &err), &err);
	remove_all(fix, "index");
	repofix_open(fix, REPO_LOCK_EXCLUSIVE);
	before = count_files(fix, "data");
	assert_code(prune(fix->repo, 0, &stats, &err), CAIRN_DATA_LOSS);
	assert_int_equal(count_files(fix, "data"), before);
}

struct flipping {
	struct repofix *fix;
	unsigned flips;
	unsigned step;   /* places in each file; 0: every stride-th byte */
	unsigned stride; /* 0: 1 */
};

/* Each damaged file is found, and healing it ends the complaint. */
static void flip_and_check(const char *path, void *arg)
{
	struct flipping *flipping = arg;
	off_t stride = flipping->stride ? flipping->stride : 1;
	struct stat st;

	assert_int_equal(stat(path, &st), 0);
	if (flipping->step)
		stride = 1 + st.st_size / flipping->step;
	/* Each file begins at another byte. */
	for (off_t at = flipping->flips % stride; at < st.st_size; at += stride) {
		struct repo_options options = repofix_options(flipping->fix, REPO_LOCK_NONE);
		struct repo *repo = NULL;
		uint8_t bits = (uint8_t)(1 << flipping->flips++ % 8);
		int rc;

		options.store.connections = 1; /* threads would take longer than they save */
		flip(path, at, bits);
		rc = repo_open(&options, &repo, NULL);
		if (rc == 0 && repofix_problems(repo, true) == 0)
			fail_msg("%s byte %lld: not found", path, (long long)at);
		repo_close(repo);
		flip(path, at, bits);
	}
}

static void every_flipped_bit_is_found(void **state)
{
	struct repofix *fix = *state;
	struct flipping flipping = {.fix = fix, .step = 40};
	struct cairn_err err = {0};
	struct repo_id a, b;

	repofix_open(fix, REPO_LOCK_SHARED);
	assert_ok(repofix_backup(fix->repo, 1, 30, &a, &err), &err);
	assert_ok(repofix_backup(fix->repo, 20, 30, &b, &err), &err);
	repofix_close(fix);
	each_file(fix->path, flip_and_check, &flipping);
	assert_true(flipping.flips > 300);
	repofix_open(fix, REPO_LOCK_SHARED);
	assert_int_equal(repofix_problems(fix->repo, true), 0);
}

/* One backup of one blob: each byte of each file is one that can go wrong. A check of the whole
 * repository for each of them takes long, so only a thorough run tries all of them. */
static void no_byte_of_a_repository_can_change_unnoticed(void **state)
{
	struct repofix *fix = *state;
	struct flipping flipping = {.fix = fix, .stride = test_is_thorough() ? 1 : 5};
	struct cairn_err err = {0};
	struct repo_id a;
	char path[128];

	repofix_open(fix, REPO_LOCK_SHARED);
	assert_ok(repofix_backup(fix->repo, 1, 1, &a, &err), &err);
	repofix_close(fix);
	for (unsigned i = 0; i < 256; i++) { /* thousands of checks look into them all */
		snprintf(path, sizeof(path), "%s/data/%02x", fix->path, i);
		(void)rmdir(path);
	}
	each_file(fix->path, flip_and_check, &flipping);
	assert_true(flipping.flips > REPOFIX_BLOB / flipping.stride);
	repofix_open(fix, REPO_LOCK_SHARED);
	assert_int_equal(repofix_problems(fix->repo, true), 0);
}

static void cut_file(const char *path, void *arg)
{
	struct stat st;

	(void)arg;
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(chmod(path, 0600), 0);
	assert_int_equal(truncate(path, st.st_size / 2), 0);
}

static void packs_that_are_missing_or_short_are_found_without_reading(void **state)
{
	struct repofix *fix = *state;
	struct cairn_err err = {0};
	char path[200];
	struct repo_id a;

	repofix_open(fix, REPO_LOCK_SHARED);
	assert_ok(repofix_backup(fix->repo, 1, 30, &a, &err), &err);
	repofix_close(fix);
	snprintf(path, sizeof(path), "%s/data", fix->path);
	each_file(path, cut_file, NULL);
	repofix_open(fix, REPO_LOCK_SHARED);
	assert_true(repofix_problems(fix->repo, false) > 0);
	remove_all(fix, "data");
	repofix_open(fix, REPO_LOCK_SHARED);
	assert_true(repofix_problems(fix->repo, false) > 0);
}

static void flip_middle(const char *path, void *arg)
{
	struct stat st;

	(void)arg;
	assert_int_equal(stat(path, &st), 0);
	flip(path, st.st_size / 2, 1);
}

static void backup_by_two(struct repofix *fix, uint64_t first, size_t n, struct repo_id *ret)
{
	struct repo_options options = repofix_options(fix, REPO_LOCK_SHARED);
	struct cairn_err err = {0};
	struct repo *other = NULL;

	repofix_open(fix, REPO_LOCK_SHARED);
	assert_ok(repo_open(&options, &other, &err), &err);
	assert_ok(repo_load_index(other, &err), &err);
	assert_ok(repofix_backup(fix->repo, first, n, ret, &err), &err);
	assert_ok(repofix_backup(other, first, n, ret, &err), &err);
	repo_close(other);
}

#define PACKS_MAX 16

struct packs {
	char paths[PACKS_MAX][400];
	unsigned n;
};

static void note_pack(const char *path, void *arg)
{
	struct packs *packs = arg;

	assert_true(packs->n < PACKS_MAX);
	snprintf(packs->paths[packs->n++], sizeof(packs->paths[0]), "%s", path);
}

static void what_is_in_two_packs_is_read_where_it_is_whole(void **state)
{
	static void (*const ways[])(const char *path, void *arg) = {remove_file, cut_file,
								    flip_middle};
	struct repofix *fix = *state;
	struct packs packs = {0};
	struct repo_id id;
	char path[200], kept[200];

	backup_by_two(fix, 1, 30, &id);
	snprintf(kept, sizeof(kept), "%s/kept", fix->dir);
	snprintf(path, sizeof(path), "%s/data", fix->path);
	each_file(path, note_pack, &packs);
	assert_true(packs.n >= 4); /* data and trees, twice each */
	for (size_t i = 0; i < packs.n * ARRAY_LEN(ways); i++) {
		const char *pack = packs.paths[i % packs.n];

		copy_file(pack, kept);
		ways[i / packs.n](pack, NULL);
		repofix_open(fix, REPO_LOCK_NONE);
		assert_true(repofix_problems(fix->repo, true) > 0);
		repofix_verify(fix->repo, &id, 1, 30);
		assert_int_equal(rename(kept, pack), 0);
	}
	assert_int_equal(repofix_problems(fix->repo, true), 0);
}

/* Each pack is damaged in turn, in each way: prune keeps the other copy. */
static void prune_keeps_the_copy_that_is_whole(void **state)
{
	static void (*const ways[])(const char *path, void *arg) = {remove_file, cut_file,
								    flip_middle};
	struct repofix *fix = *state;
	struct packs packs = {0};

	for (size_t i = 0; i == 0 || i < packs.n * ARRAY_LEN(ways); i++) {
		struct cairn_err err = {0};
		struct repo_prune_stats stats;
		struct repo_id id;
		char path[200];

		backup_by_two(fix, 100 * i + 1, 30, &id);
		packs.n = 0;
		snprintf(path, sizeof(path), "%s/data", fix->path);
		each_file(path, note_pack, &packs);
		ways[i / packs.n](packs.paths[i % packs.n], NULL);
		repofix_open(fix, REPO_LOCK_EXCLUSIVE);
		assert_ok(prune(fix->repo, 0, &stats, &err), &err);
		assert_true(stats.blobs_duplicate > 0);
		assert_int_equal(repofix_problems(fix->repo, true), 0);
		repofix_verify(fix->repo, &id, 100 * i + 1, 30);
		remove_all(fix, "snapshots");
		assert_ok(prune(fix->repo, 0, &stats, &err), &err);
	}
}

static int problems_of(struct repofix *fix, const struct repo_id *snapshot)
{
	const struct repo_check_options options = {.read_data = true, .snapshot = snapshot};
	struct repo_check_stats stats;

	repofix_open(fix, REPO_LOCK_SHARED);
	assert_int_equal(repo_check(fix->repo, &options, &stats, NULL), 0);
	assert_int_equal(stats.snapshots, 1);
	return (int)stats.problems;
}

static void one_snapshot_can_be_checked_alone(void **state)
{
	struct repofix *fix = *state;
	struct cairn_err err = {0};
	char path[200];
	struct repo_id a, b;

	repofix_open(fix, REPO_LOCK_SHARED);
	assert_ok(repofix_backup(fix->repo, 1, 10, &a, &err), &err);
	repofix_close(fix);
	snprintf(path, sizeof(path), "%s/data", fix->path);
	each_file(path, flip_middle, NULL);
	repofix_open(fix, REPO_LOCK_SHARED);
	assert_ok(repofix_backup(fix->repo, 100, 10, &b, &err), &err);
	assert_true(problems_of(fix, &a) > 0);
	assert_int_equal(problems_of(fix, &b), 0);
}

static void a_damaged_index_is_made_again_from_the_packs(void **state)
{
	struct repofix *fix = *state;
	struct repo_options options = repofix_options(fix, REPO_LOCK_EXCLUSIVE);
	struct cairn_err err = {0};
	struct repo_repair_stats stats;
	char path[200];
	struct repo_id a, b;

	repofix_open(fix, REPO_LOCK_SHARED);
	assert_ok(repofix_backup(fix->repo, 1, 50, &a, &err), &err);
	repofix_close(fix);
	snprintf(path, sizeof(path), "%s/index", fix->path);
	each_file(path, flip_middle, NULL);
	assert_ok(repo_open(&options, &fix->repo, &err), &err);
	assert_code(repo_load_index(fix->repo, &err), CAIRN_DATA_LOSS);
	assert_non_null(strstr(err.msg, "index/"));
	repofix_close(fix);
	assert_ok(repo_open(&options, &fix->repo, &err), &err);
	assert_ok(repo_repair_index(fix->repo, &stats, &err), &err);
	assert_int_equal(stats.files, 1);
	assert_int_equal(stats.packs, count_files(fix, "data"));
	repofix_open(fix, REPO_LOCK_SHARED);
	repofix_verify(fix->repo, &a, 1, 50);
	assert_int_equal(repofix_problems(fix->repo, true), 0);
	assert_ok(repofix_backup(fix->repo, 40, 50, &b, &err), &err);
	assert_code(repo_repair_index(fix->repo, NULL, &err), CAIRN_PRECONDITION);
}

/* ---- locks ---------------------------------------------------------------------- */

static void locks_exclude_one_another_as_they_should(void **state)
{
	static const struct {
		enum repo_lock_kind held, wanted;
		int code;
	} cases[] = {
		{REPO_LOCK_SHARED, REPO_LOCK_SHARED, 0},
		{REPO_LOCK_SHARED, REPO_LOCK_EXCLUSIVE, CAIRN_ABORTED},
		{REPO_LOCK_EXCLUSIVE, REPO_LOCK_SHARED, CAIRN_ABORTED},
		{REPO_LOCK_EXCLUSIVE, REPO_LOCK_EXCLUSIVE, CAIRN_ABORTED},
		{REPO_LOCK_EXCLUSIVE, REPO_LOCK_NONE, 0},
	};
	struct repofix *fix = *state;

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct repo_options options = repofix_options(fix, cases[i].wanted);
		struct repo *other = NULL;

		repofix_open(fix, cases[i].held);
		assert_code(repo_open(&options, &other, NULL), cases[i].code);
		repo_close(other);
		repofix_close(fix);
		assert_int_equal(count_files(fix, "locks"), 0);
	}
}

/* Opens with an early lock that is checked again after this time. */
static void open_early(struct repofix *fix, uint64_t pause_ms)
{
	struct repo_options options = repofix_options(fix, REPO_LOCK_SHARED);
	struct cairn_err err = {0};

	repofix_close(fix);
	options.lock_early = true;
	options.lock_pause_ms = pause_ms;
	assert_ok(repo_open(&options, &fix->repo, &err), &err);
	assert_ok(repo_load_index(fix->repo, &err), &err);
}

#define NEVER_MS (1000U * 3600)

/* More than fills a pack, or four. */
static int put_packs(struct repo *repo, unsigned seed, struct cairn_err *err)
{
	static uint8_t bytes[60000];
	struct repo_id id;
	int rc = 0;

	for (unsigned i = 0; rc == 0 && i < 4; i++) {
		repofix_bytes(seed + i, bytes, sizeof(bytes));
		rc = repo_blob_put(repo, REPO_BLOB_DATA, bytes, sizeof(bytes), &id, NULL, err);
	}
	return rc;
}

static void a_backup_under_an_early_lock_is_whole(void **state)
{
	struct repofix *fix = *state;
	struct cairn_err err = {0};
	struct repo_id a, b;

	open_early(fix, 1);
	assert_ok(repofix_backup(fix->repo, 1, 100, &a, &err), &err);
	open_early(fix, 50);
	assert_ok(repofix_backup(fix->repo, 51, 100, &b, &err), &err);
	assert_false(repo_collided(fix->repo));
	repofix_open(fix, REPO_LOCK_SHARED);
	repofix_verify(fix->repo, &a, 1, 100);
	repofix_verify(fix->repo, &b, 51, 100);
}

static void nothing_is_sent_before_an_early_lock_was_looked_at_again(void **state)
{
	struct repofix *fix = *state;
	struct repo_options options = repofix_options(fix, REPO_LOCK_EXCLUSIVE);
	struct repo *other = NULL;

	open_early(fix, NEVER_MS);
	assert_int_equal(put_packs(fix->repo, 1, NULL), 0);
	assert_int_equal(count_files(fix, "data"), 0);
	/* It keeps others out already. */
	assert_code(repo_open(&options, &other, NULL), CAIRN_ABORTED);
	repofix_close(fix);
	assert_int_equal(count_files(fix, "data"), 0);
	assert_int_equal(count_files(fix, "locks"), 0);
}

struct kept {
	char path[400];
	uint8_t bytes[4096];
	size_t n;
};

static void keep_file(const char *path, void *arg)
{
	struct kept *kept = arg;
	cairn_auto_fd int fd = open(path, O_RDONLY | O_CLOEXEC);

	snprintf(kept->path, sizeof(kept->path), "%s", path);
	kept->n = (size_t)read(fd, kept->bytes, sizeof(kept->bytes));
}

static void put_file(const struct kept *kept)
{
	cairn_auto_fd int fd = open(kept->path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);

	assert_int_equal(write(fd, kept->bytes, kept->n), kept->n);
}

static void an_early_lock_steps_back_for_one_that_came_at_the_same_moment(void **state)
{
	struct repofix *fix = *state;
	struct cairn_err err = {0};
	struct kept other;
	char path[200];

	repofix_open(fix, REPO_LOCK_EXCLUSIVE);
	snprintf(path, sizeof(path), "%s/locks", fix->path);
	assert_int_equal(each_file(path, keep_file, &other), 1);
	repofix_close(fix);
	open_early(fix, 3000); /* until then the other one must be there */
	put_file(&other);
	(void)put_packs(fix->repo, 1, NULL);
	assert_code(repo_flush(fix->repo, &err), CAIRN_ABORTED);
	assert_true(repo_collided(fix->repo));
	assert_int_equal(count_files(fix, "data"), 0);
	assert_int_equal(count_files(fix, "locks"), 1);
	repofix_close(fix);
	assert_int_equal(count_files(fix, "locks"), 1);
}

static void an_early_lock_notices_that_somebody_pruned(void **state)
{
	struct repofix *fix = *state;
	struct cairn_err err = {0};
	struct repo_id a;

	repofix_open(fix, REPO_LOCK_SHARED);
	assert_ok(repofix_backup(fix->repo, 1, 100, &a, &err), &err);
	open_early(fix, 3000); /* until then the index must be gone */
	remove_all(fix, "index");
	assert_code(repo_settle(fix->repo, &err), CAIRN_ABORTED);
	assert_true(repo_collided(fix->repo));
	assert_code(put_packs(fix->repo, 1000, &err), CAIRN_ABORTED);
	assert_int_equal(count_files(fix, "locks"), 1);
}

static void a_snapshot_is_not_saved_when_the_lock_is_gone(void **state)
{
	struct repofix *fix = *state;
	struct cairn_err err = {0};
	struct repo_id a;

	repofix_open(fix, REPO_LOCK_SHARED);
	assert_ok(repo_check_lock(fix->repo, &err), &err);
	remove_all(fix, "locks");
	assert_code(repofix_backup(fix->repo, 1, 5, &a, &err), CAIRN_ABORTED);
	assert_int_equal(count_files(fix, "snapshots"), 0);
}

static void a_lock_that_is_being_renewed_is_there_at_any_time(void **state)
{
	struct repofix *fix = *state;
	struct repo_options options = repofix_options(fix, REPO_LOCK_SHARED);
	struct cairn_err err = {0};
	struct repo_stats before, after;
	unsigned files;

	options.lock_renew_ms = 1;
	assert_ok(repo_open(&options, &fix->repo, &err), &err);
	repo_get_stats(fix->repo, &before);
	after = before;
	for (unsigned i = 0; i < 500 || after.bytes_stored < before.bytes_stored + 2000; i++) {
		assert_true(i < 5000000); /* it is never renewed */
		assert_ok(repo_check_lock(fix->repo, &err), &err);
		files = count_files(fix, "locks"); /* also one that is being written */
		assert_in_range(files, 1, 3);
		repo_get_stats(fix->repo, &after);
	}
	repofix_close(fix);
	assert_int_equal(count_files(fix, "locks"), 0);
}

static void stale_locks_are_told_from_live_ones(void **state)
{
	const int64_t minute = 60 * (int64_t)CAIRN_NS_PER_SEC, now = 1000 * minute;
	const struct {
		struct repo_lock_info info;
		bool stale;
	} cases[] = {
		{{.time_ns = now, .hostname = "there", .pid = 1}, false},
		{{.time_ns = now - 29 * minute, .hostname = "there", .pid = 1}, false},
		{{.time_ns = now - 31 * minute, .hostname = "there", .pid = 1}, true},
		{{.time_ns = now + 500 * minute, .hostname = "there", .pid = 1}, false},
		{{.time_ns = INT64_MIN, .hostname = "there", .pid = 1}, false},
		{{.time_ns = now, .hostname = "here", .pid = getpid()}, false},
		{{.time_ns = now, .hostname = "here", .pid = 0x3fffffff, .processes = "ours"},
		 true},
		{{.time_ns = now, .hostname = "here", .pid = getpid(), .processes = "ours"}, false},
		{{.time_ns = now, .hostname = "here", .pid = 0x3fffffff, .processes = "theirs"},
		 false},
		{{.time_ns = now - 31 * minute,
		  .hostname = "here",
		  .pid = 0x3fffffff,
		  .processes = "theirs"},
		 true},
		{{.time_ns = now - 9 * minute, .hostname = "here", .pid = 0x3fffffff}, false},
		{{.time_ns = now - 11 * minute, .hostname = "here", .pid = 0x3fffffff}, true},
		{{.time_ns = now - 11 * minute, .hostname = "here", .pid = getpid()}, false},
		{{.time_ns = now, .hostname = "here", .pid = -1}, false},
		{{.time_ns = now, .hostname = "there", .pid = 0x3fffffff}, false},
	};

	const struct repo_lock_view here = {.host = "here", .processes = "ours"};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++)
		assert_int_equal(repo_lock_stale(&cases[i].info, now, &here), cases[i].stale);
}

/* ---- memory --------------------------------------------------------------------- */

/* A whole backup with every allocation failing in turn: it fails or it is right. */
static void short_memory_is_an_error_and_loses_nothing(void **state)
{
	struct repofix *fix = *state;
	struct repo_options options = repofix_options(fix, REPO_LOCK_SHARED);
	struct cairn_err err = {0};
	struct repo_id first;
	bool done = false;

	repofix_open(fix, REPO_LOCK_SHARED);
	assert_ok(repofix_backup(fix->repo, 1, 20, &first, &err), &err);
	repofix_close(fix);
	for (size_t fail = 1; !done && fail < 3000; fail += 1 + fail / 60) {
		struct repo *repo = NULL;
		struct repo_id id;
		int rc;

		cairn_mem_fail_at(fail, 0);
		rc = repo_open(&options, &repo, NULL);
		if (rc == 0)
			rc = repo_load_index(repo, NULL);
		if (rc == 0)
			rc = repofix_backup(repo, 5, 30, &id, NULL);
		done = cairn_mem_count() < fail;
		cairn_mem_fail_at(0, 0);
		repo_close(repo);
		remove_all(fix, "locks"); /* one may be left when memory is short */
		repofix_open(fix, REPO_LOCK_SHARED);
		repofix_verify(fix->repo, &first, 1, 20);
		if (rc == 0)
			repofix_verify(fix->repo, &id, 5, 30);
		assert_int_equal(repofix_problems(fix->repo, true), 0);
		repofix_close(fix);
	}
	assert_true(done);
}

#define with_repo(test) cmocka_unit_test_setup_teardown(test, repofix_setup, repofix_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		with_repo(what_was_put_comes_back_after_reopening),
		with_repo(blobs_come_into_their_rooms_also_those_that_repeat),
		with_repo(a_damaged_blob_is_named_also_beside_others),
		with_repo(a_blob_is_stored_once),
		with_repo(blobs_of_a_batch_stay_together),
		with_repo(a_blob_cannot_be_read_before_it_is_stored),
		with_repo(opening_says_what_is_wrong),
		with_repo(a_repository_without_config_is_made_again_with_its_key),
		with_repo(a_key_that_an_init_left_does_not_hide_the_right_one),
		with_repo(nothing_is_written_without_a_lock),
		with_repo(a_tree_whose_sizes_do_not_add_up_is_refused),
		with_repo(packs_of_a_dead_writer_are_found_again),
		with_repo(a_damaged_pack_of_a_dead_writer_is_left_alone),
		with_repo(prune_deletes_what_no_snapshot_needs_and_nothing_else),
		with_repo(prune_deletes_what_was_left_half_written),
		with_repo(prune_of_everything_leaves_an_empty_repository),
		with_repo(a_dry_run_changes_nothing),
		with_repo(small_packs_are_written_together),
		with_repo(prune_refuses_when_something_needed_is_missing),
		with_repo(every_flipped_bit_is_found),
		with_repo(no_byte_of_a_repository_can_change_unnoticed),
		with_repo(packs_that_are_missing_or_short_are_found_without_reading),
		with_repo(what_is_in_two_packs_is_read_where_it_is_whole),
		with_repo(prune_keeps_the_copy_that_is_whole),
		with_repo(one_snapshot_can_be_checked_alone),
		with_repo(a_damaged_index_is_made_again_from_the_packs),
		with_repo(locks_exclude_one_another_as_they_should),
		with_repo(a_backup_under_an_early_lock_is_whole),
		with_repo(nothing_is_sent_before_an_early_lock_was_looked_at_again),
		with_repo(an_early_lock_steps_back_for_one_that_came_at_the_same_moment),
		with_repo(an_early_lock_notices_that_somebody_pruned),
		with_repo(a_snapshot_is_not_saved_when_the_lock_is_gone),
		with_repo(a_lock_that_is_being_renewed_is_there_at_any_time),
		cmocka_unit_test(stale_locks_are_told_from_live_ones),
		with_repo(short_memory_is_an_error_and_loses_nothing),
	};

	return cmocka_run_group_tests_name("repo/repo", tests, NULL, NULL);
}
