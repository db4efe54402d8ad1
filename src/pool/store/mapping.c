/* SPDX-License-Identifier: Apache-2.0 */

#include "pool/store/mapping.h"

#include "base/err.h"
#include "pool/store/store.h"

/* The mapping of one side at a position. */
struct piece {
	uint64_t until; /* first offset at which something else begins */
	uint64_t place;
	uint64_t inner;
	enum mapping_kind kind;
	bool absent; /* past the end of the file: differs from everything */
};

static int cursor_fill(struct mapping_cursor *cursor, struct cairn_err *err)
{
	int rc;

	cursor->at = 0;
	cursor->n = 0;
	rc = cursor->source->next(cursor->source, cursor->batch, MAPPING_BATCH, &cursor->n, err);
	cursor->ended = rc == 0 && cursor->n == 0;
	cursor->fills++;
	cursor->seen += cursor->n;
	for (size_t i = 0; i < cursor->n; i++)
		cursor->data_bytes +=
			cursor->batch[i].kind == MAPPING_ZERO ? 0 : cursor->batch[i].length;
	return rc;
}

/* Moves to the first mapping that ends after `pos`; NULL when there is none. */
static int cursor_seek(struct mapping_cursor *cursor, uint64_t pos, const struct mapping **ret,
		       struct cairn_err *err)
{
	for (;;) {
		for (; cursor->at < cursor->n; cursor->at++) {
			const struct mapping *m = &cursor->batch[cursor->at];

			if (m->offset + m->length > pos) {
				*ret = m;
				return 0;
			}
		}
		if (cursor->ended) {
			*ret = NULL;
			return 0;
		}
		int rc = cursor_fill(cursor, err);

		if (rc)
			return rc;
	}
}

