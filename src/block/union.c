/* SPDX-License-Identifier: Apache-2.0 */

#include "block/union.h"

#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "block/bitmap.h"
#include "block/set.h"

/* Extents taken from a set at a time; what a reader delivers without a copy. */
#define BATCH 256U

/* Shortest stretch without a boundary, in granules, that is worth passing over
 * without the bitmap. */
#define STRETCH_MIN 4096U

struct input {
	struct block_set_reader *reader;
	bool zero_unknown;
	bool ended;
	size_t next; /* batch[next, len) are not dealt with */
	size_t len;
	struct block_extent *batch;
};

struct block_union {
	uint64_t target_size;
	uint64_t starting_offset;
	unsigned shift; /* log2 of the largest granularity */
	size_t n_inputs;
	bool pass_through;
	bool ended;
	int failed; /* code of the first failure; final */

	/* Every granule before `position` is decided: listed, or part of `run`,
	 * or not changed. The window, while it is listed, lies before it. */
	uint64_t position;
	uint64_t limit; /* end of the target's last granule */
	bool listing;
	struct bitmap_open_run run;
	struct bitmap *bitmap;

	/* Extents ready before the caller had room for them. */
	struct block_extent ready[BITMAP_LIST_MIN];
	size_t ready_next;
	size_t ready_len;

	struct input inputs[];
};

/* The first extent that is not dealt with, or NULL. */
static const struct block_extent *input_peek(const struct input *in)
{
	return in->next < in->len ? &in->batch[in->next] : NULL;
}

/* Takes a new batch when the old one is used up. */
static int input_fill(struct input *in, struct cairn_err *err)
{
	int rc;

	if (in->next < in->len || in->ended)
		return 0;
	rc = block_set_reader_next(in->reader, in->batch, BATCH, &in->len, err);
	if (rc < 0)
		return rc;
	in->next = 0;
	in->ended = in->len == 0;
	return 0;
}

static int fill_inputs(struct block_union *u, struct cairn_err *err)
{
	for (size_t i = 0; i < u->n_inputs; i++) {
		int rc = input_fill(&u->inputs[i], err);

		if (rc < 0)
			return rc;
	}
	return 0;
}

/* What holds from the position up to the next boundary of any input. */
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
		const struct block_extent *extent = input_peek(&u->inputs[i]);
		uint64_t boundary;

		if (!extent)
			continue;
		if (extent->offset > u->position) {
			boundary = extent->offset & ~mask;
		} else {
			boundary = block_extent_end(extent) & ~mask;
			s.changed = true;
			if (!u->inputs[i].zero_unknown)
				s.zero = extent->zero;
		}
		if (boundary < s.end)
			s.end = boundary;
	}
	return s;
}

/* Passes over a stretch; returns how many extents (0 or 1) it ended. */
static size_t pass_stretch(struct block_union *u, const struct stretch *s, struct block_extent *out)
{
	struct bitmap_open_run *run = &u->run;
	size_t n = 0;

	if (run->open && (!s->changed || s->zero != run->zero)) {
		*out = (struct block_extent){
			.offset = run->offset,
			.length = u->position - run->offset,
			.zero = run->zero,
		};
		run->open = false;
		n = 1;
	}
	if (s->changed && !run->open)
		*run = (struct bitmap_open_run){
			.open = true, .zero = s->zero, .offset = u->position};
	for (size_t i = 0; i < u->n_inputs; i++) {
		const struct block_extent *extent = input_peek(&u->inputs[i]);

		if (extent && block_extent_end(extent) <= s->end)
			u->inputs[i].next++;
	}
	u->position = s->end;
	return n;
}

static int draw_window(struct block_union *u, struct cairn_err *err)
{
	int rc;

	bitmap_move(u->bitmap, u->position);
	for (size_t i = 0; i < u->n_inputs; i++) {
		struct input *in = &u->inputs[i];

		while (in->next < in->len) {
			in->next += bitmap_draw(u->bitmap, in->batch + in->next, in->len - in->next,
						in->zero_unknown);
			if (in->next < in->len)
				break;
			rc = input_fill(in, err);
			if (rc < 0)
				return rc;
		}
	}
	u->position = u->bitmap->end;
	u->listing = true;
	return 0;
}

/* Goes one step on, which may yield extents; `max` is at least
 * BITMAP_LIST_MIN. */
static int step(struct block_union *u, struct block_extent *out, size_t max, size_t *ret_n,
		struct cairn_err *err)
{
	struct stretch s;
	int rc;

