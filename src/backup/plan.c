/* SPDX-License-Identifier: Apache-2.0 */

#include "backup/plan.h"

#include "backup/changed_bitmap.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/mem.h"

/* No data chunk crosses a window, so windows are planned one by one. */
#define WINDOW      CHUNK_DATA_MAX
#define PARTS_MAX   (WINDOW / CHUNK_DATA_MIN + 1)
#define MERGE_SHARE 4 /* merging may add one part in this many to the bytes that are read */

/* A piece of the parent within the window. */
struct part {
	uint64_t offset;
	uint64_t length;
	const uint8_t *id; /* NULL: zeros */
	bool lost;         /* must be read, with the same boundaries and thus the same id */
	bool clipped;      /* part of a chunk that is longer than the window */
};

/* A chunk of the parent and its offset. */
struct start {
	size_t chunk;
	uint64_t offset;
};

struct planner {
	const struct plan_spec *spec;
	uint64_t size;
	uint64_t base;
	uint64_t leaf;

	uint64_t windows;
	struct start *starts; /* for each window, the chunk of the parent where it begins */
	uint64_t hand;        /* the window where merging continues, as the hand of a clock */
	uint64_t merge;       /* number of windows that are merged from there on */

	/* State of the current window. */
	bool merging;
	uint64_t merge_from; /* nothing before this offset is merged */
	uint64_t merge_most; /* bytes that may be read for merging */
	uint64_t excess;     /* chunks that merging should save */
	struct part parts[PARTS_MAX];
	size_t n_parts;

	struct chunk_map *map; /* NULL: only count */
	struct plan_tally total;
	struct cairn_err *err;
};

uint64_t backup_plan_base(uint64_t data_bytes, uint64_t budget)
{
	uint64_t base = PLAN_BASE_MIN;

	while (base < CHUNK_DATA_MAX && data_bytes / base > budget * 6 / 10)
		base *= 2;
	return base;
}

static int plan_emit(struct planner *p, enum chunk_kind kind, const uint8_t *id, uint64_t length)
{
	p->total.chunks += kind != CHUNK_ZERO;
	if (kind == CHUNK_READ) {
		p->total.read_bytes += length;
		p->total.read_chunks++;
	}
	return p->map ? backup_chunk_map_add(p->map, kind, id, length, p->err) : 0;
}

/* Loads the parent's parts of [start, end); after its end there are zeros. */
static void load_window(struct planner *p, const struct start *at, uint64_t start, uint64_t end)
{
	const struct chunk_map *parent = p->spec->parent;
	uint64_t offset = at->offset;
	uint64_t reached = start;

	p->n_parts = 0;
	for (size_t i = at->chunk; parent && i < parent->n && offset < end; i++) {
		const struct chunk *chunk = &parent->at[i];
		uint64_t from = offset > start ? offset : start;

		offset += chunk->length;
		reached = offset < end ? offset : end;
		p->parts[p->n_parts++] =
			(struct part){.offset = from,
				      .length = reached - from,
				      .id = chunk->kind == CHUNK_ZERO ? NULL : chunk->id,
				      .lost = chunk->kind == CHUNK_LOST,
				      .clipped = reached - from != chunk->length};
	}
	if (reached < end)
		p->parts[p->n_parts++] = (struct part){.offset = reached, .length = end - reached};
}

