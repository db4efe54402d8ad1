/* SPDX-License-Identifier: Apache-2.0 */

/* Fair scheduling of work for strangers whose address has many connections:
 * handshakes and first requests. A loop handles one such connection per turn,
 * round robin over the addresses, so that a peer of another address waits for one
 * piece of that work and not for all of it.
 *
 * Addresses are assigned to lanes by a keyed hash. Everything here is for the
 * loop's thread.
 */
#ifndef CAIRN_NET_CROWD_H
#define CAIRN_NET_CROWD_H

#include <stdbool.h>
#include <stdint.h>

#include "net/loop.h"
#include "net/shares.h"

/* Embedded in the object that waits. */
struct net_crowd_entry {
	struct net_crowd_entry *prev, *next;
	uint8_t lane;
	bool waiting;
};

struct net_crowd {
	struct net_loop *loop;
	void (*work)(struct net_crowd_entry *entry);
	struct net_task posted, late;
	bool asked; /* one of the tasks has been posted */
	uint32_t waiting;
	uint8_t at; /* the lane whose turn it is */
	struct {
		struct net_crowd_entry *first, *last;
	} lanes[NET_CROWD_LANES];
};

/* `work` is called for each entry, after it was removed from the queue. */
void net_crowd_init(struct net_crowd *crowd, struct net_loop *loop,
		    void (*work)(struct net_crowd_entry *entry));

/* Has no effect on an entry that is already waiting. */
void net_crowd_add(struct net_crowd *crowd, struct net_crowd_entry *entry, uint8_t lane);

/* Has no effect on an entry that is not waiting. */
void net_crowd_remove(struct net_crowd *crowd, struct net_crowd_entry *entry);

/* Removes and returns the next entry to work on; NULL when there is none. */
struct net_crowd_entry *net_crowd_next(struct net_crowd *crowd);

#endif
