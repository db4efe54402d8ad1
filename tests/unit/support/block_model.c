/* SPDX-License-Identifier: Apache-2.0 */

#include "block_model.h"

#include <stdlib.h>
#include <string.h>

#include "base/err.h"

static int mem_write(void *arg, const void *data, size_t n, struct cairn_err *err)
{
	struct mem_file *file = arg;

	if (file->writes_left > 0 && --file->writes_left == 0)
		return cairn_err_set(err, CAIRN_NO_SPACE, "no space left in the test's file");
	if (file->len + n > file->cap) {
		file->cap = 2 * (file->len + n);
		file->data = realloc(file->data, file->cap);
		if (!file->data)
			abort();
	}
	memcpy(file->data + file->len, data, n);
	file->len += n;
	return 0;
}

static int mem_read(void *arg, uint64_t offset, void *data, size_t n, struct cairn_err *err)
{
	struct mem_file *file = arg;

	if (file->reads_left > 0 && --file->reads_left == 0)
		return cairn_err_set(err, CAIRN_UNAVAILABLE, "the test's file is away");
	/* A reader must never ask for what is not there. */
	if (offset > file->len || n > file->len - offset)
		abort();
	memcpy(data, file->data + offset, n);
	file->bytes_read += n;
	if (n > file->largest_read)
		file->largest_read = n;
	return 0;
}

void mem_file_done(struct mem_file *file)
{
	free(file->data);
}

struct block_output mem_file_output(struct mem_file *file)
{
	return (struct block_output){.write = mem_write, .arg = file};
}

struct block_input mem_file_input(struct mem_file *file)
{
	return (struct block_input){.read_at = mem_read, .arg = file, .size = file->len};
}

uint64_t model_random(uint64_t *seed)
{
	uint64_t z = (*seed += 0x9e3779b97f4a7c15ULL);

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
	return z ^ (z >> 31);
}

uint64_t model_below(uint64_t *seed, uint64_t n)
{
	return model_random(seed) % n;
}

void model_init(struct model *model, uint64_t size)
{
	model->size = size;
	memset(model->bytes, MODEL_SAME, sizeof(model->bytes));
}

void model_paint(struct model *model, const struct block_extent *extent)
{
	for (uint64_t i = 0; i < extent->length && extent->offset + i < model->size; i++)
		model->bytes[extent->offset + i] = extent->zero ? MODEL_ZERO : MODEL_DATA;
}

/* Adds a range, as one with the last if it touches and is of the same kind. */
static void list_add(struct model_list *list, uint64_t offset, uint64_t end, bool zero)
{
	struct block_extent *last = list->n > 0 ? &list->extents[list->n - 1] : NULL;

	if (last && block_extent_end(last) == offset && last->zero == zero) {
		last->length += end - offset;
		return;
	}
	if (list->n == MODEL_EXTENTS_MAX)
		abort();
	list->extents[list->n++] =
		(struct block_extent){.offset = offset, .length = end - offset, .zero = zero};
}

void model_list_set(const struct model *model, uint32_t granularity, struct model_list *ret)
{
	ret->n = 0;
	for (uint64_t at = 0; at < model->size; at += granularity) {
		uint64_t end = at + granularity < model->size ? at + granularity : model->size;
		bool changed = false, zero = true;

		for (uint64_t i = at; i < end; i++) {
			changed |= model->bytes[i] != MODEL_SAME;
			zero &= model->bytes[i] == MODEL_ZERO;
		}
		if (changed)
			list_add(ret, at, end, zero);
	}
}

void model_union_add(struct model *target, uint32_t granularity, const struct model_list *set,
		     bool zero_unknown)
{
	for (size_t i = 0; i < set->n; i++) {
		const struct block_extent *e = &set->extents[i];

		for (uint64_t at = e->offset / granularity * granularity;
		     at < block_extent_end(e) && at < target->size; at += granularity) {
			uint64_t end =
				at + granularity < target->size ? at + granularity : target->size;
			bool whole = e->offset <= at && block_extent_end(e) >= end;
			uint8_t state = target->bytes[at];

			if (zero_unknown || (e->zero && !whole))
				state = state == MODEL_SAME ? MODEL_DATA : state;
			else
				state = e->zero ? MODEL_ZERO : MODEL_DATA;
			memset(target->bytes + at, state, end - at);
		}
	}
}

void model_list_union(const struct model *target, uint64_t starting_offset, struct model_list *ret)
{
	ret->n = 0;
	for (uint64_t i = starting_offset; i < target->size; i++)
		if (target->bytes[i] != MODEL_SAME)
			list_add(ret, i, i + 1, target->bytes[i] == MODEL_ZERO);
}

int model_read_set(struct block_set_reader *reader, size_t step, struct model_list *ret)
{
	struct block_extent out[512];
	size_t n;
	int rc;

	ret->n = 0;
	for (;;) {
		rc = block_set_reader_next(reader, out, step, &n, NULL);
		if (rc < 0 || n == 0)
			return rc;
		for (size_t i = 0; i < n; i++) {
			if (ret->n == MODEL_EXTENTS_MAX)
				abort();
			ret->extents[ret->n++] = out[i];
		}
	}
}

bool model_list_equal(const struct model_list *a, const struct model_list *b)
{
	if (a->n != b->n)
		return false;
	for (size_t i = 0; i < a->n; i++)
		if (a->extents[i].offset != b->extents[i].offset ||
		    a->extents[i].length != b->extents[i].length ||
		    a->extents[i].zero != b->extents[i].zero)
			return false;
	return true;
}
