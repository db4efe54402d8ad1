/* SPDX-License-Identifier: Apache-2.0 */

/* How long somebody is willing to wait: until a time, or until nobody wants the
 * result any more. Everything of the sidecar that may block takes one, so that a
 * caller that has gone or whose deadline passed holds nothing up. */
#ifndef CAIRN_SIDECAR_WAIT_H
#define CAIRN_SIDECAR_WAIT_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

struct cairn_err;
struct sidecar_key;

struct sidecar_wait {
	uint64_t deadline_ns;          /* monotonic; UINT64_MAX for none */
	int (*check)(const void *arg); /* 0 while wanted, else CAIRN_CANCELLED or
					  CAIRN_DEADLINE; may be NULL */
	const void *arg;
	const struct sidecar_key *origin; /* where the caller is, for fairness; may be NULL */
};

/* CAIRN_CANCELLED  nobody wants it any more
 * CAIRN_DEADLINE   the time is over
 */
int sidecar_wait_check(const struct sidecar_wait *wait, struct cairn_err *err);

/* Milliseconds left, at most `most`; 0 when the time is over. */
uint64_t sidecar_wait_left_ms(const struct sidecar_wait *wait, uint64_t most);

/* The earlier of a wait's end and `ms` from now. */
struct sidecar_wait sidecar_wait_within(const struct sidecar_wait *wait, uint64_t ms);

/* For conditions that sidecar_wait_on() waits for. */
void sidecar_cond_init(pthread_cond_t *cond);

/* Waits on a condition with the lock held; returns after a signal, after a
 * moment without one, or when `wait` is over: the caller looks again.
 * Fails like sidecar_wait_check(). */
int sidecar_wait_on(const struct sidecar_wait *wait, pthread_cond_t *cond, pthread_mutex_t *lock,
		    struct cairn_err *err);

#endif
