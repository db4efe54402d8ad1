/* SPDX-License-Identifier: Apache-2.0 */

/* What every back end promises, run against each of them. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "cairntest.h"
#include "store_helper.h"

#define IMAGE_SIZE (512 * MIB)
#define SIZE       (8 * MIB)

static struct store_env env;

static int open_store(void **state)
{
	struct cairn_err err = {0};

	*state = &env;
	if (pool_store_open(env.backend, env.dir, true, &env.store, &err) == 0)
		return 0;
	fprintf(stderr, "%s\n", err.msg);
	return -1;
}

static int remove_one(void *arg, const char *id, struct cairn_err *err)
{
	return pool_store_remove(env.store, (struct store_ref){*(enum store_kind *)arg, id}, err);
}

static int count_one(void *arg, const char *id, struct cairn_err *err)
{
	(void)id;
	(void)err;
	++*(size_t *)arg;
	return 0;
}

static size_t count(enum store_kind kind)
{
	size_t n = 0;

	assert_int_equal(pool_store_list(env.store, kind, count_one, &n, NULL), 0);
	return n;
}

/* Empties the store by its own means and sees that nothing is left. */
static int close_store(void **state)
{
	struct cairn_err err = {0};

	(void)state;
	cairn_mem_fail_at(0, 0);
	for (enum store_kind kind = STORE_VOLUME; kind <= STORE_SNAPSHOT; kind++)
		assert_ok(pool_store_list(env.store, kind, remove_one, &kind, &err), &err);
	assert_int_equal(count(STORE_VOLUME) + count(STORE_SNAPSHOT), 0);
	pool_store_close(env.store);
	env.store = NULL;
	return 0;
}

static void make(const char *id, uint64_t size)
{
	struct cairn_err err = {0};

	assert_ok(pool_store_volume_create(env.store, id, size, &err), &err);
}

static void cut(const char *volume, const char *snapshot)
{
	struct cairn_err err = {0};

	assert_ok(cut_whole(env.store, volume, snapshot, &err), &err);
}

static uint64_t size_of(struct store_ref ref)
{
	struct cairn_err err = {0};
	uint64_t size = 0;

	assert_ok(pool_store_size(env.store, ref, &size, &err), &err);
	return size;
}

static void a_new_volume_is_zeros_of_its_size(void **state)
{
	struct block_extent out[4];
	size_t n = 99;

	(void)state;
	make("vol-a", SIZE + 512);
	assert_int_equal(size_of(volume_ref("vol-a")), SIZE + 512);
	assert_int_equal(byte_at(env.store, volume_ref("vol-a"), SIZE + 511), 0);
	assert_int_equal(pool_store_allocated(env.store, volume_ref("vol-a"), 0, out,
					      ARRAY_LEN(out), &n, NULL),
			 0);
	assert_int_equal(n, 0);
}

static void files_are_for_their_owner_only(void **state)
{
	struct cairn_err err = {0};
	char *path = NULL;
	struct stat st;

	(void)state;
	make("vol-a", SIZE);
	cut("vol-a", "snap-a");
	assert_ok(pool_store_path(env.store, volume_ref("vol-a"), &path, &err), &err);
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0600);
	*strrchr(path, '/') = '\0';
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0700);
	free(path);
	assert_ok(pool_store_path(env.store, snapshot_ref("snap-a"), &path, &err), &err);
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_mode & 0077, 0);
	free(path);
}

static void making_again_changes_nothing(void **state)
{
	struct cairn_err err = {0};

	(void)state;
	make("vol-a", SIZE);
	fill_at(env.store, "vol-a", 4096, 4096, 7);
	make("vol-a", SIZE);
	assert_int_equal(byte_at(env.store, volume_ref("vol-a"), 5000), 7);
	assert_code(pool_store_volume_create(env.store, "vol-a", 2 * SIZE, &err), CAIRN_EXISTS);
	assert_int_equal(size_of(volume_ref("vol-a")), SIZE);
	cut("vol-a", "snap-a");
	fill_at(env.store, "vol-a", 4096, 4096, 8);
	assert_code(cut_whole(env.store, "vol-a", "snap-a", &err), CAIRN_EXISTS);
	assert_int_equal(byte_at(env.store, snapshot_ref("snap-a"), 5000), 7);
}

