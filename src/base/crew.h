/* SPDX-License-Identifier: Apache-2.0 */

/* A few threads that do the same.
 *
 * Signals are blocked in them: those are for the threads that the program began
 * with.
 */
#ifndef CAIRN_BASE_CREW_H
#define CAIRN_BASE_CREW_H

#include <pthread.h>

#define CAIRN_CREW_MAX 32U

/* Zeroed, it is one of no thread. */
struct cairn_crew {
	pthread_t threads[CAIRN_CREW_MAX];
	unsigned n;
};

/* Starts `run(arg)` on `n` threads, at most CAIRN_CREW_MAX, or on fewer when no
 * more can be had. Returns on how many. */
unsigned cairn_crew_start(struct cairn_crew *crew, unsigned n, void *(*run)(void *arg), void *arg);

/* Waits until all have returned. */
void cairn_crew_join(struct cairn_crew *crew);

#endif
