/* SPDX-License-Identifier: Apache-2.0 */

/* A thread that calls a function periodically until it is stopped.
 *
 * tick() returns the milliseconds until its next call. Signals are blocked in the thread,
 * so that only the program's first threads handle signals.
 */
#ifndef CAIRN_BASE_TICKER_H
#define CAIRN_BASE_TICKER_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

struct cairn_err;

/* A zeroed ticker is not started. */
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

/* The first tick is `first_ms` from now. CAIRN_UNAVAILABLE and others if the thread cannot
 * be created. */
int cairn_ticker_start(struct cairn_ticker *ticker, const char *name, uint64_t first_ms,
		       uint64_t (*tick)(void *arg), void *arg, struct cairn_err *err);

/* Ticks now, or again after the running tick. From any thread. */
void cairn_ticker_hurry(struct cairn_ticker *ticker);

/* True after cairn_ticker_stop() was called: for long ticks. From any thread. */
bool cairn_ticker_stopping(struct cairn_ticker *ticker);

/* Ends the thread after the running tick. Does nothing if it was not started. */
void cairn_ticker_stop(struct cairn_ticker *ticker);

#endif