static void a_snapshot_has_the_size_that_was_asked_for(void **state)
{
	struct collected c = {0};
	struct cairn_err err = {0};

	(void)state;
	make("vol-a", SIZE);
	cut("vol-a", "snap-a");
	assert_ok(pool_store_volume_resize(env.store, "vol-a", 2 * SIZE, &err), &err);
	fill_at(env.store, "vol-a", 4096, 4096, 1);
	fill_at(env.store, "vol-a", SIZE, 4096, 1); /* past what is asked for */
	assert_ok(pool_store_snapshot_cut(env.store, "vol-a", "snap-b", SIZE, &err), &err);
	assert_int_equal(size_of(snapshot_ref("snap-b")), SIZE);
	assert_int_equal(size_of(volume_ref("vol-a")), 2 * SIZE);
	assert_int_equal(byte_at(env.store, snapshot_ref("snap-b"), 4096), 1);
	cut("vol-a", "snap-c");
	delta_of(env.store, "snap-b", "snap-c", &c);
	assert_true(covers(&c, SIZE, SIZE));
	assert_code(pool_store_snapshot_cut(env.store, "vol-a", "snap-d", 3 * SIZE, &err),
		    CAIRN_DATA_LOSS);
	assert_code(pool_store_size(env.store, snapshot_ref("snap-d"), &(uint64_t){0}, &err),
		    CAIRN_NOT_FOUND);
	collected_done(&c);
}

static void a_snapshot_keeps_what_was_written_before_it(void **state)
{
	(void)state;
	make("vol-a", SIZE);
	fill_at(env.store, "vol-a", 0, 8192, 1); /* not synced */
	cut("vol-a", "snap-a");
	fill_at(env.store, "vol-a", 4096, 4096, 2);
	cut("vol-a", "snap-b");
	assert_int_equal(byte_at(env.store, snapshot_ref("snap-a"), 5000), 1);
	assert_int_equal(byte_at(env.store, snapshot_ref("snap-b"), 5000), 2);
	assert_int_equal(byte_at(env.store, snapshot_ref("snap-b"), 100), 1);
}

static void a_clone_has_the_bytes_and_goes_its_own_way(void **state)
{
	struct cairn_err err = {0};

	(void)state;
	make("vol-a", SIZE);
	fill_at(env.store, "vol-a", 0, 8192, 1);
	cut("vol-a", "snap-a");
	assert_ok(pool_store_volume_clone(env.store, "vol-b", "snap-a", SIZE, 2 * SIZE, &err),
		  &err);
	assert_ok(pool_store_volume_clone(env.store, "vol-b", "snap-a", SIZE, 2 * SIZE, &err),
		  &err);
	assert_int_equal(size_of(volume_ref("vol-b")), 2 * SIZE);
	fill_at(env.store, "vol-b", 0, 4096, 9);
	assert_int_equal(byte_at(env.store, volume_ref("vol-b"), 0), 9);
	assert_int_equal(byte_at(env.store, volume_ref("vol-b"), 4096), 1);
	assert_int_equal(byte_at(env.store, volume_ref("vol-a"), 0), 1);
	assert_int_equal(byte_at(env.store, snapshot_ref("snap-a"), 0), 1);
	assert_code(pool_store_volume_clone(env.store, "vol-c", "snap-a", SIZE, SIZE / 2, &err),
		    CAIRN_RANGE);
	assert_code(pool_store_volume_clone(env.store, "vol-c", "snap-x", SIZE, SIZE, &err),
		    CAIRN_NOT_FOUND);
	assert_code(pool_store_size(env.store, volume_ref("vol-c"), &(uint64_t){0}, &err),
		    CAIRN_NOT_FOUND);
}

