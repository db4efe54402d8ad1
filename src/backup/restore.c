/* SPDX-License-Identifier: Apache-2.0 */

#include "backup/restore.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "backup/changed_bitmap.h"
#include "backup/chunk.h"
#include "backup/target.h"
#include "backup/target_mark.h"
#include "backup/worker_pool.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/io.h"
#include "base/mem.h"
#include "repo/blob.h"
#include "repo/repo.h"
#include "repo/repo_store.h"

#define BATCH_CHUNKS 2048U        /* chunks that are fetched together */
#define BATCH_BYTES  (4ULL << 20) /* limit of their bytes; one chunk may exceed it */
#define BATCH_LEAST  (1ULL << 20)
#define BATCH_PARTS  10U /* a batch is at most such a part of what is left */
#define MORE_WORKERS 2U  /* more than processors: some wait for the disk */
#define LARGE_PAGE   (2U << 20)
#define BLOCK        4096U /* runs of zeros of this length are not written to a fresh target */

struct restoring {
	struct repo *repo;
	struct target *target;
	const struct restore_spec *spec;

	/* Guarded by the pool's lock. */
	size_t next;
	uint64_t offset;
	size_t held; /* index of the chunk of spec->held at `held_offset` */
	uint64_t held_offset;
	uint64_t bytes_kept;

	atomic_bool settling; /* a thread waits until an early lock is certain */
	atomic_ullong bytes_written;
	atomic_ullong bytes_zeroed;
	atomic_ullong bytes_found; /* bytes that the target already had */
};

/* True if the target already holds the chunk. Must be called in ascending order. */
static bool is_held(struct restoring *r, const struct chunk *chunk, uint64_t offset)
{
	const struct chunk_map *held = r->spec->held;
	const struct chunk *other;

	if (!held)
		return r->target->fresh && chunk->kind == CHUNK_ZERO;
	if (r->spec->changed &&
	    backup_changed_bitmap_count(r->spec->changed, offset, chunk->length).marked > 0)
		return false;
	while (r->held < held->n && r->held_offset + held->at[r->held].length <= offset)
		r->held_offset += held->at[r->held++].length;
	if (r->held == held->n)
		return false;
	other = &held->at[r->held];
	if (chunk->kind == CHUNK_ZERO) /* compare as ranges: a run of zeros may contain another */
		return other->kind == CHUNK_ZERO &&
		       r->held_offset + other->length >= offset + chunk->length;
	return other->kind == chunk->kind && r->held_offset == offset &&
	       other->length == chunk->length && memcmp(other->id, chunk->id, CHUNK_ID_BYTES) == 0;
}

/* The last batches are smaller, so that all workers have something to do until the end. */
static uint64_t restore_limit(const struct restoring *r)
{
	uint64_t part = (r->spec->map->size - r->offset) / BATCH_PARTS;

	return part >= BATCH_BYTES ? BATCH_BYTES : part > BATCH_LEAST ? part : BATCH_LEAST;
}

static bool restore_take(void *arg, struct worker_task *task)
{
	struct restoring *r = arg;
	const struct chunk_map *map = r->spec->map;
	uint64_t limit;

	while (r->next < map->n && is_held(r, &map->at[r->next], r->offset)) {
		if (r->spec->held)
			r->bytes_kept += map->at[r->next].length;
		else /* zeros stay a hole */
			atomic_fetch_add(&r->bytes_zeroed, map->at[r->next].length);
		r->offset += map->at[r->next++].length;
	}
	if (r->next == map->n)
		return false;
	*task = (struct worker_task){.first = r->next, .offset = r->offset};
	limit = restore_limit(r);
	do {
		task->bytes += map->at[r->next].length;
		r->offset += map->at[r->next++].length;
	} while (r->next < map->n && r->next - task->first < BATCH_CHUNKS &&
		 task->bytes + map->at[r->next].length <= limit &&
		 !is_held(r, &map->at[r->next], r->offset));
	task->end = r->next;
	return true;
}

static int restore_punch(struct restoring *r, uint64_t offset, uint64_t length,
			 struct cairn_err *err)
{
	atomic_fetch_add(&r->bytes_zeroed, length);
	return backup_target_zero(r->target, offset, length, err);
}

