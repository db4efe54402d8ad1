/* SPDX-License-Identifier: Apache-2.0 */

/* Places for calls that anybody may make and that hold a worker thread while they wait:
 * watches of health, reflection.
 *
 * There are NET_CALL_PLACES of them, a quarter for one address. When all are taken, a caller
 * from an address with fewer of them displaces the newest call of the address with the most, so
 * that a few addresses do not keep all others out. Peers of unix sockets count as one address
 * without a share.
 *
 * Thread-safe.
 */
#ifndef CAIRN_NET_CALL_PLACES_H
#define CAIRN_NET_CALL_PLACES_H

#include <pthread.h>
#include <stdbool.h>

struct cairn_err;
struct net_call;

#define NET_CALL_PLACES      64U
#define NET_CALL_PLACES_EACH (NET_CALL_PLACES / 4)

/* The place of a call, in memory of its handler. */
struct net_call_place {
	struct net_call_place *next;
	struct net_call *call;
	const void *address;
	bool displaced; /* guarded by the lock */
};

struct net_call_places {
	pthread_mutex_t lock;
	/* Guarded by the lock. */
	struct net_call_place *first; /* the newest */
	unsigned n;
};

void net_call_places_init(struct net_call_places *places);
void net_call_places_done(struct net_call_places *places);

/* CAIRN_NO_SPACE  all places are taken, or those of the caller's address */
int net_call_places_enter(struct net_call_places *places, struct net_call *call,
			  struct net_call_place *place, struct cairn_err *err);

/* 0, or CAIRN_NO_SPACE if another call has the place now; net_call_wake() and the end of a wait
 * for a message announce that. */
int net_call_places_check(struct net_call_places *places, const struct net_call_place *place,
			  struct cairn_err *err);

void net_call_places_leave(struct net_call_places *places, struct net_call_place *place);

/* Wakes all calls that have a place. */
void net_call_places_wake(struct net_call_places *places);

#endif
