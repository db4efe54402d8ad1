/* SPDX-License-Identifier: Apache-2.0 */

/* Unions of sets that the input describes, against two models.
 *
 * First byte: bit 0 chooses the model (a state a byte of a small volume with
 * any sizes and granularities, or a state a granule of a volume of several
 * windows), the other bits are the number of sets. Every set then takes a few
 * bytes for its shape and three a range, until a range of length 0.
 */
#include <stdlib.h>
#include <string.h>

#include "block/set.h"
#include "block/union.h"
#include "block_model.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define SETS_MAX      6U
#define NARROW_MAX    16384U
#define WIDE_GRANULES (300U * 1024U) /* more than a window */

struct input {
	const uint8_t *p;
	size_t left;
};

static void must(bool condition)
{
	if (!condition)
		abort();
}

static uint64_t take(struct input *in, unsigned bytes)
{
	uint64_t value = 0;

	for (; bytes > 0 && in->left > 0; bytes--, in->left--)
		value = value << 8 | *in->p++;
	return value;
}

static struct block_set_reader *finish(struct block_set_writer *writer, struct mem_file *file)
{
	struct block_set_reader *reader = NULL;

	must(block_set_writer_finish(writer, NULL, NULL) == 0);
	block_set_writer_free(writer);
	must(block_set_reader_new(mem_file_input(file), 0, &reader, NULL) == 0);
	must(block_set_verify(reader, NULL) == 0);
	must(block_set_reader_seek(reader, 0, NULL) == 0);
	return reader;
}

/* A set of ranges from the input; `paint` learns of each. */
static struct block_set_reader *make_set(struct input *in, const struct block_set_info *info,
					 uint64_t unit, struct mem_file *file,
					 void (*paint)(void *, const struct block_extent *),
					 void *arg)
{
	struct block_set_writer *writer = NULL;
	uint64_t at = 0;

	must(block_set_writer_new(info, mem_file_output(file), &writer, NULL) == 0);
	while (in->left > 0 && at <= info->volume_size) {
		uint64_t gap = take(in, 2), length = take(in, 1);
		struct block_extent e = {at + gap * unit / 8, length * length * unit / 16, gap & 1};

		if (unit > 1) {
			e.offset = at + (gap >> 3) * unit;
			e.length = ((length & 1) ? length * length / 8 + 1 : 1) * unit;
		}
		if (length == 0 || e.length == 0)
			break;
		at = block_extent_end(&e);
		must(block_set_writer_add(writer, &e, NULL) == 0);
		paint(arg, &e);
	}
	return finish(writer, file);
}

static void paint_bytes(void *arg, const struct block_extent *extent)
{
	model_paint(arg, extent);
}

static void run_narrow(struct input *in, size_t n)
{
	static struct model models[SETS_MAX], target;
	static struct model_list list, got;
	struct block_union_input inputs[SETS_MAX] = {0};
	struct mem_file files[SETS_MAX] = {0};
	struct block_union_spec spec = {.inputs = inputs, .n_inputs = n};
	struct block_set_info infos[SETS_MAX] = {0};
	struct block_extent out[100];
	struct block_union *u = NULL;
	uint32_t coarsest = 0;
	size_t step, k;

	spec.target_size = take(in, 2) % NARROW_MAX;
	spec.starting_offset = take(in, 2) % NARROW_MAX;
	step = 1 + take(in, 1) % 100;
	for (size_t i = 0; i < n; i++) {
		uint64_t shape = take(in, 1);

		infos[i].granularity = 512U << (shape & 3);
		infos[i].volume_size = shape & 4 ? take(in, 2) % NARROW_MAX : spec.target_size;
		inputs[i].zero_unknown = shape & 8;
		if (infos[i].granularity > coarsest)
			coarsest = infos[i].granularity;
		model_init(&models[i], infos[i].volume_size);
		inputs[i].reader = make_set(in, &infos[i], 1, &files[i], paint_bytes, &models[i]);
	}
	model_init(&target, spec.target_size);
	for (size_t i = 0; i < n; i++) {
		model_list_set(&models[i], infos[i].granularity, &list);
		model_union_add(&target, coarsest, &list, inputs[i].zero_unknown);
	}
	model_list_union(&target, spec.starting_offset, &list);
	must(block_union_new(&spec, &u, NULL) == 0);
	got.n = 0;
	do {
		must(block_union_next(u, out, step, &k, NULL) == 0);
		must(got.n + k <= MODEL_EXTENTS_MAX);
		memcpy(got.extents + got.n, out, k * sizeof(out[0]));
		got.n += k;
	} while (k > 0);
	must(model_list_equal(&got, &list));
	block_union_free(u);
	for (size_t i = 0; i < n; i++)
		mem_file_done(&files[i]);
}

static uint8_t wide_target[WIDE_GRANULES], wide_got[WIDE_GRANULES];

static void paint_wide(uint8_t *granules, const struct block_extent *extent)
{
	uint64_t from = extent->offset / 4096, to = (block_extent_end(extent) + 4095) / 4096;

	if (to > WIDE_GRANULES)
		to = WIDE_GRANULES;
	if (from < to)
		memset(granules + from, extent->zero ? MODEL_ZERO : MODEL_DATA, to - from);
}

static void paint_wide_target(void *arg, const struct block_extent *extent)
{
	(void)arg;
	paint_wide(wide_target, extent);
}

static void run_wide(struct input *in, size_t n)
{
	struct block_set_info info = {.granularity = 4096, .volume_size = WIDE_GRANULES * 4096ULL};
	struct block_union_input inputs[SETS_MAX] = {0};
	struct mem_file files[SETS_MAX] = {0};
	struct block_union_spec spec = {
		.inputs = inputs, .n_inputs = n, .target_size = info.volume_size};
	struct block_extent out[100], last = {0};
	struct block_union *u = NULL;
	uint64_t start = take(in, 3) % WIDE_GRANULES;
	size_t k;

	memset(wide_target, 0, sizeof(wide_target));
	memset(wide_got, 0, sizeof(wide_got));
	for (size_t i = 0; i < n; i++)
		inputs[i].reader = make_set(in, &info, 4096, &files[i], paint_wide_target, NULL);
	spec.starting_offset = start * 4096;
	must(block_union_new(&spec, &u, NULL) == 0);
	do {
		must(block_union_next(u, out, 100, &k, NULL) == 0);
		for (size_t i = 0; i < k; i++) {
			must(last.length == 0 || block_extent_end(&last) < out[i].offset ||
			     (block_extent_end(&last) == out[i].offset &&
			      last.zero != out[i].zero));
			paint_wide(wide_got, &out[i]);
			last = out[i];
		}
	} while (k > 0);
	memset(wide_target, 0, start);
	must(memcmp(wide_target, wide_got, sizeof(wide_got)) == 0);
	block_union_free(u);
	for (size_t i = 0; i < n; i++)
		mem_file_done(&files[i]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input in = {.p = data, .left = size};
	uint64_t first = take(&in, 1);

	if (first & 1)
		run_wide(&in, (first >> 1) % (SETS_MAX + 1));
	else
		run_narrow(&in, (first >> 1) % (SETS_MAX + 1));
	return 0;
}
