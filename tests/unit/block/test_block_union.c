/* SPDX-License-Identifier: Apache-2.0 */

#include "cairntest.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "block/set.h"
#include "block/union.h"
#include "block_model.h"

#define INPUTS_MAX 6U

/* Sets for a union, stored, and what a model holds of them. */
struct scene {
	size_t n;
	uint64_t target_size;
	uint32_t granularity; /* the largest */
	bool zero_unknown[INPUTS_MAX];
	struct mem_file files[INPUTS_MAX];
	struct model target;
};

static void scene_done(struct scene *scene)
{
	for (size_t i = 0; i < scene->n; i++)
		mem_file_done(&scene->files[i]);
}

static void random_extents(uint64_t *seed, struct model *model, uint32_t granularity,
			   struct block_set_writer *writer)
{
	uint64_t at = 0, step = 1 + model_below(seed, 6 * granularity);
	unsigned zeros = (unsigned)model_below(seed, 3);
	struct cairn_err err = {0};

	for (;;) {
		struct block_extent e;

		at += model_below(seed, 3) == 0 ? 0 : model_below(seed, step);
		if (at >= model->size)
			return;
		e = (struct block_extent){at, 1 + model_below(seed, step),
					  model_below(seed, 2) < zeros};
		if (model_below(seed, 2) == 0)
			e.length = granularity - at % granularity;
		at += e.length;
		model_paint(model, &e);
		assert_ok(block_set_writer_add(writer, &e, &err), &err);
	}
}

static void scene_make(struct scene *scene, uint64_t *seed, bool same_shape)
{
	static struct model models[INPUTS_MAX];
	static struct model_list list;
	uint32_t granularities[INPUTS_MAX];
	struct cairn_err err = {0};

	*scene = (struct scene){.n = model_below(seed, INPUTS_MAX + 1),
				.target_size = model_below(seed, 30000)};
	for (size_t i = 0; i < scene->n; i++) {
		cairn_cleanup(block_set_writer_freep) struct block_set_writer *writer = NULL;
		struct block_set_info info = {.granularity = 512,
					      .volume_size = scene->target_size};

		if (!same_shape) {
			info.granularity = BLOCK_GRANULARITY_MIN << model_below(seed, 4);
			info.volume_size = model_below(seed, 30000);
		}
		if (info.granularity > scene->granularity)
			scene->granularity = info.granularity;
		granularities[i] = info.granularity;
		scene->zero_unknown[i] = model_below(seed, 4) == 0;
		model_init(&models[i], info.volume_size);
		assert_ok(block_set_writer_new(&info, mem_file_output(&scene->files[i]), &writer,
					       &err),
			  &err);
		random_extents(seed, &models[i], info.granularity, writer);
		assert_ok(block_set_writer_finish(writer, NULL, &err), &err);
	}
	model_init(&scene->target, scene->target_size);
	for (size_t i = 0; i < scene->n; i++) {
		model_list_set(&models[i], granularities[i], &list);
		model_union_add(&scene->target, scene->granularity, &list, scene->zero_unknown[i]);
	}
}

static struct block_union *scene_union(struct scene *scene, uint64_t starting_offset)
{
	struct block_union_input inputs[INPUTS_MAX] = {0};
	struct block_union *u = NULL;
	struct cairn_err err = {0};

	for (size_t i = 0; i < scene->n; i++) {
		inputs[i].zero_unknown = scene->zero_unknown[i];
		assert_ok(block_set_reader_new(mem_file_input(&scene->files[i]), 0,
					       &inputs[i].reader, &err),
			  &err);
	}
	assert_ok(block_union_new(&(struct block_union_spec){.inputs = inputs,
							     .n_inputs = scene->n,
							     .target_size = scene->target_size,
							     .starting_offset = starting_offset},
				  &u, &err),
		  &err);
	return u;
}

static void read_union(struct block_union *u, size_t step, struct model_list *ret)
{
	struct block_extent out[512];
	struct cairn_err err = {0};
	size_t n;

	ret->n = 0;
	do {
		assert_ok(block_union_next(u, out, step, &n, &err), &err);
		assert_true(ret->n + n <= MODEL_EXTENTS_MAX);
		memcpy(ret->extents + ret->n, out, n * sizeof(out[0]));
		ret->n += n;
	} while (n > 0);
}

static void check_scene(struct scene *scene, uint64_t starting_offset, size_t step)
{
	cairn_cleanup(block_union_freep) struct block_union *u = NULL;
	static struct model_list want, got;

	model_list_union(&scene->target, starting_offset, &want);
	u = scene_union(scene, starting_offset);
	read_union(u, step, &got);
	assert_true(model_list_equal(&got, &want));
}

