/* SPDX-License-Identifier: Apache-2.0 */

/* Places of requests that are passed on, so that one user cannot take them all: an answer
 * lasts as long as its reader likes, in pieces. */
#ifndef CAIRN_AGGAPI_PASS_PLACES_H
#define CAIRN_AGGAPI_PASS_PLACES_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

struct kube_digest;

/* Limits at once: of watches, of all other requests, and of those of one user. */
#define AGGAPI_WATCHES_MAX      128U
#define AGGAPI_WATCHES_EACH_MAX 32U
#define AGGAPI_PASSES_MAX       64U
#define AGGAPI_PASSES_EACH_MAX  16U

struct aggapi_places {
	pthread_mutex_t lock;
	/* guarded by lock; `each` by user: users that collide share a limit */
	struct aggapi_places_kind {
		unsigned n;
		uint8_t each[256];
	} watches, passes;
};

void aggapi_places_init(struct aggapi_places *places);
void aggapi_places_done(struct aggapi_places *places);

/* Takes a place; false if there is none. */
bool aggapi_places_take(struct aggapi_places *places, bool watch, const struct kube_digest *who);
void aggapi_places_leave(struct aggapi_places *places, bool watch, const struct kube_digest *who);

#endif
