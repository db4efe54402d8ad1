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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(random_unions_are_what_the_model_says),
		cmocka_unit_test(a_union_begins_at_any_offset),
	};

	return cmocka_run_group_tests_name("block/union", tests, NULL, NULL);
}