	if (u->listing) {
		u->listing = !bitmap_list(u->bitmap, &u->run, out, max, ret_n);
		return 0;
	}
	*ret_n = 0;
	if (u->position >= u->limit) {
		s = (struct stretch){.end = u->position};
		*ret_n = pass_stretch(u, &s, out);
		u->ended = true;
		return 0;
	}
	rc = fill_inputs(u, err);
	if (rc < 0)
		return rc;
	s = find_stretch(u);
	if (s.end > u->position &&
	    (!s.changed || s.end - u->position >= (uint64_t)STRETCH_MIN << u->shift)) {
		*ret_n = pass_stretch(u, &s, out);
		return 0;
	}
	return draw_window(u, err);
}

/* Fills `out` as long as there is room for a step. */
static int produce(struct block_union *u, struct block_extent *out, size_t max, size_t *ret_n,
		   struct cairn_err *err)
{
	size_t n = 0, got;
	int rc;

	while (!u->ended && max - n >= BITMAP_LIST_MIN) {
		rc = step(u, out + n, max - n, &got, err);
		if (rc < 0)
			return rc;
		n += got;
	}
	*ret_n = n;
	return 0;
}

/* Clips to what was asked for: only the ends of a listing can stand out. */
static void clip(const struct block_union *u, struct block_extent *out, size_t n)
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

/* The same into memory of our own, for a caller with little room. */
static int produce_ready(struct block_union *u, struct cairn_err *err)
{
	int rc;

	u->ready_next = u->ready_len = 0;
	do {
		rc = produce(u, u->ready, BITMAP_LIST_MIN, &u->ready_len, err);
	} while (rc == 0 && u->ready_len == 0 && !u->ended);
	clip(u, u->ready, u->ready_len);
	return rc;
}

/* One set as it is. */
static int pass_through(struct block_union *u, struct block_extent *out, size_t max, size_t *ret_n,
			struct cairn_err *err)
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
			rc = pass_through(u, out, max, &n, err);
		else if (max >= BITMAP_LIST_MIN)
			rc = produce(u, out, max, &n, err);
		else
			rc = produce_ready(u, err);
		if (rc < 0) {
			u->failed = rc;
			return rc;
		}
		clip(u, out, n);
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

static int allocate(struct block_union *u, struct cairn_err *err)
{
	u->bitmap = cairn_calloc(1, sizeof(*u->bitmap));
	if (!u->bitmap)
		return cairn_err_nomem(err, "bitmap of a union");
	u->bitmap->volume_size = u->target_size;
	u->bitmap->shift = u->shift;
	for (size_t i = 0; i < u->n_inputs; i++) {
		u->inputs[i].batch = cairn_calloc(BATCH, sizeof(struct block_extent));
		if (!u->inputs[i].batch)
			return cairn_err_nomem(err, "extents of a union");
	}
	return 0;
}

static int start(struct block_union *u, struct cairn_err *err)
{
	uint64_t mask;
	int rc = 0;

	for (size_t i = 0; i < u->n_inputs; i++) {
		const struct block_set_info *info = block_set_reader_info(u->inputs[i].reader);
		unsigned shift = (unsigned)__builtin_ctz(info->granularity);

		if (shift > u->shift)
			u->shift = shift;
		/* A set that ends in the middle of a granule of the target must
		 * be rounded again. */
		u->pass_through = u->n_inputs == 1 && !u->inputs[0].zero_unknown &&
				  (info->volume_size >= u->target_size ||
				   info->volume_size % info->granularity == 0);
	}
	mask = (1ULL << u->shift) - 1;
	u->limit = (u->target_size + mask) & ~mask;
	u->position = u->starting_offset & ~mask;
	if (u->starting_offset >= u->target_size || u->n_inputs == 0) {
		u->ended = true;
		return 0;
	}
	for (size_t i = 0; i < u->n_inputs && rc == 0; i++)
		rc = block_set_reader_seek(u->inputs[i].reader, u->position, err);
	return rc < 0 || u->pass_through ? rc : allocate(u, err);
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
		u->inputs[i].zero_unknown = spec->inputs[i].zero_unknown;
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
	rc = start(u, err);
	if (rc < 0)
		return rc;
	*ret = cairn_take(u);
	return 0;
}

void block_union_free(struct block_union *u)
{
	if (!u)
		return;
	for (size_t i = 0; i < u->n_inputs; i++) {
		block_set_reader_free(u->inputs[i].reader);
		free(u->inputs[i].batch);
	}
	free(u->bitmap);
	free(u);
}
