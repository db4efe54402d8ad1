/* SPDX-License-Identifier: Apache-2.0 */

#include "net/loop.h"

#include <errno.h>
#include <event2/event.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/err.h"
#include "base/lock.h"
#include "base/mem.h"
#include "base/thread.h"
#include "net/scratch.h"

#define NICE 5 /* about a third of the time of a competing thread of normal priority */

struct net_loop {
	struct event_base *base;
	struct event *wake;
	struct net_scratch *scratch;
	pthread_t thread;
	int wake_fd;

	/* Only on the loop's thread. */
	struct net_task *late_head, **late_tail;
	bool stop;

	/* Guards the posted tasks and `sleeping`. */
	pthread_mutex_t lock;
	struct net_task *head, **tail;
	bool sleeping;
};

/* The event is edge-triggered: each write is reported once, so the count need not be read. */
static void wake_up(evutil_socket_t fd, short what, void *arg)
{
	(void)fd;
	(void)what;
	(void)arg;
}

static void loop_run_list(struct net_task *task)
{
	while (task) {
		struct net_task *next = task->next;

		task->next = NULL;
		task->run(task);
		task = next;
	}
}

static void loop_run_posted(struct net_loop *loop)
{
	struct net_task *list;

	pthread_mutex_lock(&loop->lock);
	loop->sleeping = false;
	list = loop->head;
	loop->head = NULL;
	loop->tail = &loop->head;
	pthread_mutex_unlock(&loop->lock);
	loop_run_list(list);
}

static void loop_run_late(struct net_loop *loop)
{
	while (loop->late_head) {
		struct net_task *list = loop->late_head;

		loop->late_head = NULL;
		loop->late_tail = &loop->late_head;
		loop_run_list(list);
	}
}

/* A post that finds the loop awake writes nothing to the eventfd: the loop
 * looks at the list once more before it sleeps. */
static void *loop_main(void *arg)
{
	struct net_loop *loop = arg;

	while (!loop->stop) {
		bool empty;

		pthread_mutex_lock(&loop->lock);
		empty = !loop->head;
		loop->sleeping = empty;
		pthread_mutex_unlock(&loop->lock);
		event_base_loop(loop->base, empty ? EVLOOP_ONCE : EVLOOP_ONCE | EVLOOP_NONBLOCK);
		loop_run_posted(loop);
		loop_run_late(loop);
	}
	/* Tasks that were posted after the one that stops the loop: their callers may wait. */
	loop_run_posted(loop);
	loop_run_late(loop);
	return NULL;
}

static int make_base(struct net_loop *loop, struct cairn_err *err)
{
	struct event_config *config = event_config_new();

	if (!config)
		return cairn_err_nomem(err, "event loop");
	event_config_set_flag(config, EVENT_BASE_FLAG_NOLOCK); /* one thread uses the base */
	loop->base = event_base_new_with_config(config);
	event_config_free(config);
	if (!loop->base)
		return cairn_err_set(err, CAIRN_NO_SPACE, "event loop cannot be made");
	loop->wake =
		event_new(loop->base, loop->wake_fd, EV_READ | EV_PERSIST | EV_ET, wake_up, loop);
	if (!loop->wake || event_add(loop->wake, NULL) < 0)
		return cairn_err_nomem(err, "event loop");
	return 0;
}

static void loop_destroy(struct net_loop *loop)
{
	if (loop->wake)
		event_free(loop->wake);
	if (loop->base)
		event_base_free(loop->base);
	if (loop->wake_fd >= 0)
		close(loop->wake_fd);
	pthread_mutex_destroy(&loop->lock);
	if (loop->scratch) {
		net_alloc_cache_done(&loop->scratch->recycle);
		net_unsent_spare_done(&loop->scratch->spare);
	}
	free(loop->scratch);
	free(loop);
}

static int loop_start_thread(struct net_loop *loop, const char *name, struct cairn_err *err)
{
	int rc = cairn_thread_start(&loop->thread, NULL, name, loop_main, loop);

	return rc ? cairn_err_sys(err, rc, "start thread %s", name) : 0;
}

int net_loop_new(const char *name, struct net_loop **ret, struct cairn_err *err)
{
	struct net_loop *loop = cairn_calloc(1, sizeof(*loop));
	int rc;

	if (!loop)
		return cairn_err_nomem(err, "event loop");
	pthread_mutex_init(&loop->lock, NULL);
	loop->tail = &loop->head;
	loop->late_tail = &loop->late_head;
	loop->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	loop->scratch = cairn_calloc(1, sizeof(*loop->scratch));
	if (loop->wake_fd < 0)
		rc = cairn_err_sys(err, errno, "eventfd");
	else if (!loop->scratch)
		rc = cairn_err_nomem(err, "event loop");
	else
		rc = make_base(loop, err);
	if (rc == 0) {
		net_alloc_cache_init(&loop->scratch->recycle);
		rc = loop_start_thread(loop, name, err);
	}
	if (rc != 0) {
		loop_destroy(loop);
		return rc;
	}
	*ret = loop;
	return 0;
}

