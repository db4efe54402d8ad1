/* SPDX-License-Identifier: Apache-2.0 */

#include "block/bitmap.h"

#include "block/set_reader.h"

void block_bitmap_move(struct bitmap *b, uint64_t start)
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
	PAINT_CHANGED, /* leaves the zero bits unchanged */
	PAINT_DATA,
	PAINT_ZERO,
};

static inline void paint_word(struct bitmap *b, size_t word, uint64_t mask, enum paint paint)
{
	b->changed[word] |= mask;
	if (paint == PAINT_ZERO)
		b->zero[word] |= mask;
	else if (paint == PAINT_DATA)
		b->zero[word] &= ~mask;
}

/* Bits [from, to), from < to. */
static inline void paint_bits(struct bitmap *b, size_t from, size_t to, enum paint paint)
{
	size_t word = from / 64, last = (to - 1) / 64;
	uint64_t head = ~0ULL << (from % 64), tail = ~0ULL >> (63 - (to - 1) % 64);

	if (word == last) {
		paint_word(b, word, head & tail, paint);
		return;
	}
	paint_word(b, word, head, paint);
	while (++word < last)
		paint_word(b, word, ~0ULL, paint);
	paint_word(b, last, tail, paint);
}

/* If only a part of a granule becomes zero, the granule is zero only if it was zero
 * before, because its other part is unchanged. */
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

/* Draws runs [i, n) up to the first that is zero or extends past the window's end. All
 * begin at or after the window's start and have its granularity. */
static inline size_t draw_plain(struct bitmap *b, const struct set_run *runs, size_t i, size_t n,
				enum paint paint)
{
	uint64_t start = b->start >> b->shift, bits = (b->end - b->start) >> b->shift;

	for (; i < n; i++) {
		uint64_t from = runs[i].start - start;
		uint64_t length = (runs[i].tail >> 1) + 1;

		if (from + length > bits || runs[i].tail & 1)
			break;
		if (from % 64 + length <= 64)
			paint_word(b, from / 64, ~0ULL >> (64 - length) << from % 64, paint);
		else
			paint_bits(b, from, from + length, paint);
	}
	return i;
}

/* Draws the part of an extent that is in the window, which it touches. */
static void draw_any(struct bitmap *b, const struct block_extent *extent, bool zero_unknown)
{
	uint64_t mask = (1ULL << b->shift) - 1;
	uint64_t offset = extent->offset > b->start ? extent->offset : b->start;
	uint64_t end = block_extent_end(extent) < b->end ? block_extent_end(extent) : b->end;

	if (extent->zero && !zero_unknown)
		paint_zero(b, offset, end);
	else
		paint_bits(b, (size_t)((offset - b->start) >> b->shift),
			   (size_t)((end - b->start + mask) >> b->shift),
			   zero_unknown ? PAINT_CHANGED : PAINT_DATA);
}

/* Extends the range of words that may have bits set. */
static void note_drawn(struct bitmap *b, uint64_t offset, uint64_t end)
{
	size_t word = (size_t)((offset > b->start ? offset - b->start : 0) >> b->shift) / 64;

	if (word < b->first_word)
		b->first_word = word;
	word = (size_t)(((end < b->end ? end : b->end) - b->start - 1) >> b->shift) / 64;
	if (word >= b->end_word)
		b->end_word = word + 1;
}

size_t block_bitmap_draw(struct bitmap *b, const struct bitmap_source *source,
			 const struct set_run *runs, size_t n)
{
	bool same_granules = source->shift == b->shift;
	struct block_extent extent = {0};
	size_t i = 0;

	if (n == 0 || runs[0].start << source->shift >= b->end)
		return 0;
	while (i < n && runs[i].start << source->shift < b->end) {
		size_t before = i;

		if (same_granules && runs[i].start >= b->start >> b->shift)
			/* If no zero bit is set, none must be cleared. */
			i = source->zero_unknown || !b->any_zero
				    ? draw_plain(b, runs, i, n, PAINT_CHANGED)
				    : draw_plain(b, runs, i, n, PAINT_DATA);
		if (i > before)
			continue;
		extent = set_run_extent(&runs[i], source->shift, source->volume_size);
		draw_any(b, &extent, source->zero_unknown);
		if (block_extent_end(&extent) > b->end)
			break;
		i++;
	}
	if (i < n && runs[i].start << source->shift < b->end)
		note_drawn(b, runs[0].start << source->shift, b->end);
	else
		note_drawn(b, runs[0].start << source->shift,
			   (runs[i - 1].start + (runs[i - 1].tail >> 1) + 1) << source->shift);
	return i;
}

