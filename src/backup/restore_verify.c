/* SPDX-License-Identifier: Apache-2.0 */

#include "backup/restore.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

#include "backup/chunk.h"
#include "backup/target.h"
#include "backup/worker_pool.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/io.h"
#include "base/mem.h"
#include "repo/id.h"

#define BUFFER_BYTES (1U << 20)

struct verifying {
	int fd;
	const struct chunk_map *map;
	size_t next;
	uint64_t offset;
};

static bool restore_verify_take(void *arg, struct worker_task *task)
{
	struct verifying *v = arg;

	if (v->next == v->map->n)
		return false;
	*task = (struct worker_task){
		.first = v->next, .offset = v->offset, .bytes = v->map->at[v->next].length};
	v->offset += v->map->at[v->next++].length;
	task->end = v->next;
	return true;
}

static bool restore_verify_all_zero(const uint8_t *data, size_t n)
{
	return data[0] == 0 && memcmp(data, data + 1, n - 1) == 0;
}

static int restore_verify_differs(uint64_t offset, struct cairn_err *err)
{
	return cairn_err_set(err, CAIRN_DATA_LOSS,
			     "what was restored differs from the backup at %" PRIu64, offset);
}

static int read_back(const struct verifying *v, uint8_t *buffer, size_t n, uint64_t offset,
		     struct cairn_err *err)
{
	ssize_t got = cairn_pread_full(v->fd, buffer, n, offset);

	if (got < 0)
		return cairn_err_sys(err, errno, "read at %" PRIu64, offset);
	return (size_t)got == n ? 0 : restore_verify_differs(offset + (uint64_t)got, err);
}

/* Checks that the range reads as zeros. Holes are skipped. */
static int verify_zeros(const struct verifying *v, uint8_t *buffer, uint64_t offset,
			uint64_t length, struct cairn_err *err)
{
	uint64_t end = offset + length;

	while (offset < end) {
		off_t data = lseek(v->fd, (off_t)offset, SEEK_DATA);
		size_t part;
		int rc;

		if (data < 0 && errno == ENXIO)
			return 0;
		if (data >= 0 && (uint64_t)data >= end)
			return 0;
		if (data > (off_t)offset)
			offset = (uint64_t)data;
		part = end - offset < BUFFER_BYTES ? (size_t)(end - offset) : BUFFER_BYTES;
		rc = read_back(v, buffer, part, offset, err);
		if (rc)
			return rc;
		if (!restore_verify_all_zero(buffer, part))
			return restore_verify_differs(offset, err);
		offset += part;
	}
	return 0;
}

static int restore_verify_work(void *arg, void *worker, const struct worker_task *task,
			       struct cairn_err *err)
{
	const struct verifying *v = arg;
	const struct chunk *chunk = &v->map->at[task->first];
	cairn_auto_free uint8_t *large = NULL;
	uint8_t *buffer = worker;
	struct repo_id id;
	int rc;

	if (chunk->kind == CHUNK_ZERO)
		return verify_zeros(v, buffer, task->offset, chunk->length, err);
	if (chunk->length > BUFFER_BYTES) {
		large = cairn_alloc(chunk->length);
		buffer = large;
	}
	if (!buffer)
		return cairn_err_nomem(err, "worker");
	rc = read_back(v, buffer, chunk->length, task->offset, err);
	if (rc)
		return rc;
	if (!repo_id_of(buffer, chunk->length, &id))
		return cairn_err_nomem(err, "hash");
	return memcmp(id.bytes, chunk->id, CHUNK_ID_BYTES) == 0
		       ? 0
		       : restore_verify_differs(task->offset, err);
}

static int restore_verify_start(void *arg, void **ret, struct cairn_err *err)
{
	(void)arg;
	*ret = cairn_alloc(BUFFER_BYTES);
	return *ret ? 0 : cairn_err_nomem(err, "worker");
}

static void restore_verify_stop(void *arg, void *worker)
{
	(void)arg;
	free(worker);
}

int backup_restore_verify(struct target *target, const struct chunk_map *map, unsigned threads,
			  const struct backup_progress *progress, struct cairn_err *err)
{
	struct verifying verifying = {.fd = target->fd, .map = map};
	struct worker_pool pool = {
		.take = restore_verify_take,
		.work = restore_verify_work,
		.start = restore_verify_start,
		.stop = restore_verify_stop,
		.arg = &verifying,
		.step = "verifying",
		.total = map->size,
		.progress = progress,
	};
	off_t end;

	int rc = backup_target_drop_cache(target, err);

	if (rc)
		return rc;
	/* SEEK_DATA cannot tell a trailing hole from truncation, so check the length. */
	end = lseek(target->fd, 0, SEEK_END);
	if (end < 0)
		return cairn_err_sys(err, errno, "size of what was restored");
	if ((uint64_t)end < map->size)
		return restore_verify_differs((uint64_t)end, err);
	return backup_worker_pool_run(&pool, threads, err);
}