static uint64_t mapping_min_u64(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static int cursor_piece(struct mapping_cursor *cursor, uint64_t pos, struct piece *piece,
			struct cairn_err *err)
{
	const struct mapping *m;
	int rc;

	if (pos >= cursor->size) {
		*piece = (struct piece){.until = UINT64_MAX, .kind = MAPPING_ZERO, .absent = true};
		return 0;
	}
	rc = cursor_seek(cursor, pos, &m, err);
	if (rc)
		return rc;
	if (!m || m->offset > pos) {
		*piece = (struct piece){.kind = MAPPING_ZERO};
		piece->until = m ? mapping_min_u64(m->offset, cursor->size) : cursor->size;
		return 0;
	}
	*piece = (struct piece){
		.until = mapping_min_u64(m->offset + m->length, cursor->size),
		.place = m->place,
		.inner = m->inner + (pos - m->offset),
		.kind = m->kind,
	};
	return 0;
}

static bool mapping_same(const struct piece *a, const struct piece *b)
{
	if (a->absent || b->absent || a->kind != b->kind || a->kind == MAPPING_OPAQUE)
		return false;
	return a->kind == MAPPING_ZERO || (a->place == b->place && a->inner == b->inner);
}

void pool_mapping_compare_init(struct mapping_compare *compare, struct mapping_source *base,
			       uint64_t base_size, struct mapping_source *target,
			       uint64_t target_size)
{
	compare->base = (struct mapping_cursor){.source = base, .size = base_size};
	compare->target = (struct mapping_cursor){.source = target, .size = target_size};
	compare->pos = 0;
	compare->guard = NULL;
	compare->epoch = compare->fills = compare->restarts = compare->stuck_at = 0;
	compare->in_doubt = false;
}

int pool_mapping_compare_set_guard(struct mapping_compare *compare,
				   const struct mapping_guard *guard, struct cairn_err *err)
{
	struct cairn_err why = {0};
	int rc = guard->epoch(guard->arg, &compare->epoch, &why);

	if (rc == 0)
		compare->guard = guard;
	return rc == 0 || rc == CAIRN_UNIMPLEMENTED ? 0 : cairn_err_set(err, rc, "%s", why.msg);
}

static void cursor_forget(struct mapping_cursor *cursor)
{
	cursor->at = cursor->n = 0;
	cursor->ended = false;
}

void pool_mapping_compare_move(struct mapping_compare *compare, uint64_t start, uint64_t end)
{
	cursor_forget(&compare->base);
	cursor_forget(&compare->target);
	compare->target.size = end;
	compare->pos = start;
}

uint64_t pool_mapping_compare_seen(const struct mapping_compare *compare)
{
	return compare->base.seen + compare->target.seen;
}

static int report_progress(const struct mapping_compare *compare,
			   const struct store_progress *progress, struct cairn_err *err)
{
	if (!progress)
		return 0;
	if (progress->cancelled && progress->cancelled(progress->arg))
		return cairn_err_set(err, CAIRN_CANCELLED, "comparison cancelled");
	if (progress->report)
		progress->report(progress->arg, compare->pos, compare->target.size);
	return 0;
}

/* Called after a batch was read. Sets *ret_again when an address may have been reused
 * since the other side was read: both must be read again from `pos` on. */
static int check_epoch(struct mapping_compare *compare, bool *ret_again, struct cairn_err *err)
{
	const struct mapping_guard *guard = compare->guard;
	uint64_t fills = compare->base.fills + compare->target.fills, epoch;
	int rc;

	*ret_again = false;
	if (!guard || compare->in_doubt || fills == compare->fills)
		return 0;
	compare->fills = fills;
	rc = guard->epoch(guard->arg, &epoch, err);
	if (rc || epoch == compare->epoch)
		return rc;
	compare->epoch = epoch;
	compare->restarts = compare->pos == compare->stuck_at ? compare->restarts + 1 : 0;
	compare->stuck_at = compare->pos;
	compare->in_doubt = compare->restarts > MAPPING_RESTARTS_MAX;
	if (compare->in_doubt)
		return 0;
	*ret_again = true;
	cursor_forget(&compare->base);
	cursor_forget(&compare->target);
	return guard->restart(guard->arg, compare->pos, compare->target.size, err);
}

/* Skips mappings that both sides share without building pieces, because most of
 * a volume is unchanged. */
static void skip_shared(struct mapping_compare *compare)
{
	struct mapping_cursor *b = &compare->base, *t = &compare->target;

	while (!compare->in_doubt && b->at < b->n && t->at < t->n) {
		const struct mapping *mb = &b->batch[b->at], *mt = &t->batch[t->at];
		uint64_t end = mt->offset + mt->length;

		if (mb->offset != compare->pos || mt->offset != compare->pos ||
		    mb->length != mt->length || mb->kind != MAPPING_DATA ||
		    mt->kind != MAPPING_DATA || mb->place != mt->place || mb->inner != mt->inner ||
		    end > b->size || end > t->size)
			return;
		compare->pos = end;
		b->at++;
		t->at++;
	}
}

int pool_mapping_compare_run(struct mapping_compare *compare, uint64_t budget,
			     struct extent_merge *joiner, const struct store_progress *progress,
			     bool *ret_done, struct cairn_err *err)
{
	uint64_t limit = pool_mapping_compare_seen(compare), reported = UINT64_MAX;

	if (__builtin_add_overflow(limit, budget, &limit))
		limit = UINT64_MAX;
	while (compare->pos < compare->target.size) {
		uint64_t seen = pool_mapping_compare_seen(compare), end;
		struct piece b, t;
		bool again = false;
		int rc;

		if (seen != reported) {
			if (seen >= limit)
				break;
			rc = report_progress(compare, progress, err);
			if (rc)
				return rc;
			reported = seen;
		}
		skip_shared(compare);
		if (compare->pos >= compare->target.size)
			break;
		rc = cursor_piece(&compare->base, compare->pos, &b, err);
		rc = rc ? rc : cursor_piece(&compare->target, compare->pos, &t, err);
		rc = rc ? rc : check_epoch(compare, &again, err);
		if (rc)
			return rc;
		if (again)
			continue;
		end = mapping_min_u64(b.until, t.until);
		if (compare->in_doubt || !mapping_same(&b, &t))
			rc = pool_extent_merge_add(joiner, compare->pos, end - compare->pos,
						   t.kind == MAPPING_ZERO, err);
		if (rc)
			return rc;
		compare->pos = end;
	}
	*ret_done = compare->pos >= compare->target.size;
	return 0;
}

/* Adds a range to the list; false when it does not fit any more. */
static bool mapping_list_add(struct block_extent *out, size_t max, size_t *n, uint64_t from,
			     uint64_t to)
{
	if (*n > 0 && block_extent_end(&out[*n - 1]) == from) {
		out[*n - 1].length += to - from;
		return true;
	}
	if (*n == max)
		return false;
	out[(*n)++] = (struct block_extent){.offset = from, .length = to - from};
	return true;
}

int pool_mapping_allocated(struct mapping_source *source, uint64_t start, uint64_t size,
			   struct block_extent *out, size_t max, size_t *ret_n,
			   struct cairn_err *err)
{
	struct mapping batch[64];
	size_t n = 0, got;

	do {
		int rc = source->next(source, batch, sizeof(batch) / sizeof(batch[0]), &got, err);

		if (rc)
			return rc;
		for (size_t i = 0; i < got; i++) {
			uint64_t from = batch[i].offset > start ? batch[i].offset : start;
			uint64_t to = mapping_min_u64(batch[i].offset + batch[i].length, size);

			if (batch[i].kind == MAPPING_ZERO || from >= to)
				continue;
			if (!mapping_list_add(out, max, &n, from, to)) {
				*ret_n = n;
				return 0;
			}
		}
	} while (got > 0 && batch[got - 1].offset < size);
	*ret_n = n;
	return 0;
}
