/* SPDX-License-Identifier: Apache-2.0 */

#include "backup/segmented.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "backup/changed_bitmap.h"
#include "backup/content.h"
#include "backup/layout.h"
#include "backup/parent.h"
#include "backup/progress.h"
#include "backup/segment.h"
#include "backup/source.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/mem.h"
#include "base/parallel.h"
#include "repo/repo.h"

#define BATCH 1024U /* segments in memory at a time */

struct making {
	struct repo *repo;
	const struct segmented_spec *spec;
	struct segmented_result *result;
	struct segments now; /* only `groups` are set */
	uint64_t count;
	bool grown_upon;        /* the parent has segments */
	uint64_t parent_count;  /* number of the parent's segments */
	struct repo_id *leaves; /* trees of all segments; unset in groups that are kept */
	uint64_t *open;         /* groups that change */
	size_t n_open;
	uint64_t *todo; /* segments that change */
	size_t n_todo;
	bool has_zeros;
	struct repo_id zeros;  /* the tree of a segment of zeros */
	struct layout *layout; /* for the next backup; or NULL */

	/* If the parent is one file: where in it the next segment begins. */
	size_t first;
	uint64_t first_offset;

	/* The current batch: todo[at] to todo[at + n - 1]. */
	size_t at, n;
	struct segment_list lists[BATCH];
	size_t starts[BATCH], ends[BATCH]; /* indexes in `map` */
	struct chunk_map map;
	uint64_t read_before; /* bytes read by earlier batches */
};

static void making_free(struct making *m)
{
	backup_segments_done(&m->now);
	free(m->leaves);
	free(m->open);
	free(m->todo);
	backup_layout_free(m->layout);
	backup_segment_lists_done(m->lists, BATCH);
	backup_chunk_map_done(&m->map);
	free(m);
}
CAIRN_DEFINE_CLEANUP(struct making, making_free);

/* ---- what has to be done ----------------------------------------------------- */

static bool is_lost(const struct parent *parent, uint64_t first, uint64_t end)
{
	for (uint64_t i = first; parent->segments_lost && i < end; i++)
		if (parent->segments_lost[i / 64] >> i % 64 & 1)
			return true;
	return false;
}

/* True if a byte of the segments [first, end) is marked. */
static bool is_marked(const struct making *m, uint64_t first, uint64_t end)
{
	uint64_t from = first * m->now.segment;

	return backup_changed_bitmap_any(m->spec->marks, from, (end - first) * m->now.segment);
}

/* True if the parent's segments [first, end) are used unchanged. */
static bool segmented_is_kept(const struct making *m, uint64_t first, uint64_t end)
{
	const struct segments *old = &m->spec->parent->segments;

	if (!m->grown_upon || m->spec->mode != PLAN_CHANGED || end > m->parent_count)
		return false;
	return backup_segments_length(old, end - 1) == backup_segments_length(&m->now, end - 1) &&
	       !is_lost(m->spec->parent, first, end) && !is_marked(m, first, end);
}

static bool is_zeros(const struct making *m, uint64_t number)
{
	return m->spec->mode == PLAN_ALLOCATED && !is_marked(m, number, number + 1) &&
	       backup_segments_length(&m->now, number) == m->now.segment;
}

/* Stores the tree of a segment of zeros once. */
static int put_zeros(struct making *m, struct repo_id *ret, struct cairn_err *err)
{
	struct chunk chunk = {.kind = CHUNK_ZERO, .length = (uint32_t)m->now.segment};
	int rc = 0;

	if (!m->has_zeros)
		rc = backup_segment_save(m->repo, m->spec->zeros, 0, &chunk, 1, &m->zeros, err);
	m->has_zeros = rc == 0;
	*ret = m->zeros;
	return rc;
}

/* Takes the parent's trees of a group from the local cache; false if one is missing. */
static bool recall_group(const struct making *m, uint64_t group)
{
	const struct layout *layout = m->spec->parent->layout;
	uint64_t first = group * SEGMENT_GROUP;
	uint64_t end = first + backup_segments_in_group(m->parent_count, group);

	for (uint64_t k = first; k < end; k++) {
		const struct repo_id *leaf = layout ? backup_layout_leaf(layout, k) : NULL;

		if (!leaf)
			return false;
		m->leaves[k] = *leaf;
	}
	return true;
}