static void a_replaced_volume_has_the_snapshots_bytes(void **state)
{
	struct collected c = {0};
	struct cairn_err err = {0};

	(void)state;
	make("vol-a", SIZE);
	fill_at(env.store, "vol-a", 0, 8192, 1);
	cut("vol-a", "snap-a");
	fill_at(env.store, "vol-a", 4096, 8192, 2);
	cut("vol-a", "snap-b");
	assert_ok(replace(env.store, "vol-a", "snap-a", SIZE, 2 * SIZE, &err), &err);
	assert_int_equal(size_of(volume_ref("vol-a")), 2 * SIZE);
	assert_int_equal(byte_at(env.store, volume_ref("vol-a"), 4096), 1);
	assert_int_equal(byte_at(env.store, volume_ref("vol-a"), 8192), 0);
	assert_int_equal(byte_at(env.store, snapshot_ref("snap-b"), 4096), 2);
	assert_ok(pool_store_volume_sweep(env.store, "vol-a", &err), &err);
	assert_ok(pool_store_volume_sweep(env.store, "vol-a", &err), &err);
	assert_int_equal(count(STORE_VOLUME), 1);
	assert_int_equal(byte_at(env.store, volume_ref("vol-a"), 4096), 1);
	fill_at(env.store, "vol-a", 0, 4096, 3);
	cut("vol-a", "snap-c");
	delta_of(env.store, "snap-a", "snap-c", &c);
	assert_true(covers(&c, 0, 4096) && !covers(&c, 4096, 4096));
	collected_done(&c);
	delta_of(env.store, "snap-b", "snap-c", &c);
	assert_true(covers(&c, 0, 12288));
	collected_done(&c);
	assert_code(replace(env.store, "vol-a", "snap-x", SIZE, SIZE, &err), CAIRN_NOT_FOUND);
	assert_code(replace(env.store, "vol-a", "snap-c", 2 * SIZE, SIZE, &err), CAIRN_RANGE);
	assert_ok(pool_store_volume_sweep(env.store, "vol-a", &err), &err);
	assert_int_equal(count(STORE_VOLUME), 1);
	assert_int_equal(byte_at(env.store, volume_ref("vol-a"), 0), 3);
}

static int refuse_exchange(void *arg, const char *path, struct cairn_err *err)
{
	struct stat st;

	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_size, SIZE);
	assert_int_equal(byte_at(env.store, volume_ref("vol-a"), 0), 2);
	++*(int *)arg;
	return cairn_err_set(err, CAIRN_PRECONDITION, "in use");
}

static void a_caller_can_refuse_an_exchange_at_the_last_moment(void **state)
{
	struct cairn_err err = {0};
	int calls = 0;
	const struct store_replacement spec = {.id = "vol-a",
					       .snapshot_id = "snap-a",
					       .length = SIZE,
					       .size = SIZE,
					       .ready = refuse_exchange,
					       .arg = &calls};

	(void)state;
	make("vol-a", SIZE);
	fill_at(env.store, "vol-a", 0, 4096, 1);
	cut("vol-a", "snap-a");
	fill_at(env.store, "vol-a", 0, 4096, 2);
	assert_code(pool_store_volume_replace(env.store, &spec, &err), CAIRN_PRECONDITION);
	assert_int_equal(calls, 1);
	assert_ok(pool_store_volume_sweep(env.store, "vol-a", &err), &err);
	assert_int_equal(byte_at(env.store, volume_ref("vol-a"), 0), 2);
	assert_int_equal(count(STORE_VOLUME), 1);
}

