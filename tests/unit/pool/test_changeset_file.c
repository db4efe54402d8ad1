/* SPDX-License-Identifier: Apache-2.0 */

#include "cairntest.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "pool/store/blob_dir.h"
#include "pool/store/changeset_file.h"

#define GRANULE     4096ULL
#define EXTENTS     100000U
#define READERS     150
#define DESCRIPTORS 60 /* fewer than readers */
#define NAME        "set-1-1"

struct fixture {
	char dir[64];
	int fd;
	struct blobs *sets;
};

/* Every other granule: a set of more than any reader reads whole. */
static void write_set(const struct fixture *fix)
{
	cairn_cleanup(pool_changeset_file_writer_freep) struct setfile_writer *writer = NULL;
	struct block_set_info info = {.volume_size = 2 * EXTENTS * GRANULE,
				      .base_size = 2 * EXTENTS * GRANULE,
				      .granularity = GRANULE};
	struct cairn_err err = {0};
	struct stat st;

	assert_ok(pool_changeset_file_writer_new(fix->sets, NAME, &info, &writer, &err), &err);
	for (uint64_t i = 0; i < EXTENTS; i++) {
		/* Kinds that vary keep the file from being packed too well. */
		struct block_extent extent = {.offset = 2 * i * GRANULE,
					      .length = GRANULE,
					      .zero = (i * 2654435761U) >> 13 & 1};

		assert_ok(
			block_set_writer_add(pool_changeset_file_writer_set(writer), &extent, &err),
			&err);
	}
	assert_ok(pool_changeset_file_writer_finish(writer, &info, &err), &err);
	assert_int_equal(fstatat(fix->fd, NAME, &st, 0), 0);
	assert_true(st.st_size > 32768);
}

static int setup(void **state)
{
	struct fixture *fix = calloc(1, sizeof(*fix));

	scratch_template(fix->dir, "unit");
	if (!mkdtemp(fix->dir))
		return -1;
	fix->fd = open(fix->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (pool_blob_dir_open(open(fix->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC), &fix->sets,
			       NULL) != 0)
		return -1;
	*state = fix;
	write_set(fix);
	return 0;
}

static int teardown(void **state)
{
	struct fixture *fix = *state;

	(void)unlinkat(fix->fd, NAME, 0);
	pool_blobs_close(fix->sets);
	close(fix->fd);
	rmdir(fix->dir);
	free(fix);
	return 0;
}

static uint64_t count_extents(struct setfile_reader *reader)
{
	struct block_extent extents[512];
	struct cairn_err err = {0};
	uint64_t total = 0;
	size_t n = 1;

	while (n > 0) {
		assert_ok(block_set_reader_next(pool_changeset_file_reader_set(reader), extents,
						ARRAY_LEN(extents), &n, &err),
			  &err);
		total += n;
	}
	return total;
}

/* Also after the file was removed, as a merge does. */
static void more_readers_than_descriptors(void **state)
{
	const struct fixture *fix = *state;
	struct rlimit before, limit;
	struct setfile_reader *readers[READERS] = {NULL};
	struct cairn_err err = {0};

	assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
	limit = (struct rlimit){DESCRIPTORS, before.rlim_max};
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
	for (unsigned i = 0; i < READERS; i++)
		assert_ok(pool_changeset_file_reader_new(fix->sets, NAME, 4096, &readers[i], &err),
			  &err);
	assert_int_equal(unlinkat(fix->fd, NAME, 0), 0);
	for (unsigned i = 0; i < READERS; i += 10)
		assert_int_equal(count_extents(readers[i]), EXTENTS);
	for (unsigned i = 0; i < READERS; i++)
		pool_changeset_file_reader_free(readers[i]);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
}

/* A mapped file that is cut short is an error, not a signal. */
static void a_file_cut_short_is_data_loss(void **state)
{
	const struct fixture *fix = *state;
	struct rlimit before, limit;
	struct setfile_reader *readers[DESCRIPTORS] = {NULL};
	struct block_extent extents[512];
	struct cairn_err err = {0};
	cairn_auto_fd int fd = openat(fix->fd, NAME, O_RDWR | O_CLOEXEC);
	size_t n = 1;
	int rc = 0;

	assert_true(fd >= 0);
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
	limit = (struct rlimit){DESCRIPTORS, before.rlim_max};
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
	for (unsigned i = 0; i < DESCRIPTORS; i++)
		assert_ok(pool_changeset_file_reader_new(fix->sets, NAME, 4096, &readers[i], &err),
			  &err);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
	assert_int_equal(ftruncate(fd, 8192), 0);
	for (unsigned i = 0; i < DESCRIPTORS; i += DESCRIPTORS - 1) {
		for (rc = 0, n = 1; !rc && n > 0;)
			rc = block_set_reader_next(pool_changeset_file_reader_set(readers[i]),
						   extents, ARRAY_LEN(extents), &n, &err);
		assert_true(rc < 0);
	}
	for (unsigned i = 0; i < DESCRIPTORS; i++)
		pool_changeset_file_reader_free(readers[i]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(more_readers_than_descriptors, setup, teardown),
		cmocka_unit_test_setup_teardown(a_file_cut_short_is_data_loss, setup, teardown),
	};

	return cmocka_run_group_tests_name("pool/changeset_file", tests, NULL, NULL);
}
