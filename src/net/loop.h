/* SPDX-License-Identifier: Apache-2.0 */

/* A thread with an event loop.
 *
 * Connections, timers and listeners each belong to one loop and are touched
 * only on its thread; other threads reach them by posting a task, which is the
 * only operation allowed from any thread. Many posts while the loop is busy
 * cost one wake-up.
 */
#ifndef CAIRN_NET_LOOP_H
#define CAIRN_NET_LOOP_H

#include <event2/event_struct.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/cleanup.h"

struct cairn_err;
struct event_base;
struct net_loop;

/* A task for a loop, embedded in the object that it works on: posting allocates
 * nothing and cannot fail. */
struct net_task {
	struct net_task *next;
	void (*run)(struct net_task *task);
};

/* Creates a loop and starts its thread, with all signals blocked. `name` is
 * shown by ps and debuggers, at most 15 bytes. */
int net_loop_new(const char *name, struct net_loop **ret, struct cairn_err *err);

/* Runs the tasks posted so far, ends the thread and frees the loop. Must not be
 * called from the loop's own thread. All objects of the loop must be freed
 * before. Accepts NULL. */
void net_loop_free(struct net_loop *loop);
CAIRN_DEFINE_CLEANUP(struct net_loop, net_loop_free);

/* Passes `task` to the loop's thread; from any thread. Tasks run in the order
 * of posting. A task must not be posted again before it has started to run. */
void net_loop_post(struct net_loop *loop, struct net_task *task);

/* Posts `run(arg)` and waits until it returned; runs it in place when called
 * on the loop's own thread. */
void net_loop_call(struct net_loop *loop, void (*run)(void *arg), void *arg);

/* Gives the calling thread, and threads that it starts, a lower priority than the
 * other threads of the process. For net_loop_call(); `arg` is not used. */
void net_loop_yield_to_others(void *arg);

bool net_loop_is_current(const struct net_loop *loop);

/* For libevent calls; use it only on the loop's thread, or before anything
 * runs. */
struct event_base *net_loop_base(struct net_loop *loop);

/* A one-shot timer that belongs to a loop; all three on the loop's thread. */
struct net_timer {
	struct event event; /* embedded, so that a call's timer needs no allocation */
	void (*fire)(void *arg);
	void *arg;
};

void net_timer_init(struct net_timer *timer, struct net_loop *loop, void (*fire)(void *arg),
		    void *arg);
/* Both do nothing with a zeroed timer. Setting replaces an earlier setting. */
void net_timer_set(struct net_timer *timer, uint64_t ms);
void net_timer_done(struct net_timer *timer);

#endif