static void random_unions_are_what_the_model_says(void **state)
{
	static struct scene scene;
	uint64_t seed = 3;

	(void)state;
	for (unsigned round = 0; round < 3000; round++) {
		scene_make(&scene, &seed, round % 2 == 0);
		check_scene(&scene, 0, 1 + model_below(&seed, 200));
		check_scene(&scene, model_below(&seed, 30000), 1 + model_below(&seed, 200));
		scene_done(&scene);
	}
}

static void a_union_begins_at_any_offset(void **state)
{
	static struct scene scene;
	uint64_t seed = 4;

	(void)state;
	for (unsigned round = 0; round < 40; round++) {
		scene_make(&scene, &seed, round % 2 == 0);
		for (uint64_t at = 0; at <= scene.target_size + 512; at += 512)
			for (int delta = -1; delta <= 1; delta++)
				if (at > 0 || delta >= 0)
					check_scene(&scene, at + (uint64_t)(int64_t)delta, 70);
		scene_done(&scene);
	}
}

/* A volume of several bitmap windows, one state a granule. */
#define WIDE_GRANULES (700U * 1000U)
#define WIDE_SETS     5U

struct wide {
	uint64_t target_size;
	struct mem_file files[WIDE_SETS];
	uint8_t target[WIDE_GRANULES];
};

static void wide_done(struct wide *wide)
{
	for (size_t i = 0; i < WIDE_SETS; i++)
		mem_file_done(&wide->files[i]);
}

/* Sets of scattered single granules, of short runs, and of long ones. */
static void wide_make(struct wide *wide, uint64_t *seed, unsigned zero_percent)
{
	static const unsigned gaps[] = {10, 300, 3000, 60000, 300000};
	static const unsigned lengths[] = {1, 1, 5, 1000, 300000};
	struct cairn_err err = {0};

	*wide = (struct wide){.target_size = WIDE_GRANULES * 512ULL - model_below(seed, 2) * 100};
	for (size_t i = 0; i < WIDE_SETS; i++) {
		cairn_cleanup(block_set_writer_freep) struct block_set_writer *writer = NULL;
		struct block_set_info info = {.granularity = 512, .volume_size = wide->target_size};
		unsigned gap = gaps[model_below(seed, 5)], length = lengths[model_below(seed, 5)];
		uint64_t at = model_below(seed, gap);

		assert_ok(block_set_writer_new(&info, mem_file_output(&wide->files[i]), &writer,
					       &err),
			  &err);
		while (at < WIDE_GRANULES) {
			uint64_t n = 1 + model_below(seed, length);
			bool zero = model_below(seed, 100) < zero_percent;
			struct block_extent e = {at * 512, n * 512, zero};

			assert_ok(block_set_writer_add(writer, &e, &err), &err);
			for (uint64_t g = at; g < at + n && g < WIDE_GRANULES; g++)
				wide->target[g] = zero ? MODEL_ZERO : MODEL_DATA;
			at += n + model_below(seed, gap);
		}
		assert_ok(block_set_writer_finish(writer, NULL, &err), &err);
	}
}

/* Reads the union and paints what it lists; it must be canonical. */
static void wide_read(struct wide *wide, uint64_t starting_offset, uint8_t *painted)
{
	cairn_cleanup(block_union_freep) struct block_union *u = NULL;
	struct block_union_input inputs[WIDE_SETS] = {0};
	struct block_extent out[300], last = {0};
	struct cairn_err err = {0};
	size_t n;

	for (size_t i = 0; i < WIDE_SETS; i++)
		assert_ok(block_set_reader_new(mem_file_input(&wide->files[i]), 0,
					       &inputs[i].reader, &err),
			  &err);
	assert_ok(block_union_new(&(struct block_union_spec){inputs, WIDE_SETS, wide->target_size,
							     starting_offset},
				  &u, &err),
		  &err);
	do {
		assert_ok(block_union_next(u, out, ARRAY_LEN(out), &n, &err), &err);
		for (size_t i = 0; i < n; i++) {
			uint64_t end = block_extent_end(&out[i]);

			assert_true(out[i].length > 0 && end <= wide->target_size);
			assert_true(out[i].offset >= starting_offset);
			assert_true(last.length == 0 || out[i].offset > block_extent_end(&last) ||
				    (out[i].offset == block_extent_end(&last) &&
				     out[i].zero != last.zero));
			for (uint64_t g = out[i].offset / 512; g * 512 < end; g++)
				painted[g] = out[i].zero ? MODEL_ZERO : MODEL_DATA;
			last = out[i];
		}
	} while (n > 0);
}

