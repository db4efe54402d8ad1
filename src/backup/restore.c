/* SPDX-License-Identifier: Apache-2.0 */

#include "backup/restore.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <string.h>

#include "backup/chunk.h"
#include "backup/marks.h"
#include "backup/target.h"
#include "backup/team.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/io.h"
#include "base/mem.h"
#include "repo/blob.h"

#define BATCH_CHUNKS 512U         /* fetched at once */
#define BATCH_BYTES  (8ULL << 20) /* but not more than this, or one chunk */
#define BLOCK        4096U        /* zeros of this length are left out on a fresh target */

struct restoring {
	struct repo *repo;
	struct target *target;
	const struct restore_spec *spec;

	/* Under the team's lock. */
	size_t next;
	uint64_t offset;
	size_t held; /* the chunk of `held` at or behind `held_offset` */
	uint64_t held_offset;
	uint64_t bytes_kept;

	atomic_ullong bytes_written;
	atomic_ullong bytes_zeroed;
};

/* True when the target holds the chunk already. Asked in ascending order. */
static bool is_held(struct restoring *r, const struct chunk *chunk, uint64_t offset)
{
	const struct chunk_map *held = r->spec->held;
	const struct chunk *other;

	if (!held)
		return r->target->fresh && chunk->kind == CHUNK_ZERO;
	if (r->spec->changed && marks_count(r->spec->changed, offset, chunk->length).marked > 0)
		return false;
	while (r->held < held->n && r->held_offset + held->at[r->held].length <= offset)
		r->held_offset += held->at[r->held++].length;
	if (r->held == held->n)
		return false;
	other = &held->at[r->held];
	if (chunk->kind == CHUNK_ZERO) /* one run may hold another */
		return other->kind == CHUNK_ZERO &&
		       r->held_offset + other->length >= offset + chunk->length;
	return other->kind == chunk->kind && r->held_offset == offset &&
	       other->length == chunk->length && memcmp(other->id, chunk->id, CHUNK_ID_BYTES) == 0;
}

static bool take(void *arg, struct team_task *task)
{
	struct restoring *r = arg;
	const struct chunk_map *map = r->spec->map;

	while (r->next < map->n && is_held(r, &map->at[r->next], r->offset)) {
		r->bytes_kept += map->at[r->next].length;
		r->offset += map->at[r->next++].length;
	}
	if (r->next == map->n)
		return false;
	*task = (struct team_task){.first = r->next, .offset = r->offset};
	do {
		task->bytes += map->at[r->next].length;
		r->offset += map->at[r->next++].length;
	} while (r->next < map->n && r->next - task->first < BATCH_CHUNKS &&
		 task->bytes + map->at[r->next].length <= BATCH_BYTES &&
		 !is_held(r, &map->at[r->next], r->offset));
	task->end = r->next;
	return true;
}

static int write_zeros(int fd, uint64_t offset, uint64_t length, struct cairn_err *err)
{
	static const uint8_t zeros[1 << 16];

	while (length > 0) {
		size_t part = length < sizeof(zeros) ? (size_t)length : sizeof(zeros);

		if (cairn_pwrite_full(fd, zeros, part, offset) < 0)
			return cairn_err_sys(err, errno, "write at %" PRIu64, offset);
		offset += part;
		length -= part;
	}
	return 0;
}

static int punch(struct restoring *r, uint64_t offset, uint64_t length, struct cairn_err *err)
{
	atomic_fetch_add(&r->bytes_zeroed, length);
	if (r->target->fresh)
		return 0;
	if (fallocate(r->target->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)offset,
		      (off_t)length) == 0)
		return 0;
	if (errno != EOPNOTSUPP && errno != ENOSYS && errno != EINVAL)
		return cairn_err_sys(err, errno, "punch a hole at %" PRIu64, offset);
	return write_zeros(r->target->fd, offset, length, err);
}

/* A batch on its way: where each of its blobs goes. */
struct batch {
	struct restoring *restoring;
	struct repo_id ids[BATCH_CHUNKS];
	uint64_t offsets[BATCH_CHUNKS];
	uint32_t lengths[BATCH_CHUNKS];
	size_t n;
};

