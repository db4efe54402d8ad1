/* SPDX-License-Identifier: Apache-2.0 */

#include "block/set_format.h"

/* State of the decoder. Errors are accumulated in `bad` instead of being tested at once,
 * so that the loops have no branch to mispredict; results are used only after `bad` was
 * checked. */
struct decoder {
	const uint8_t *p;
	uint64_t at; /* granule after the last run */
	bool zero;   /* its kind */
	bool bad;
};

/* Decodes one run of any kind; false if it is invalid. */
static inline bool decode_one(struct decoder *d, uint64_t granules, bool first, struct set_run *out)
{
	uint64_t head, tail = 0, start;
	bool was_zero = d->zero;

	d->p = varint_get(d->p, &head);
	if (!d->p)
		return false;
	if (head & 1) {
		d->p = varint_get(d->p, &tail);
		if (!d->p)
			return false;
		d->bad |= tail == 0;
	}
	d->zero = tail & 1;
	start = d->at + (head >> 1);
	d->bad |= start == d->at && d->zero == was_zero && !first;
	d->at = start + (tail >> 1) + 1;
	d->bad |= d->at > granules;
	out->start = start;
	out->tail = tail;
	return true;
}

#define EVERY_BYTE(b) (0x0101010101010101ULL * (b))

/* Widest gap that two bytes hold, and the largest span of four such runs. */
#define GAP_MAX   8191U
#define FOUR_SPAN (4 * (GAP_MAX + 1))

/* Decodes four single granules, not zero and at most GAP_MAX apart, as scattered writes
 * cause them. They take one or two bytes each, so eight bytes hold them, and shifting a
 * register is faster than finding the next byte in memory. Returns false, without any
 * effect, if the next four runs are of another kind. */
static inline bool four_gaps(struct decoder *d, uint64_t gaps[4])
{
	uint64_t bytes = set_get(d->p, 8), heads = 0, used = 4;
	uint64_t more = bytes & EVERY_BYTE(0x80);
	uint64_t zeros = (bytes - EVERY_BYTE(1)) & ~bytes & EVERY_BYTE(0x80);

	/* Reject values of three bytes, and values that are not in the shortest form. */
	if (((more | zeros) & more << 8) != 0)
		return false;
	for (unsigned i = 0; i < 4; i++) {
		uint64_t two = bytes >> 7 & 1;

		heads |= bytes;
		gaps[i] = (bytes >> 1 & 0x3f) | (bytes >> 2 & 0x1fc0 & (0 - two));
		bytes >>= 8 + 8 * two;
		used += two;
	}
	if (heads & 1)
		return false;
	d->bad |= (gaps[0] == 0 && !d->zero) || gaps[1] == 0 || gaps[2] == 0 || gaps[3] == 0;
	d->zero = false;
	d->p += used;
	return true;
}

/* Draws four runs if they are of that kind and inside the drawing. */
static inline bool draw_four(struct decoder *d, const struct set_drawing *drawing)
{
	uint64_t at = d->at - drawing->start, gaps[4];

	if (!four_gaps(d, gaps))
		return false;
	for (unsigned i = 0; i < 4; i++) {
		at += gaps[i];
		drawing->words[at / 64] |= 1ULL << at % 64;
		at++;
	}
	d->at = at + drawing->start;
	return true;
}

/* Stores four runs if they are of that kind. */
static inline bool decode_four(struct decoder *d, struct set_run *out)
{
	uint64_t gaps[4];

	if (!four_gaps(d, gaps))
		return false;
	for (unsigned i = 0; i < 4; i++) {
		out[i].start = d->at + gaps[i];
		out[i].tail = 0;
		d->at = out[i].start + 1;
	}
	return true;
}

bool block_set_block_decode(const uint8_t *p, size_t n_bytes, uint64_t granules, unsigned n,
			    const struct set_drawing *drawing, struct set_block *ret)
{
	const uint8_t *end = p + n_bytes;
	struct decoder d = {.p = p};
	struct set_run *out = ret->runs;

	if (!decode_one(&d, granules, true, out))
		return false;
	ret->start = out->start;
	ret->first_zero = out->tail & 1;
	out++;
	for (n--; n >= 4; n -= 4) {
		if (d.p > end)
			return false;
		if (d.at >= drawing->start && d.at + FOUR_SPAN <= drawing->end &&
		    draw_four(&d, drawing))
			continue;
		if (decode_four(&d, out)) {
			out += 4;
			continue;
		}
		for (unsigned i = 0; i < 4; i++)
			if (d.p > end || !decode_one(&d, granules, false, out++))
				return false;
	}
	for (; n > 0; n--)
		if (d.p > end || !decode_one(&d, granules, false, out++))
			return false;
	ret->n = (unsigned)(out - ret->runs);
	ret->end = d.at;
	ret->last_zero = d.zero;
	return !d.bad && d.p == end && d.at <= granules;
}