/* Loads the parent's trees of a group, as far as it has any. */
static int load_group(void *arg, size_t i, struct cairn_err *err)
{
	const struct making *m = arg;
	uint64_t group = m->open[i];
	uint64_t first = group * SEGMENT_GROUP;

	if (!m->grown_upon || first >= m->parent_count || recall_group(m, group))
		return 0;
	/* This cannot overrun `leaves`: a parent that was longer than the volume is not used. */
	return backup_segments_leaves(m->repo, &m->spec->parent->segments, group, m->leaves + first,
				      err);
}

static int choose_groups(struct making *m, struct cairn_err *err)
{
	int rc = m->grown_upon
			 ? backup_segments_read_groups(m->repo, &m->spec->parent->segments, err)
			 : 0;

	if (rc)
		return rc;
	for (uint64_t group = 0; group < m->now.n_groups; group++) {
		uint64_t first = group * SEGMENT_GROUP;
		uint64_t end = first + backup_segments_in_group(m->count, group);

		if (segmented_is_kept(m, first, end))
			m->now.groups[group] = m->spec->parent->segments.groups[group];
		else
			m->open[m->n_open++] = group;
	}
	return cairn_parallel_each(m->n_open, repo_get_store(m->repo)->connections, load_group, m,
				   err);
}

static int choose_segments(struct making *m, struct cairn_err *err)
{
	int rc = 0;

	for (size_t i = 0; i < m->n_open && !rc; i++) {
		uint64_t first = m->open[i] * SEGMENT_GROUP;
		uint64_t end = first + backup_segments_in_group(m->count, m->open[i]);

		for (uint64_t k = first; k < end && !rc; k++) {
			if (segmented_is_kept(m, k, k + 1))
				continue;
			if (is_zeros(m, k))
				rc = put_zeros(m, &m->leaves[k], err);
			else
				m->todo[m->n_todo++] = k;
		}
	}
	return rc;
}

/* ---- a batch ----------------------------------------------------------------- */

/* Loads the parent's chunk lists of the segments of the batch. */
static int load_lists(struct making *m, struct cairn_err *err)
{
	cairn_auto_free struct repo_id *ids = NULL;
	size_t n = 0;

	if (!m->grown_upon)
		return 0;
	ids = cairn_calloc(m->n, sizeof(*ids));
	if (!ids)
		return cairn_err_nomem(err, "segments");
	/* The segments ascend, so those that the parent does not have are the last. */
	for (; n < m->n && m->todo[m->at + n] < m->parent_count; n++)
		ids[n] = m->leaves[m->todo[m->at + n]];
	return backup_segment_lists_load(m->repo, ids, n, m->lists, err);
}

static void count_data(const struct chunk_map *map, size_t from, size_t to, uint64_t *chunks,
		       uint64_t *bytes)
{
	for (size_t i = from; i < to; i++) {
		*chunks += map->at[i].kind != CHUNK_ZERO;
		*bytes += map->at[i].kind != CHUNK_ZERO ? map->at[i].length : 0;
	}
}

/* Lists the chunks of the parent's segment. Their sizes are looked up in the index only if
 * the local layout does not have them. */
static int list_chunks(const struct making *m, size_t i, uint64_t number, struct chunk_map *map,
		       struct cairn_err *err)
{
	const struct parent *parent = m->spec->parent;
	const struct segment_list *list = &m->lists[i];
	uint64_t length = backup_segments_length(&parent->segments, number);
	cairn_auto_free uint32_t *lengths = NULL;

	if (parent->layout && list->size == length && !is_lost(parent, number, number + 1)) {
		lengths = cairn_calloc(list->n + 1, sizeof(*lengths));
		if (!lengths)
			return cairn_err_nomem(err, "segments");
		if (backup_layout_lengths(parent->layout, number, list->n, length, lengths))
			return backup_content_add_known(m->spec->zeros, map, list->ids, lengths,
							list->n, err);
	}
	return backup_segment_list_chunks(m->repo, m->spec->zeros, list, length, map, err);
}

