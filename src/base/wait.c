/* SPDX-License-Identifier: Apache-2.0 */

#include "base/wait.h"

#include <time.h>

#include "base/clock.h"

void cairn_cond_init(pthread_cond_t *cond)
{
	pthread_condattr_t attr;

	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(cond, &attr);
	pthread_condattr_destroy(&attr);
}

uint64_t cairn_after_ms(uint64_t ms)
{
	uint64_t ns, sum;

	if (__builtin_mul_overflow(ms, CAIRN_NS_PER_MS, &ns) ||
	    __builtin_add_overflow(cairn_monotonic_ns(), ns, &sum))
		return UINT64_MAX;
	return sum;
}

bool cairn_cond_wait_until(pthread_cond_t *cond, pthread_mutex_t *lock, uint64_t until_ns)
{
	const struct timespec at = {.tv_sec = (time_t)(until_ns / CAIRN_NS_PER_SEC),
				    .tv_nsec = (long)(until_ns % CAIRN_NS_PER_SEC)};

	if (until_ns == UINT64_MAX)
		return pthread_cond_wait(cond, lock) == 0;
	return pthread_cond_timedwait(cond, lock, &at) == 0;
}
