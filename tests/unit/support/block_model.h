/* SPDX-License-Identifier: Apache-2.0 */

/* Slow and obvious doubles of src/block for tests and fuzzers: a file in
 * memory, a volume as one state a byte, and sequences of random numbers that
 * are the same in every run.
 */
#ifndef CAIRN_TESTS_UNIT_BLOCK_MODEL_H
#define CAIRN_TESTS_UNIT_BLOCK_MODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "block/extent.h"
#include "block/set.h"

struct mem_file {
	uint8_t *data;
	size_t len;
	size_t cap;
	size_t writes_left;  /* then writing fails with CAIRN_NO_SPACE; 0: never */
	size_t reads_left;   /* then reading fails with CAIRN_UNAVAILABLE; 0: never */
	uint64_t bytes_read; /* since the file was made */
	size_t largest_read;
};

void mem_file_done(struct mem_file *file);
struct block_output mem_file_output(struct mem_file *file);
struct block_input mem_file_input(struct mem_file *file);

uint64_t model_random(uint64_t *seed);
/* From 0 to n - 1. */
uint64_t model_below(uint64_t *seed, uint64_t n);

enum model_state {
	MODEL_SAME,
	MODEL_DATA,
	MODEL_ZERO,
};

/* Largest volume a model holds. */
#define MODEL_SIZE_MAX 65536U

struct model {
	uint64_t size;
	uint8_t bytes[MODEL_SIZE_MAX]; /* enum model_state */
};

/* Most extents that a model can give: one for each smallest granule. */
#define MODEL_EXTENTS_MAX (MODEL_SIZE_MAX / BLOCK_GRANULARITY_MIN)

struct model_list {
	size_t n;
	struct block_extent extents[MODEL_EXTENTS_MAX];
};

void model_init(struct model *model, uint64_t size);
void model_paint(struct model *model, const struct block_extent *extent);

/* What the set of the painted ranges must hold. */
void model_list_set(const struct model *model, uint32_t granularity, struct model_list *ret);

/* Draws a stored set over the granules of a target, by the rules of union.h. */
void model_union_add(struct model *target, uint32_t granularity, const struct model_list *set,
		     bool zero_unknown);
/* What the union must list. */
void model_list_union(const struct model *target, uint64_t starting_offset, struct model_list *ret);

/* Reads everything that is left, `step` extents at a time; 0 or the code. */
int model_read_set(struct block_set_reader *reader, size_t step, struct model_list *ret);

bool model_list_equal(const struct model_list *a, const struct model_list *b);

#endif
