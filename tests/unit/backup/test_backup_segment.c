/* SPDX-License-Identifier: Apache-2.0 */

/* Backups of a volume in segments: what is stored again, and what is read back. */

#include "cairntest.h"

#include "memory_reader.h"
#include "repofix.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "backup/create.h"
#include "backup/image.h"
#include "backup/plan.h"
#include "backup/source.h"
#include "backup/view.h"
#include "backup/zeros.h"
#include "base/cleanup.h"
#include "block/extent.h"
#include "pool/store/store.h"
#include "repo/blob.h"
#include "repo/index.h"
#include "repo/presence.h"
#include "repo/repo_cache.h"
#include "repo/repo_impl.h"

#define BLOCK    4096U
#define SEGMENT  (2 * BLOCK)
#define SEGMENTS (SEGMENT_GROUP + 100U)
#define SIZE     ((uint64_t)SEGMENTS * SEGMENT)
#define PIECES   200U /* of the cache, that are spoilt in turn */
#define MORE     (3 * SEGMENT_GROUP * (uint64_t)SEGMENT + BLOCK)

/* A volume in memory and how it was at the last backup. */
struct volume {
	struct backup_source base;
	uint8_t *now, *before;
	uint64_t size;
	unsigned number;
	char name[32], last[32];
	bool cached; /* backups use a cache of the index */
};

static int open_reader(struct backup_source *base, struct store_reader **ret, struct cairn_err *err)
{
	const struct volume *volume = (struct volume *)base;

	(void)err;
	*ret = memory_reader_new(volume->now, volume->size);
	return 0;
}

static int compare(struct volume *volume, const uint8_t *with, struct block_sink sink,
		   struct cairn_err *err)
{
	int rc = 0;

	for (uint64_t at = 0; rc == 0 && at < volume->size; at += BLOCK)
		if (memcmp(volume->now + at, with + at, BLOCK) != 0)
			rc = sink.emit(sink.arg,
				       &(struct block_extent){.offset = at, .length = BLOCK}, err);
	return rc;
}

static int changed(struct backup_source *base, const char *since, struct block_sink sink,
		   struct cairn_err *err)
{
	struct volume *volume = (struct volume *)base;

	assert_string_equal(since, volume->last);
	return compare(volume, volume->before, sink, err);
}

static int allocated(struct backup_source *base, struct block_sink sink, struct cairn_err *err)
{
	cairn_auto_free uint8_t *zeros = calloc(1, MORE);

	assert_non_null(zeros);
	return compare((struct volume *)base, zeros, sink, err);
}

static int lineage(struct backup_source *base,
		   int (*fn)(void *arg, const char *snapshot_id, uint64_t created_ns,
			     struct cairn_err *err),
		   void *arg, struct cairn_err *err)
{
	struct volume *volume = (struct volume *)base;

	return *volume->last ? fn(arg, volume->last, 0, err) : 0;
}

static void close_nothing(struct backup_source *source)
{
	(void)source;
}

static const struct backup_source_ops source_ops = {.name = "memory",
						    .close = close_nothing,
						    .reader_open = open_reader,
						    .changed = changed,
						    .allocated = allocated,
						    .lineage = lineage};

static void volume_init(struct volume *volume)
{
	*volume = (struct volume){.size = SIZE, .now = calloc(1, MORE), .before = calloc(1, MORE)};
	assert_non_null(volume->now);
	assert_non_null(volume->before);
	repofix_bytes(1, volume->now, SIZE / 3);
	repofix_bytes(2, volume->now + SIZE / 2, SIZE / 4);
}

static void volume_done(struct volume *volume)
{
	free(volume->now);
	free(volume->before);
}

static void change_block(struct volume *volume, uint64_t block, uint64_t seed)
{
	repofix_bytes(seed, volume->now + block * BLOCK, BLOCK);
}

/* With a cache of the index, if it was asked for. */
static void open_repo(struct repofix *fix, bool cached)
{
	struct repo_options options = repofix_options(fix, REPO_LOCK_SHARED);
	struct cairn_err err = {0};
	char dir[128];

	if (!cached) {
		repofix_open(fix, REPO_LOCK_SHARED);
		return;
	}
	snprintf(dir, sizeof(dir), "%s/cache", fix->dir);
	options.cache_dir = dir;
	options.cache_min = 1;
	repofix_close(fix);
	assert_ok(repo_open(&options, &fix->repo, &err), &err);
}

