/* SPDX-License-Identifier: Apache-2.0 */

#include "block/union.h"

#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "block/bitmap.h"
#include "block/set.h"
#include "block/set_reader.h"

/* Shortest stretch without a boundary, in granules, that is worth skipping without the
 * bitmap. */
#define STRETCH_MIN 4096U

struct input {
	struct block_set_reader *reader;
	struct bitmap_source source;
	const struct set_run *runs; /* the next runs; borrowed from the reader */
	size_t n;                   /* 0: end of the set */
};

struct block_union {
	uint64_t target_size;
	uint64_t starting_offset;
	unsigned shift; /* log2 of the largest granularity */
	size_t n_inputs;
	bool pass_through;
	bool ended;
	int failed; /* code of the first failure; final */

	/* Every granule before `position` is decided: listed, part of `run`, or unchanged. A
	 * window that is being listed is before it. */
	uint64_t position;
	uint64_t limit; /* end of the target's last granule */
	bool listing;
	struct bitmap_open_run run;
	struct bitmap *bitmap;

	/* Extents that did not fit the caller's array. */
	struct block_extent ready[BITMAP_LIST_MIN];
	size_t ready_next;
	size_t ready_len;

	struct input inputs[];
};

/* Drops the first `n` runs, which are done, and loads more if none are left; some of these
 * may be drawn already. */
static int input_skip(struct input *in, size_t n, const struct set_drawing *drawing,
		      struct cairn_err *err)
{
	block_set_reader_skip(in->reader, n);
	if (n > 0) { /* before the first peek there are no runs to add to */
		in->runs += n;
		in->n -= n;
	}
	return in->n > 0 ? 0 : block_set_reader_peek(in->reader, drawing, &in->runs, &in->n, err);
}

static struct block_extent input_extent(const struct input *in)
{
	return set_run_extent(in->runs, in->source.shift, in->source.volume_size);
}

/* The state from the position up to the next boundary of any input. */
struct stretch {
	uint64_t end; /* rounded down to a granule */
	bool changed;
	bool zero;
};

static struct stretch find_stretch(const struct block_union *u)
{
	uint64_t mask = (1ULL << u->shift) - 1;
	struct stretch s = {.end = u->limit};

	for (size_t i = 0; i < u->n_inputs; i++) {
		const struct input *in = &u->inputs[i];
		struct block_extent extent;
		uint64_t boundary;

		if (in->n == 0)
			continue;
		extent = input_extent(in);
		if (extent.offset > u->position) {
			boundary = extent.offset & ~mask;
		} else {
			boundary = block_extent_end(&extent) & ~mask;
			s.changed = true;
			if (!in->source.zero_unknown)
				s.zero = extent.zero;
		}
		if (boundary < s.end)
			s.end = boundary;
	}
	return s;
}

/* Skips a stretch; stores an extent that ends there. */
static int pass_stretch(struct block_union *u, const struct stretch *s, struct block_extent *out,
			size_t *ret_n, struct cairn_err *err)
{
	struct bitmap_open_run *run = &u->run;
	int rc = 0;

	*ret_n = 0;
	if (run->open && (!s->changed || s->zero != run->zero)) {
		*out = (struct block_extent){
			.offset = run->offset,
			.length = u->position - run->offset,
			.zero = run->zero,
		};
		run->open = false;
		*ret_n = 1;
	}
	if (s->changed && !run->open)
		*run = (struct bitmap_open_run){
			.open = true, .zero = s->zero, .offset = u->position};
	u->position = s->end;
	for (size_t i = 0; i < u->n_inputs && rc == 0; i++) {
		struct input *in = &u->inputs[i];
		struct block_extent extent;

		if (in->n == 0)
			continue;
		extent = input_extent(in);
		if (block_extent_end(&extent) <= s->end)
			rc = input_skip(in, 1, NULL, err);
	}
	return rc;
}

