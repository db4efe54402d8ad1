/* SPDX-License-Identifier: Apache-2.0 */

/* Threads that process one list together.
 *
 * Each thread calls `take` for work until there is none; `take` runs under the
 * pool's lock, `work` does not. The first failure stops all threads and is
 * returned to the caller.
 */
#ifndef CAIRN_BACKUP_WORKER_POOL_H
#define CAIRN_BACKUP_WORKER_POOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct backup_progress;
struct cairn_err;

#define WORKERS_MAX 32U /* the maximum of base/thread_group.h */

/* Work of one thread at a time: chunks [first, end), the first at `offset`. */
struct worker_task {
	size_t first;
	size_t end;
	uint64_t offset;
	uint64_t bytes;
};

struct worker_pool {
	/* Fills the next task; false when there is none. */
	bool (*take)(void *arg, struct worker_task *task);
	/* `worker` is the result of `start`. */
	int (*work)(void *arg, void *worker, const struct worker_task *task, struct cairn_err *err);
	int (*start)(void *arg, void **ret_worker, struct cairn_err *err);
	void (*stop)(void *arg, void *worker);
	void *arg;

	const char *step;
	uint64_t total; /* bytes, for progress */
	const struct backup_progress *progress;
};

/* The recommended number of threads: one per processor. */
unsigned backup_worker_pool_size(void);

/* CAIRN_CANCELLED  requested by `progress` */
int backup_worker_pool_run(const struct worker_pool *pool, unsigned threads, struct cairn_err *err);

#endif
