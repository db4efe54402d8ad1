/* SPDX-License-Identifier: Apache-2.0 */

#include "repo/repo_limiter.h"

#include "base/clock.h"
#include "base/lock.h"

#define SLICES_A_SECOND 50U
#define PAUSE_MAX_MS    50U /* how soon a cancelled caller is noticed */

void repo_limiter_init(struct repo_limiter *limiter, uint64_t rate)
{
	pthread_mutex_init(&limiter->mutex, NULL);
	limiter->rate = rate;
	limiter->next_ns = 0;
}

size_t repo_limiter_slice(const struct repo_limiter *limiter, size_t n)
{
	uint64_t slice;

	if (!limiter || limiter->rate == 0)
		return n;
	slice = limiter->rate / SLICES_A_SECOND;
	if (slice < REPO_LIMITER_SLICE_MIN)
		slice = REPO_LIMITER_SLICE_MIN;
	if (slice > REPO_LIMITER_SLICE_MAX)
		slice = REPO_LIMITER_SLICE_MAX;
	return n < slice ? n : (size_t)slice;
}

/* Returns the time at which `n` bytes may be sent, and reserves the time that they take. */
static uint64_t repo_limiter_book(struct repo_limiter *limiter, size_t n, uint64_t now)
{
	uint64_t start;

	cairn_scoped_lock(&limiter->mutex);
	start = limiter->next_ns > now ? limiter->next_ns : now;
	limiter->next_ns =
		start + (uint64_t)((double)n / (double)limiter->rate * (double)CAIRN_NS_PER_SEC);
	return start;
}

bool repo_limiter_wait(struct repo_limiter *limiter, size_t n, bool (*cancelled)(void))
{
	uint64_t start, now;

	if (!limiter || limiter->rate == 0)
		return true;
	now = cairn_monotonic_ns();
	start = repo_limiter_book(limiter, n, now);
	while (now < start) {
		uint64_t left_ms = (start - now) / CAIRN_NS_PER_MS + 1;

		if (cancelled && cancelled())
			return false;
		cairn_sleep_ms(left_ms < PAUSE_MAX_MS ? left_ms : PAUSE_MAX_MS);
		now = cairn_monotonic_ns();
	}
	return true;
}
