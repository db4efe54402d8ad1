/* SPDX-License-Identifier: Apache-2.0 */

#include "kube/backoff.h"

#include <stddef.h>

#include "base/random.h"

uint64_t kube_backoff_next(struct kube_backoff *backoff)
{
	uint64_t pause = backoff->first_ms;
	uint32_t chance = 0;

	for (unsigned i = 0; i < backoff->failures && pause < backoff->most_ms; i++)
		pause *= 2;
	if (pause > backoff->most_ms)
		pause = backoff->most_ms;
	backoff->failures++;
	/* Without randomness there is still a pause. */
	if (cairn_random_bytes(&chance, sizeof(chance), NULL) < 0)
		chance = 0;
	return pause - (uint64_t)((double)pause / 2 * chance / 4294967296.0);
}

void kube_backoff_reset(struct kube_backoff *backoff)
{
	backoff->failures = 0;
}
