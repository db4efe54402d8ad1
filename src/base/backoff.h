/* SPDX-License-Identifier: Apache-2.0 */

/* Growing pauses between tries: twice the last one, up to the most, and between
 * half of that and all of it by chance, so that many who failed together do not
 * come back together. */
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

/* It went well: the next pause is the first again. */
void cairn_backoff_reset(struct cairn_backoff *backoff);

/* The pause after so many failures, with all of UINT32_MAX the longest chance; and
 * the part of a pause that chance leaves. */
uint64_t cairn_backoff_ms(const struct cairn_backoff *backoff, uint32_t chance);
uint64_t cairn_jitter_ms(uint64_t pause_ms);

#endif
