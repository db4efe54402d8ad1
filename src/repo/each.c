/* SPDX-License-Identifier: Apache-2.0 */

#include "repo/each.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "base/crew.h"
#include "base/err.h"
#include "base/lock.h"

struct work {
	size_t n;
	int (*fn)(void *arg, size_t i, struct cairn_err *err);
	void *arg;
	atomic_size_t next;
	atomic_bool failed;
	pthread_mutex_t mutex; /* guards `err` */
	struct cairn_err err;
};

static void *each_run(void *arg)
{
	struct work *work = arg;
	size_t i;

	while (!work->failed && (i = work->next++) < work->n) {
		struct cairn_err err = {0};

		if (work->fn(work->arg, i, &err) >= 0)
			continue;
		cairn_scoped_lock(&work->mutex);
		if (!work->failed)
			work->err = err;
		work->failed = true;
	}
	return NULL;
}

int repo_each(size_t n, unsigned threads, int (*fn)(void *arg, size_t i, struct cairn_err *err),
	      void *arg, struct cairn_err *err)
{
	struct work work = {.n = n, .fn = fn, .arg = arg, .mutex = PTHREAD_MUTEX_INITIALIZER};
	struct cairn_crew others = {0};

	threads = threads > REPO_EACH_THREADS_MAX ? REPO_EACH_THREADS_MAX : threads;
	if (threads > n)
		threads = (unsigned)n;
	/* If no thread can be started, the calling one does the work. */
	if (threads > 1)
		cairn_crew_start(&others, threads - 1, each_run, &work);
	each_run(&work);
	cairn_crew_join(&others);
	if (!work.failed)
		return 0;
	if (err)
		*err = work.err;
	return cairn_err_negative(work.err.code);
}