/* A batch in progress: its blobs are placed one after the other in the buffer,
 * so that contiguous ranges of the volume are written at once. */
struct batch {
	struct restoring *restoring;
	struct repo_id ids[BATCH_CHUNKS];
	struct repo_blob_room rooms[BATCH_CHUNKS];
	uint64_t offsets[BATCH_CHUNKS]; /* offset in the volume */
	size_t n;
	uint8_t *memory;
	uint8_t *buffer; /* part of it, aligned for direct I/O */
	size_t buffer_bytes;
};

static bool block_is_zero(const uint8_t *data, size_t n)
{
	return data[0] == 0 && memcmp(data, data + 1, n - 1) == 0;
}

/* Writes the blocks that are not zeros. */
static int write_sparse(const struct target *target, const uint8_t *data, size_t n, uint64_t offset,
			struct cairn_err *err)
{
	size_t from = 0;
	int rc = 0;

	for (size_t at = 0; rc == 0 && at < n; at += BLOCK) {
		size_t part = n - at < BLOCK ? n - at : BLOCK;

		if (!block_is_zero(data + at, part))
			continue;
		if (at > from)
			rc = backup_target_write(target, data + from, at - from, offset + from,
						 err);
		from = at + part;
	}
	return rc == 0 && from < n
		       ? backup_target_write(target, data + from, n - from, offset + from, err)
		       : rc;
}

static int make_buffer(struct batch *batch, size_t n, struct cairn_err *err)
{
	if (batch->buffer_bytes >= n)
		return 0;
	free(batch->memory);
	batch->buffer_bytes = 0;
	batch->memory = cairn_alloc(n + LARGE_PAGE);
	if (!batch->memory)
		return cairn_err_nomem(err, "what is restored");
	batch->buffer = batch->memory + (LARGE_PAGE - (uintptr_t)batch->memory % LARGE_PAGE);
	/* For direct I/O the kernel looks up each page of the buffer: huge pages make that
	 * fewer. */
	(void)madvise(batch->buffer, n, MADV_HUGEPAGE);
	batch->buffer_bytes = n;
	return 0;
}

static int write_run(struct restoring *r, const uint8_t *data, size_t n, uint64_t offset,
		     struct cairn_err *err)
{
	int rc = r->target->fresh ? write_sparse(r->target, data, n, offset, err)
				  : backup_target_write(r->target, data, n, offset, err);

	if (rc == 0)
		atomic_fetch_add(&r->bytes_written, n);
	return rc;
}

static int write_batch(struct restoring *r, const struct batch *batch, struct cairn_err *err)
{
	int rc = 0;

	for (size_t i = 0, next; rc == 0 && i < batch->n; i = next) {
		uint64_t n = batch->rooms[i].n;

		for (next = i + 1; next < batch->n && batch->offsets[next] == batch->offsets[i] + n;
		     next++)
			n += batch->rooms[next].n;
		rc = write_run(r, batch->rooms[i].at, n, batch->offsets[i], err);
	}
	return rc;
}

/* Reads the target's bytes into the chunk's place in the buffer; *ret_found says whether
 * they are the chunk. */
static int find_chunk(const struct restoring *r, const struct batch *batch, size_t i,
		      bool *ret_found, struct cairn_err *err)
{
	const struct repo_blob_room *room = &batch->rooms[i];
	ssize_t got = cairn_pread_full(r->target->fd, room->at, room->n, batch->offsets[i]);
	struct repo_id id;

	if (got < 0)
		return cairn_err_sys(err, errno, "read at %" PRIu64, batch->offsets[i]);
	if ((size_t)got == room->n && !repo_id_of(room->at, room->n, &id))
		return cairn_err_nomem(err, "hash");
	*ret_found = (size_t)got == room->n && repo_id_equal(&id, &batch->ids[i]);
	return 0;
}