/* As pools of older versions have it after an expansion that was interrupted. */
static void a_clone_has_no_bytes_from_past_the_snapshots_record(void **state)
{
	struct cairn_err err = {0};

	(void)state;
	make("vol-a", SIZE);
	fill_at(env.store, "vol-a", 0, SIZE, 1);
	cut("vol-a", "snap-a");
	assert_ok(pool_store_volume_clone(env.store, "vol-b", "snap-a", SIZE / 2, SIZE / 2, &err),
		  &err);
	assert_int_equal(size_of(volume_ref("vol-b")), SIZE / 2);
	assert_ok(pool_store_volume_clone(env.store, "vol-c", "snap-a", SIZE / 2, 2 * SIZE, &err),
		  &err);
	assert_int_equal(size_of(volume_ref("vol-c")), 2 * SIZE);
	assert_int_equal(byte_at(env.store, volume_ref("vol-c"), SIZE / 2 - 1), 1);
	assert_int_equal(byte_at(env.store, volume_ref("vol-c"), SIZE / 2), 0);
	assert_code(pool_store_volume_clone(env.store, "vol-d", "snap-a", 2 * SIZE, 2 * SIZE, &err),
		    CAIRN_DATA_LOSS);
	assert_code(pool_store_size(env.store, volume_ref("vol-d"), &(uint64_t){0}, &err),
		    CAIRN_NOT_FOUND);
}

static void a_volume_grows_and_never_shrinks(void **state)
{
	struct cairn_err err = {0};

	(void)state;
	make("vol-a", SIZE);
	assert_ok(pool_store_volume_resize(env.store, "vol-a", SIZE + 512, &err), &err);
	assert_ok(pool_store_volume_resize(env.store, "vol-a", SIZE + 512, &err), &err);
	assert_int_equal(size_of(volume_ref("vol-a")), SIZE + 512);
	assert_code(pool_store_volume_resize(env.store, "vol-a", SIZE, &err), CAIRN_RANGE);
	assert_code(pool_store_volume_resize(env.store, "vol-x", SIZE, &err), CAIRN_NOT_FOUND);
}

static void removing_twice_is_fine(void **state)
{
	struct cairn_err err = {0};

	(void)state;
	make("vol-a", SIZE);
	cut("vol-a", "snap-a");
	for (int i = 0; i < 2; i++) {
		assert_ok(pool_store_remove(env.store, volume_ref("vol-a"), &err), &err);
		assert_code(pool_store_size(env.store, volume_ref("vol-a"), &(uint64_t){0}, &err),
			    CAIRN_NOT_FOUND);
	}
	assert_int_equal(size_of(snapshot_ref("snap-a")), SIZE);
	assert_ok(pool_store_remove(env.store, snapshot_ref("snap-a"), &err), &err);
	assert_int_equal(count(STORE_SNAPSHOT), 0);
}

static void what_is_set_aside_is_out_of_sight_and_comes_back(void **state)
{
	struct store_ref refs[] = {volume_ref("vol-a"), snapshot_ref("snap-a")};
	struct cairn_err err = {0};

	(void)state;
	make("vol-a", SIZE);
	cut("vol-a", "snap-a");
	for (size_t i = 0; i < ARRAY_LEN(refs); i++) {
		size_t n = 0;

		assert_ok(pool_store_set_aside(env.store, refs[i], &err), &err);
		assert_code(pool_store_set_aside(env.store, refs[i], &err), CAIRN_NOT_FOUND);
		assert_code(pool_store_size(env.store, refs[i], &(uint64_t){0}, &err),
			    CAIRN_NOT_FOUND);
		assert_int_equal(count(refs[i].kind), 0);
		assert_ok(pool_store_list_aside(env.store, refs[i].kind, count_one, &n, &err),
			  &err);
		assert_int_equal(n, 1);
		assert_ok(pool_store_bring_back(env.store, refs[i], &err), &err);
		assert_int_equal(size_of(refs[i]), SIZE);
		assert_code(pool_store_bring_back(env.store, refs[i], &err), CAIRN_NOT_FOUND);
		assert_ok(pool_store_set_aside(env.store, refs[i], &err), &err);
		assert_ok(pool_store_drop_aside(env.store, refs[i], &err), &err);
		assert_ok(pool_store_drop_aside(env.store, refs[i], &err), &err);
		assert_code(pool_store_bring_back(env.store, refs[i], &err), CAIRN_NOT_FOUND);
	}
}

