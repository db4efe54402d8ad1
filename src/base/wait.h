/* SPDX-License-Identifier: Apache-2.0 */

/* Conditions with a deadline on the monotonic clock, which a change of the
 * system's time does not move. */
#ifndef CAIRN_BASE_WAIT_H
#define CAIRN_BASE_WAIT_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

void cairn_cond_init(pthread_cond_t *cond);

/* The monotonic time `ms` from now; UINT64_MAX, which is never, when the clock
 * does not reach that far. */
uint64_t cairn_after_ms(uint64_t ms);

/* Waits, with the lock held, for a signal or until that time; UINT64_MAX has no
 * end. False when the time is over. As with any condition the caller looks at
 * what it waits for again. */
bool cairn_cond_wait_until(pthread_cond_t *cond, pthread_mutex_t *lock, uint64_t until_ns);

#endif
