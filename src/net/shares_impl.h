/* SPDX-License-Identifier: Apache-2.0 */

/* Internal header of the shares of addresses: shares.c (the tables of a process),
 * shares_address.c (entries of addresses), shares_slot.c (slots and displacement),
 * shares_memory.c (memory of requests). */
#ifndef CAIRN_NET_SHARES_IMPL_H
#define CAIRN_NET_SHARES_IMPL_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/siphash.h"
#include "net/shares.h"

#define NET_SHARES_BUCKETS       1024U
#define NET_SHARES_ADDRESS_BYTES 17 /* family and address */

struct net_share {
	struct net_share *next; /* in its bucket */
	struct net_slot *slots;
	uint8_t address[NET_SHARES_ADDRESS_BYTES];
	bool local;                /* a unix socket: the limits of one address do not apply */
	uint8_t lane;              /* the lane of its crowd */
	uint32_t n, strangers;     /* slots */
	uint32_t reserved;         /* slots of `n` that exceed the limits */
	uint32_t refs;             /* in addition to the slots */
	uint64_t reserve_until_ns; /* until then it may use the reserve */
	double handshakes;         /* handshakes that it may begin now */
	double requests;           /* requests that its strangers may make now */
	uint64_t refilled_ns;      /* when both were last refilled */
	_Atomic size_t request_bytes;
};

struct net_shares {
	struct net_shares *prev, *next; /* guarded by `every_lock` */
	struct net_shares_limits limits;
	struct cairn_siphash_key key;
	_Atomic size_t request_bytes, request_peak;
	_Atomic uint64_t requests_refused, calmed;

	pthread_mutex_t lock; /* guards what follows */
	struct net_share *buckets[NET_SHARES_BUCKETS];
	uint32_t addresses;
	uint32_t n, n_peak, strangers, reserved;
	uint64_t admitted, refused, displaced, handshakes_refused;
};

/* All with the lock of the table held. */

/* The entry of the socket's peer address, which may be new; NULL if there are too many. */
struct net_share *net_share_find(struct net_shares *shares, int fd, uint64_t now_ns);

/* Adds the handshakes and requests that it got since the last call. */
void net_share_refill(const struct net_shares *shares, struct net_share *share, uint64_t now_ns);

#endif