/* Drops chunks from the batch that an interrupted restore has already written. */
static int leave_out_found(struct restoring *r, struct batch *batch, struct cairn_err *err)
{
	size_t n = 0;

	for (size_t i = 0; i < batch->n; i++) {
		bool found = false;
		int rc = find_chunk(r, batch, i, &found, err);

		if (rc)
			return rc;
		if (found) {
			atomic_fetch_add(&r->bytes_found, batch->rooms[i].n);
			continue;
		}
		batch->ids[n] = batch->ids[i];
		batch->rooms[n] = batch->rooms[i];
		batch->offsets[n++] = batch->offsets[i];
	}
	batch->n = n;
	return 0;
}

static int restore_fetch(struct restoring *r, struct batch *batch, size_t bytes,
			 struct cairn_err *err)
{
	uint8_t *at;
	int rc = make_buffer(batch, bytes, err);

	at = batch->buffer;
	for (size_t i = 0; rc == 0 && i < batch->n; i++) {
		batch->rooms[i].at = at;
		at += batch->rooms[i].n;
	}
	if (rc == 0 && r->target->resumes)
		rc = leave_out_found(r, batch, err);
	if (rc == 0 && batch->n > 0)
		rc = repo_blob_get_into(r->repo, batch->ids, batch->rooms, batch->n, err);
	return rc < 0 ? rc : write_batch(r, batch, err);
}

/* One thread waits until the early lock is certain while the others work, so that a restore
 * that has to start over does so early. */
static int settle_once(struct restoring *r, struct cairn_err *err)
{
	return atomic_exchange(&r->settling, true) ? 0 : repo_settle(r->repo, err);
}

static int restore_work(void *arg, void *worker, const struct worker_task *task,
			struct cairn_err *err)
{
	struct restoring *r = arg;
	struct batch *batch = worker;
	uint64_t offset = task->offset;
	size_t bytes = 0;
	int rc = 0;

	batch->n = 0;
	for (size_t i = task->first; i < task->end; i++) {
		const struct chunk *chunk = &r->spec->map->at[i];

		if (chunk->kind == CHUNK_ZERO) {
			rc = restore_punch(r, offset, chunk->length, err);
			if (rc)
				return rc;
		} else {
			memcpy(batch->ids[batch->n].bytes, chunk->id, CHUNK_ID_BYTES);
			batch->rooms[batch->n].n = chunk->length;
			batch->offsets[batch->n++] = offset;
			bytes += chunk->length;
		}
		offset += chunk->length;
	}
	if (batch->n)
		rc = restore_fetch(r, batch, bytes, err);
	return rc ? rc : settle_once(r, err);
}

static int restore_start(void *arg, void **ret, struct cairn_err *err)
{
	struct batch *batch = cairn_calloc(1, sizeof(*batch));

	if (!batch)
		return cairn_err_nomem(err, "worker");
	batch->restoring = arg;
	*ret = batch;
	return 0;
}

static void restore_stop(void *arg, void *worker)
{
	struct batch *batch = worker;

	(void)arg;
	free(batch->memory);
	free(batch);
}

/* A store behind a network is asked by each worker over a connection of its own. */
static unsigned restore_workers(struct repo *repo)
{
	unsigned workers = backup_worker_pool_size() + MORE_WORKERS;
	unsigned connections = repo_get_store(repo)->connections;

	return connections > workers ? connections : workers;
}

int backup_restore_write(struct repo *repo, struct target *target, const struct restore_spec *spec,
			 struct restore_result *ret, struct cairn_err *err)
{
	struct restoring restoring = {.repo = repo, .target = target, .spec = spec};
	struct worker_pool pool = {
		.take = restore_take,
		.work = restore_work,
		.start = restore_start,
		.stop = restore_stop,
		.arg = &restoring,
		.step = "restoring",
		.total = spec->map->size,
		.progress = spec->progress,
	};
	int rc = target->resumes ? backup_target_drop_cache(target, err) : 0;

	if (!rc)
		rc = backup_worker_pool_run(
			&pool, spec->threads ? spec->threads : restore_workers(repo), err);
	if (!rc)
		rc = backup_target_mark_replace(target, err);
	if (rc)
		return rc;
	*ret = (struct restore_result){
		.bytes_written = restoring.bytes_written,
		.bytes_zeroed = restoring.bytes_zeroed,
		.bytes_kept = restoring.bytes_kept + restoring.bytes_found,
	};
	return 0;
}