/* Blobs that the backup stored. */
static uint64_t back_up(struct repofix *fix, struct volume *volume, uint64_t segment,
			struct backup_result *ret)
{
	struct backup_create_options options = {
		.version = "test", .threads = 1, .segment = segment};
	struct repo_stats stats;
	struct cairn_err err = {0};

	snprintf(volume->name, sizeof(volume->name), "s%u", ++volume->number);
	volume->base = (struct backup_source){.ops = &source_ops,
					      .volume_id = "v",
					      .volume_name = "v",
					      .snapshot_id = volume->name,
					      .snapshot_name = volume->name,
					      .size = volume->size,
					      .created_ns = volume->number};
	open_repo(fix, volume->cached);
	assert_ok(backup_create(fix->repo, &volume->base, &options, ret, &err), &err);
	repo_get_stats(fix->repo, &stats);
	memcpy(volume->before, volume->now, MORE);
	snprintf(volume->last, sizeof(volume->last), "%s", volume->name);
	return stats.blobs_new;
}

/* The first backup of a new volume on a machine that keeps a cache. */
static void back_up_cached(struct repofix *fix, struct volume *volume, struct backup_result *ret)
{
	volume_init(volume);
	volume->cached = true;
	back_up(fix, volume, SEGMENT, ret);
}

static void assert_read_back(struct repofix *fix, const struct volume *volume,
			     const struct repo_id *id, bool segmented)
{
	cairn_cleanup(repo_snapshot_freep) struct repo_snapshot *snapshot = NULL;
	cairn_cleanup(backup_zeros_freep) struct zeros *zeros = NULL;
	cairn_cleanup(backup_view_freep) struct view *view = NULL;
	cairn_auto_free uint8_t *out = calloc(1, MORE);
	struct image image = {0};
	struct cairn_err err = {0};
	size_t n = 0;

	assert_non_null(out);
	repofix_open(fix, REPO_LOCK_EXCLUSIVE);
	assert_ok(repo_snapshot_load(fix->repo, id, &snapshot, &err), &err);
	assert_ok(backup_zeros_new(&zeros, &err), &err);
	assert_ok(backup_image_open(fix->repo, snapshot, NULL, zeros, &image, &err), &err);
	assert_int_equal(image.segmented, segmented);
	assert_ok(backup_view_new(fix->repo, &image, &view, &err), &err);
	assert_ok(backup_view_read(view, 0, out, volume->size, &n, &err), &err);
	assert_int_equal(n, volume->size);
	assert_memory_equal(out, volume->now, volume->size);
}

static void assert_restored(struct repofix *fix, const struct volume *volume,
			    const struct repo_id *id, bool segmented)
{
	assert_read_back(fix, volume, id, segmented);
	assert_int_equal(repofix_problems(fix->repo, true), 0);
}

static void only_what_changed_is_stored_again(void **state)
{
	struct repofix *fix = *state;
	cairn_cleanup(volume_done) struct volume volume;
	struct backup_result result;

	volume_init(&volume);
	back_up(fix, &volume, SEGMENT, &result);
	assert_int_equal(result.mode, BACKUP_ALLOCATED);
	assert_restored(fix, &volume, &result.id, true);
	/* The metadata, the directory it is in, and the root. */
	assert_int_equal(back_up(fix, &volume, 0, &result), 3);
	assert_int_equal(result.mode, BACKUP_CHANGED);
	assert_int_equal(result.bytes_read, 0);
	/* And the chunk, its segment, its group, the directory of groups. */
	change_block(&volume, 5, 77);
	assert_in_range(back_up(fix, &volume, 0, &result), 7, 8);
	assert_restored(fix, &volume, &result.id, true);
	/* In the other group, from data to zeros. */
	memset(volume.now + SIZE - SIZE / 3, 0, BLOCK);
	back_up(fix, &volume, 0, &result);
	assert_restored(fix, &volume, &result.id, true);
}

