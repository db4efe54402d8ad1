/* SPDX-License-Identifier: Apache-2.0 */

/* A group of threads that run the same function.
 *
 * Signals are blocked in them, so that only the program's first threads handle signals.
 */
#ifndef CAIRN_BASE_THREAD_GROUP_H
#define CAIRN_BASE_THREAD_GROUP_H

#include <pthread.h>

#define CAIRN_THREAD_GROUP_MAX 32U

/* A zeroed group has no threads. */
struct cairn_thread_group {
	pthread_t threads[CAIRN_THREAD_GROUP_MAX];
	unsigned n;
};

/* Starts `run(arg)` on `n` threads, at most CAIRN_THREAD_GROUP_MAX, or on fewer if no more can be
 * created. Returns the number of threads. */
unsigned cairn_thread_group_start(struct cairn_thread_group *group, unsigned n,
				  void *(*run)(void *arg), void *arg);

/* Waits until all have returned. */
void cairn_thread_group_join(struct cairn_thread_group *group);

#endif
