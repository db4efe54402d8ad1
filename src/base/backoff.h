/* SPDX-License-Identifier: Apache-2.0 */

/* Growing pauses between retries. The pause doubles up to a maximum; the result is a
 * random value between half of it and all of it, so that callers that failed together do
 * not retry together. */
#ifndef CAIRN_BASE_BACKOFF_H
#define CAIRN_BASE_BACKOFF_H

#include <stdint.h>

struct cairn_backoff {
	uint64_t first_ms;
	uint64_t most_ms;
	unsigned failures;
};

/* The next pause. */
uint64_t cairn_backoff_next(struct cairn_backoff *backoff);

/* After a success: the next pause is the first again. */
void cairn_backoff_reset(struct cairn_backoff *backoff);

/* cairn_backoff_ms() returns the pause after backoff->failures failures; `chance` selects
 * the value, with UINT32_MAX for the longest. cairn_jitter_ms() returns a random value
 * between half of a pause and all of it. */
uint64_t cairn_backoff_ms(const struct cairn_backoff *backoff, uint32_t chance);
uint64_t cairn_jitter_ms(uint64_t pause_ms);

#endif