static void a_volume_grows_by_segments_and_groups(void **state)
{
	static const uint64_t sizes[] = {SIZE, SIZE + BLOCK, SIZE + SEGMENT,
					 2 * SEGMENT_GROUP * (uint64_t)SEGMENT, MORE};
	struct repofix *fix = *state;
	cairn_cleanup(volume_done) struct volume volume;
	struct backup_result result;

	volume_init(&volume);
	for (size_t i = 0; i < ARRAY_LEN(sizes); i++) {
		volume.size = sizes[i];
		change_block(&volume, sizes[i] / BLOCK - 1, 100 + i);
		back_up(fix, &volume, SEGMENT, &result);
		assert_int_equal(result.mode, i ? BACKUP_CHANGED : BACKUP_ALLOCATED);
		assert_restored(fix, &volume, &result.id, true);
	}
}

static void one_file_becomes_segments_and_keeps_its_chunks(void **state)
{
	struct repofix *fix = *state;
	cairn_cleanup(volume_done) struct volume volume;
	struct backup_result result;

	volume_init(&volume);
	back_up(fix, &volume, 0, &result);
	assert_restored(fix, &volume, &result.id, false);
	change_block(&volume, 9, 78);
	back_up(fix, &volume, 64 * BLOCK, &result);
	assert_int_equal(result.mode, BACKUP_CHANGED);
	assert_true(result.bytes_read <= PLAN_BASE_MIN + PLAN_SEGMENT_BASE);
	assert_restored(fix, &volume, &result.id, true);
	/* Chunks that are longer than a segment are cut. */
	volume_done(&volume);
	volume_init(&volume);
	volume.number = 10;
	back_up(fix, &volume, 0, &result);
	change_block(&volume, 9, 79);
	back_up(fix, &volume, SEGMENT, &result);
	assert_restored(fix, &volume, &result.id, true);
}

/* A hundred backups of random changes to one segment do not make its list ever longer. */
static void a_segment_does_not_fall_to_pieces(void **state)
{
	struct repofix *fix = *state;
	cairn_cleanup(volume_done) struct volume volume;
	struct backup_result result;

	volume_init(&volume);
	volume.size = 128 * BLOCK;
	back_up(fix, &volume, 128 * BLOCK, &result);
	for (unsigned i = 0; i < 60; i++) {
		change_block(&volume, i * 37 % 128, 200 + i);
		back_up(fix, &volume, 0, &result);
		assert_true(result.chunks <= 2 * (128 * BLOCK / PLAN_SEGMENT_BASE) + 8);
	}
	assert_restored(fix, &volume, &result.id, true);
}

/* Opens the repository and finds a blob in it. */
static struct repo_place find_blob(struct repofix *fix, enum repo_blob_type type,
				   const struct repo_id *id, char path[200])
{
	char hex[REPO_ID_TEXT_MAX];
	struct repo_place place;

	repofix_open(fix, REPO_LOCK_NONE);
	assert_true(repo_index_find(fix->repo->index, type, id, &place));
	repo_id_format(&place.pack_id, hex);
	snprintf(path, 200, "%s/data/%.2s/%s", fix->path, hex, hex);
	return place;
}

/* Deletes the pack of a blob from the store. */
static void lose_pack_of(struct repofix *fix, enum repo_blob_type type, const struct repo_id *id)
{
	char path[200];

	(void)find_blob(fix, type, id, path);
	assert_int_equal(unlink(path), 0);
}

/* Changes a byte of a tree. */
static void spoil_tree(struct repofix *fix, const struct repo_id *id)
{
	char path[200];
	struct repo_place place = find_blob(fix, REPO_BLOB_TREE, id, path);
	cairn_auto_fd int fd = -1;
	uint8_t byte;

	assert_int_equal(chmod(path, 0600), 0);
	fd = open(path, O_RDWR | O_CLOEXEC);
	assert_true(fd >= 0);
	assert_int_equal(pread(fd, &byte, 1, place.offset + 20), 1);
	byte ^= 1;
	assert_int_equal(pwrite(fd, &byte, 1, place.offset + 20), 1);
}

/* The list of a segment, in the newest backup. */
static struct repo_id leaf_of(struct repofix *fix, const struct repo_id *backup, uint64_t number)
{
	cairn_cleanup(repo_snapshot_freep) struct repo_snapshot *snapshot = NULL;
	cairn_cleanup(backup_zeros_freep) struct zeros *zeros = NULL;
	cairn_cleanup(backup_image_done) struct image image = {0};
	struct repo_id leaves[SEGMENT_GROUP];
	struct cairn_err err = {0};