static void leave_behind(const char *kind, const char *name)
{
	char path[512];
	int fd;

	snprintf(path, sizeof(path), "%s/%s/%s", env.dir, kind, name);
	assert_int_equal(mkdir(path, 0700), 0);
	snprintf(path, sizeof(path), "%s/%s/%s/disk", env.dir, kind, name);
	fd = open(path, O_WRONLY | O_CREAT, 0600);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, "left", 4), 4);
	close(fd);
}

static void leftovers_are_in_nobodys_way(void **state)
{
	struct cairn_err err = {0};

	(void)state;
	leave_behind("volumes", "vol-a.new");
	leave_behind("snapshots", "snap-a.new");
	leave_behind("volumes", "vol-b.new");
	leave_behind("volumes", "vol-c.del");
	leave_behind("volumes", "Not-Ours");
	assert_int_equal(count(STORE_VOLUME), 3);
	make("vol-a", SIZE);
	assert_int_equal(byte_at(env.store, volume_ref("vol-a"), 0), 0);
	cut("vol-a", "snap-a");
	assert_int_equal(size_of(snapshot_ref("snap-a")), SIZE);
	assert_code(pool_store_size(env.store, volume_ref("vol-b"), &(uint64_t){0}, &err),
		    CAIRN_NOT_FOUND);
	assert_ok(pool_store_remove(env.store, volume_ref("vol-b"), &err), &err);
	assert_ok(pool_store_remove(env.store, volume_ref("vol-c"), &err), &err);
	assert_int_equal(count(STORE_VOLUME), 1);
}

static void the_delta_is_what_was_written(void **state)
{
	struct collected c = {0};

	(void)state;
	make("vol-a", SIZE);
	fill_at(env.store, "vol-a", 0, MIB, 1);
	cut("vol-a", "snap-a");
	fill_at(env.store, "vol-a", 64 * KIB, 4096, 2);
	fill_at(env.store, "vol-a", 4 * MIB, 4096, 2);
	cut("vol-a", "snap-b");
	delta_of(env.store, "snap-a", "snap-b", &c);
	assert_true(covers(&c, 64 * KIB, 4096));
	assert_true(covers(&c, 4 * MIB, 4096));
	assert_false(covers(&c, 0, 4096));
	assert_false(covers(&c, 2 * MIB, 4096));
	collected_done(&c);
	delta_of(env.store, "snap-b", "snap-b", &c);
	assert_int_equal(c.n, 0);
	collected_done(&c);
}

static void punched_holes_are_changes_to_zero(void **state)
{
	struct collected c = {0};
	int fd;

	(void)state;
	make("vol-a", SIZE);
	fill_at(env.store, "vol-a", 0, MIB, 1);
	cut("vol-a", "snap-a");
	fd = open_volume(env.store, "vol-a");
	assert_int_equal(
		fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 128 * KIB, 128 * KIB), 0);
	close(fd);
	cut("vol-a", "snap-b");
	delta_of(env.store, "snap-a", "snap-b", &c);
	assert_int_equal(c.n, 1);
	assert_int_equal(c.list[0].offset, 128 * KIB);
	assert_int_equal(c.list[0].length, 128 * KIB);
	assert_true(c.list[0].zero);
	collected_done(&c);
}

static void preallocation_is_no_change(void **state)
{
	struct collected c = {0};
	struct block_extent out[4];
	size_t n;
	int fd;

	(void)state;
	make("vol-a", SIZE);
	cut("vol-a", "snap-a");
	fd = open_volume(env.store, "vol-a");
	if (fallocate(fd, 0, MIB, MIB) < 0 && errno == EOPNOTSUPP) {
		close(fd);
		skip();
	}
	close(fd);
	assert_int_equal(pool_store_allocated(env.store, volume_ref("vol-a"), 0, out,
					      ARRAY_LEN(out), &n, NULL),
			 0);
	assert_int_equal(n, 0);
	cut("vol-a", "snap-b");
	delta_of(env.store, "snap-a", "snap-b", &c);
	assert_int_equal(c.n, 0);
	fill_at(env.store, "vol-a", MIB + 4096, 4096, 3);
	cut("vol-a", "snap-c");
	delta_of(env.store, "snap-b", "snap-c", &c);
	assert_int_equal(c.n, 1);
	assert_true(covers(&c, MIB + 4096, 4096));
	collected_done(&c);
}

