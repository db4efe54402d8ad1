/* SPDX-License-Identifier: Apache-2.0 */

/* Work for peers of which one address has many: handshakes and first requests of
 * strangers. A loop does it one connection a turn, the addresses by turns, so that
 * a peer of another address waits for one piece of it and not for all.
 *
 * Addresses are put into lanes by a keyed hash. Everything here is for the loop's
 * thread.
 */
#ifndef CAIRN_NET_CROWD_H
#define CAIRN_NET_CROWD_H

#include <stdbool.h>
#include <stdint.h>

#include "net/loop.h"
#include "net/shares.h"

/* Embedded in what waits. */
struct net_crowd_entry {
	struct net_crowd_entry *prev, *next;
	uint8_t lane;
	bool waiting;
};

struct net_crowd {
	struct net_loop *loop;
	void (*work)(struct net_crowd_entry *entry);
	struct net_task posted, late;
	bool asked; /* one of the tasks is under way */
	uint32_t waiting;
	uint8_t at; /* the lane whose turn it is */
	struct {
		struct net_crowd_entry *first, *last;
	} lanes[NET_CROWD_LANES];
};

/* `work` is called for each entry, which does not wait any more then. */
void net_crowd_init(struct net_crowd *crowd, struct net_loop *loop,
		    void (*work)(struct net_crowd_entry *entry));

/* Has no effect on one that waits. */
void net_crowd_add(struct net_crowd *crowd, struct net_crowd_entry *entry, uint8_t lane);

/* Accepts one that does not wait. */
void net_crowd_remove(struct net_crowd *crowd, struct net_crowd_entry *entry);

/* The next to be worked on, which does not wait any more; NULL when there is none. */
struct net_crowd_entry *net_crowd_next(struct net_crowd *crowd);

#endif
