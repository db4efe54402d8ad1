/* SPDX-License-Identifier: Apache-2.0 */

#include "backup/changed_bitmap.h"

#include <stdbool.h>

#include "base/err.h"
#include "base/mem.h"
#include "block/extent.h"

#define WORD_BITS 64U

static uint64_t granules_of(uint64_t size, unsigned shift)
{
	return (size >> shift) + ((size & ((1ULL << shift) - 1)) != 0);
}

static unsigned shift_for(uint64_t size)
{
	unsigned shift = (unsigned)__builtin_ctz(MARKS_GRANULE_MIN);

	while (granules_of(size, shift) > MARKS_GRANULES_MAX)
		shift++;
	return shift;
}

int backup_changed_bitmap_new(uint64_t size, struct changed_bitmap **ret, struct cairn_err *err)
{
	unsigned shift = shift_for(size);
	size_t words = granules_of(size, shift) / WORD_BITS + 1;
	cairn_cleanup(backup_changed_bitmap_freep) struct changed_bitmap *marks =
		cairn_calloc(1, sizeof(*marks));

	if (!marks)
		return cairn_err_nomem(err, "marks");
	marks->size = size;
	marks->shift = shift;
	marks->marked = cairn_calloc(words, sizeof(uint64_t));
	marks->zero = cairn_calloc(words, sizeof(uint64_t));
	if (!marks->marked || !marks->zero)
		return cairn_err_nomem(err, "marks");
	*ret = cairn_take(marks);
	return 0;
}

void backup_changed_bitmap_free(struct changed_bitmap *marks)
{
	if (!marks)
		return;
	free(marks->marked);
	free(marks->zero);
	free(marks);
}

/* Mask of the bits of word `word` that lie in [first, end). */
static uint64_t mask_of(uint64_t word, uint64_t first, uint64_t end)
{
	uint64_t from = word * WORD_BITS;
	uint64_t mask = ~0ULL;

	if (first > from)
		mask &= ~0ULL << (first - from);
	if (end < from + WORD_BITS)
		mask &= ~0ULL >> (from + WORD_BITS - end);
	return mask;
}

static void changed_bitmap_put(uint64_t *bits, uint64_t first, uint64_t end, bool value)
{
	for (uint64_t word = first / WORD_BITS; first < end && word <= (end - 1) / WORD_BITS;
	     word++) {
		uint64_t mask = mask_of(word, first, end);

		if (value)
			bits[word] |= mask;
		else
			bits[word] &= ~mask;
	}
}

void backup_changed_bitmap_add(struct changed_bitmap *marks, const struct block_extent *extent)
{
	uint64_t granule = 1ULL << marks->shift;
	uint64_t end = block_extent_end(extent);
	uint64_t first;
	uint64_t last;

	if (extent->offset >= marks->size)
		return;
	if (end > marks->size || end < extent->offset)
		end = marks->size;
	marks->bytes += end - extent->offset;
	first = extent->offset >> marks->shift;
	last = granules_of(end, marks->shift);
	changed_bitmap_put(marks->marked, first, last, true);
	changed_bitmap_put(marks->zero, first, last, false);
	if (!extent->zero)
		return;
	first = granules_of(extent->offset, marks->shift);
	if (end != marks->size)
		last = end / granule;
	if (first < last)
		changed_bitmap_put(marks->zero, first, last, true);
}

void backup_changed_bitmap_fill_from(struct changed_bitmap *marks, uint64_t from)
{
	if (from < marks->size)
		changed_bitmap_put(marks->marked, from >> marks->shift,
				   granules_of(marks->size, marks->shift), true);
}

struct backup_changed_bitmap_count backup_changed_bitmap_count(const struct changed_bitmap *marks,
							       uint64_t offset, uint64_t length)
{
	uint64_t stop = offset + length < marks->size ? offset + length : marks->size;
	uint64_t first = offset >> marks->shift;
	uint64_t end = granules_of(stop, marks->shift);
	struct backup_changed_bitmap_count count = {0};

	if (first >= end)
		return count;
	count.granules = end - first;
	for (uint64_t word = first / WORD_BITS; word <= (end - 1) / WORD_BITS; word++) {
		uint64_t mask = mask_of(word, first, end);

		count.marked += (uint64_t)__builtin_popcountll(marks->marked[word] & mask);
		count.zero += (uint64_t)__builtin_popcountll(marks->zero[word] & mask);
	}
	return count;
}

bool backup_changed_bitmap_any(const struct changed_bitmap *marks, uint64_t offset, uint64_t length)
{
	uint64_t stop = offset + length < marks->size ? offset + length : marks->size;
	uint64_t first = offset >> marks->shift;
	uint64_t end = granules_of(stop, marks->shift);

	for (uint64_t word = first / WORD_BITS; first < end && word <= (end - 1) / WORD_BITS;
	     word++)
		if (marks->marked[word] & mask_of(word, first, end))
			return true;
	return false;
}
