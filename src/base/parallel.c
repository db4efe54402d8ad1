/* SPDX-License-Identifier: Apache-2.0 */

#include "base/parallel.h"

#include <pthread.h>
#include <stdbool.h>

#include "base/err.h"
#include "base/lock.h"
#include "base/thread_group.h"

struct parallel {
	int (*work)(void *arg, const atomic_bool *failed, struct cairn_err *err);
	void *arg;
	atomic_bool failed;
	pthread_mutex_t lock; /* guards `rc` and `err` */
	int rc;
	struct cairn_err err;
};

static void *parallel_thread(void *arg)
{
	struct parallel *run = arg;
	struct cairn_err err = {0};
	int rc = run->work(run->arg, &run->failed, &err);

	if (rc >= 0)
		return NULL;
	cairn_scoped_lock(&run->lock);
	if (!run->failed) {
		run->rc = rc;
		run->err = err;
	}
	run->failed = true;
	return NULL;
}

int cairn_parallel_run(unsigned threads,
		       int (*work)(void *arg, const atomic_bool *failed, struct cairn_err *err),
		       void *arg, struct cairn_err *err)
{
	struct parallel run = {.work = work, .arg = arg, .lock = PTHREAD_MUTEX_INITIALIZER};
	struct cairn_thread_group others = {0};

	if (threads > 1)
		cairn_thread_group_start(&others, threads - 1, parallel_thread, &run);
	parallel_thread(&run);
	cairn_thread_group_join(&others);
	if (run.rc && err)
		*err = run.err;
	return run.rc;
}

struct each {
	size_t n;
	int (*fn)(void *arg, size_t i, struct cairn_err *err);
	void *arg;
	atomic_size_t next;
};

static int parallel_each_work(void *arg, const atomic_bool *failed, struct cairn_err *err)
{
	struct each *each = arg;
	size_t i;
	int rc = 0;

	while (rc >= 0 && !*failed && (i = each->next++) < each->n)
		rc = each->fn(each->arg, i, err);
	return rc;
}

int cairn_parallel_each(size_t n, unsigned threads,
			int (*fn)(void *arg, size_t i, struct cairn_err *err), void *arg,
			struct cairn_err *err)
{
	struct each each = {.n = n, .fn = fn, .arg = arg};

	if (threads > CAIRN_PARALLEL_EACH_MAX)
		threads = CAIRN_PARALLEL_EACH_MAX;
	if (threads > n)
		threads = (unsigned)n;
	return cairn_parallel_run(threads, parallel_each_work, &each, err);
}
