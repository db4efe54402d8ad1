/* SPDX-License-Identifier: Apache-2.0 */

/* A thread that does something now and then, until it is stopped.
 *
 * tick() returns in how many milliseconds it wants to be called again. Signals
 * are blocked in the thread: those are for the threads that the program began
 * with.
 */
#ifndef CAIRN_BASE_TICKER_H
#define CAIRN_BASE_TICKER_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

struct cairn_err;

/* Zeroed, it is one that was not started. */
struct cairn_ticker {
	uint64_t (*tick)(void *arg);
	void *arg;
	char name[16];
	pthread_t thread;
	bool started;
	pthread_mutex_t lock;
	pthread_cond_t changed;
	/* Guarded by the lock. */
	uint64_t next_ns;
	bool hurry;
	bool stopping;
};

/* The first tick is `first_ms` from now. CAIRN_UNAVAILABLE and others when there is
 * no thread to be had. */
int cairn_ticker_start(struct cairn_ticker *ticker, const char *name, uint64_t first_ms,
		       uint64_t (*tick)(void *arg), void *arg, struct cairn_err *err);

/* Ticks at once, or again after the tick that is under way. Any thread. */
void cairn_ticker_hurry(struct cairn_ticker *ticker);

/* Whether cairn_ticker_stop() was called: for ticks that take long. Any thread. */
bool cairn_ticker_stopping(struct cairn_ticker *ticker);

/* Ends the thread, after the tick that is under way. Does nothing if it was not
 * started. */
void cairn_ticker_stop(struct cairn_ticker *ticker);

#endif
