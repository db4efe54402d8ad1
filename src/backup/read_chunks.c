/* SPDX-License-Identifier: Apache-2.0 */

#include "backup/read_chunks.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>

#include "backup/chunk.h"
#include "backup/source.h"
#include "backup/worker_pool.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/mem.h"
#include "pool/store/store.h"
#include "repo/blob.h"
#include "repo/sha256_pair.h"

#define BATCH_BYTES (1U << 20) /* bytes that a thread takes at a time */

struct reading {
	struct repo *repo;
	struct backup_source *source;
	struct chunk_map *map;
	size_t buffer_bytes;

	/* Guarded by the pool's lock: where the search for the next task begins. */
	size_t next;
	uint64_t offset;

	atomic_ullong bytes_read;
	atomic_ullong chunks_new;
	atomic_ullong bytes_new;
};

struct worker {
	struct store_reader *reader;
	struct repo_blob_batch *batch;
	uint8_t *buffer;
};

/* Takes the next chunks, up to a limit of bytes. Chunks between them that are not read do
 * not count. */
static bool read_chunks_take(void *arg, struct worker_task *task)
{
	struct reading *reading = arg;
	const struct chunk_map *map = reading->map;

	while (reading->next < map->n && map->at[reading->next].kind != CHUNK_READ)
		reading->offset += map->at[reading->next++].length;
	if (reading->next == map->n)
		return false;
	*task = (struct worker_task){.first = reading->next, .offset = reading->offset};
	for (; reading->next < map->n; reading->next++) {
		const struct chunk *chunk = &map->at[reading->next];
		uint32_t more = chunk->kind == CHUNK_READ ? chunk->length : 0;

		if (task->bytes + more > reading->buffer_bytes)
			break;
		task->bytes += more;
		reading->offset += chunk->length;
	}
	task->end = reading->next;
	return true;
}

static bool read_chunks_all_zero(const uint8_t *data, size_t n)
{
	return data[0] == 0 && memcmp(data, data + 1, n - 1) == 0;
}

/* Chunks that are hashed together, the second one right behind the first. */
struct pair {
	struct repo_id ids[2];
	bool zero[2];
};

/* Hashes one chunk, or two of the same length. Those of all zeros have no hash. */
static int hash_pair(struct pair *pair, const uint8_t *data, uint32_t length, unsigned n,
		     struct cairn_err *err)
{
	const void *const parts[2] = {data, data + length};
	bool ok = true;

	for (unsigned i = 0; i < n; i++)
		pair->zero[i] = read_chunks_all_zero(parts[i], length);
	if (n == 2 && !pair->zero[0] && !pair->zero[1])
		ok = repo_id_of_pair(parts, length, pair->ids);
	else
		for (unsigned i = 0; i < n && ok; i++)
			ok = pair->zero[i] || repo_id_of(parts[i], length, &pair->ids[i]);
	return ok ? 0 : cairn_err_nomem(err, "a hash");
}

static int read_chunks_store(struct reading *reading, struct worker *worker, const uint8_t *data,
			     const struct repo_id *id, struct chunk *chunk, struct cairn_err *err)
{
	bool new = false;
	int rc = repo_blob_batch_add(worker->batch, id, data, chunk->length, &new, err);

	if (rc)
		return rc;
	memcpy(chunk->id, id->bytes, sizeof(chunk->id));
	chunk->kind = CHUNK_KEPT;
	atomic_fetch_add(&reading->chunks_new, new);
	atomic_fetch_add(&reading->bytes_new, new ? chunk->length : 0);
	return 0;
}

/* A run of adjacent chunks [first, end) of a task that are to be read, the first at `offset`. */
struct run {
	size_t first;
	size_t end;
	uint64_t offset;
	uint64_t bytes;
};

/* Advances to the next run; to the first if *run is { .end = task->first }. */
static bool next_run(const struct chunk_map *map, const struct worker_task *task, struct run *run)
{
	size_t i = run->end;
	uint64_t offset = run->offset + run->bytes;

	for (; i < task->end && map->at[i].kind != CHUNK_READ; i++)
		offset += map->at[i].length;
	if (i == task->end)
		return false;
	*run = (struct run){.first = i, .offset = offset};
	for (; i < task->end && map->at[i].kind == CHUNK_READ; i++)
		run->bytes += map->at[i].length;
	run->end = i;
	return true;
}

static int store_run(struct reading *reading, struct worker *worker, const struct run *run,
		     struct cairn_err *err)
{
	struct chunk *chunks = reading->map->at;
	const uint8_t *at = worker->buffer;
	unsigned n;
	int rc = 0;