	repofix_open(fix, REPO_LOCK_NONE);
	assert_ok(repo_snapshot_load(fix->repo, backup, &snapshot, &err), &err);
	assert_ok(backup_zeros_new(&zeros, &err), &err);
	assert_ok(backup_image_open_parent(fix->repo, snapshot, zeros, &image, &err), &err);
	assert_ok(backup_segments_read_groups(fix->repo, &image.segments, &err), &err);
	assert_ok(backup_segments_leaves(fix->repo, &image.segments, 0, leaves, &err), &err);
	return leaves[number];
}

/* With a cache nobody looks at the list before it is needed. */
static void a_damaged_list_is_stored_again(void **state)
{
	struct repofix *fix = *state;

	for (int cached = 0; cached < 2; cached++) {
		cairn_cleanup(volume_done) struct volume volume;
		struct backup_result result;
		struct repo_id leaf;

		volume_init(&volume);
		volume.cached = cached;
		repofix_bytes(10 + (uint64_t)cached, volume.now, SIZE / 3);
		back_up(fix, &volume, SEGMENT, &result);
		leaf = leaf_of(fix, &result.id, 7);
		spoil_tree(fix, &leaf);
		leaf = leaf_of(fix, &result.id, 9);
		spoil_tree(fix, &leaf);
		change_block(&volume, 15, 99); /* of segment 7 */
		back_up(fix, &volume, SEGMENT, &result);
		assert_false(result.has_parent);
		assert_read_back(fix, &volume, &result.id, true);
		volume.last[0] = '\0';
	}
}

/* Cairn restores zeros without their blob; restic does not. */
static void a_lost_blob_of_zeros_is_stored_again(void **state)
{
	struct repofix *fix = *state;
	cairn_cleanup(volume_done) struct volume volume;
	cairn_cleanup(backup_zeros_freep) struct zeros *zeros = NULL;
	const struct repo_id *id;
	struct backup_result result;
	struct cairn_err err = {0};
	uint64_t gone = 0;

	volume_init(&volume);
	back_up(fix, &volume, SEGMENT, &result);
	assert_ok(backup_zeros_new(&zeros, &err), &err);
	id = backup_zeros_id(zeros, SEGMENT);
	assert_non_null(id);
	lose_pack_of(fix, REPO_BLOB_DATA, id);
	back_up(fix, &volume, 0, &result);
	assert_int_equal(result.packs_gone, 1);
	repofix_open(fix, REPO_LOCK_SHARED);
	assert_ok(repo_confirm_packs(fix->repo, &gone, &err), &err);
	assert_int_equal(gone, 1);
	assert_true(repo_blob_has(fix->repo, REPO_BLOB_DATA, id));
}

/* Spoils one of the pieces of the cache of the index; false behind the last. */
static bool spoil_cache(struct repofix *fix, size_t piece)
{
	char dir[224], path[512];
	const struct dirent *entry;
	off_t at = (off_t)piece * 512;
	bool done = false;
	DIR *d;

	snprintf(dir, sizeof(dir), "%s/cache/%s", fix->dir, repo_config_id(fix->repo));
	d = opendir(dir);
	assert_non_null(d);
	while ((entry = readdir(d))) {
		cairn_auto_fd int fd = -1;
		uint8_t byte;

		if (strncmp(entry->d_name, "index-", 6) != 0)
			continue;
		snprintf(path, sizeof(path), "%s/%s", dir, entry->d_name);
		fd = open(path, O_RDWR | O_CLOEXEC);
		assert_true(fd >= 0);
		if (pread(fd, &byte, 1, at) != 1)
			continue;
		byte ^= 1;
		assert_int_equal(pwrite(fd, &byte, 1, at), 1);
		done = true;
	}
	closedir(d);
	return done;
}

static void a_damaged_cache_costs_no_parent(void **state)
{
	struct repofix *fix = *state;
	cairn_cleanup(volume_done) struct volume volume;
	struct backup_result result;

	back_up_cached(fix, &volume, &result);
	for (size_t i = 0; i < PIECES && spoil_cache(fix, i); i++) {
		change_block(&volume, 5, 300 + i);
		back_up(fix, &volume, 0, &result);
		assert_true(result.has_parent);
		assert_int_equal(result.mode, BACKUP_CHANGED);
		assert_true(result.bytes_read <= PLAN_SEGMENT_BASE);
	}
	assert_restored(fix, &volume, &result.id, true);
}