static void windows_leave_no_seam(void **state)
{
	static struct wide wide;
	static uint8_t painted[WIDE_GRANULES];
	uint64_t seed = 5;

	(void)state;
	for (unsigned round = 0; round < 40; round++) {
		uint64_t start = round % 2 ? 0 : model_below(&seed, WIDE_GRANULES);

		wide_make(&wide, &seed, round % 4 == 0 ? 30 : 0);
		memset(painted, MODEL_SAME, sizeof(painted));
		wide_read(&wide, start * 512, painted);
		memset(wide.target, MODEL_SAME, start);
		assert_memory_equal(painted, wide.target, sizeof(painted));
		wide_done(&wide);
	}
}

/* Makes a set of the given extents. */
static void make_set(struct mem_file *file, uint64_t size, uint32_t granularity,
		     const struct block_extent *extents, size_t n)
{
	cairn_cleanup(block_set_writer_freep) struct block_set_writer *writer = NULL;
	struct block_set_info info = {.granularity = granularity, .volume_size = size};
	struct cairn_err err = {0};

	assert_ok(block_set_writer_new(&info, mem_file_output(file), &writer, &err), &err);
	for (size_t i = 0; i < n; i++)
		assert_ok(block_set_writer_add(writer, &extents[i], &err), &err);
	assert_ok(block_set_writer_finish(writer, NULL, &err), &err);
}

static void a_vast_volume_costs_only_its_extents(void **state)
{
	const uint64_t eib = 1ULL << 60;
	const struct block_extent grown[] = {{4096, 4096, false}, {1 << 20, eib - (1 << 20), true}};
	const struct block_extent few[] = {{eib / 2, 8192, false}, {eib - 4096, 4096, false}};
	const struct block_extent want[] = {{4096, 4096, false},
					    {1 << 20, eib / 2 - (1 << 20), true},
					    {eib / 2, 8192, false},
					    {eib / 2 + 8192, eib / 2 - 8192 - 4096, true},
					    {eib - 4096, 4096, false}};
	cairn_cleanup(block_union_freep) struct block_union *u = NULL;
	cairn_cleanup(mem_file_done) struct mem_file one = {0}, two = {0};
	struct block_union_input inputs[2] = {0};
	struct block_extent out[100];
	struct cairn_err err = {0};
	size_t n = 0, got;

	(void)state;
	make_set(&one, eib, 4096, grown, ARRAY_LEN(grown));
	make_set(&two, eib, 4096, few, ARRAY_LEN(few));
	assert_ok(block_set_reader_new(mem_file_input(&one), 0, &inputs[0].reader, &err), &err);
	assert_ok(block_set_reader_new(mem_file_input(&two), 0, &inputs[1].reader, &err), &err);
	assert_ok(block_union_new(&(struct block_union_spec){inputs, 2, eib, 0}, &u, &err), &err);
	do {
		assert_ok(block_union_next(u, out + n, ARRAY_LEN(out) - n, &got, &err), &err);
		n += got;
	} while (got > 0);
	assert_int_equal(n, ARRAY_LEN(want));
	for (size_t i = 0; i < n; i++) {
		assert_int_equal(out[i].offset, want[i].offset);
		assert_int_equal(out[i].length, want[i].length);
		assert_int_equal(out[i].zero, want[i].zero);
	}
}

static void the_side_of_the_base_says_nothing_about_zero(void **state)
{
	static const struct {
		struct block_extent base_side, target_side;
		size_t n;
		struct block_extent want[3];
	} cases[] = {
		/* Zero on the base's side only: not known in the target. */
		{{0, 4096, true}, {8192, 4096, true}, 2, {{0, 4096, false}, {8192, 4096, true}}},
		/* The target's own set decides. */
		{{0, 8192, false}, {0, 4096, true}, 2, {{0, 4096, true}, {4096, 4096, false}}},
		{{0, 8192, true}, {4096, 4096, false}, 1, {{0, 8192, false}}},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++)
		for (int base_first = 0; base_first < 2; base_first++) {
			cairn_cleanup(block_union_freep) struct block_union *u = NULL;
			cairn_cleanup(mem_file_done) struct mem_file base = {0}, target = {0};
			struct block_union_input in[2] = {0};
			struct block_extent out[100];
			struct cairn_err err = {0};
			size_t n;

			make_set(&base, 65536, 4096, &cases[i].base_side, 1);
			make_set(&target, 65536, 4096, &cases[i].target_side, 1);
			in[!base_first].zero_unknown = true;
			assert_ok(block_set_reader_new(mem_file_input(&base), 0,
						       &in[!base_first].reader, &err),
				  &err);
			assert_ok(block_set_reader_new(mem_file_input(&target), 0,
						       &in[base_first].reader, &err),
				  &err);
			assert_ok(block_union_new(&(struct block_union_spec){in, 2, 65536, 0}, &u,
						  &err),
				  &err);
			assert_ok(block_union_next(u, out, ARRAY_LEN(out), &n, &err), &err);
			assert_int_equal(n, cases[i].n);
			for (size_t k = 0; k < n; k++) {
				assert_int_equal(out[k].offset, cases[i].want[k].offset);
				assert_int_equal(out[k].length, cases[i].want[k].length);
				assert_int_equal(out[k].zero, cases[i].want[k].zero);
			}
		}
}

