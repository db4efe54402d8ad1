/* SPDX-License-Identifier: Apache-2.0 */

/* Decides whether a failed stream is retried, and after which pause.
 *
 * The caller supplies the clock. The service uses UNAVAILABLE, INTERNAL and UNKNOWN for
 * temporary failures (a driver restarts, the API server cannot be reached),
 * DEADLINE_EXCEEDED for streams over its time limit, RESOURCE_EXHAUSTED for too many
 * streams, and CANCELLED at its shutdown: all of these are retried. The first
 * UNAUTHENTICATED is taken as an expired token, a second one in a row as a wrong token.
 * All other codes are final.
 */
#ifndef CAIRN_CLIENT_RETRY_H
#define CAIRN_CLIENT_RETRY_H

#include <stdbool.h>
#include <stdint.h>

#define CLIENT_PATIENCE_DEFAULT_MS (2 * 60 * 1000ULL)
#define CLIENT_PAUSE_FIRST_MS      200
#define CLIENT_PAUSE_MAX_MS        15000

struct client_retry {
	uint64_t patience_ms; /* UINT64_MAX: no limit */
	uint64_t since_ns;    /* the last progress, or the first attempt */
	unsigned failures;    /* consecutive failures */
	bool refused;         /* the last one was UNAUTHENTICATED */
};

void client_retry_init(struct client_retry *retry, uint64_t patience_ms, uint64_t now_ns);

/* The listing made progress. */
void client_retry_progress(struct client_retry *retry, uint64_t now_ns);

/* An attempt failed with `code`. Returns true if it should be repeated after *ret_wait_ms;
 * `random` spreads the retries of many clients. */
bool client_retry_failed(struct client_retry *retry, int code, uint64_t now_ns, uint32_t random,
			 uint64_t *ret_wait_ms);

#endif
