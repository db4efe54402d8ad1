/* SPDX-License-Identifier: Apache-2.0 */

#include "client/retry.h"
#include "base/backoff.h"

#include "base/clock.h"
#include "base/err.h"

void client_retry_init(struct client_retry *retry, uint64_t patience_ms, uint64_t now_ns)
{
	*retry = (struct client_retry){.patience_ms = patience_ms, .since_ns = now_ns};
}

void client_retry_progress(struct client_retry *retry, uint64_t now_ns)
{
	retry->since_ns = now_ns;
	retry->failures = 0;
	retry->refused = false;
}

static bool retry_passes(const struct client_retry *retry, int code)
{
	switch (code) {
	case CAIRN_CANCELLED:
	case CAIRN_UNKNOWN:
	case CAIRN_DEADLINE:
	case CAIRN_NO_SPACE:
	case CAIRN_ABORTED:
	case CAIRN_INTERNAL:
	case CAIRN_UNAVAILABLE:
		return true;
	case CAIRN_UNAUTHENTICATED:
		return !retry->refused;
	default:
		return false;
	}
}

static uint64_t pause_ms(unsigned failures, uint32_t chance)
{
	const struct cairn_backoff backoff = {.first_ms = CLIENT_PAUSE_FIRST_MS,
					      .most_ms = CLIENT_PAUSE_MAX_MS,
					      .failures = failures - 1};

	return cairn_backoff_ms(&backoff, chance);
}

bool client_retry_failed(struct client_retry *retry, int code, uint64_t now_ns, uint32_t random,
			 uint64_t *ret_wait_ms)
{
	uint64_t waited_ms = (now_ns - retry->since_ns) / CAIRN_NS_PER_MS;
	bool again = retry_passes(retry, code);
	uint64_t wait_ms;

	if (!again)
		return false;
	retry->failures++;
	retry->refused = code == CAIRN_UNAUTHENTICATED;
	/* An expired token says nothing about the service: try a new one immediately. */
	wait_ms = retry->refused && retry->failures == 1 ? 0 : pause_ms(retry->failures, random);
	if (waited_ms + wait_ms >= retry->patience_ms)
		return false;
	*ret_wait_ms = wait_ms;
	return true;
}