/* The whole life of a union; CAIRN_OK or the code of what failed. */
static int try_scene(struct scene *scene, uint64_t starting_offset, struct cairn_err *err)
{
	cairn_cleanup(block_union_freep) struct block_union *u = NULL;
	struct block_union_input inputs[INPUTS_MAX] = {0};
	struct block_union_spec spec = {inputs, 0, scene->target_size, starting_offset};
	struct block_extent out[100];
	size_t n = 1;
	int rc = 0;

	for (size_t i = 0; i < scene->n && rc == 0; i++) {
		rc = block_set_reader_new(mem_file_input(&scene->files[i]), 0, &inputs[i].reader,
					  err);
		spec.n_inputs += rc == 0;
	}
	if (rc < 0) {
		for (size_t i = 0; i < spec.n_inputs; i++)
			block_set_reader_free(inputs[i].reader);
		return rc;
	}
	rc = block_union_new(&spec, &u, err);
	while (rc == 0 && n > 0)
		rc = block_union_next(u, out, ARRAY_LEN(out), &n, err);
	if (u && rc < 0)
		assert_int_equal(block_union_next(u, out, ARRAY_LEN(out), &n, NULL), rc);
	return rc;
}

static void every_failed_allocation_is_reported(void **state)
{
	static struct scene scene;
	uint64_t seed = 77;

	(void)state;
	do {
		scene_done(&scene);
		scene_make(&scene, &seed, false);
	} while (scene.n < 3 || scene.target_size < 8192);
	for (size_t nth = 1;; nth++) {
		struct cairn_err err = {0};
		int rc;

		cairn_mem_fail_at(nth, 0);
		rc = try_scene(&scene, 4000, &err);
		if (cairn_mem_count() < nth) {
			cairn_mem_fail_at(0, 0);
			assert_ok(rc, &err);
			assert_true(nth > 8);
			break;
		}
		cairn_mem_fail_at(0, 0);
		assert_int_equal(rc, CAIRN_NO_SPACE);
		assert_int_equal(err.code, CAIRN_NO_SPACE);
	}
	scene_done(&scene);
}

static void every_failed_read_is_reported_and_final(void **state)
{
	static struct scene scene;
	uint64_t seed = 78;
	struct cairn_err err = {0};

	(void)state;
	do {
		scene_done(&scene);
		scene_make(&scene, &seed, true);
	} while (scene.n < 2 || scene.files[1].len < 150);
	for (size_t nth = 1;; nth++) {
		int rc;

		scene.files[1].reads_left = nth;
		rc = try_scene(&scene, 1000, &err);
		if (scene.files[1].reads_left > 0) {
			assert_ok(rc, &err);
			assert_true(nth > 3);
			break;
		}
		assert_int_equal(rc, CAIRN_UNAVAILABLE);
	}
	scene_done(&scene);
}

static void a_wrong_target_is_refused(void **state)
{
	cairn_cleanup(mem_file_done) struct mem_file file = {0};
	struct block_union_input input = {0};
	struct block_union *u = NULL;
	struct cairn_err err = {0};

	(void)state;
	make_set(&file, 65536, 4096, NULL, 0);
	assert_ok(block_set_reader_new(mem_file_input(&file), 0, &input.reader, &err), &err);
	assert_int_equal(
		block_union_new(&(struct block_union_spec){&input, 1, 1ULL << 63, 0}, &u, &err),
		CAIRN_INVALID);
	assert_null(u);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(random_unions_are_what_the_model_says),
		cmocka_unit_test(a_union_begins_at_any_offset),
		cmocka_unit_test(windows_leave_no_seam),
		cmocka_unit_test(a_vast_volume_costs_only_its_extents),
		cmocka_unit_test(the_side_of_the_base_says_nothing_about_zero),
		cmocka_unit_test(every_failed_allocation_is_reported),
		cmocka_unit_test(every_failed_read_is_reported_and_final),
		cmocka_unit_test(a_wrong_target_is_refused),
	};

	return cmocka_run_group_tests_name("block/union", tests, NULL, NULL);
}
