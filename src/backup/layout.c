/* SPDX-License-Identifier: Apache-2.0 */

#include "backup/layout.h"

#include <stdlib.h>
#include <string.h>

#include "backup/chunk.h"
#include "base/mem.h"
#include "repo/repo_cache.h"

#define MAGIC    "CAIRNLO1"
#define RUNS_MAX 64U /* of a segment; a segment with more is not kept */

/* Adjacent chunks of one length. */
struct run {
	uint32_t length, count;
};

struct layout {
	uint64_t count;
	struct repo_id *leaves; /* ids of the segments' trees; zeros: not known */
	uint32_t *first;        /* index in `runs` of a segment's first run */
	uint8_t *n_runs;        /* number of a segment's runs; 0: not known */
	struct run *runs;       /* also has unused runs from before a change */
	size_t n, room;
};

/* The header of the file. It is followed by leaves, n_runs and the runs, in this order. */
struct header {
	char magic[8];
	uint64_t count, n_runs;
};

void backup_layout_free(struct layout *layout)
{
	if (!layout)
		return;
	free(layout->leaves);
	free(layout->first);
	free(layout->n_runs);
	free(layout->runs);
	free(layout);
}

static bool make_arrays(struct layout *layout, uint64_t count)
{
	layout->leaves = cairn_calloc(count + 1, sizeof(*layout->leaves));
	layout->first = cairn_calloc(count + 1, sizeof(*layout->first));
	layout->n_runs = cairn_calloc(count + 1, sizeof(*layout->n_runs));
	layout->count = count;
	return layout->leaves && layout->first && layout->n_runs;
}

/* Copies the known segments of `old`. */
static bool layout_copy(struct layout *layout, const struct layout *old)
{
	uint64_t n = old->count < layout->count ? old->count : layout->count;

	memcpy(layout->leaves, old->leaves, n * sizeof(*layout->leaves));
	memcpy(layout->first, old->first, n * sizeof(*layout->first));
	memcpy(layout->n_runs, old->n_runs, n * sizeof(*layout->n_runs));
	layout->runs = cairn_alloc((old->n + 1) * sizeof(struct run));
	if (!layout->runs)
		return false;
	if (old->n > 0)
		memcpy(layout->runs, old->runs, old->n * sizeof(struct run));
	layout->n = layout->room = old->n;
	return true;
}

struct layout *backup_layout_new(uint64_t count, const struct layout *old)
{
	cairn_cleanup(backup_layout_freep) struct layout *layout = cairn_calloc(1, sizeof(*layout));

	if (!layout || !make_arrays(layout, count) || (old && !layout_copy(layout, old)))
		return NULL;
	return cairn_take(layout);
}

const struct repo_id *backup_layout_leaf(const struct layout *layout, uint64_t number)
{
	if (number >= layout->count || repo_id_is_zero(&layout->leaves[number]))
		return NULL;
	return &layout->leaves[number];
}

bool backup_layout_lengths(const struct layout *layout, uint64_t number, size_t n, uint64_t bytes,
			   uint32_t *ret)
{
	const struct run *run;
	uint64_t sum = 0;
	size_t at = 0;

	if (!backup_layout_leaf(layout, number) || layout->n_runs[number] == 0)
		return false;
	run = &layout->runs[layout->first[number]];
	for (unsigned i = 0; i < layout->n_runs[number]; i++, run++) {
		if (run->count > n - at)
			return false;
		sum += (uint64_t)run->length * run->count;
		for (uint32_t k = 0; k < run->count; k++)
			ret[at++] = run->length;
	}
	return at == n && sum == bytes;
}

void backup_layout_set_leaf(struct layout *layout, uint64_t number, const struct repo_id *leaf)
{
	if (number >= layout->count || repo_id_equal(&layout->leaves[number], leaf))
		return;
	layout->leaves[number] = *leaf;
	layout->n_runs[number] = 0;
}

static bool has_room(struct layout *layout)
{
	size_t room = layout->room + layout->room / 2 + 1024;
	void *more;

	if (layout->n + RUNS_MAX <= layout->room)
		return true;
	more = room < UINT32_MAX ? cairn_realloc_array(layout->runs, room, sizeof(struct run))
				 : NULL;
	if (!more)
		return false;
	layout->runs = more;
	layout->room = room;
	return true;
}