/* What this machine keeps of a backup: the next one need not read it. */
static void a_cache_saves_requests_and_changes_nothing(void **state)
{
	struct repofix *fix = *state;
	cairn_cleanup(volume_done) struct volume volume;
	struct backup_result result;
	struct repo_stats stats;

	back_up_cached(fix, &volume, &result);
	for (uint64_t round = 1; round < 6; round++) {
		change_block(&volume, 5, 400 + round);
		change_block(&volume, SIZE / BLOCK / 2 + round * 7, 500 + round);
		memset(volume.now + SIZE - round * 3 * BLOCK, 0, BLOCK);
		volume.size += round == 3 ? SEGMENT : 0;
		back_up(fix, &volume, 0, &result);
		assert_int_equal(result.mode, BACKUP_CHANGED);
		assert_restored(fix, &volume, &result.id, true);
		back_up(fix, &volume, 0, &result);
		repo_get_stats(fix->repo, &stats);
		/* A listing, key and config 3, the lock 2, listings 3, packs, index and snapshot
		 * 4, the lock 1; two index files that the cache stands for. One more if saving the
		 * snapshot took long. */
		assert_in_range(stats.requests, 15, 16);
	}
	assert_restored(fix, &volume, &result.id, true);
}

/* Flips a bit of every index file in the store: their names and lengths stay. */
static void spoil_indexes(const struct repofix *fix)
{
	char dir[128], path[512];
	const struct dirent *entry;
	DIR *d;

	snprintf(dir, sizeof(dir), "%s/index", fix->path);
	d = opendir(dir);
	assert_non_null(d);
	while ((entry = readdir(d))) {
		cairn_auto_fd int fd = -1;
		uint8_t byte;

		if (entry->d_name[0] == '.')
			continue;
		snprintf(path, sizeof(path), "%s/%s", dir, entry->d_name);
		assert_int_equal(chmod(path, 0600), 0);
		fd = open(path, O_RDWR | O_CLOEXEC);
		assert_true(fd >= 0);
		assert_int_equal(pread(fd, &byte, 1, 40), 1);
		byte ^= 1;
		assert_int_equal(pwrite(fd, &byte, 1, 40), 1);
	}
	closedir(d);
}

/* Only this machine's cache could restore it: no success, even if nothing changed. */
static void a_damaged_index_is_not_hidden_by_the_cache(void **state)
{
	struct repofix *fix = *state;
	struct backup_create_options options = {.version = "test", .threads = 1};
	cairn_cleanup(volume_done) struct volume volume;
	struct backup_result result;
	struct cairn_err err = {0};

	back_up_cached(fix, &volume, &result);
	back_up(fix, &volume, 0, &result);
	spoil_indexes(fix);
	open_repo(fix, true);
	assert_int_equal(backup_create(fix->repo, &volume.base, &options, &result, &err),
			 CAIRN_DATA_LOSS);
}

/* Stores so many packs of one small blob each that a backup without changes reads no index file. */
static void add_packs(struct repofix *fix, size_t n)
{
	struct cairn_err err = {0};

	open_repo(fix, true);
	assert_ok(repo_load_index_cached(fix->repo, &err), &err);
	fix->repo->pack_size = 1;
	for (size_t i = 0; i < n; i++) {
		uint8_t bytes[16];
		struct repo_id id;

		repofix_bytes(10000 + i, bytes, sizeof(bytes));
		assert_ok(repo_blob_put(fix->repo, REPO_BLOB_DATA, bytes, sizeof(bytes), &id, NULL,
					&err),
			  &err);
	}
	assert_ok(repo_flush(fix->repo, &err), &err);
	repo_cache_save(fix->repo);
}