/* Finds the parent's chunks on which a segment is planned. */
static int segmented_find_parent(struct making *m, size_t i, struct plan_segment_spec *spec,
				 struct chunk_map *own, struct cairn_err *err)
{
	const struct parent *parent = m->spec->parent;
	uint64_t number = m->todo[m->at + i], chunks = 0, bytes = 0;
	int rc;

	if (!parent->found || (m->grown_upon && number >= m->parent_count))
		return 0;
	if (!m->grown_upon) {
		const struct chunk_map *map = &parent->map;

		while (m->first < map->n &&
		       m->first_offset + map->at[m->first].length <= spec->offset)
			m->first_offset += map->at[m->first++].length;
		spec->parent = map;
		spec->first = m->first;
		spec->first_offset = m->first_offset;
		return 0;
	}
	rc = list_chunks(m, i, number, own, err);
	if (rc)
		return rc;
	spec->parent = own;
	spec->first_offset = spec->offset;
	count_data(own, 0, own->n, &chunks, &bytes);
	if (m->spec->mode == PLAN_CHANGED) {
		m->result->chunks -= chunks;
		m->result->data_bytes -= bytes;
	}
	return 0;
}

static int plan_one(struct making *m, size_t i, struct cairn_err *err)
{
	cairn_cleanup(backup_chunk_map_done) struct chunk_map own = {0};
	uint64_t offset = m->todo[m->at + i] * m->now.segment;
	struct plan_segment_spec spec = {
		.mode = m->spec->mode,
		.marks = m->spec->marks,
		.offset = offset,
		.length = m->now.segment,
		.base = m->spec->base,
		.hand = m->spec->parent->hand,
	};
	int rc = segmented_find_parent(m, i, &spec, &own, err);

	/* The gap between the segments is not read. */
	if (!rc)
		rc = backup_chunk_map_add(&m->map, CHUNK_ZERO, NULL, offset - m->map.size, err);
	m->starts[i] = m->map.barrier = m->map.n;
	if (!rc)
		rc = backup_plan_segment(&spec, &m->map, &m->result->tally, err);
	m->ends[i] = m->map.barrier = m->map.n;
	return rc;
}

static void segmented_report(void *arg, const char *step, uint64_t done, uint64_t total)
{
	const struct making *m = arg;
	uint64_t batches = (m->n_todo - m->at + BATCH - 1) / BATCH;

	backup_report(m->spec->progress, step, m->read_before + done,
		      m->read_before + total * batches);
}

static bool segmented_cancelled(void *arg)
{
	return backup_cancelled(((const struct making *)arg)->spec->progress);
}

static int read_batch(struct making *m, struct cairn_err *err)
{
	struct backup_progress progress = {
		.report = segmented_report, .cancelled = segmented_cancelled, .arg = m};
	struct reading_result got = {0};
	int rc = backup_read_chunks(m->repo, m->spec->source, &m->map, m->spec->threads, &progress,
				    &got, err);

	m->read_before += got.bytes_read;
	m->result->got.bytes_read += got.bytes_read;
	m->result->got.bytes_new += got.bytes_new;
	m->result->got.chunks_new += got.chunks_new;
	return rc;
}

static bool only_zeros(const struct making *m, size_t i)
{
	for (size_t k = m->starts[i]; k < m->ends[i]; k++)
		if (m->map.at[k].kind != CHUNK_ZERO)
			return false;
	return backup_segments_length(&m->now, m->todo[m->at + i]) == m->now.segment;
}

static int save_one(struct making *m, size_t i, struct cairn_err *err)
{
	uint64_t number = m->todo[m->at + i];
	int rc;

	count_data(&m->map, m->starts[i], m->ends[i], &m->result->chunks, &m->result->data_bytes);
	if (only_zeros(m, i))
		return put_zeros(m, &m->leaves[number], err);
	rc = backup_segment_save(m->repo, m->spec->zeros, number, m->map.at + m->starts[i],
				 m->ends[i] - m->starts[i], &m->leaves[number], err);
	if (!rc && m->layout)
		backup_layout_set(m->layout, number, &m->leaves[number], m->map.at + m->starts[i],
				  m->ends[i] - m->starts[i]);
	return rc;
}