struct set_drawing block_bitmap_drawing(struct bitmap *b, const struct bitmap_source *source)
{
	if (source->shift != b->shift || (b->any_zero && !source->zero_unknown))
		return (struct set_drawing){0};
	b->end_word = (size_t)(((b->end - b->start) >> b->shift) + 63) / 64;
	return (struct set_drawing){
		.words = b->changed,
		.start = b->start >> b->shift,
		.end = b->end >> b->shift,
	};
}

/* Where runs begin in a word, and the bits after their ends; `before` is the bit before
 * the word. */
static inline uint64_t starts_in(uint64_t word, uint64_t before)
{
	return word & ~(word << 1 | before);
}

static inline uint64_t ends_in(uint64_t word, uint64_t before)
{
	return ~word & (word << 1 | before);
}

/* Lists the runs of a word that contains one kind only; `base` is the offset of its first
 * bit. Returns the number of runs that ended. */
static inline size_t list_one_kind(uint64_t word, bool zero, uint64_t base, unsigned shift,
				   struct bitmap_open_run *run, struct block_extent *out)
{
	size_t n = 0;

	if (run->open) {
		if (word == ~0ULL)
			return 0;
		out[n++] = (struct block_extent){
			.offset = run->offset,
			.length = base - run->offset + ((uint64_t)__builtin_ctzll(~word) << shift),
			.zero = zero,
		};
		run->open = false;
		word &= word + 1;
	}
	while (word) {
		unsigned first = (unsigned)__builtin_ctzll(word);
		/* Adding the lowest bit of a run carries to the bit after its end. */
		uint64_t behind = word + (word & (0 - word));
		uint64_t offset = base + ((uint64_t)first << shift);

		if (behind == 0) {
			*run = (struct bitmap_open_run){
				.open = true, .zero = zero, .offset = offset};
			break;
		}
		out[n].offset = offset;
		out[n].length = (uint64_t)((unsigned)__builtin_ctzll(behind) - first) << shift;
		out[n++].zero = zero;
		word &= behind;
	}
	return n;
}

/* The same for a word with both kinds. The runs of each kind are in order, and
 * so are their ends: the n-th start and the n-th end belong together. */
static size_t list_both_kinds(uint64_t data, uint64_t zero, uint64_t base, unsigned shift,
			      struct bitmap_open_run *run, struct block_extent *out)
{
	uint64_t data_before = run->open && !run->zero, zero_before = run->open && run->zero;
	uint64_t starts = starts_in(data, data_before) | starts_in(zero, zero_before);
	uint64_t ends = ends_in(data, data_before) | ends_in(zero, zero_before);
	size_t begun = run->open, ended = 0;

	if (run->open)
		out[0] = (struct block_extent){.offset = run->offset, .zero = run->zero};
	for (; starts; starts &= starts - 1) {
		unsigned bit = (unsigned)__builtin_ctzll(starts);

		out[begun].offset = base + ((uint64_t)bit << shift);
		out[begun++].zero = zero >> bit & 1;
	}
	for (; ends; ends &= ends - 1) {
		uint64_t behind = base + ((uint64_t)__builtin_ctzll(ends) << shift);

		out[ended].length = behind - out[ended].offset;
		ended++;
	}
	run->open = begun > ended;
	if (run->open) {
		run->offset = out[ended].offset;
		run->zero = out[ended].zero;
	}
	return ended;
}

bool block_bitmap_list(struct bitmap *b, struct bitmap_open_run *run, struct block_extent *out,
		       size_t max, size_t *ret_n)
{
	/* One word more, to end a run that extends to the last one. */
	size_t stop = b->end_word < BITMAP_WORDS ? b->end_word + 1 : BITMAP_WORDS;
	struct bitmap_open_run at = *run;
	size_t n = 0, word;

	/* A run from the previous window ends at this one's start, unless it continues. */
	if (!b->listing && at.open)
		b->first_word = 0;
	b->listing = true;
	for (word = b->first_word; word < stop && max - n > 64; word++) {
		uint64_t base = b->start + ((uint64_t)word << (6 + b->shift));
		uint64_t zero = b->any_zero ? b->zero[word] : 0;
		uint64_t data = b->changed[word] & ~zero;

		if (zero == 0 && !(at.open && at.zero))
			n += list_one_kind(data, false, base, b->shift, &at, out + n);
		else
			n += list_both_kinds(data, zero, base, b->shift, &at, out + n);
		b->changed[word] = 0;
		if (b->any_zero)
			b->zero[word] = 0;
	}
	b->first_word = word;
	*run = at;
	*ret_n = n;
	return word >= stop;
}
