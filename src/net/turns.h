/* SPDX-License-Identifier: Apache-2.0 */

/* Threads take turns with CPU-bound work that never blocks, one thread at a time
 * and round robin over the lanes, so that a crowd of one address delays only
 * itself.
 *
 * All functions may be called from any thread.
 */
#ifndef CAIRN_NET_TURNS_H
#define CAIRN_NET_TURNS_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "net/shares.h"

struct net_turn;

struct net_turns {
	pthread_mutex_t lock; /* guards what follows */
	bool taken;
	uint8_t at; /* the lane whose turn it is */
	struct {
		struct net_turn *first, *last;
	} lanes[NET_CROWD_LANES];
};

void net_turns_init(struct net_turns *turns);
void net_turns_done(struct net_turns *turns);

/* Waits for a turn; false when `gone` became true first. */
bool net_turns_take(struct net_turns *turns, uint8_t lane, const atomic_bool *gone);
void net_turns_give(struct net_turns *turns);

#endif
