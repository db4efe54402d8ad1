/* SPDX-License-Identifier: Apache-2.0 */

/* Threads that run handlers.
 *
 * Threads are created when work waits and no thread is idle, up to a maximum,
 * and exit after a while without work. At most one thread is being woken at any
 * time: a burst of short work is then done by the few that are awake instead of
 * waking all threads.
 */
#ifndef CAIRN_NET_WORKERS_H
#define CAIRN_NET_WORKERS_H

struct cairn_err;
struct net_workers;

/* Embedded in the object that is worked on. */
struct net_work {
	struct net_work *next;
	void (*run)(struct net_work *work);
};

int net_workers_new(const char *name, unsigned max, unsigned queue_max, struct net_workers **ret,
		    struct cairn_err *err);

/* Runs all queued work, waits for it, and frees the pool. Accepts NULL. */
void net_workers_free(struct net_workers *workers);

/* Queues a list linked by `next`; from any thread. Returns the remaining part
 * if the queue is full or no thread could be started, else NULL. */
struct net_work *net_workers_submit(struct net_workers *workers, struct net_work *list);

#endif
