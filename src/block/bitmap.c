/* SPDX-License-Identifier: Apache-2.0 */

#include "block/bitmap.h"

void bitmap_move(struct bitmap *b, uint64_t start)
{
	uint64_t mask = (1ULL << b->shift) - 1;
	uint64_t last = (b->volume_size + mask) & ~mask;

	b->start = start;
	b->end = start + ((uint64_t)BITMAP_BITS << b->shift);
	if (b->end > last)
		b->end = last;
	b->first_word = BITMAP_WORDS;
	b->end_word = 0;
	b->any_zero = false;
	b->listing = false;
}

enum paint {
	PAINT_CHANGED, /* says nothing about zero */
	PAINT_DATA,
	PAINT_ZERO,
};

static inline void paint_word(struct bitmap *b, size_t word, uint64_t mask, enum paint paint)
{
	b->changed[word] |= mask;
	if (paint == PAINT_ZERO)
		b->zero[word] |= mask;
	else if (paint == PAINT_DATA && b->any_zero)
		b->zero[word] &= ~mask;
}

/* Bits [from, to), from < to. */
static inline void paint_bits(struct bitmap *b, size_t from, size_t to, enum paint paint)
{
	size_t word = from / 64, last = (to - 1) / 64;
	uint64_t head = ~0ULL << (from % 64), tail = ~0ULL >> (63 - (to - 1) % 64);

	if (word < b->first_word)
		b->first_word = word;
	if (last >= b->end_word)
		b->end_word = last + 1;
	if (word == last) {
		paint_word(b, word, head & tail, paint);
		return;
	}
	paint_word(b, word, head, paint);
	while (++word < last)
		paint_word(b, word, ~0ULL, paint);
	paint_word(b, last, tail, paint);
}

/* A granule of which only a part is said to be zero is zero if it was before,
 * and not otherwise: the other part is as it was. */
static void paint_zero(struct bitmap *b, uint64_t offset, uint64_t end)
{
	uint64_t mask = (1ULL << b->shift) - 1;
	size_t from = (size_t)((offset - b->start) >> b->shift);
	size_t to = (size_t)((end - b->start + mask) >> b->shift);
	size_t whole_from = (size_t)((offset - b->start + mask) >> b->shift);
	size_t whole_to = end >= b->volume_size ? to : (size_t)((end - b->start) >> b->shift);

	if (whole_from >= whole_to) {
		paint_bits(b, from, to, PAINT_CHANGED);
		return;
	}
	b->any_zero = true;
	paint_bits(b, whole_from, whole_to, PAINT_ZERO);
	if (from < whole_from)
		paint_bits(b, from, whole_from, PAINT_CHANGED);
	if (whole_to < to)
		paint_bits(b, whole_to, to, PAINT_CHANGED);
}

size_t bitmap_draw(struct bitmap *b, const struct block_extent *extents, size_t n,
		   bool zero_unknown)
{
	enum paint plain = zero_unknown ? PAINT_CHANGED : PAINT_DATA;
	uint64_t mask = (1ULL << b->shift) - 1;

	for (size_t i = 0; i < n; i++) {
		uint64_t offset = extents[i].offset;
		uint64_t end = offset + extents[i].length;

		if (offset >= b->end)
			return i;
		if (offset < b->start)
			offset = b->start;
		if (extents[i].zero && !zero_unknown)
			paint_zero(b, offset, end < b->end ? end : b->end);
		else
			paint_bits(b, (size_t)((offset - b->start) >> b->shift),
				   (size_t)(((end < b->end ? end : b->end) - b->start + mask) >>
					    b->shift),
				   plain);
		if (end > b->end)
			return i;
	}
	return n;
}

/* Where runs begin in a word, and the bits behind their ends; `before` is the
 * bit in front of the word. */
static inline uint64_t starts_in(uint64_t word, uint64_t before)
{
	return word & ~(word << 1 | before);
}

static inline uint64_t ends_in(uint64_t word, uint64_t before)
{
	return ~word & (word << 1 | before);
}

bool bitmap_list(struct bitmap *b, struct bitmap_open_run *run, struct block_extent *out,
		 size_t max, size_t *ret_n)
{
	uint64_t data_before = run->open && !run->zero, zero_before = run->open && run->zero;
	size_t begun = run->open, ended = 0, word;
	/* One word more, to end a run that reaches up to there. */
	size_t stop = b->end_word < BITMAP_WORDS ? b->end_word + 1 : BITMAP_WORDS;

	/* A run from before ends where the window begins, unless drawn on. */
	if (!b->listing && run->open)
		b->first_word = 0;
	b->listing = true;
	word = b->first_word;
	if (run->open)
		out[0] = (struct block_extent){.offset = run->offset, .zero = run->zero};
	for (; word < stop && max - begun >= 64; word++) {
		uint64_t zero = b->zero[word], data = b->changed[word] & ~zero;
		uint64_t base = b->start + ((uint64_t)word << (6 + b->shift));
		uint64_t starts = starts_in(data, data_before) | starts_in(zero, zero_before);
		uint64_t ends = ends_in(data, data_before) | ends_in(zero, zero_before);

		for (; starts; starts &= starts - 1) {
			unsigned bit = (unsigned)__builtin_ctzll(starts);

			out[begun].offset = base + ((uint64_t)bit << b->shift);
			out[begun++].zero = zero >> bit & 1;
		}
		for (; ends; ends &= ends - 1) {
			unsigned bit = (unsigned)__builtin_ctzll(ends);

			out[ended].length = base + ((uint64_t)bit << b->shift) - out[ended].offset;
			ended++;
		}
		data_before = data >> 63;
		zero_before = zero >> 63;
		b->changed[word] = b->zero[word] = 0;
	}
	b->first_word = word;
	run->open = begun > ended;
	if (run->open) {
		run->offset = out[ended].offset;
		run->zero = out[ended].zero;
	}
	*ret_n = ended;
	return word >= stop;
}