static int draw_input(struct bitmap *bitmap, struct input *in, struct cairn_err *err)
{
	while (in->n > 0) {
		size_t n = in->n, drawn = block_bitmap_draw(bitmap, &in->source, in->runs, n);
		struct set_drawing drawing;
		int rc;

		if (drawn == 0)
			return 0;
		drawing = block_bitmap_drawing(bitmap, &in->source);
		rc = input_skip(in, drawn, &drawing, err);
		if (rc < 0 || drawn < n)
			return rc;
	}
	return 0;
}

static int draw_window(struct block_union *u, struct cairn_err *err)
{
	block_bitmap_move(u->bitmap, u->position);
	for (size_t i = 0; i < u->n_inputs; i++) {
		int rc = draw_input(u->bitmap, &u->inputs[i], err);

		if (rc < 0)
			return rc;
	}
	u->position = u->bitmap->end;
	u->listing = true;
	return 0;
}

/* Advances by one step, which may produce extents; `max` is at least BITMAP_LIST_MIN. */
static int union_step(struct block_union *u, struct block_extent *out, size_t max, size_t *ret_n,
		      struct cairn_err *err)
{
	struct stretch s;

	if (u->listing) {
		u->listing = !block_bitmap_list(u->bitmap, &u->run, out, max, ret_n);
		return 0;
	}
	if (u->position >= u->limit) {
		s = (struct stretch){.end = u->position};
		u->ended = true;
		return pass_stretch(u, &s, out, ret_n, err);
	}
	s = find_stretch(u);
	if (s.end > u->position &&
	    (!s.changed || s.end - u->position >= (uint64_t)STRETCH_MIN << u->shift))
		return pass_stretch(u, &s, out, ret_n, err);
	*ret_n = 0;
	return draw_window(u, err);
}

/* Fills `out` while there is room for a step. */
static int union_produce(struct block_union *u, struct block_extent *out, size_t max, size_t *ret_n,
			 struct cairn_err *err)
{
	size_t n = 0, got;
	int rc;

	while (!u->ended && max - n >= BITMAP_LIST_MIN) {
		rc = union_step(u, out + n, max - n, &got, err);
		if (rc < 0)
			return rc;
		n += got;
	}
	*ret_n = n;
	return 0;
}

/* Clips to the requested range: only the first and last extent can exceed it. */
static void union_clip(const struct block_union *u, struct block_extent *out, size_t n)
{
	uint64_t cut;

	if (n > 0 && out[0].offset < u->starting_offset) {
		cut = u->starting_offset - out[0].offset;
		out[0].offset += cut;
		out[0].length -= cut;
	}
	if (n > 0 && block_extent_end(&out[n - 1]) > u->target_size)
		out[n - 1].length = u->target_size - out[n - 1].offset;
}

/* The same into our own array, for a caller with little room. */
static int produce_ready(struct block_union *u, struct cairn_err *err)
{
	int rc;

	u->ready_next = u->ready_len = 0;
	do {
		rc = union_produce(u, u->ready, BITMAP_LIST_MIN, &u->ready_len, err);
	} while (rc == 0 && u->ready_len == 0 && !u->ended);
	union_clip(u, u->ready, u->ready_len);
	return rc;
}

/* Returns a single set unchanged. */
static int union_pass_through(struct block_union *u, struct block_extent *out, size_t max,
			      size_t *ret_n, struct cairn_err *err)
{
	size_t n;
	int rc;

	rc = block_set_reader_next(u->inputs[0].reader, out, max, &n, err);
	if (rc < 0)
		return rc;
	while (n > 0 && out[n - 1].offset >= u->target_size)
		n--;
	u->ended = n == 0;
	*ret_n = n;
	return 0;
}

int block_union_next(struct block_union *u, struct block_extent *out, size_t max, size_t *ret_n,
		     struct cairn_err *err)
{
	size_t n = 0;
	int rc = 0;

