/* SPDX-License-Identifier: Apache-2.0 */

#include "cairntest.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "block/checksum.h"
#include "block/set.h"
#include "block/set_format.h"
#include "block_model.h"
#include "failing_memory.h"

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

/* A set of several blocks: single granules, longer runs and zeros mixed. */
static void make_long_set(struct mem_file *file, unsigned extents, struct block_set_info *ret_info)
{
	struct block_extent *list = calloc(extents, sizeof(*list));
	uint64_t seed = 11, at = 0;

	assert_non_null(list);
	for (unsigned i = 0; i < extents; i++) {
		uint64_t gap = 1ULL << model_below(&seed, 12);
		uint64_t length = model_below(&seed, 4) ? 1 : 1 + model_below(&seed, 5000);

		at += gap * 4096;
		list[i] = (struct block_extent){at, length * 4096, model_below(&seed, 6) == 0};
		at += length * 4096;
	}
	write_set(file, 16 * TIB, 4096, list, extents, ret_info);
	free(list);
}

/* Reads everything; 0 or the code of what is wrong. Counts what was read. */
static int read_all(struct mem_file *file, uint64_t seek_to, struct block_set_info *ret)
{
	cairn_cleanup(block_set_reader_freep) struct block_set_reader *reader = NULL;
	struct block_extent out[300];
	size_t n = 1;
	int rc;

	memset(ret, 0, sizeof(*ret));
	rc = block_set_reader_new(mem_file_input(file), 0, &reader, NULL);
	if (rc == 0)
		rc = block_set_reader_seek(reader, seek_to, NULL);
	while (rc == 0 && n > 0) {
		rc = block_set_reader_next(reader, out, ARRAY_LEN(out), &n, NULL);
		for (size_t i = 0; rc == 0 && i < n; i++) {
			ret->extents++;
			ret->changed_bytes += out[i].length;
			ret->zero_bytes += out[i].zero ? out[i].length : 0;
		}
	}
	if (rc == 0)
		rc = block_set_verify(reader, NULL);
	return rc;
}

static void long_sets_read_whole_and_from_anywhere(void **state)
{
	cairn_cleanup(block_set_reader_freep) struct block_set_reader *reader = NULL;
	cairn_cleanup(mem_file_done) struct mem_file file = {0};
	struct block_set_info info, seen;
	struct block_extent extents[3000], one;
	struct cairn_err err = {0};
	size_t n = 0, got;

	(void)state;
	make_long_set(&file, 3000, &info);
	assert_int_equal(read_all(&file, 0, &seen), 0);
	assert_int_equal(seen.extents, 3000);
	assert_int_equal(seen.changed_bytes, info.changed_bytes);
	assert_int_equal(seen.zero_bytes, info.zero_bytes);

	reader = open_set(&file, 1);
	do {
		assert_ok(block_set_reader_next(reader, extents + n, 1, &got, &err), &err);
		n += got;
	} while (got > 0 && n < 3000);
	for (size_t i = 0; i < 3000; i++) {
		uint64_t end = block_extent_end(&extents[i]);

		assert_ok(block_set_reader_seek(reader, end - 1, &err), &err);
		assert_ok(block_set_reader_next(reader, &one, 1, &got, &err), &err);
		assert_int_equal(one.offset, extents[i].offset);
		assert_ok(block_set_reader_seek(reader, end, &err), &err);
		assert_ok(block_set_reader_next(reader, &one, 1, &got, &err), &err);
		assert_int_equal(got, i + 1 < 3000);
		if (got)
			assert_int_equal(one.offset, extents[i + 1].offset);
	}
	/* The buffer bounds what is read at once. */
	assert_true(file.largest_read <= 8192);
}

