/* SPDX-License-Identifier: Apache-2.0 */

#include "backup/view.h"

#include <pthread.h>
#include <string.h>

#include "backup/chunk.h"
#include "backup/image.h"
#include "base/err.h"
#include "base/lock.h"
#include "base/mem.h"
#include "repo/blob.h"

#define SLOTS_MIN 16U
#define SLOTS_MAX 4096U
#define FETCH_MAX 256U /* chunks that are fetched together */

/* A cached chunk: the most recent of those that share the slot. */
struct slot {
	size_t chunk;
	uint8_t *data; /* NULL: free */
};

struct view {
	struct repo *repo;
	struct image image;
	uint64_t *offsets; /* offsets of the chunks */

	pthread_mutex_t lock; /* guards what follows */
	struct slot *slots;
	size_t n_slots;
	uint64_t next; /* end of the last read, to detect sequential reading */
};

void backup_view_free(struct view *view)
{
	if (!view)
		return;
	for (size_t i = 0; view->slots && i < view->n_slots; i++)
		free(view->slots[i].data);
	free(view->slots);
	free(view->offsets);
	backup_image_done(&view->image);
	free(view);
}

int backup_view_new(struct repo *repo, struct image *image, struct view **ret,
		    struct cairn_err *err)
{
	cairn_cleanup(backup_view_freep) struct view *view = cairn_calloc(1, sizeof(*view));
	uint64_t longest = CHUNK_DATA_MIN;
	uint64_t offset = 0;

	if (!view) {
		backup_image_done(image);
		return cairn_err_nomem(err, "view");
	}
	pthread_mutex_init(&view->lock, NULL);
	view->repo = repo;
	view->image = *image;
	*image = (struct image){0};
	view->offsets = cairn_calloc(view->image.map.n + 1, sizeof(uint64_t));
	if (!view->offsets)
		return cairn_err_nomem(err, "view");
	for (size_t i = 0; i < view->image.map.n; i++) {
		const struct chunk *chunk = &view->image.map.at[i];

		view->offsets[i] = offset;
		offset += chunk->length;
		if (chunk->kind != CHUNK_ZERO && chunk->length > longest)
			longest = chunk->length;
	}
	view->offsets[view->image.map.n] = offset;
	view->n_slots = VIEW_CACHE_BYTES / longest;
	if (view->n_slots < SLOTS_MIN)
		view->n_slots = SLOTS_MIN;
	if (view->n_slots > SLOTS_MAX)
		view->n_slots = SLOTS_MAX;
	view->slots = cairn_calloc(view->n_slots, sizeof(*view->slots));
	if (!view->slots)
		return cairn_err_nomem(err, "view");
	*ret = cairn_take(view);
	return 0;
}

uint64_t backup_view_size(const struct view *view)
{
	return view->image.map.size;
}

/* The chunk that holds `offset`, which is below the size. */
static size_t chunk_at(const struct view *view, uint64_t offset)
{
	size_t low = 0;
	size_t high = view->image.map.n;

	while (high - low > 1) {
		size_t middle = (low + high) / 2;

		if (view->offsets[middle] <= offset)
			low = middle;
		else
			high = middle;
	}
	return low;
}

/* One read: its range, its buffer and the chunks that it needs from the repository. */
struct fetch {
	struct view *view;
	uint64_t from; /* the wanted bytes [from, to) go into `buf` */
	uint64_t to;
	uint8_t *buf;
	struct repo_id ids[FETCH_MAX];
	size_t chunks[FETCH_MAX];
	size_t n;
};

/* Copies the wanted part of a chunk. */
static void copy_part(const struct fetch *fetch, size_t chunk, const uint8_t *data)
{
	uint64_t begin = fetch->view->offsets[chunk];
	uint64_t end = fetch->view->offsets[chunk + 1];
	uint64_t from = begin > fetch->from ? begin : fetch->from;
	uint64_t to = end < fetch->to ? end : fetch->to;

	if (from >= to)
		return;
	if (data)
		memcpy(fetch->buf + (from - fetch->from), data + (from - begin), to - from);
	else
		memset(fetch->buf + (from - fetch->from), 0, to - from);
}

static int view_keep(void *arg, size_t i, const uint8_t *data, size_t n, struct cairn_err *err)
{
	struct fetch *fetch = arg;
	struct view *view = fetch->view;
	size_t chunk = fetch->chunks[i];
	struct slot *slot = &view->slots[chunk % view->n_slots];
	uint8_t *copy;

	if (n != view->image.map.at[chunk].length)
		return cairn_err_set(err, CAIRN_DATA_LOSS, "a chunk has another length");
	copy_part(fetch, chunk, data);
	copy = cairn_memdup(data, n);
	if (!copy)
		return 0; /* served, but not cached */
	cairn_scoped_lock(&view->lock);
	free(slot->data);
	*slot = (struct slot){.chunk = chunk, .data = copy};
	return 0;
}

/* Copies cached chunks and lists the missing ones. True if [from, to) continues after the
 * listed chunks. */
static bool view_look(struct fetch *fetch, bool ahead)
{
	struct view *view = fetch->view;
	const struct chunk_map *map = &view->image.map;
	uint64_t until = ahead ? fetch->to + VIEW_AHEAD_BYTES : fetch->to;
	size_t i = chunk_at(view, fetch->from);

	cairn_scoped_lock(&view->lock);
	for (; i < map->n && view->offsets[i] < until; i++) {
		const struct slot *slot = &view->slots[i % view->n_slots];

		if (map->at[i].kind == CHUNK_ZERO) {
			copy_part(fetch, i, NULL);
		} else if (slot->data && slot->chunk == i) {
			copy_part(fetch, i, slot->data);
		} else if (fetch->n < FETCH_MAX) {
			memcpy(fetch->ids[fetch->n].bytes, map->at[i].id, CHUNK_ID_BYTES);
			fetch->chunks[fetch->n++] = i;
		} else {
			return view->offsets[i] < fetch->to;
		}
	}
	return false;
}

int backup_view_read(struct view *view, uint64_t offset, void *buf, size_t n, size_t *ret_n,
		     struct cairn_err *err)
{
	uint64_t size = backup_view_size(view);
	struct fetch fetch = {.view = view, .from = offset, .buf = buf};
	bool ahead;
	bool more;

	if (offset >= size || n == 0) {
		*ret_n = 0;
		return 0;
	}
	fetch.to = n < size - offset ? offset + n : size;
	*ret_n = (size_t)(fetch.to - offset);
	pthread_mutex_lock(&view->lock);
	ahead = view->next == offset;
	view->next = fetch.to;
	pthread_mutex_unlock(&view->lock);
	do {
		int rc;

		fetch.n = 0;
		more = view_look(&fetch, ahead);
		if (fetch.n == 0)
			return 0;
		/* Read-ahead alone is not worth a request. */
		if (view->offsets[fetch.chunks[0]] >= fetch.to)
			return 0;
		rc = repo_blob_get_many(view->repo, fetch.ids, fetch.n, view_keep, &fetch, err);
		if (rc)
			return rc;
		if (more) { /* continue after the chunks that were fetched */
			uint64_t reached = view->offsets[fetch.chunks[fetch.n - 1] + 1];

			fetch.buf += reached - fetch.from;
			fetch.from = reached;
		}
	} while (more);
	return 0;
}
