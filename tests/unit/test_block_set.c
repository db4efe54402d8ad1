/* SPDX-License-Identifier: Apache-2.0 */

#include "cairntest.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "block/set.h"
#include "block_model.h"

#define KIB 1024ULL
#define MIB (1024ULL * KIB)
#define TIB (1024ULL * 1024ULL * MIB)

static struct block_set_info info_of(uint64_t size, uint32_t granularity)
{
	return (struct block_set_info){
		.volume_size = size, .base_size = size, .granularity = granularity};
}

/* Writes a set of the given extents. */
static void write_set(struct mem_file *file, uint64_t size, uint32_t granularity,
		      const struct block_extent *extents, size_t n, struct block_set_info *ret_info)
{
	cairn_cleanup(block_set_writer_freep) struct block_set_writer *writer = NULL;
	struct block_set_info info = info_of(size, granularity);
	struct cairn_err err = {0};

	assert_ok(block_set_writer_new(&info, mem_file_output(file), &writer, &err), &err);
	for (size_t i = 0; i < n; i++)
		assert_ok(block_set_writer_add(writer, &extents[i], &err), &err);
	assert_ok(block_set_writer_finish(writer, ret_info, &err), &err);
}

static struct block_set_reader *open_set(struct mem_file *file, size_t buffer_size)
{
	struct block_set_reader *reader = NULL;
	struct cairn_err err = {0};

	assert_ok(block_set_reader_new(mem_file_input(file), buffer_size, &reader, &err), &err);
	return reader;
}

static void rounding_never_loses_a_change_nor_invents_a_zero(void **state)
{
	static const struct {
		const char *what;
		uint64_t size;
		struct block_extent in[3];
		struct block_extent out[3];
	} cases[] = {
		{"a byte is a granule", 16384, {{5000, 1, false}}, {{4096, 4096, false}}},
		{"a part of a granule is not zero",
		 16384,
		 {{4096, 4095, true}},
		 {{4096, 4096, false}}},
		{"a whole granule is zero", 16384, {{4096, 4096, true}}, {{4096, 4096, true}}},
		{"data and zero in one granule",
		 8192,
		 {{0, 1000, false}, {1000, 3096, true}},
		 {{0, 4096, false}}},
		{"zero and data in one granule",
		 8192,
		 {{0, 1000, true}, {1000, 3096, false}},
		 {{0, 4096, false}}},
		{"zeros that touch make a whole granule",
		 8192,
		 {{0, 1000, true}, {1000, 3096, true}},
		 {{0, 4096, true}}},
		{"zeros with a gap do not",
		 8192,
		 {{0, 1000, true}, {1001, 3095, true}},
		 {{0, 4096, false}}},
		{"ragged zero keeps its middle",
		 16384,
		 {{100, 12000, true}},
		 {{0, 4096, false}, {4096, 4096, true}, {8192, 4096, false}}},
		{"the volume's end completes a zero",
		 10000,
		 {{8192, 1808, true}},
		 {{8192, 1808, true}}},
		{"past the end is dropped",
		 10000,
		 {{9999, 90000, true}, {200000, 5, false}},
		 {{8192, 1808, false}}},
		{"same kind across a granule border",
		 16384,
		 {{0, 4096, false}, {4096, 1, false}},
		 {{0, 8192, false}}},
		{"two bytes in one granule",
		 16384,
		 {{4097, 1, false}, {4099, 1, false}},
		 {{4096, 4096, false}}},
		{"nothing", 16384, {{0}}, {{0}}},
		{"nothing in nothing", 0, {{0, 1, false}}, {{0}}},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		cairn_cleanup(block_set_reader_freep) struct block_set_reader *reader = NULL;
		cairn_cleanup(mem_file_done) struct mem_file file = {0};
		static struct model_list got, want;
		size_t n = 0;

		while (n < 3 && cases[i].in[n].length)
			n++;
		write_set(&file, cases[i].size, 4096, cases[i].in, n, NULL);
		for (want.n = 0; want.n < 3 && cases[i].out[want.n].length; want.n++)
			want.extents[want.n] = cases[i].out[want.n];
		reader = open_set(&file, 0);
		assert_int_equal(model_read_set(reader, 512, &got), 0);
		if (!model_list_equal(&got, &want))
			fail_msg("%s: %zu extents", cases[i].what, got.n);
	}
}