/* The first part that ends after `offset`. */
static size_t part_at(const struct planner *p, uint64_t offset)
{
	size_t low = 0;
	size_t high = p->n_parts;

	while (low < high) {
		size_t middle = (low + high) / 2;

		if (p->parts[middle].offset + p->parts[middle].length <= offset)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/* The parent's parts within a node. */
struct below {
	size_t first;
	size_t end;
	size_t data; /* number of chunks that are not zeros */
	bool inside; /* the node is a part of one data chunk */
	bool lost;   /* one of the chunks is lost */
};

static struct below look_below(const struct planner *p, uint64_t offset, uint64_t end)
{
	struct below below = {.first = part_at(p, offset)};

	for (below.end = below.first; below.end < p->n_parts && p->parts[below.end].offset < end;
	     below.end++) {
		const struct part *part = &p->parts[below.end];

		if (part->id) {
			below.data++;
			below.lost |= part->lost;
			below.inside |= part->clipped || part->offset < offset ||
					part->offset + part->length > end;
		}
	}
	return below;
}

static enum chunk_kind plan_kind_of(const struct part *part)
{
	if (!part->id)
		return CHUNK_ZERO;
	return part->lost ? CHUNK_READ : CHUNK_KEPT;
}

static bool may_merge(const struct planner *p, uint64_t offset, uint64_t length,
		      const struct below *below)
{
	return p->merging && length <= p->base && below->data > 1 && !below->lost &&
	       offset >= p->merge_from && below->data <= p->excess + 1 &&
	       p->total.merged_bytes + length <= p->merge_most;
}

/* Emits a node without changes: zeros, the chunks of the parent, or one merged chunk. */
static int plan_keep(struct planner *p, uint64_t offset, uint64_t end, const struct below *below)
{
	if (below->data == 0)
		return plan_emit(p, CHUNK_ZERO, NULL, end - offset);
	if (below->inside)
		return plan_emit(p, CHUNK_READ, NULL, end - offset);
	if (may_merge(p, offset, end - offset, below)) {
		p->excess -= below->data - 1;
		p->total.merged_bytes += end - offset;
		return plan_emit(p, CHUNK_READ, NULL, end - offset);
	}
	for (size_t i = below->first; i < below->end; i++) {
		const struct part *part = &p->parts[i];
		uint64_t from = part->offset > offset ? part->offset : offset;
		uint64_t to = part->offset + part->length < end ? part->offset + part->length : end;
		int rc = plan_emit(p, plan_kind_of(part), part->id, to - from);

		if (rc)
			return rc;
	}
	return 0;
}

enum verdict { KEEP, ZERO, READ, SPLIT };

static enum verdict judge_changed(const struct planner *p, uint64_t length,
				  const struct backup_changed_bitmap_count *count,
				  const struct below *below)
{
	if (count->marked == 0) {
		/* A node above the base size may contain chunks that are worth merging. */
		bool split = p->merging && length > p->base && below->data > 1;

		return split ? SPLIT : KEEP;
	}
	if (count->zero == count->granules)
		return ZERO;
	if (length <= p->leaf)
		return READ;
	if (count->marked < count->granules || length > p->base)
		return SPLIT;
	return 2 * count->zero >= count->granules ? SPLIT : READ;
}

/* Keeps the boundaries of the parent's chunks, so that unchanged data keeps its ids. */
static enum verdict judge_allocated(const struct planner *p, uint64_t length,
				    const struct backup_changed_bitmap_count *count,
				    const struct below *below)
{
	if (count->marked == 0)
		return ZERO;
	if (below->data == 0)
		return length <= p->base ? READ : SPLIT;
	return below->end - below->first == 1 || length <= CHUNK_DATA_MIN ? READ : SPLIT;
}

static int plan_node(struct planner *p, uint64_t offset, uint64_t length)
{
	uint64_t end = offset + length < p->size ? offset + length : p->size;
	struct backup_changed_bitmap_count count;
	struct below below;
	enum verdict verdict;
	int rc;

	if (offset >= p->size)
		return 0;
	count = backup_changed_bitmap_count(p->spec->marks, offset, end - offset);
	below = look_below(p, offset, end);
	if (p->spec->fixed)
		verdict = length > p->spec->fixed         ? SPLIT
			  : count.marked                  ? READ
			  : p->spec->mode == PLAN_CHANGED ? KEEP
							  : ZERO;
	else if (p->spec->mode == PLAN_CHANGED)
		verdict = judge_changed(p, length, &count, &below);
	else
		verdict = judge_allocated(p, length, &count, &below);
	switch (verdict) {
	case KEEP:
		return plan_keep(p, offset, end, &below);
	case ZERO:
		return plan_emit(p, CHUNK_ZERO, NULL, end - offset);
	case READ:
		return plan_emit(p, CHUNK_READ, NULL, end - offset);
	case SPLIT:
		break;
	}
	rc = plan_node(p, offset, length / 2);
	return rc ? rc : plan_node(p, offset + length / 2, length / 2);
}

/* Plans one window. */
static int plan_window(struct planner *p, uint64_t window, bool merging)
{
	uint64_t start = window * WINDOW;
	uint64_t end = start + WINDOW < p->size ? start + WINDOW : p->size;

	load_window(p, &p->starts[window], start, end);
	p->merging = merging;
	p->merge_from = 0;
	p->merge_most = p->excess = UINT64_MAX - 1;
	return plan_node(p, start, WINDOW);
}

/* Plans the volume. Merges `merge` windows, beginning at the hand and wrapping around. */
static int plan_pass(struct planner *p)
{
	p->total = (struct plan_tally){0};
	for (uint64_t window = 0; window < p->windows; window++) {
		uint64_t behind = (window + p->windows - p->hand) % p->windows;
		int rc = plan_window(p, window, behind < p->merge);

		if (rc)
			return rc;
	}
	return 0;
}

/* Extends the merged windows until `excess` chunks are saved, or `most` bytes would have to
 * be read. */
static int move_hand(struct planner *p, uint64_t excess, uint64_t most)
{
	struct plan_tally before = p->total;
	uint64_t saved = 0;
	uint64_t bytes = 0;

	for (p->merge = 0; p->merge < p->windows && saved < excess && bytes < most; p->merge++) {
		uint64_t window = (p->hand + p->merge) % p->windows;
		struct plan_tally plain;
		int rc;

		p->total = (struct plan_tally){0};
		rc = plan_window(p, window, false);
		plain = p->total;
		p->total = (struct plan_tally){0};
		if (!rc)
			rc = plan_window(p, window, true);
		if (rc)
			return rc;
		saved += plain.chunks - p->total.chunks;
		bytes += p->total.merged_bytes;
	}
	p->total = before;
	p->total.chunks -= saved;
	return 0;
}

/* Chooses the smallest leaf that keeps the number of chunks within the budget. */
static int plan_choose(struct planner *p, uint64_t budget)
{
	for (p->leaf = CHUNK_DATA_MIN;; p->leaf *= 2) {
		int rc;

		p->merge = 0;
		rc = plan_pass(p);
		if (rc || p->total.chunks <= budget || p->spec->mode != PLAN_CHANGED ||
		    p->spec->fixed)
			return rc;
		rc = move_hand(p, p->total.chunks - budget, p->total.read_bytes / MERGE_SHARE);
		if (rc || p->total.chunks <= budget || p->leaf >= p->base)
			return rc;
	}
}

/* Finds for each window the chunk of the parent where it begins. */
static int find_starts(struct planner *p, struct cairn_err *err)
{
	const struct chunk_map *parent = p->spec->parent;
	struct start at = {0};

	p->windows = (p->size + WINDOW - 1) / WINDOW;
	p->starts = cairn_calloc(p->windows + 1, sizeof(*p->starts));
	if (!p->starts)
		return cairn_err_nomem(err, "plan");
	for (uint64_t window = 0; window < p->windows; window++) {
		while (parent && at.chunk < parent->n &&
		       at.offset + parent->at[at.chunk].length <= window * WINDOW)
			at.offset += parent->at[at.chunk++].length;
		p->starts[window] = at;
	}
	p->hand = p->windows ? p->spec->hand / WINDOW % p->windows : 0;
	return 0;
}

static uint64_t plan_data_bytes(const struct plan_spec *spec)
{
	uint64_t bytes = 0;

	if (!spec->parent || spec->mode == PLAN_ALLOCATED)
		return spec->marks->bytes;
	for (size_t i = 0; i < spec->parent->n; i++)
		if (spec->parent->at[i].kind != CHUNK_ZERO)
			bytes += spec->parent->at[i].length;
	return bytes;
}

static int plan_do_make(struct planner *p, uint64_t budget, struct chunk_map *map,
			struct cairn_err *err)
{
	int rc = find_starts(p, err);

	p->base = backup_plan_base(plan_data_bytes(p->spec), budget);
	if (!rc)
		rc = plan_choose(p, budget);
	p->map = map;
	return rc ? rc : plan_pass(p);
}

int backup_plan_make(const struct plan_spec *spec, struct plan *ret, struct cairn_err *err)
{
	cairn_cleanup(backup_chunk_map_done) struct chunk_map map = {0};
	struct planner p = {.spec = spec, .size = spec->marks->size, .err = err};
	int rc;

	if (spec->parent && spec->parent->size > p.size)
		return cairn_err_set(err, CAIRN_PRECONDITION, "the volume was longer before");
	rc = plan_do_make(&p, spec->budget ? spec->budget : PLAN_BUDGET, &map, err);
	free(p.starts);
	if (rc)
		return rc;
	*ret = (struct plan){
		.map = map,
		.base = p.base,
		.leaf = p.leaf,
		.hand = p.windows ? (p.hand + p.merge) % p.windows * WINDOW : 0,
		.chunks = p.total.chunks,
		.read_bytes = p.total.read_bytes,
		.read_chunks = p.total.read_chunks,
		.merged_bytes = p.total.merged_bytes,
	};
	map = (struct chunk_map){0};
	return 0;
}

/* ---- one segment ------------------------------------------------------------- */

/* Limits of a segment's chunks, as multiples of the number of chunks of base size: above
 * the first, unchanged chunks are merged; above the second, changes are split less
 * finely. */
#define SEGMENT_SOFT 2
#define SEGMENT_HARD 4

uint64_t backup_plan_segment_base(uint64_t data_bytes)
{
	uint64_t base = PLAN_SEGMENT_BASE;

	for (uint64_t most = PLAN_SEGMENT_DATA; base < CHUNK_DATA_MAX && data_bytes > most;
	     most *= 4)
		base *= 2;
	return base;
}

static int pass_segment(struct planner *p, const struct plan_segment_spec *spec, bool merging)
{
	uint64_t read = p->total.read_bytes;

	p->total = (struct plan_tally){0};
	p->merging = merging;
	p->merge_from = spec->offset + spec->hand % spec->length;
	p->merge_most = read / MERGE_SHARE > p->base ? read / MERGE_SHARE : p->base;
	return plan_node(p, spec->offset, spec->length);
}

int backup_plan_segment(const struct plan_segment_spec *spec, struct chunk_map *map,
			struct plan_tally *tally, struct cairn_err *err)
{
	struct plan_spec whole = {.mode = spec->mode, .parent = spec->parent, .marks = spec->marks};
	struct planner p = {
		.spec = &whole, .size = spec->marks->size, .base = spec->base, .err = err};
	uint64_t end = spec->offset + spec->length < p.size ? spec->offset + spec->length : p.size;
	uint64_t most = spec->length / spec->base;
	struct start at = {.chunk = spec->first, .offset = spec->first_offset};
	int rc;

	load_window(&p, &at, spec->offset, end);
	for (p.leaf = CHUNK_DATA_MIN;; p.leaf *= 2) {
		rc = pass_segment(&p, spec, false);
		if (rc || p.total.chunks <= most * SEGMENT_HARD || p.leaf >= p.base)
			break;
	}
	if (rc)
		return rc;
	/* Segments without changes are not merged, because that would rewrite them. */
	if (p.total.read_bytes > 0 && p.total.chunks > most * SEGMENT_SOFT)
		p.excess = p.total.chunks - most * SEGMENT_SOFT;
	p.map = map;
	rc = pass_segment(&p, spec, spec->mode == PLAN_CHANGED && p.excess > 0);
	tally->chunks += p.total.chunks;
	tally->read_bytes += p.total.read_bytes;
	tally->read_chunks += p.total.read_chunks;
	tally->merged_bytes += p.total.merged_bytes;
	return rc;
}

void backup_plan_done(struct plan *plan)
{
	backup_chunk_map_done(&plan->map);
}
