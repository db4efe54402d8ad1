/* SPDX-License-Identifier: Apache-2.0 */

#include "cairntest.h"

#include <string.h>

#include "base/cleanup.h"
#include "base/mem.h"
#include "block/difference.h"
#include "block_model.h"

#define VOLUME  65536U
#define GRANULE 512U

/* A random set, stored; and which granules it holds: 0 none, 1 data, 2 zero. */
struct random_set {
	struct mem_file file;
	uint8_t granules[VOLUME / GRANULE];
};

static void random_set_make(struct random_set *set, uint64_t *seed)
{
	struct block_set_info info = {
		.volume_size = VOLUME, .base_size = VOLUME, .granularity = GRANULE};
	cairn_cleanup(block_set_writer_freep) struct block_set_writer *writer = NULL;
	struct cairn_err err = {0};

	memset(set, 0, sizeof(*set));
	assert_ok(block_set_writer_new(&info, mem_file_output(&set->file), &writer, &err), &err);
	for (uint64_t i = 0; i < VOLUME / GRANULE; i++) {
		uint8_t kind = (uint8_t)(model_below(seed, 5) % 3);
		struct block_extent extent = {
			.offset = i * GRANULE, .length = GRANULE, .zero = kind == 2};

		set->granules[i] = kind;
		if (kind)
			assert_ok(block_set_writer_add(writer, &extent, &err), &err);
	}
	assert_ok(block_set_writer_finish(writer, NULL, &err), &err);
}

static struct block_set_reader *open_set(struct random_set *set)
{
	struct block_set_reader *reader = NULL;
	struct cairn_err err = {0};

	assert_ok(block_set_reader_new(mem_file_input(&set->file), 0, &reader, &err), &err);
	return reader;
}

static void a_difference_is_what_only_the_first_set_holds(void **state)
{
	uint64_t seed = 7;

	(void)state;
	for (int round = 0; round < 200; round++) {
		cairn_cleanup(block_difference_freep) struct block_difference *difference = NULL;
		uint8_t seen[VOLUME / GRANULE] = {0};
		struct random_set a;
		struct random_set b;
		struct block_extent extents[7];
		struct cairn_err err = {0};
		uint64_t end = 0;
		size_t n;

		random_set_make(&a, &seed);
		random_set_make(&b, &seed);
		assert_ok(block_difference_new(open_set(&a), open_set(&b), &difference, &err),
			  &err);
		do {
			size_t max = 1 + model_below(&seed, ARRAY_LEN(extents));

			assert_ok(block_difference_next(difference, extents, max, &n, &err), &err);
			for (size_t i = 0; i < n; i++) {
				assert_true(extents[i].offset >= end && extents[i].length > 0);
				end = block_extent_end(&extents[i]);
				memset(seen + extents[i].offset / GRANULE, extents[i].zero ? 2 : 1,
				       extents[i].length / GRANULE);
			}
		} while (n > 0);
		for (size_t i = 0; i < ARRAY_LEN(seen); i++)
			assert_int_equal(seen[i], b.granules[i] ? 0 : a.granules[i]);
		mem_file_done(&a.file);
		mem_file_done(&b.file);
	}
}

static void short_memory_is_an_error_and_leaks_nothing(void **state)
{
	struct block_difference *difference = NULL;
	struct random_set set;
	struct block_set_reader *a;
	struct block_set_reader *b;
	struct cairn_err err = {0};
	uint64_t seed = 1;
	int rc;

	(void)state;
	random_set_make(&set, &seed);
	a = open_set(&set);
	b = open_set(&set);
	cairn_mem_fail_at(1, 0);
	rc = block_difference_new(a, b, &difference, &err);
	cairn_mem_fail_at(0, 0);
	assert_code(rc, CAIRN_NO_SPACE);
	mem_file_done(&set.file);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_difference_is_what_only_the_first_set_holds),
		cmocka_unit_test(short_memory_is_an_error_and_leaks_nothing),
	};

	return cmocka_run_group_tests_name("block/difference", tests, NULL, NULL);
}