static void stop_loop(void *arg)
{
	struct net_loop *loop = arg;

	loop->stop = true;
}

void net_loop_free(struct net_loop *loop)
{
	if (!loop)
		return;
	net_loop_call(loop, stop_loop, loop);
	pthread_join(loop->thread, NULL);
	loop_destroy(loop);
}

void net_loop_post(struct net_loop *loop, struct net_task *task)
{
	bool wake;

	task->next = NULL;
	pthread_mutex_lock(&loop->lock);
	*loop->tail = task;
	loop->tail = &task->next;
	wake = loop->sleeping;
	loop->sleeping = false;
	pthread_mutex_unlock(&loop->lock);
	if (wake) {
		uint64_t one = 1;

		(void)!write(loop->wake_fd, &one, sizeof(one));
	}
}

void net_loop_late(struct net_loop *loop, struct net_task *task)
{
	task->next = NULL;
	*loop->late_tail = task;
	loop->late_tail = &task->next;
}

void net_loop_drop_late(struct net_loop *loop, struct net_task *task)
{
	struct net_task **at = &loop->late_head;

	while (*at && *at != task)
		at = &(*at)->next;
	if (!*at)
		return;
	*at = task->next;
	if (loop->late_tail == &task->next)
		loop->late_tail = at;
}

struct waiting_call {
	struct net_task task;
	void (*run)(void *arg);
	void *arg;
	pthread_mutex_t lock;
	pthread_cond_t done;
	bool is_done;
};

static void run_waiting(struct net_task *task)
{
	struct waiting_call *call = (struct waiting_call *)task;

	call->run(call->arg);
	cairn_scoped_lock(&call->lock);
	call->is_done = true;
	pthread_cond_signal(&call->done);
}

void net_loop_call(struct net_loop *loop, void (*run)(void *arg), void *arg)
{
	struct waiting_call call = {
		.task.run = run_waiting,
		.run = run,
		.arg = arg,
		.lock = PTHREAD_MUTEX_INITIALIZER,
		.done = PTHREAD_COND_INITIALIZER,
	};

	if (net_loop_is_current(loop)) {
		run(arg);
		return;
	}
	net_loop_post(loop, &call.task);
	pthread_mutex_lock(&call.lock);
	while (!call.is_done)
		pthread_cond_wait(&call.done, &call.lock);
	pthread_mutex_unlock(&call.lock);
}

void net_loop_yield_to_others(void *arg)
{
	(void)arg;
	/* On Linux, PRIO_PROCESS with 0 is the calling thread only. Failure is harmless:
	 * the thread keeps its priority. */
	(void)setpriority(PRIO_PROCESS, 0, getpriority(PRIO_PROCESS, 0) + NICE);
}

bool net_loop_is_current(const struct net_loop *loop)
{
	return pthread_equal(pthread_self(), loop->thread);
}

struct event_base *net_loop_base(struct net_loop *loop)
{
	return loop->base;
}

struct net_scratch *net_loop_scratch(struct net_loop *loop)
{
	return loop->scratch;
}

static void timer_fired(evutil_socket_t fd, short what, void *arg)
{
	struct net_timer *timer = arg;

	(void)fd;
	(void)what;
	timer->fire(timer->arg);
}

void net_timer_init(struct net_timer *timer, struct net_loop *loop, void (*fire)(void *arg),
		    void *arg)
{
	*timer = (struct net_timer){.fire = fire, .arg = arg};
	event_assign(&timer->event, loop->base, -1, 0, timer_fired, timer);
}

void net_timer_set(struct net_timer *timer, uint64_t ms)
{
	const uint64_t longest = 365ULL * 24 * 3600 * 1000;
	struct timeval tv;

	if (ms > longest)
		ms = longest;
	tv.tv_sec = (time_t)(ms / 1000);
	tv.tv_usec = (suseconds_t)(ms % 1000 * 1000);
	if (event_initialized(&timer->event))
		event_add(&timer->event, &tv);
}

void net_timer_done(struct net_timer *timer)
{
	if (event_initialized(&timer->event))
		event_del(&timer->event);
}