/* Returns the number of runs; 0 if there are too many to be kept. */
static unsigned count_runs(const struct chunk *chunks, size_t n, struct run *runs)
{
	unsigned count = 0;

	for (size_t i = 0; i < n; i++) {
		if (chunks[i].kind != CHUNK_KEPT)
			return 0;
		if (count > 0 && runs[count - 1].length == chunks[i].length) {
			runs[count - 1].count++;
			continue;
		}
		if (count == RUNS_MAX)
			return 0;
		runs[count] = (struct run){.length = chunks[i].length, .count = 1};
		count++;
	}
	return count;
}

void backup_layout_set(struct layout *layout, uint64_t number, const struct repo_id *leaf,
		       const struct chunk *chunks, size_t n)
{
	if (number >= layout->count)
		return;
	layout->leaves[number] = *leaf;
	layout->n_runs[number] = 0;
	if (!has_room(layout))
		return;
	layout->first[number] = (uint32_t)layout->n;
	layout->n_runs[number] = (uint8_t)count_runs(chunks, n, layout->runs + layout->n);
	layout->n += layout->n_runs[number];
}

/* ---- the file ---------------------------------------------------------------- */

/* Computes where the runs of each segment begin; false if their number does not match. */
static bool find_runs(struct layout *layout)
{
	uint64_t at = 0;

	for (uint64_t i = 0; i < layout->count; i++) {
		if (layout->n_runs[i] > RUNS_MAX || at > layout->n)
			return false;
		layout->first[i] = (uint32_t)at;
		at += layout->n_runs[i];
	}
	return at == layout->n;
}

static struct layout *layout_decode(const uint8_t *data, size_t n, uint64_t count)
{
	cairn_cleanup(backup_layout_freep) struct layout *layout = backup_layout_new(count, NULL);
	const size_t leaves = count * sizeof(*layout->leaves);
	struct header header;

	if (!layout || n < sizeof(header))
		return NULL;
	memcpy(&header, data, sizeof(header));
	if (memcmp(header.magic, MAGIC, sizeof(header.magic)) != 0 || header.count != count ||
	    header.n_runs > UINT32_MAX ||
	    n != sizeof(header) + leaves + count + header.n_runs * sizeof(struct run))
		return NULL;
	layout->n = layout->room = header.n_runs;
	layout->runs = cairn_calloc(header.n_runs + 1, sizeof(struct run));
	if (!layout->runs)
		return NULL;
	memcpy(layout->leaves, data + sizeof(header), leaves);
	memcpy(layout->n_runs, data + sizeof(header) + leaves, count);
	memcpy(layout->runs, data + sizeof(header) + leaves + count,
	       header.n_runs * sizeof(struct run));
	return find_runs(layout) ? cairn_take(layout) : NULL;
}

struct layout *backup_layout_load(struct repo *repo, const struct repo_id *top, uint64_t count)
{
	cairn_auto_free uint8_t *data = NULL;
	size_t n;

	if (!repo_cache_get_sealed(repo, REPO_CACHED_LAYOUT, top, &data, &n))
		return NULL;
	return layout_decode(data, n, count);
}

void backup_layout_save(struct repo *repo, const struct repo_id *top, const struct repo_id *before,
			const struct layout *layout)
{
	const size_t leaves = layout->count * sizeof(*layout->leaves);
	struct header header = {.count = layout->count};
	cairn_auto_free uint8_t *data = NULL;
	uint8_t *at;

	for (uint64_t i = 0; i < layout->count; i++)
		header.n_runs += layout->n_runs[i];
	memcpy(header.magic, MAGIC, sizeof(header.magic));
	data = cairn_alloc(sizeof(header) + leaves + layout->count +
			   header.n_runs * sizeof(struct run));
	if (!data)
		return;
	memcpy(data, &header, sizeof(header));
	memcpy(data + sizeof(header), layout->leaves, leaves);
	memcpy(data + sizeof(header) + leaves, layout->n_runs, layout->count);
	at = data + sizeof(header) + leaves + layout->count;
	for (uint64_t i = 0; i < layout->count; i++) {
		size_t n = layout->n_runs[i] * sizeof(struct run);

		if (n > 0)
			memcpy(at, &layout->runs[layout->first[i]], n);
		at += n;
	}
	if (before && !repo_id_equal(before, top))
		repo_cache_drop_sealed(repo, REPO_CACHED_LAYOUT, before);
	repo_cache_put_sealed(repo, REPO_CACHED_LAYOUT, top, data, (size_t)(at - data));
}