/* Removes the largest pack, which holds chunks of the volume. Returns how many packs there were. */
static size_t remove_largest(const struct repofix *fix)
{
	char dir[128], path[512], largest[512] = "";
	const struct dirent *entry;
	off_t size = 0;
	size_t n = 0;

	for (unsigned i = 0; i < 256; i++) {
		DIR *d;

		snprintf(dir, sizeof(dir), "%s/data/%02x", fix->path, i);
		d = opendir(dir);
		while (d && (entry = readdir(d))) {
			struct stat st;

			snprintf(path, sizeof(path), "%s/%s", dir, entry->d_name);
			if (stat(path, &st) < 0 || !S_ISREG(st.st_mode))
				continue;
			n++;
			if (st.st_size > size) {
				size = st.st_size;
				memcpy(largest, path, sizeof(path));
			}
		}
		if (d)
			closedir(d);
	}
	assert_int_equal(unlink(largest), 0);
	return n;
}

/* An index in a cache names the pack, and nothing changed that would make the backup read it. */
static void a_lost_pack_is_found_among_any_number(void **state)
{
	struct repofix *fix = *state;
	cairn_cleanup(volume_done) struct volume volume;
	struct backup_result result;

	back_up_cached(fix, &volume, &result);
	add_packs(fix, REPO_CACHE_CHECK_PACKS + 1);
	back_up(fix, &volume, 0, &result);
	assert_int_equal(result.packs_gone, 0);
	assert_true(remove_largest(fix) > REPO_CACHE_CHECK_PACKS);
	back_up(fix, &volume, 0, &result);
	assert_int_equal(result.packs_gone, 1);
	assert_int_equal(result.bytes_changed, 0);
	assert_read_back(fix, &volume, &result.id, true);
}

/* Where the listing of packs alone takes many requests, an unchanged backup does not read index files
 * again. If they are damaged, what it needs is in the packs: a repair makes it whole for everybody. */
static void what_an_unchanged_backup_does_not_read_can_be_repaired(void **state)
{
	struct repofix *fix = *state;
	cairn_cleanup(volume_done) struct volume volume;
	struct backup_result result;
	struct repo_repair_stats stats;
	struct cairn_err err = {0};
	struct repo_options options = repofix_options(fix, REPO_LOCK_EXCLUSIVE);

	back_up_cached(fix, &volume, &result);
	add_packs(fix, REPO_CACHE_CHECK_PACKS + 1);
	back_up(fix, &volume, 0, &result);
	spoil_indexes(fix);
	back_up(fix, &volume, 0, &result);
	assert_int_equal(result.bytes_changed, 0);
	repofix_close(fix);
	assert_ok(repo_open(&options, &fix->repo, &err), &err);
	assert_code(repo_load_index(fix->repo, &err), CAIRN_DATA_LOSS);
	repofix_close(fix);
	assert_ok(repo_open(&options, &fix->repo, &err), &err);
	assert_ok(repo_repair_index(fix->repo, &stats, &err), &err);
	assert_true(stats.files > 0 && stats.packs > REPO_CACHE_CHECK_PACKS);
	repofix_close(fix);
	assert_read_back(fix, &volume, &result.id, true);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(
			what_an_unchanged_backup_does_not_read_can_be_repaired, repofix_setup,
			repofix_teardown),
		cmocka_unit_test_setup_teardown(a_lost_pack_is_found_among_any_number,
						repofix_setup, repofix_teardown),
		cmocka_unit_test_setup_teardown(only_what_changed_is_stored_again, repofix_setup,
						repofix_teardown),
		cmocka_unit_test_setup_teardown(a_volume_grows_by_segments_and_groups,
						repofix_setup, repofix_teardown),
		cmocka_unit_test_setup_teardown(one_file_becomes_segments_and_keeps_its_chunks,
						repofix_setup, repofix_teardown),
		cmocka_unit_test_setup_teardown(a_segment_does_not_fall_to_pieces, repofix_setup,
						repofix_teardown),
		cmocka_unit_test_setup_teardown(a_lost_blob_of_zeros_is_stored_again, repofix_setup,
						repofix_teardown),
		cmocka_unit_test_setup_teardown(a_damaged_list_is_stored_again, repofix_setup,
						repofix_teardown),
		cmocka_unit_test_setup_teardown(a_damaged_cache_costs_no_parent, repofix_setup,
						repofix_teardown),
		cmocka_unit_test_setup_teardown(a_cache_saves_requests_and_changes_nothing,
						repofix_setup, repofix_teardown),
		cmocka_unit_test_setup_teardown(a_damaged_index_is_not_hidden_by_the_cache,
						repofix_setup, repofix_teardown),
	};

	return cmocka_run_group_tests_name("backup/segment", tests, NULL, NULL);
}