	if (u->failed)
		return cairn_err_set(err, u->failed, "the union failed before");
	if (u->ready_next == u->ready_len && !u->ended) {
		if (u->pass_through)
			rc = union_pass_through(u, out, max, &n, err);
		else if (max >= BITMAP_LIST_MIN)
			rc = union_produce(u, out, max, &n, err);
		else
			rc = produce_ready(u, err);
		if (rc < 0) {
			u->failed = rc;
			return rc;
		}
		union_clip(u, out, n);
	}
	if (n == 0) {
		n = u->ready_len - u->ready_next;
		if (n > max)
			n = max;
		memcpy(out, u->ready + u->ready_next, n * sizeof(*out));
		u->ready_next += n;
	}
	*ret_n = n;
	return 0;
}

/* Computes the common properties of the sets. */
static void look_at_inputs(struct block_union *u)
{
	for (size_t i = 0; i < u->n_inputs; i++) {
		struct input *in = &u->inputs[i];
		const struct block_set_info *info = block_set_reader_info(in->reader);

		in->source.shift = (unsigned)__builtin_ctz(info->granularity);
		in->source.volume_size = info->volume_size;
		if (in->source.shift > u->shift)
			u->shift = in->source.shift;
		/* A set that ends in the middle of a granule of the target must be rounded
		 * again. */
		u->pass_through = u->n_inputs == 1 && !in->source.zero_unknown &&
				  (info->volume_size >= u->target_size ||
				   info->volume_size % info->granularity == 0);
	}
}

static int union_start(struct block_union *u, struct cairn_err *err)
{
	uint64_t mask;
	int rc = 0;

	look_at_inputs(u);
	mask = (1ULL << u->shift) - 1;
	u->limit = (u->target_size + mask) & ~mask;
	u->position = u->starting_offset & ~mask;
	if (u->starting_offset >= u->target_size || u->n_inputs == 0) {
		u->ended = true;
		return 0;
	}
	for (size_t i = 0; i < u->n_inputs && rc == 0; i++) {
		rc = block_set_reader_seek(u->inputs[i].reader, u->position, err);
		if (rc == 0 && !u->pass_through)
			rc = input_skip(&u->inputs[i], 0, NULL, err);
	}
	if (rc < 0 || u->pass_through)
		return rc;
	u->bitmap = cairn_calloc(1, sizeof(*u->bitmap));
	if (!u->bitmap)
		return cairn_err_nomem(err, "bitmap of a union");
	u->bitmap->volume_size = u->target_size;
	u->bitmap->shift = u->shift;
	return 0;
}

int block_union_new(const struct block_union_spec *spec, struct block_union **ret,
		    struct cairn_err *err)
{
	cairn_cleanup(block_union_freep) struct block_union *u = NULL;
	size_t n = spec->n_inputs;
	int rc;

	u = n <= BLOCK_UNION_INPUTS_MAX ? cairn_calloc(1, sizeof(*u) + n * sizeof(u->inputs[0]))
					: NULL;
	for (size_t i = 0; i < n; i++) {
		if (!u) {
			block_set_reader_free(spec->inputs[i].reader);
			continue;
		}
		u->inputs[i].reader = spec->inputs[i].reader;
		u->inputs[i].source.zero_unknown = spec->inputs[i].zero_unknown;
	}
	if (!u && n > BLOCK_UNION_INPUTS_MAX)
		return cairn_err_set(err, CAIRN_NO_SPACE, "union of %zu change sets; %u at most", n,
				     BLOCK_UNION_INPUTS_MAX);
	if (!u)
		return cairn_err_nomem(err, "union");
	u->n_inputs = n;
	if (spec->target_size > BLOCK_VOLUME_SIZE_MAX)
		return cairn_err_set(err, CAIRN_INVALID, "target size is above 2^63 - 1");
	u->target_size = spec->target_size;
	u->starting_offset = spec->starting_offset;
	rc = union_start(u, err);
	if (rc < 0)
		return rc;
	*ret = cairn_take(u);
	return 0;
}

void block_union_free(struct block_union *u)
{
	if (!u)
		return;
	for (size_t i = 0; i < u->n_inputs; i++)
		block_set_reader_free(u->inputs[i].reader);
	free(u->bitmap);
	free(u);
}