	for (size_t i = run->first; i < run->end && !rc; i += n) {
		uint32_t length = chunks[i].length;
		struct pair pair;

		n = i + 1 < run->end && chunks[i + 1].length == length ? 2 : 1;
		rc = hash_pair(&pair, at, length, n, err);
		for (unsigned k = 0; k < n && !rc; k++, at += length) {
			if (pair.zero[k])
				chunks[i + k].kind = CHUNK_ZERO;
			else
				rc = read_chunks_store(reading, worker, at, &pair.ids[k],
						       &chunks[i + k], err);
		}
	}
	return rc;
}

static int read_run(struct reading *reading, struct worker *worker, const struct run *run,
		    struct cairn_err *err)
{
	size_t n = 0;
	int rc = pool_store_reader_read(worker->reader, run->offset, worker->buffer, run->bytes, &n,
					err);

	if (rc)
		return rc;
	if (n != run->bytes)
		return cairn_err_set(err, CAIRN_DATA_LOSS,
				     "the snapshot ends at %" PRIu64 ", before its size",
				     run->offset + n);
	atomic_fetch_add(&reading->bytes_read, n);
	return store_run(reading, worker, run, err);
}

/* All runs are requested before waiting for the first, because a disk serves many requests
 * in the time of one. The second pass finds the same runs: reading a chunk changes its
 * kind, but not those behind it. */
static int read_chunks_work(void *arg, void *worker_arg, const struct worker_task *task,
			    struct cairn_err *err)
{
	struct reading *reading = arg;
	struct worker *worker = worker_arg;
	struct run run = {.end = task->first, .offset = task->offset};
	int rc = 0;

	while (next_run(reading->map, task, &run))
		if (run.bytes < task->bytes)
			pool_store_reader_ahead(worker->reader, run.offset, run.bytes);
	run = (struct run){.end = task->first, .offset = task->offset};
	while (!rc && next_run(reading->map, task, &run))
		rc = read_run(reading, worker, &run, err);
	if (rc) { /* what was read is kept for the next attempt */
		(void)repo_blob_batch_end(worker->batch, NULL);
		return rc;
	}
	return repo_blob_batch_end(worker->batch, err);
}

static void read_chunks_stop(void *arg, void *worker_arg)
{
	struct worker *worker = worker_arg;

	(void)arg;
	pool_store_reader_freep(&worker->reader);
	repo_blob_batch_free(worker->batch);
	free(worker->buffer);
	free(worker);
}

static int read_chunks_start(void *arg, void **ret, struct cairn_err *err)
{
	struct reading *reading = arg;
	struct worker *worker = cairn_calloc(1, sizeof(*worker));
	int rc;

	if (!worker)
		return cairn_err_nomem(err, "worker");
	worker->buffer = cairn_alloc(reading->buffer_bytes);
	rc = worker->buffer
		     ? reading->source->ops->reader_open(reading->source, &worker->reader, err)
		     : cairn_err_nomem(err, "worker");
	if (!rc)
		rc = repo_blob_batch_new(reading->repo, &worker->batch, err);
	if (rc) {
		read_chunks_stop(arg, worker);
		return rc;
	}
	*ret = worker;
	return 0;
}

int backup_read_chunks(struct repo *repo, struct backup_source *source, struct chunk_map *map,
		       unsigned threads, const struct backup_progress *progress,
		       struct reading_result *ret, struct cairn_err *err)
{
	struct reading reading = {
		.repo = repo, .source = source, .map = map, .buffer_bytes = BATCH_BYTES};
	struct worker_pool pool = {
		.take = read_chunks_take,
		.work = read_chunks_work,
		.start = read_chunks_start,
		.stop = read_chunks_stop,
		.arg = &reading,
		.step = "reading",
		.progress = progress,
	};
	int rc;

	for (size_t i = 0; i < map->n; i++) {
		if (map->at[i].kind != CHUNK_READ)
			continue;
		pool.total += map->at[i].length;
		if (map->at[i].length > reading.buffer_bytes)
			reading.buffer_bytes = map->at[i].length;
	}
	rc = pool.total ? backup_worker_pool_run(&pool, threads, err) : 0;
	if (rc)
		return rc;
	*ret = (struct reading_result){
		.bytes_read = reading.bytes_read,
		.chunks_new = reading.chunks_new,
		.bytes_new = reading.bytes_new,
	};
	return 0;
}