static int segmented_run_batch(struct making *m, struct cairn_err *err)
{
	int rc = load_lists(m, err);

	backup_chunk_map_done(&m->map);
	for (size_t i = 0; i < m->n && !rc; i++)
		rc = plan_one(m, i, err);
	backup_segment_lists_done(m->lists, m->n);
	if (!rc)
		rc = read_batch(m, err);
	for (size_t i = 0; i < m->n && !rc; i++)
		rc = save_one(m, i, err);
	return rc;
}

/* ---- all --------------------------------------------------------------------- */

static void keep_leaves(struct making *m, uint64_t group)
{
	uint64_t first = group * SEGMENT_GROUP;
	uint64_t end = first + backup_segments_in_group(m->count, group);

	for (uint64_t k = first; m->layout && k < end; k++)
		backup_layout_set_leaf(m->layout, k, &m->leaves[k]);
}

static int save_groups(struct making *m, struct cairn_err *err)
{
	int rc = 0;

	for (size_t i = 0; i < m->n_open && !rc; i++) {
		uint64_t group = m->open[i];

		keep_leaves(m, group);
		rc = backup_segment_save_group(m->repo, m->leaves + group * SEGMENT_GROUP,
					       backup_segments_in_group(m->count, group),
					       &m->now.groups[group], err);
	}
	return rc ? rc
		  : backup_segment_save_groups(m->repo, m->now.groups, m->now.n_groups,
					       &m->result->top, err);
}

static int segmented_prepare(struct making *m, struct cairn_err *err)
{
	const struct parent *parent = m->spec->parent;

	m->now.size = m->spec->marks->size;
	m->now.segment = m->spec->segment;
	m->count = backup_segments_count(m->now.size, m->now.segment);
	m->now.n_groups = (m->count + SEGMENT_GROUP - 1) / SEGMENT_GROUP;
	m->grown_upon = parent->found && parent->segmented;
	if (m->grown_upon)
		m->parent_count =
			backup_segments_count(parent->segments.size, parent->segments.segment);
	if (m->grown_upon && m->spec->mode == PLAN_CHANGED) {
		m->result->chunks = parent->chunks;
		m->result->data_bytes = parent->data_bytes;
	}
	m->now.groups = cairn_calloc(m->now.n_groups, sizeof(*m->now.groups));
	m->open = cairn_calloc(m->now.n_groups, sizeof(*m->open));
	m->leaves = cairn_calloc(m->now.n_groups * SEGMENT_GROUP, sizeof(*m->leaves));
	m->todo = cairn_calloc(m->count, sizeof(*m->todo));
	if (!m->now.groups || !m->open || !m->leaves || !m->todo)
		return cairn_err_nomem(err, "segments");
	m->layout = backup_layout_new(m->count, m->grown_upon ? parent->layout : NULL);
	return 0;
}

int backup_segmented_run(struct repo *repo, const struct segmented_spec *spec,
			 struct segmented_result *ret, struct cairn_err *err)
{
	cairn_cleanup(making_freep) struct making *m = cairn_calloc(1, sizeof(*m));
	struct segmented_result result = {0};
	int rc;

	if (!m)
		return cairn_err_nomem(err, "segments");
	m->repo = repo;
	m->spec = spec;
	m->result = &result;
	rc = segmented_prepare(m, err);
	if (!rc && segmented_is_kept(m, 0, m->count)) { /* nothing changed at all */
		result.top = spec->parent->segments.top;
		result.hand = spec->parent->hand;
		*ret = result;
		return 0;
	}
	if (!rc)
		rc = choose_groups(m, err);
	if (!rc)
		rc = choose_segments(m, err);
	for (; m->at < m->n_todo && !rc; m->at += m->n) {
		m->n = m->n_todo - m->at < BATCH ? m->n_todo - m->at : BATCH;
		rc = segmented_run_batch(m, err);
	}
	if (!rc)
		rc = save_groups(m, err);
	if (rc)
		return rc;
	result.hand = (spec->parent->hand + spec->segment / 8 * 3) % spec->segment;
	result.layout = cairn_take(m->layout);
	*ret = result;
	return 0;
}
