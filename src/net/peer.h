/* SPDX-License-Identifier: Apache-2.0 */

/* Who is at the other end, shared by a connection and the calls on it. */
#ifndef CAIRN_NET_PEER_H
#define CAIRN_NET_PEER_H

#include <stdatomic.h>

#include "net/call.h"

struct ssl_st;

struct net_shared_peer {
	_Atomic unsigned refs;
	struct net_peer peer;
	char subject[256];
};

/* Asks the kernel about `fd`; NULL when memory is short. */
struct net_shared_peer *net_peer_of(int fd);

/* Adds what a finished handshake proved. */
void net_peer_add_tls(struct net_shared_peer *shared, struct ssl_st *ssl);

struct net_shared_peer *net_peer_ref(struct net_shared_peer *shared);
void net_peer_unref(struct net_shared_peer *shared); /* accepts NULL */

#endif
