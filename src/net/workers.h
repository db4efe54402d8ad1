/* SPDX-License-Identifier: Apache-2.0 */

/* Threads that run handlers.
 *
 * Threads are made when work waits and nobody is free, up to a maximum, and
 * end after a while without work. At most one thread is being woken at any
 * time: a burst of short work is then done by the few that are awake instead
 * of waking everyone.
 */
#ifndef CAIRN_NET_WORKERS_H
#define CAIRN_NET_WORKERS_H

struct cairn_err;
struct net_workers;

/* Embedded in what is worked on. */
struct net_work {
	struct net_work *next;
	void (*run)(struct net_work *work);
};

int net_workers_new(const char *name, unsigned max, unsigned queue_max, struct net_workers **ret,
		    struct cairn_err *err);

/* Runs what is queued, waits for all of it, frees. Accepts NULL. */
void net_workers_free(struct net_workers *workers);

/* Hands over a list linked by `next`; from any thread. Returns what is left of
 * it when the queue is full or nobody could ever run it, else NULL. */
struct net_work *net_workers_submit(struct net_workers *workers, struct net_work *list);

#endif
