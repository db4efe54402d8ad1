/* SPDX-License-Identifier: Apache-2.0 */

/* Cuts in two steps, against a model of the volume. */
#include "pool/reflink/twostep.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "cairntest.h"
#include "store_helper.h"
#include "volume_model.h"

#define SIZE    (24 * MIB)
#define EXTENTS 3000U
#define STRIDE  8192U
#define ROUNDS  8U
#define MANY    (TWOSTEP_EXTENTS_MIN + 400)

static char path_a[300], path_b[300];

static int make_file(char *path, size_t room, const char *dir, const char *name)
{
	int fd;

	snprintf(path, room, "%s/%s", dir, name);
	fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	assert_true(fd >= 0);
	return fd;
}

static unsigned char *read_all(int fd, uint64_t n)
{
	unsigned char *bytes = malloc(n);

	assert_non_null(bytes);
	assert_int_equal(pread(fd, bytes, n, 0), (ssize_t)n);
	assert_int_equal(lseek(fd, 0, SEEK_END), (off_t)n);
	return bytes;
}

static void fragment(struct volume_model *model, int fd)
{
	unsigned char block[4096];

	for (unsigned i = 0; i < EXTENTS; i++) {
		uint64_t offset = (uint64_t)i * STRIDE;

		memset(block, 0, sizeof(block));
		assert_int_equal(pwrite(fd, block, sizeof(block), (off_t)offset), sizeof(block));
	}
	assert_int_equal(fsync(fd), 0);
	model->n = SIZE / MODEL_SECTOR;
	model->sectors = calloc(model->n, sizeof(*model->sectors));
	assert_non_null(model->sectors);
	model->next = 1;
	model->random = 88172645463325252ULL;
	model->clones = true;
}

/* Random operations before the first step, between the two, and growth; the clone must
 * hold what the volume holds at the second step. */
static void the_second_step_sees_all_that_was_written_since_the_first(void **state)
{
	const char *dir = scratchfs_make(SCRATCHFS_XFS, 512 * MIB);
	struct volume_model model = {0};
	struct cairn_err err = {0};
	int a;

	(void)state;
	if (!dir)
		skip();
	a = make_file(path_a, sizeof(path_a), dir, "a");
	assert_int_equal(ftruncate(a, (off_t)SIZE), 0);
	fragment(&model, a);
	for (unsigned round = 0; round < ROUNDS; round++) {
		int b = make_file(path_b, sizeof(path_b), dir, "b");
		unsigned char *bytes;
		bool done = false;

		for (unsigned i = 0; i < 40; i++)
			model_step(&model, a);
		assert_ok(reflink_twostep_begin(a, b, &err), &err);
		for (unsigned i = 0; i < 40; i++)
			model_step(&model, a);
		if (round % 3 == 2) {
			model_grow(&model, model.n + 3);
			assert_int_equal(ftruncate(a, (off_t)(model.n * MODEL_SECTOR)), 0);
		}
		assert_ok(reflink_twostep_end(a, b, &done, &err), &err);
		assert_true(done);
		bytes = read_all(b, model.n * MODEL_SECTOR);
		assert_true(model_fits(model.sectors, model.n, bytes));
		free(bytes);
		close(b);
	}
	free(model.sectors);
	close(a);
	scratchfs_remove();
}

/* A store with a volume "vol-1" of MANY extents. */
static struct store *store_with_many(const char *dir, unsigned char byte)
{
	struct store *store = NULL;
	struct cairn_err err = {0};

	assert_ok(pool_store_open("reflink", dir, true, &store, &err), &err);
	assert_ok(pool_store_volume_create(store, "vol-1", (uint64_t)MANY * STRIDE, &err), &err);
	for (unsigned i = 0; i < MANY; i++)
		fill_at(store, "vol-1", (uint64_t)i * STRIDE, 4096, byte);
	return store;
}

