/* SPDX-License-Identifier: Apache-2.0 */

/* A group of threads that run the same function.
 *
 * Signals are blocked in them, so that only the program's first threads handle signals.
 */
#ifndef CAIRN_BASE_CREW_H
#define CAIRN_BASE_CREW_H

#include <pthread.h>

#define CAIRN_CREW_MAX 32U

/* A zeroed crew has no threads. */
struct cairn_crew {
	pthread_t threads[CAIRN_CREW_MAX];
	unsigned n;
};

/* Starts `run(arg)` on `n` threads, at most CAIRN_CREW_MAX, or on fewer if no more can be
 * created. Returns the number of threads. */
unsigned cairn_crew_start(struct cairn_crew *crew, unsigned n, void *(*run)(void *arg), void *arg);

/* Waits until all have returned. */
void cairn_crew_join(struct cairn_crew *crew);

#endif
