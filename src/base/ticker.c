/* SPDX-License-Identifier: Apache-2.0 */

#include "base/ticker.h"

#include <stdio.h>

#include "base/err.h"
#include "base/lock.h"
#include "base/thread.h"
#include "base/wait.h"

/* A hurry that arrived during the last tick ends the wait at once, so it is not lost. */
static bool wait_for_next(struct cairn_ticker *t)
{
	cairn_scoped_lock(&t->lock);
	while (!t->stopping && !t->hurry &&
	       cairn_cond_wait_until(&t->changed, &t->lock, t->next_ns))
		;
	t->hurry = false;
	return !t->stopping;
}

static void *ticker_run(void *arg)
{
	struct cairn_ticker *t = arg;

	pthread_setname_np(pthread_self(), t->name);
	while (wait_for_next(t)) {
		uint64_t next = cairn_after_ms(t->tick(t->arg));

		cairn_scoped_lock(&t->lock);
		t->next_ns = next;
	}
	return NULL;
}

int cairn_ticker_start(struct cairn_ticker *t, const char *name, uint64_t first_ms,
		       uint64_t (*tick)(void *arg), void *arg, struct cairn_err *err)
{
	int rc;

	*t = (struct cairn_ticker){.tick = tick, .arg = arg, .next_ns = cairn_after_ms(first_ms)};
	snprintf(t->name, sizeof(t->name), "%s", name);
	pthread_mutex_init(&t->lock, NULL);
	cairn_cond_init(&t->changed);
	t->started = true;
	rc = cairn_thread_start(&t->thread, NULL, NULL, ticker_run, t);
	if (rc == 0)
		return 0;
	t->started = false;
	pthread_cond_destroy(&t->changed);
	pthread_mutex_destroy(&t->lock);
	return cairn_err_sys(err, rc, "start a thread");
}

void cairn_ticker_hurry(struct cairn_ticker *t)
{
	cairn_scoped_lock(&t->lock);
	t->hurry = true;
	pthread_cond_signal(&t->changed);
}

bool cairn_ticker_stopping(struct cairn_ticker *t)
{
	cairn_scoped_lock(&t->lock);
	return t->stopping;
}

void cairn_ticker_stop(struct cairn_ticker *t)
{
	if (!t->started)
		return;
	pthread_mutex_lock(&t->lock);
	t->stopping = true;
	pthread_cond_signal(&t->changed);
	pthread_mutex_unlock(&t->lock);
	pthread_join(t->thread, NULL);
	pthread_cond_destroy(&t->changed);
	pthread_mutex_destroy(&t->lock);
	t->started = false;
}
