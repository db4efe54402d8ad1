/* SPDX-License-Identifier: Apache-2.0 */

#include "net/workers.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/err.h"
#include "base/lock.h"
#include "base/mem.h"
#include "base/thread.h"
#include "base/wait.h"

#define STACK_BYTES  (1U << 20)
#define IDLE_SECONDS 10

struct net_workers {
	char name[16];
	unsigned max, queue_max;

	pthread_mutex_t lock;
	pthread_cond_t work;
	pthread_cond_t all_gone;
	/* Guarded by the lock. */
	struct net_work *head, **tail;
	unsigned queued, threads, idle;
	bool waking; /* a thread was woken or started and has not yet looked at the queue */
	bool stop;
};

static void *worker_main(void *arg);

static bool workers_start_thread(struct net_workers *w)
{
	pthread_attr_t attr;
	pthread_t thread;
	int rc;

	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, STACK_BYTES);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	rc = cairn_thread_start(&thread, &attr, NULL, worker_main, w);
	pthread_attr_destroy(&attr);
	if (rc == 0)
		w->threads++;
	return rc == 0;
}

/* Starts a thread if one is needed. Called with the lock held. True if the caller should
 * wake a thread after it has released the lock: a thread that wakes up to a held lock only
 * goes to sleep again. */
static bool get_help(struct net_workers *w)
{
	if (!w->head || w->waking)
		return false;
	if (w->idle > 0) {
		w->waking = true;
		return true;
	}
	if (w->threads < w->max)
		w->waking = workers_start_thread(w);
	return false;
}

/* Waits for work with the lock held; NULL when the thread should end. */
static struct net_work *next_work(struct net_workers *w, bool *ret_wake)
{
	struct net_work *work;
	uint64_t end = cairn_after_ms(IDLE_SECONDS * 1000);

	while (!w->head) {
		bool signalled;

		if (w->stop)
			return NULL;
		w->idle++;
		signalled = cairn_cond_wait_until(&w->work, &w->lock, end);
		w->idle--;
		/* No thread leaves while a signal is under way: it could be the one that was to
		 * receive it. */
		if (!signalled && !w->head && !w->waking)
			return NULL;
		w->waking = false;
	}
	work = w->head;
	w->head = work->next;
	if (!w->head)
		w->tail = &w->head;
	w->queued--;
	*ret_wake = get_help(w);
	return work;
}

static void *worker_main(void *arg)
{
	struct net_workers *w = arg;
	struct net_work *work;
	bool wake = false;

	pthread_setname_np(pthread_self(), w->name);
	pthread_mutex_lock(&w->lock);
	w->waking = false;
	while ((work = next_work(w, &wake))) {
		pthread_mutex_unlock(&w->lock);
		if (wake)
			pthread_cond_signal(&w->work);
		work->run(work);
		pthread_mutex_lock(&w->lock);
	}
	if (--w->threads == 0)
		pthread_cond_broadcast(&w->all_gone);
	pthread_mutex_unlock(&w->lock);
	return NULL;
}

int net_workers_new(const char *name, unsigned max, unsigned queue_max, struct net_workers **ret,
		    struct cairn_err *err)
{
	struct net_workers *w = cairn_calloc(1, sizeof(*w));

	if (!w)
		return cairn_err_nomem(err, "worker threads");
	snprintf(w->name, sizeof(w->name), "%s-call", name);
	w->max = max;
	w->queue_max = queue_max;
	w->tail = &w->head;
	pthread_mutex_init(&w->lock, NULL);
	cairn_cond_init(&w->work);
	cairn_cond_init(&w->all_gone);
	*ret = w;
	return 0;
}

void net_workers_free(struct net_workers *w)
{
	if (!w)
		return;
	pthread_mutex_lock(&w->lock);
	w->stop = true;
	pthread_cond_broadcast(&w->work);
	while (w->threads > 0)
		pthread_cond_wait(&w->all_gone, &w->lock);
	pthread_mutex_unlock(&w->lock);
	pthread_cond_destroy(&w->work);
	pthread_cond_destroy(&w->all_gone);
	pthread_mutex_destroy(&w->lock);
	free(w);
}

static bool workers_enqueue(struct net_workers *w, struct net_work *work)
{
	/* Without a single thread, accepted work would never run. */
	if (w->queued >= w->queue_max || (w->threads == 0 && !workers_start_thread(w)))
		return false;
	work->next = NULL;
	*w->tail = work;
	w->tail = &work->next;
	w->queued++;
	return true;
}

struct net_work *net_workers_submit(struct net_workers *w, struct net_work *list)
{
	bool wake;

	pthread_mutex_lock(&w->lock);
	while (list) {
		struct net_work *next = list->next;

		if (!workers_enqueue(w, list))
			break;
		list = next;
	}
	wake = get_help(w);
	pthread_mutex_unlock(&w->lock);
	if (wake)
		pthread_cond_signal(&w->work);
	return list;
}