/* Paints random ranges into a model and adds them to a set. */
static void random_set(uint64_t *seed, struct model *model, uint32_t granularity,
		       struct mem_file *file, struct block_set_info *ret_info)
{
	static struct block_extent extents[MODEL_SIZE_MAX];
	uint64_t at = 0, step = 1 + model_below(seed, 3 * granularity);
	size_t n = 0;

	model_init(model, model_below(seed, 24 * KIB));
	for (;;) {
		struct block_extent e;

		at += model_below(seed, 3) == 0 ? 0 : model_below(seed, step);
		if (at >= model->size + step)
			break;
		e = (struct block_extent){at, 1 + model_below(seed, step), model_random(seed) & 1};
		/* Granule borders are where things go wrong. */
		if (model_below(seed, 2) == 0)
			e.length = granularity - at % granularity;
		at += e.length;
		model_paint(model, &e);
		extents[n++] = e;
	}
	write_set(file, model->size, granularity, extents, n, ret_info);
}

static void sum_up(const struct model_list *list, struct block_set_info *info)
{
	info->extents = list->n;
	info->changed_bytes = info->zero_bytes = 0;
	for (size_t i = 0; i < list->n; i++) {
		info->changed_bytes += list->extents[i].length;
		info->zero_bytes += list->extents[i].zero ? list->extents[i].length : 0;
	}
}

static void random_sets_read_as_the_model_says(void **state)
{
	static struct model model;
	static struct model_list want, got;
	uint64_t seed = 1;

	(void)state;
	for (unsigned round = 0; round < 1500; round++) {
		cairn_cleanup(block_set_reader_freep) struct block_set_reader *reader = NULL;
		cairn_cleanup(mem_file_done) struct mem_file file = {0};
		uint32_t granularity = BLOCK_GRANULARITY_MIN << model_below(&seed, 4);
		struct block_set_info info = {0}, summed = {0};
		struct cairn_err err = {0};

		random_set(&seed, &model, granularity, &file, &info);
		model_list_set(&model, granularity, &want);
		sum_up(&want, &summed);
		assert_int_equal(info.extents, summed.extents);
		assert_int_equal(info.changed_bytes, summed.changed_bytes);
		assert_int_equal(info.zero_bytes, summed.zero_bytes);

		reader = open_set(&file, 0);
		assert_memory_equal(block_set_reader_info(reader), &info, sizeof(info));
		assert_int_equal(model_read_set(reader, 1 + model_below(&seed, 400), &got), 0);
		assert_true(model_list_equal(&got, &want));
		assert_ok(block_set_verify(reader, &err), &err);
	}
}

static void seeking_finds_the_first_extent_that_ends_later(void **state)
{
	static struct model model;
	static struct model_list want, got, left;
	uint64_t seed = 2;

	(void)state;
	for (unsigned round = 0; round < 60; round++) {
		cairn_cleanup(block_set_reader_freep) struct block_set_reader *reader = NULL;
		cairn_cleanup(mem_file_done) struct mem_file file = {0};
		struct cairn_err err = {0};

		random_set(&seed, &model, 512, &file, NULL);
		model_list_set(&model, 512, &want);
		reader = open_set(&file, 0);
		for (uint64_t offset = 0; offset < model.size + 600; offset += 127) {
			left.n = 0;
			for (size_t i = 0; i < want.n; i++)
				if (block_extent_end(&want.extents[i]) > offset)
					left.extents[left.n++] = want.extents[i];
			assert_ok(block_set_reader_seek(reader, offset, &err), &err);
			assert_int_equal(model_read_set(reader, 100, &got), 0);
			assert_true(model_list_equal(&got, &left));
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rounding_never_loses_a_change_nor_invents_a_zero),
		cmocka_unit_test(random_sets_read_as_the_model_says),
		cmocka_unit_test(seeking_finds_the_first_extent_that_ends_later),
	};

	return cmocka_run_group_tests_name("block/set", tests, NULL, NULL);
}