static void what_a_volume_grew_is_changed(void **state)
{
	struct cairn_err err = {0};
	struct collected c = {0};

	(void)state;
	make("vol-a", SIZE + 512);
	fill_at(env.store, "vol-a", SIZE, 512, 5);
	cut("vol-a", "snap-a");
	assert_ok(pool_store_volume_resize(env.store, "vol-a", 2 * SIZE, &err), &err);
	cut("vol-a", "snap-b");
	fill_at(env.store, "vol-a", SIZE + MIB, 4096, 5);
	cut("vol-a", "snap-c");
	delta_of(env.store, "snap-a", "snap-b", &c);
	assert_true(covers(&c, SIZE + 512, SIZE - 512));
	assert_false(covers(&c, 0, 4096));
	collected_done(&c);
	delta_of(env.store, "snap-a", "snap-c", &c);
	assert_true(covers(&c, SIZE + 512, SIZE - 512));
	for (size_t i = 0; i < c.n; i++)
		if (c.list[i].zero)
			assert_false(c.list[i].offset <= SIZE + MIB &&
				     block_extent_end(&c.list[i]) > SIZE + MIB);
	collected_done(&c);
	/* The other way round: up to the smaller size. */
	delta_of(env.store, "snap-c", "snap-a", &c);
	collected_done(&c);
}

static void allocated_ranges_come_in_pieces(void **state)
{
	struct cairn_err err = {0};
	struct block_extent out[2];
	uint64_t at = 0, bytes = 0;
	size_t n = 0;

	(void)state;
	make("vol-a", SIZE);
	for (unsigned i = 0; i < 7; i++)
		fill_at(env.store, "vol-a", i * MIB, 64 * KIB, (unsigned char)(i + 1));
	cut("vol-a", "snap-a");
	do {
		assert_ok(pool_store_allocated(env.store, snapshot_ref("snap-a"), at, out, 2, &n,
					       &err),
			  &err);
		for (size_t i = 0; i < n; i++) {
			assert_true(out[i].offset >= at);
			assert_false(out[i].zero);
			at = block_extent_end(&out[i]);
			bytes += out[i].length;
		}
	} while (n > 0);
	assert_int_equal(bytes, 7 * 64 * KIB);
	assert_ok(pool_store_allocated(env.store, snapshot_ref("snap-a"), MIB + 4096, out, 1, &n,
				       &err),
		  &err);
	assert_int_equal(n, 1);
	assert_int_equal(out[0].offset, MIB + 4096);
	assert_int_equal(block_extent_end(&out[0]), MIB + 64 * KIB);
	assert_ok(pool_store_allocated(env.store, snapshot_ref("snap-a"), UINT64_MAX, out, 1, &n,
				       &err),
		  &err);
	assert_int_equal(n, 0);
}

static void reading_is_short_only_at_the_end(void **state)
{
	struct store_reader *reader = NULL;
	struct cairn_err err = {0};
	char buf[8192];
	size_t n = 0;

	(void)state;
	make("vol-a", SIZE);
	assert_ok(pool_store_reader_open(env.store, volume_ref("vol-a"), &reader, &err), &err);
	assert_ok(pool_store_reader_read(reader, SIZE - 4096, buf, sizeof(buf), &n, &err), &err);
	assert_int_equal(n, 4096);
	assert_ok(pool_store_reader_read(reader, SIZE, buf, sizeof(buf), &n, &err), &err);
	assert_int_equal(n, 0);
	assert_ok(pool_store_reader_read(reader, UINT64_MAX, buf, sizeof(buf), &n, &err), &err);
	assert_int_equal(n, 0);
	pool_store_reader_free(reader);
	assert_code(pool_store_reader_open(env.store, snapshot_ref("snap-x"), &reader, &err),
		    CAIRN_NOT_FOUND);
}