/* More blocks than the index has entries: the stride grows. */
static void very_long_sets_keep_a_small_index(void **state)
{
	const uint64_t extents = 8192 * 256 * 2 + 1000;
	cairn_cleanup(block_set_writer_freep) struct block_set_writer *writer = NULL;
	cairn_cleanup(block_set_reader_freep) struct block_set_reader *reader = NULL;
	cairn_cleanup(mem_file_done) struct mem_file file = {0};
	struct block_set_info info = info_of(16 * TIB, 4096);
	struct cairn_err err = {0};
	struct block_extent one;
	uint64_t seed = 12;
	size_t n;

	(void)state;
	assert_ok(block_set_writer_new(&info, mem_file_output(&file), &writer, &err), &err);
	for (uint64_t i = 0; i < extents; i++) {
		struct block_extent e = {i * 8192, 4096, false};

		assert_ok(block_set_writer_add(writer, &e, &err), &err);
	}
	assert_ok(block_set_writer_finish(writer, NULL, &err), &err);
	assert_true(file.len < extents * 11 / 10 + extents / 256 * 16);
	reader = open_set(&file, 0);
	assert_ok(block_set_verify(reader, &err), &err);
	for (unsigned i = 0; i < 2000; i++) {
		uint64_t at = model_below(&seed, extents);

		assert_ok(block_set_reader_seek(reader, at * 8192, &err), &err);
		assert_ok(block_set_reader_next(reader, &one, 1, &n, &err), &err);
		assert_int_equal(one.offset, at * 8192);
	}
}

static void every_wrong_byte_is_found(void **state)
{
	cairn_cleanup(mem_file_done) struct mem_file file = {0};
	struct block_set_info info, seen;

	(void)state;
	make_long_set(&file, 300, &info);
	for (size_t at = 0; at < file.len; at++) {
		static const uint8_t flips[] = {0x01, 0x80, 0xff, 0x10};
		uint8_t was = file.data[at];

		for (size_t i = 0; i < ARRAY_LEN(flips); i++) {
			int rc;

			file.data[at] = was ^ flips[i];
			rc = read_all(&file, 0, &seen);
			if (at == 6 || at == 7) /* the version */
				assert_int_equal(rc, CAIRN_UNIMPLEMENTED);
			else
				assert_int_equal(rc, CAIRN_DATA_LOSS);
		}
		file.data[at] = was;
	}
	assert_int_equal(read_all(&file, 0, &seen), 0);
}

static void every_truncation_is_found_at_once(void **state)
{
	cairn_cleanup(mem_file_done) struct mem_file file = {0};
	struct block_set_info info;
	size_t whole;

	(void)state;
	make_long_set(&file, 300, &info);
	whole = file.len;
	for (file.len = 0; file.len < whole; file.len++) {
		struct block_set_reader *reader = NULL;

		assert_int_equal(block_set_reader_new(mem_file_input(&file), 0, &reader, NULL),
				 CAIRN_DATA_LOSS);
		assert_null(reader);
	}
}

/* Cuts a piece out of the middle, as if a write had been lost. */
static void a_missing_middle_is_found(void **state)
{
	cairn_cleanup(mem_file_done) struct mem_file file = {0};
	struct block_set_info info, seen;

	(void)state;
	make_long_set(&file, 3000, &info);
	for (size_t from = 40; from + 500 < file.len; from += 301) {
		size_t whole = file.len;
		uint8_t *copy = malloc(whole);

		assert_non_null(copy);
		memcpy(copy, file.data, whole);
		memmove(file.data + from, file.data + from + 400, whole - from - 400);
		file.len = whole - 400;
		assert_int_equal(read_all(&file, 0, &seen), CAIRN_DATA_LOSS);
		memcpy(file.data, copy, whole);
		file.len = whole;
		free(copy);
	}
}

/* A file of one block with this payload, all of its checksums right. */
static void forge(struct mem_file *file, const uint8_t *payload, size_t n, unsigned extents,
		  uint64_t changed_bytes)
{
	struct block_output out = mem_file_output(file);
	struct set_header header = {.volume_size = 64 * KIB, .granularity = 512};
	uint8_t header_bytes[SET_HEADER_SIZE], footer_bytes[SET_FOOTER_SIZE];
	uint8_t block[SET_BLOCK_SIZE_MAX], index[] = {payload[0] >> 1, SET_HEADER_SIZE};
	struct set_footer footer = {
		.extents = extents,
		.changed_bytes = changed_bytes,
		.blocks = 1,
		.index_offset = SET_HEADER_SIZE + SET_BLOCK_HEADER_SIZE + n,
		.index_entries = 1,
		.index_stride = 1,
		.index_checksum = block_checksum(index, sizeof(index)),
	};

	block_set_header_encode(&header, header_bytes);
	footer.header_checksum = header.checksum;
	block_set_footer_encode(&footer, footer_bytes);
	set_put(block + 8, n, 2);
	block[10] = 5;
	memcpy(block + SET_BLOCK_HEADER_SIZE, payload, n);
	set_put(block, block_checksum(block + 8, SET_BLOCK_HEADER_SIZE - 8 + n), 8);
	assert_int_equal(out.write(out.arg, header_bytes, sizeof(header_bytes), NULL), 0);
	assert_int_equal(out.write(out.arg, block, SET_BLOCK_HEADER_SIZE + n, NULL), 0);
	assert_int_equal(out.write(out.arg, index, sizeof(index), NULL), 0);
	assert_int_equal(out.write(out.arg, footer_bytes, sizeof(footer_bytes), NULL), 0);
}

