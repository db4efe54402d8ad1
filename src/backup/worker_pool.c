/* SPDX-License-Identifier: Apache-2.0 */

#include "backup/worker_pool.h"

#include <pthread.h>
#include <sched.h>

#include "backup/progress.h"
#include "base/err.h"
#include "base/lock.h"
#include "base/parallel.h"

struct running {
	const struct worker_pool *pool;
	pthread_mutex_t lock; /* guards `done`, and calls of `take` */
	uint64_t done;
};

unsigned backup_worker_pool_size(void)
{
	cpu_set_t set;
	int n = sched_getaffinity(0, sizeof(set), &set) == 0 ? CPU_COUNT(&set) : 1;

	if (n < 1)
		n = 1;
	return (unsigned)n < WORKERS_MAX ? (unsigned)n : WORKERS_MAX;
}

/* Counts the finished task and takes the next. Returns 1 with a task, 0 when there is none. */
static int worker_pool_next(struct running *running, const atomic_bool *failed,
			    struct worker_task *task, struct cairn_err *err)
{
	const struct worker_pool *pool = running->pool;

	cairn_scoped_lock(&running->lock);
	running->done += task->bytes;
	task->bytes = 0;
	if (*failed)
		return 0;
	backup_report(pool->progress, pool->step, running->done, pool->total);
	if (backup_cancelled(pool->progress))
		return cairn_err_set(err, CAIRN_CANCELLED, "interrupted");
	return pool->take(pool->arg, task);
}

static int worker_pool_work(void *arg, const atomic_bool *failed, struct cairn_err *err)
{
	struct running *running = arg;
	const struct worker_pool *pool = running->pool;
	struct worker_task task = {0};
	void *worker = NULL;
	int rc = pool->start ? pool->start(pool->arg, &worker, err) : 0;

	while (rc >= 0) {
		rc = worker_pool_next(running, failed, &task, err);
		if (rc <= 0)
			break;
		rc = pool->work(pool->arg, worker, &task, err);
	}
	if (pool->stop && worker)
		pool->stop(pool->arg, worker);
	return rc;
}

int backup_worker_pool_run(const struct worker_pool *pool, unsigned threads, struct cairn_err *err)
{
	struct running running = {.pool = pool, .lock = PTHREAD_MUTEX_INITIALIZER};

	return cairn_parallel_run(threads ? threads : backup_worker_pool_size(), worker_pool_work,
				  &running, err);
}