static void bad_ids_and_sizes_are_refused(void **state)
{
	static const char *const ids[] = {
		"",
		".",
		"..",
		"a/b",
		"A",
		"vol_1",
		"vol-1.new",
		"\xc3\xa4",
		"a12345678901234567890123456789012345678901234567890123456789012345"};
	struct cairn_err err = {0};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(ids); i++) {
		assert_code(pool_store_volume_create(env.store, ids[i], SIZE, &err), CAIRN_INVALID);
		assert_code(pool_store_remove(env.store, volume_ref(ids[i]), &err), CAIRN_INVALID);
		assert_code(pool_store_snapshot_cut(env.store, "vol-a", ids[i], SIZE, &err),
			    CAIRN_INVALID);
	}
	assert_code(pool_store_volume_create(env.store, NULL, SIZE, &err), CAIRN_INVALID);
	assert_code(pool_store_volume_create(env.store, "vol-a", 0, &err), CAIRN_INVALID);
	assert_code(pool_store_volume_create(env.store, "vol-a", STORE_SIZE_MAX + 1, &err),
		    CAIRN_RANGE);
	assert_code(pool_store_snapshot_cut(env.store, "vol-x", "snap-x", SIZE, &err),
		    CAIRN_NOT_FOUND);
	assert_int_equal(count(STORE_VOLUME) + count(STORE_SNAPSHOT), 0);
}

static void a_read_only_store_reads_and_refuses_to_write(void **state)
{
	struct cairn_err err = {0};
	struct store *reader = NULL;
	struct collected c = {0};

	(void)state;
	make("vol-a", SIZE);
	cut("vol-a", "snap-a");
	fill_at(env.store, "vol-a", 0, 4096, 1);
	cut("vol-a", "snap-b");
	assert_ok(pool_store_open(env.backend, env.dir, false, &reader, &err), &err);
	delta_of(reader, "snap-a", "snap-b", &c);
	assert_true(covers(&c, 0, 4096));
	assert_code(pool_store_volume_create(reader, "vol-b", SIZE, &err), CAIRN_PRECONDITION);
	assert_code(pool_store_remove(reader, volume_ref("vol-a"), &err), CAIRN_PRECONDITION);
	assert_code(cut_whole(reader, "vol-a", "snap-c", &err), CAIRN_PRECONDITION);
	pool_store_close(reader);
	collected_done(&c);
}

static bool always(void *arg)
{
	++*(int *)arg;
	return true;
}

static void a_delta_ends_when_asked_to(void **state)
{
	int asked = 0;
	struct store_progress progress = {.cancelled = always, .arg = &asked};
	struct collected c = {.fail_with = CAIRN_NO_SPACE};
	struct cairn_err err = {0};

	(void)state;
	make("vol-a", SIZE);
	cut("vol-a", "snap-a");
	fill_at(env.store, "vol-a", 0, 4096, 1);
	cut("vol-a", "snap-b");
	assert_code(pool_store_delta(env.store, "snap-a", "snap-b", collected_sink(&c), &progress,
				     NULL, &err),
		    CAIRN_CANCELLED);
	assert_true(asked > 0);
	assert_code(pool_store_delta(env.store, "snap-a", "snap-b", collected_sink(&c), NULL, NULL,
				     &err),
		    CAIRN_NO_SPACE);
	assert_code(pool_store_delta(env.store, "snap-a", "snap-x", collected_sink(&c), NULL, NULL,
				     &err),
		    CAIRN_NOT_FOUND);
}

static void usage_is_told(void **state)
{
	struct store_usage usage = {0};
	struct cairn_err err = {0};

	(void)state;
	assert_ok(pool_store_usage_get(env.store, &usage, &err), &err);
	assert_true(usage.total_bytes > 0);
	assert_true(usage.free_bytes <= usage.total_bytes);
}

