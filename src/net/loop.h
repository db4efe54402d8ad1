/* SPDX-License-Identifier: Apache-2.0 */

/* A thread with an event loop.
 *
 * Connections, timers and listeners each belong to one loop and are touched
 * only on its thread; everything else reaches them by posting a task. Posting
 * is the one operation that any thread may do. Many posts that come while the
 * loop is busy cost one wake-up.
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

/* A piece of work for a loop, embedded in what it works on: posting allocates
 * nothing and cannot fail. */
struct net_task {
	struct net_task *next;
	void (*run)(struct net_task *task);
};

/* Makes a loop and starts its thread, all signals blocked in it. `name` is
 * what ps and a debugger show, at most 15 bytes. */
int net_loop_new(const char *name, struct net_loop **ret, struct cairn_err *err);

/* Runs what was posted so far, ends the thread and frees the loop. Not from
 * the loop's own thread. Whatever lives on the loop must be gone before.
 * Accepts NULL. */
void net_loop_free(struct net_loop *loop);
CAIRN_DEFINE_CLEANUP(struct net_loop, net_loop_free);

/* Hands `task` to the loop's thread; from any thread. Tasks run in the order
 * of posting. A task must not be posted again before it began to run. */
void net_loop_post(struct net_loop *loop, struct net_task *task);

/* Posts `run(arg)` and waits until it returned; runs it in place when called
 * on the loop's own thread. */
void net_loop_call(struct net_loop *loop, void (*run)(void *arg), void *arg);

/* Gives the calling thread, and those that it starts, a lower priority than the other
 * threads of the process have. For net_loop_call(); `arg` is not used. */
void net_loop_yield_to_others(void *arg);

bool net_loop_is_current(const struct net_loop *loop);

/* For libevent calls; only on the loop's thread, or before anything runs. */
struct event_base *net_loop_base(struct net_loop *loop);

/* A one-shot timer that belongs to a loop; all three on the loop's thread. */
struct net_timer {
	struct event event; /* a call has one: no allocation of its own */
	void (*fire)(void *arg);
	void *arg;
};

void net_timer_init(struct net_timer *timer, struct net_loop *loop, void (*fire)(void *arg),
		    void *arg);
/* Both do nothing with a zeroed timer. Setting replaces an earlier setting. */
void net_timer_set(struct net_timer *timer, uint64_t ms);
void net_timer_done(struct net_timer *timer);

#endif
