/* SPDX-License-Identifier: Apache-2.0 */

/* When a stream that failed is worth another try, and after which pause.
 *
 * Time is handed in. What a status means here: the service's table of errors
 * uses UNAVAILABLE, INTERNAL and UNKNOWN for troubles that pass (a driver that
 * restarts, an API server that is away), DEADLINE_EXCEEDED for streams that
 * were longer than it allows, RESOURCE_EXHAUSTED for too many of them, and
 * CANCELLED when it stops. UNAUTHENTICATED is a token that ran out, once; a
 * second time in a row it is the wrong token. All others stay as they are.
 */
#ifndef CAIRN_CLIENT_RETRY_H
#define CAIRN_CLIENT_RETRY_H

#include <stdbool.h>
#include <stdint.h>

#define CLIENT_PATIENCE_DEFAULT_MS (2 * 60 * 1000ULL)
#define CLIENT_PAUSE_FIRST_MS      200
#define CLIENT_PAUSE_MAX_MS        15000

struct client_retry {
	uint64_t patience_ms; /* UINT64_MAX: without end */
	uint64_t since_ns;    /* the last progress, or the first attempt */
	unsigned failures;    /* in a row */
	bool refused;         /* the last one was UNAUTHENTICATED */
};

void client_retry_init(struct client_retry *retry, uint64_t patience_ms, uint64_t now_ns);

/* The listing got further. */
void client_retry_progress(struct client_retry *retry, uint64_t now_ns);

/* An attempt failed with `code`. True when another one should follow, in
 * *ret_wait_ms; `random` spreads the pauses of many clients. */
bool client_retry_failed(struct client_retry *retry, int code, uint64_t now_ns, uint32_t random,
			 uint64_t *ret_wait_ms);

#endif