static bool block_is_zero(const uint8_t *data, size_t n)
{
	return data[0] == 0 && memcmp(data, data + 1, n - 1) == 0;
}

/* Writes what is not zeros. */
static int write_sparse(int fd, const uint8_t *data, size_t n, uint64_t offset)
{
	size_t from = 0;

	for (size_t at = 0; at < n; at += BLOCK) {
		size_t part = n - at < BLOCK ? n - at : BLOCK;

		if (!block_is_zero(data + at, part))
			continue;
		if (at > from && cairn_pwrite_full(fd, data + from, at - from, offset + from) < 0)
			return -1;
		from = at + part;
	}
	return from < n ? cairn_pwrite_full(fd, data + from, n - from, offset + from) : 0;
}

static int put(void *arg, size_t i, const uint8_t *data, size_t n, struct cairn_err *err)
{
	struct batch *batch = arg;
	struct restoring *r = batch->restoring;
	int rc;

	if (n != batch->lengths[i])
		return cairn_err_set(err, CAIRN_DATA_LOSS, "a chunk has another length");
	rc = r->target->fresh ? write_sparse(r->target->fd, data, n, batch->offsets[i])
			      : cairn_pwrite_full(r->target->fd, data, n, batch->offsets[i]);
	if (rc < 0)
		return cairn_err_sys(err, errno, "write at %" PRIu64, batch->offsets[i]);
	atomic_fetch_add(&r->bytes_written, n);
	return 0;
}

static int fetch(struct restoring *r, struct batch *batch, const struct team_task *task,
		 struct cairn_err *err)
{
	int rc = repo_blob_get_many(r->repo, batch->ids, batch->n, put, batch, err);

	/* The disk begins at once: what is left at the end is what the last sync waits for. */
	if (!rc)
		(void)sync_file_range(r->target->fd, (off_t)task->offset, (off_t)task->bytes,
				      SYNC_FILE_RANGE_WRITE);
	return rc;
}

static int work(void *arg, void *worker, const struct team_task *task, struct cairn_err *err)
{
	struct restoring *r = arg;
	struct batch *batch = worker;
	uint64_t offset = task->offset;

	batch->n = 0;
	for (size_t i = task->first; i < task->end; i++) {
		const struct chunk *chunk = &r->spec->map->at[i];

		if (chunk->kind == CHUNK_ZERO) {
			int rc = punch(r, offset, chunk->length, err);

			if (rc)
				return rc;
		} else {
			memcpy(batch->ids[batch->n].bytes, chunk->id, CHUNK_ID_BYTES);
			batch->lengths[batch->n] = chunk->length;
			batch->offsets[batch->n++] = offset;
		}
		offset += chunk->length;
	}
	return batch->n ? fetch(r, batch, task, err) : 0;
}

static int start(void *arg, void **ret, struct cairn_err *err)
{
	struct batch *batch = cairn_calloc(1, sizeof(*batch));

	if (!batch)
		return cairn_err_nomem(err, "worker");
	batch->restoring = arg;
	*ret = batch;
	return 0;
}

static void stop(void *arg, void *worker)
{
	(void)arg;
	free(worker);
}

int restore_run(struct repo *repo, struct target *target, const struct restore_spec *spec,
		struct restore_result *ret, struct cairn_err *err)
{
	struct restoring restoring = {.repo = repo, .target = target, .spec = spec};
	struct team team = {
		.take = take,
		.work = work,
		.start = start,
		.stop = stop,
		.arg = &restoring,
		.step = "restoring",
		.total = spec->map->size,
		.progress = spec->progress,
	};
	int rc = team_run(&team, spec->threads, err);

	if (rc)
		return rc;
	*ret = (struct restore_result){
		.bytes_written = restoring.bytes_written,
		.bytes_zeroed = restoring.bytes_zeroed,
		.bytes_kept = restoring.bytes_kept,
	};
	return 0;
}
