/* SPDX-License-Identifier: Apache-2.0 */

#include "base/backoff.h"

#include <stddef.h>

#include "base/random.h"

static uint64_t backoff_spread(uint64_t pause, uint32_t chance)
{
	uint64_t half = pause - pause / 2;

	return pause - half + (uint64_t)((double)half * chance / UINT32_MAX);
}

uint64_t cairn_backoff_ms(const struct cairn_backoff *backoff, uint32_t chance)
{
	uint64_t pause = backoff->first_ms;

	for (unsigned i = 0; i < backoff->failures && pause < backoff->most_ms; i++)
		pause *= 2;
	return backoff_spread(pause < backoff->most_ms ? pause : backoff->most_ms, chance);
}

/* Without randomness the pause has its full length. */
static uint32_t chance_of_now(void)
{
	uint32_t chance;

	return cairn_random_bytes(&chance, sizeof(chance), NULL) < 0 ? UINT32_MAX : chance;
}

uint64_t cairn_jitter_ms(uint64_t pause_ms)
{
	return backoff_spread(pause_ms, chance_of_now());
}

uint64_t cairn_backoff_next(struct cairn_backoff *backoff)
{
	uint64_t pause = cairn_backoff_ms(backoff, chance_of_now());

	backoff->failures++;
	return pause;
}

void cairn_backoff_reset(struct cairn_backoff *backoff)
{
	backoff->failures = 0;
}
