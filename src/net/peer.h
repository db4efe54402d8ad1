/* SPDX-License-Identifier: Apache-2.0 */

/* The identity of a peer, shared by a connection and the calls on it. */
#ifndef CAIRN_NET_PEER_H
#define CAIRN_NET_PEER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#include "net/grpc/call.h"
#include "net/shares.h"

struct ssl_st;

struct net_shared_peer {
	_Atomic unsigned refs;
	struct net_peer peer;
	char subject[256];

	/* Its share of the server's resources. */
	struct net_shares *shares;
	struct net_share *share; /* of its address */
	struct net_slot slot;    /* of the connection */
	_Atomic size_t request_bytes;
	size_t request_bytes_max;
};

/* Asks the kernel about `fd`; NULL when memory is short. */
struct net_shared_peer *net_peer_of(int fd);

/* Gives it a slot as net_shares_admit() does; false when the connection must be
 * closed. `shares` must outlive it. */
bool net_peer_admit(struct net_shared_peer *shared, struct net_shares *shares, int fd,
		    bool handshake);

/* Call before the connection's descriptor is closed. Accepts NULL. */
void net_peer_leave(struct net_shared_peer *shared);

/* Charges the memory of a request to the connection and its address; false when
 * it would exceed a limit. */
bool net_peer_charge(struct net_shared_peer *shared, size_t n);
void net_peer_uncharge(struct net_shared_peer *shared, size_t n);

/* Adds the identity that a finished handshake has proved. */
void net_peer_add_tls(struct net_shared_peer *shared, struct ssl_st *ssl);

struct net_shared_peer *net_peer_ref(struct net_shared_peer *shared);
void net_peer_unref(struct net_shared_peer *shared); /* accepts NULL */

#endif