static void impossible_contents_are_refused_despite_right_checksums(void **state)
{
	/* Blocks of six extents, on a volume of 128 granules. */
	static const struct {
		const char *what;
		size_t n;
		uint8_t payload[16];
		unsigned extents;
		unsigned granules;
		int code;
	} cases[] = {
		{"possible", 6, {2, 2, 2, 2, 2, 2}, 6, 6, 0},
		{"possible, with tails", 9, {3, 2, 2, 2, 3, 2, 2, 3, 4}, 6, 10, 0},
		{"touching, second", 6, {2, 0, 2, 2, 2, 2}, 6, 6, CAIRN_DATA_LOSS},
		{"touching, third", 6, {2, 2, 0, 2, 2, 2}, 6, 6, CAIRN_DATA_LOSS},
		{"touching, fourth", 6, {2, 2, 2, 0, 2, 2}, 6, 6, CAIRN_DATA_LOSS},
		{"touching, fifth", 6, {2, 2, 2, 2, 0, 2}, 6, 6, CAIRN_DATA_LOSS},
		{"touching, sixth", 6, {2, 2, 2, 2, 2, 0}, 6, 6, CAIRN_DATA_LOSS},
		{"a tail of 0", 7, {2, 2, 2, 2, 2, 3, 0}, 6, 6, CAIRN_DATA_LOSS},
		{"overlong in a group", 7, {2, 0x82, 0, 2, 2, 2, 2}, 6, 6, CAIRN_DATA_LOSS},
		{"overlong alone", 7, {2, 2, 2, 2, 2, 0x82, 0}, 6, 6, CAIRN_DATA_LOSS},
		{"past the end, in a group", 7, {2, 2, 2, 2, 0xfe, 1, 2}, 6, 6, CAIRN_DATA_LOSS},
		{"past the end, alone", 7, {2, 2, 2, 2, 2, 0xfe, 1}, 6, 6, CAIRN_DATA_LOSS},
		{"too long, alone", 8, {2, 2, 2, 2, 2, 3, 0xfe, 3}, 6, 6, CAIRN_DATA_LOSS},
		{"bytes left over", 7, {2, 2, 2, 2, 2, 2, 2}, 6, 6, CAIRN_DATA_LOSS},
		{"extents missing in the payload", 5, {2, 2, 2, 2, 2}, 5, 5, CAIRN_DATA_LOSS},
		{"fewer than counted", 7, {2, 2, 2, 2, 2, 0x82, 1}, 7, 6, CAIRN_DATA_LOSS},
		{"other bytes than counted", 6, {2, 2, 2, 2, 2, 2}, 6, 7, CAIRN_DATA_LOSS},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		cairn_cleanup(mem_file_done) struct mem_file file = {0};
		struct block_set_info seen;
		int rc;

		forge(&file, cases[i].payload, cases[i].n, cases[i].extents,
		      cases[i].granules * 512ULL);
		rc = read_all(&file, 0, &seen);
		if (rc != cases[i].code)
			fail_msg("%s: %d", cases[i].what, rc);
	}
}

/* The example of cairn-changeset(5). Other versions of this program must be
 * able to read what this one wrote. */