/* A clone that a killed process left, of whatever age, is as good a first step. */
static void an_old_clone_is_continued(void **state)
{
	const char *dir = scratchfs_make(SCRATCHFS_XFS, 512 * MIB);
	struct store *store = NULL;
	struct cairn_err err = {0};

	(void)state;
	if (!dir)
		skip();
	store = store_with_many(dir, 1);
	assert_ok(pool_store_snapshot_prepare(store, "vol-1", "snap-1", &err), &err);
	fill_at(store, "vol-1", 5 * STRIDE, 4096, 2);
	assert_ok(cut_whole(store, "vol-1", "snap-1", &err), &err);
	assert_int_equal(byte_at(store, snapshot_ref("snap-1"), 5 * STRIDE), 2);
	assert_int_equal(byte_at(store, snapshot_ref("snap-1"), 6 * STRIDE), 1);
	/* and one that is given up leaves nothing */
	assert_ok(pool_store_snapshot_prepare(store, "vol-1", "snap-2", &err), &err);
	assert_ok(pool_store_remove(store, snapshot_ref("snap-2"), &err), &err);
	fill_at(store, "vol-1", 7 * STRIDE, 4096, 3);
	assert_ok(cut_whole(store, "vol-1", "snap-2", &err), &err);
	assert_int_equal(byte_at(store, snapshot_ref("snap-2"), 7 * STRIDE), 3);
	pool_store_close(store);
	scratchfs_remove();
}

static atomic_bool stop;

/* Writes a counter to the first block and then to the last one. */
static void *write_pairs(void *arg)
{
	for (uint64_t i = 1; !stop; i++) {
		(void)!pwrite(*(int *)arg, &i, sizeof(i), 0);
		(void)!pwrite(*(int *)arg, &i, sizeof(i), (off_t)((uint64_t)MANY - 1) * STRIDE);
		usleep(20);
	}
	return NULL;
}

static uint64_t number_at(struct store *store, const char *id, uint64_t offset)
{
	struct store_reader *reader = NULL;
	uint64_t number = 0;
	size_t n = 0;

	assert_int_equal(pool_store_reader_open(store, snapshot_ref(id), &reader, NULL), 0);
	assert_int_equal(pool_store_reader_read(reader, offset, &number, sizeof(number), &n, NULL),
			 0);
	pool_store_reader_free(reader);
	return number;
}

/* Whoever writes although he should be held still does not make a torn cut. */
static void a_cut_is_of_one_moment_although_somebody_writes(void **state)
{
	const char *dir = scratchfs_make(SCRATCHFS_XFS, 512 * MIB);
	struct store *store = NULL;
	struct cairn_err err = {0};
	pthread_t writer;
	int fd;

	(void)state;
	if (!dir)
		skip();
	store = store_with_many(dir, 0);
	fd = open_volume(store, "vol-1");
	stop = false;
	assert_int_equal(pthread_create(&writer, NULL, write_pairs, &fd), 0);
	for (unsigned round = 0; round < 3; round++) {
		uint64_t first, last;
		char id[32];

		snprintf(id, sizeof(id), "snap-%u", round);
		assert_ok(pool_store_snapshot_prepare(store, "vol-1", id, &err), &err);
		assert_ok(cut_whole(store, "vol-1", id, &err), &err);
		first = number_at(store, id, 0);
		last = number_at(store, id, ((uint64_t)MANY - 1) * STRIDE);
		assert_true(first == last || first == last + 1);
	}
	stop = true;
	pthread_join(writer, NULL);
	close(fd);
	pool_store_close(store);
	scratchfs_remove();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_second_step_sees_all_that_was_written_since_the_first),
		cmocka_unit_test(an_old_clone_is_continued),
		cmocka_unit_test(a_cut_is_of_one_moment_although_somebody_writes),
	};

	if (!scratchfs_make(SCRATCHFS_XFS, 512 * MIB))
		return 77;
	scratchfs_remove();
	return cmocka_run_group_tests_name("pool/reflink/twostep", tests, NULL, NULL);
}
