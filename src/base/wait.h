/* SPDX-License-Identifier: Apache-2.0 */

/* Condition variables with a deadline on the monotonic clock, which is not affected by
 * changes of the system time. */
#ifndef CAIRN_BASE_WAIT_H
#define CAIRN_BASE_WAIT_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

void cairn_cond_init(pthread_cond_t *cond);

/* The monotonic time `ms` from now; UINT64_MAX, which means never, if it would overflow. */
uint64_t cairn_after_ms(uint64_t ms);

/* Waits, with the lock held, for a signal or until that time; UINT64_MAX has no limit.
 * Returns false at the timeout. As with any condition, the caller must check its predicate
 * again. */
bool cairn_cond_wait_until(pthread_cond_t *cond, pthread_mutex_t *lock, uint64_t until_ns);

#endif