static void the_stored_form_does_not_change(void **state)
{
	static const uint8_t want[] = {
		0x43, 0x52, 0x4e, 0x43, 0x42, 0x54, 0x01, 0x00, 0x00, 0x10, 0x00, 0x00, 0x00, 0x00,
		0x00, 0x00, 0x00, 0x00, 0x10, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x10, 0x00,
		0x00, 0x00, 0x00, 0x00, 0x2a, 0xf1, 0x17, 0x77, 0x98, 0x61, 0xe1, 0xe6, 0x0a, 0x8c,
		0xc1, 0xad, 0xac, 0x23, 0x98, 0xb5, 0x03, 0x00, 0x01, 0x02, 0x05, 0x03, 0x01, 0x28,
		0x02, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x30, 0x00, 0x00, 0x00, 0x00,
		0x00, 0x00, 0x00, 0x20, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x01, 0x00, 0x00, 0x00,
		0x00, 0x00, 0x00, 0x00, 0x36, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x01, 0x00,
		0x00, 0x00, 0x01, 0x00, 0x00, 0x00, 0xfd, 0xcc, 0x77, 0x90, 0x1f, 0x03, 0x60, 0xcb,
		0x2a, 0xf1, 0x17, 0x77, 0x98, 0x61, 0xe1, 0xe6, 0xe9, 0x62, 0xe9, 0x0d, 0x65, 0xde,
		0x9b, 0x3b, 0x43, 0x52, 0x4e, 0x43, 0x42, 0x45, 0x4e, 0x44,
	};
	const struct block_extent extents[] = {{4096, 4096, false}, {16384, 8192, true}};
	cairn_cleanup(mem_file_done) struct mem_file file = {0};

	(void)state;
	write_set(&file, MIB, 4096, extents, ARRAY_LEN(extents), NULL);
	assert_int_equal(file.len, sizeof(want));
	assert_memory_equal(file.data, want, sizeof(want));
}

static void wrong_parameters_are_refused(void **state)
{
	static const struct block_set_info cases[] = {
		{.volume_size = 1, .granularity = 0},
		{.volume_size = 1, .granularity = 256},
		{.volume_size = 1, .granularity = 4095},
		{.volume_size = 1, .granularity = 128U << 20},
		{.volume_size = 1ULL << 63, .granularity = 4096},
		{.base_size = UINT64_MAX, .granularity = 4096},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		cairn_cleanup(mem_file_done) struct mem_file file = {0};
		struct block_set_writer *writer = NULL;
		struct cairn_err err = {0};

		assert_int_equal(
			block_set_writer_new(&cases[i], mem_file_output(&file), &writer, &err),
			CAIRN_INVALID);
		assert_null(writer);
	}
}

static void wrong_extents_are_refused_and_change_nothing(void **state)
{
	static const struct block_extent cases[] = {
		{8192, 0, false},
		{0, 4096, false},              /* before the last one */
		{8191, 10, false},             /* reaches into it */
		{UINT64_MAX - 10, 100, false}, /* wraps */
	};
	cairn_cleanup(block_set_writer_freep) struct block_set_writer *writer = NULL;
	cairn_cleanup(mem_file_done) struct mem_file file = {0};
	struct block_set_info info = info_of(MIB, 4096);
	struct block_extent good = {4096, 4096, false};
	struct cairn_err err = {0};

	(void)state;
	assert_ok(block_set_writer_new(&info, mem_file_output(&file), &writer, &err), &err);
	assert_ok(block_set_writer_add(writer, &good, &err), &err);
	for (size_t i = 0; i < ARRAY_LEN(cases); i++)
		assert_int_equal(block_set_writer_add(writer, &cases[i], &err), CAIRN_INVALID);
	assert_ok(block_set_writer_finish(writer, &info, &err), &err);
	assert_int_equal(info.extents, 1);
	assert_int_equal(info.changed_bytes, 4096);
	assert_int_equal(block_set_writer_finish(writer, &info, &err), CAIRN_INVALID);
	assert_int_equal(block_set_writer_add(writer, &good, &err), CAIRN_INVALID);
}