/* Everything once, with whatever code it gives. */
static int whole_life(void)
{
	struct collected c = {0};
	struct store_reader *reader = NULL;
	struct cairn_err err = {0};
	struct block_extent out[4];
	struct store *store = NULL;
	size_t n;
	int rc = pool_store_open(env.backend, env.dir, true, &store, &err);

	rc = rc ? rc : pool_store_volume_create(store, "vol-m", SIZE, &err);
	rc = rc ? rc : pool_store_snapshot_cut(store, "vol-m", "snap-m", SIZE, &err);
	rc = rc ? rc : pool_store_snapshot_cut(store, "vol-m", "snap-n", SIZE, &err);
	rc = rc ? rc : pool_store_volume_clone(store, "vol-n", "snap-m", SIZE, SIZE, &err);
	rc = rc ? rc : replace(store, "vol-n", "snap-n", SIZE, SIZE, &err);
	rc = rc ? rc : pool_store_volume_sweep(store, "vol-n", &err);
	rc = rc ? rc
		: pool_store_delta(store, "snap-m", "snap-n", collected_sink(&c), NULL, NULL, &err);
	rc = rc ? rc : pool_store_allocated(store, snapshot_ref("snap-m"), 0, out, 4, &n, &err);
	rc = rc ? rc : pool_store_reader_open(store, snapshot_ref("snap-m"), &reader, &err);
	pool_store_reader_free(reader);
	collected_done(&c);
	pool_store_close(store);
	return rc;
}

static void short_memory_is_an_error_that_loses_nothing(void **state)
{
	struct cairn_err err = {0};
	size_t fails = 0;

	(void)state;
	for (size_t at = 1; at < 200; at++) {
		int rc;

		cairn_mem_fail_at(at, 0);
		rc = whole_life();
		cairn_mem_fail_at(0, 0);
		for (int i = 0; i < 2; i++) {
			static const char *const volumes[] = {"vol-m", "vol-n"};
			static const char *const snapshots[] = {"snap-m", "snap-n"};

			assert_ok(pool_store_remove(env.store, volume_ref(volumes[i]), &err), &err);
			assert_ok(pool_store_remove(env.store, snapshot_ref(snapshots[i]), &err),
				  &err);
		}
		if (rc == 0)
			break;
		assert_int_equal(rc, CAIRN_NO_SPACE);
		fails++;
	}
	assert_true(fails > 3 && fails < 199);
	assert_int_equal(count(STORE_VOLUME) + count(STORE_SNAPSHOT), 0);
}

#define T(f) cmocka_unit_test_setup_teardown(f, open_store, close_store)

int store_conformance(const char *backend, enum scratchfs_kind kind)
{
	const struct CMUnitTest tests[] = {
		T(a_new_volume_is_zeros_of_its_size),
		T(files_are_for_their_owner_only),
		T(making_again_changes_nothing),
		T(a_snapshot_has_the_size_that_was_asked_for),
		T(a_snapshot_keeps_what_was_written_before_it),
		T(a_clone_has_the_bytes_and_goes_its_own_way),
		T(a_replaced_volume_has_the_snapshots_bytes),
		T(a_caller_can_refuse_an_exchange_at_the_last_moment),
		T(a_clone_has_no_bytes_from_past_the_snapshots_record),
		T(a_volume_grows_and_never_shrinks),
		T(removing_twice_is_fine),
		T(what_is_set_aside_is_out_of_sight_and_comes_back),
		T(leftovers_are_in_nobodys_way),
		T(the_delta_is_what_was_written),
		T(punched_holes_are_changes_to_zero),
		T(preallocation_is_no_change),
		T(what_a_volume_grew_is_changed),
		T(allocated_ranges_come_in_pieces),
		T(reading_is_short_only_at_the_end),
		T(bad_ids_and_sizes_are_refused),
		T(a_read_only_store_reads_and_refuses_to_write),
		T(a_delta_ends_when_asked_to),
		T(usage_is_told),
		T(short_memory_is_an_error_that_loses_nothing),
	};

	env = (struct store_env){.backend = backend, .kind = kind};
	env.dir = scratchfs_make(kind, IMAGE_SIZE);
	if (!env.dir)
		return 77;
	return cmocka_run_group_tests_name(backend, tests, NULL, NULL);
}