static void the_largest_volume_has_room(void **state)
{
	const uint64_t size = BLOCK_VOLUME_SIZE_MAX;
	const struct block_extent ends[] = {{0, 512, false}, {size - 1, 1, true}};
	cairn_cleanup(mem_file_done) struct mem_file file = {0};
	cairn_cleanup(block_set_reader_freep) struct block_set_reader *reader = NULL;
	struct block_extent out[3];
	struct cairn_err err = {0};
	size_t n;

	(void)state;
	write_set(&file, size, 512, ends, 2, NULL);
	reader = open_set(&file, 0);
	assert_ok(block_set_reader_next(reader, out, 3, &n, &err), &err);
	assert_int_equal(n, 2);
	assert_int_equal(block_extent_end(&out[1]), size);
	assert_false(out[1].zero);
	assert_ok(block_set_reader_seek(reader, size - 1, &err), &err);
	assert_ok(block_set_reader_next(reader, out, 3, &n, &err), &err);
	assert_int_equal(n, 1);
	assert_ok(block_set_reader_seek(reader, UINT64_MAX, &err), &err);
	assert_ok(block_set_reader_next(reader, out, 3, &n, &err), &err);
	assert_int_equal(n, 0);
}

/* Writes and reads a set; 0 or the code of what failed. */
static int write_and_read(struct mem_file *file, struct cairn_err *err)
{
	cairn_cleanup(block_set_writer_freep) struct block_set_writer *writer = NULL;
	cairn_cleanup(block_set_reader_freep) struct block_set_reader *reader = NULL;
	struct block_set_info info = info_of(TIB, 4096);
	struct block_extent out[10];
	size_t n;
	int rc;

	rc = block_set_writer_new(&info, mem_file_output(file), &writer, err);
	for (uint64_t i = 0; rc == 0 && i < 70000; i++)
		rc = block_set_writer_add(writer, &(struct block_extent){i * 3 * 4096, 4096, false},
					  err);
	if (rc == 0)
		rc = block_set_writer_finish(writer, NULL, err);
	else if (writer)
		assert_int_equal(block_set_writer_finish(writer, NULL, NULL), rc);
	if (rc == 0)
		rc = block_set_reader_new(mem_file_input(file), 0, &reader, err);
	if (rc == 0)
		rc = block_set_reader_seek(reader, MIB, err);
	if (rc == 0)
		rc = block_set_reader_next(reader, out, ARRAY_LEN(out), &n, err);
	if (rc < 0 && reader)
		assert_int_equal(block_set_reader_next(reader, out, 1, &n, NULL), rc);
	return rc;
}

static int write_and_read_anew(struct cairn_err *err)
{
	cairn_cleanup(mem_file_done) struct mem_file file = {0};

	return write_and_read(&file, err);
}

static void every_failed_allocation_is_reported(void **state)
{
	(void)state;
	assert_in_range(assert_allocations_may_fail(write_and_read_anew), 6, SIZE_MAX);
}

static void every_failed_write_and_read_is_reported_and_final(void **state)
{
	bool reading = false;

	(void)state;
	for (size_t nth = 1;; nth++) {
		cairn_cleanup(mem_file_done) struct mem_file file = {0};
		struct cairn_err err = {0};
		int rc;

		*(reading ? &file.reads_left : &file.writes_left) = nth;
		rc = write_and_read(&file, &err);
		if (rc == 0 && reading)
			break;
		if (rc == 0) {
			assert_true(nth > 3);
			reading = true;
			nth = 0;
			continue;
		}
		assert_int_equal(rc, reading ? CAIRN_UNAVAILABLE : CAIRN_NO_SPACE);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rounding_never_loses_a_change_nor_invents_a_zero),
		cmocka_unit_test(random_sets_read_as_the_model_says),
		cmocka_unit_test(seeking_finds_the_first_extent_that_ends_later),
		cmocka_unit_test(long_sets_read_whole_and_from_anywhere),
		cmocka_unit_test(very_long_sets_keep_a_small_index),
		cmocka_unit_test(every_wrong_byte_is_found),
		cmocka_unit_test(every_truncation_is_found_at_once),
		cmocka_unit_test(a_missing_middle_is_found),
		cmocka_unit_test(impossible_contents_are_refused_despite_right_checksums),
		cmocka_unit_test(the_stored_form_does_not_change),
		cmocka_unit_test(wrong_parameters_are_refused),
		cmocka_unit_test(wrong_extents_are_refused_and_change_nothing),
		cmocka_unit_test(the_largest_volume_has_room),
		cmocka_unit_test(every_failed_allocation_is_reported),
		cmocka_unit_test(every_failed_write_and_read_is_reported_and_final),
	};

	return cmocka_run_group_tests_name("block/set", tests, NULL, NULL);
}
