/* SPDX-License-Identifier: Apache-2.0 */

#include "net/peer.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "base/mem.h"
#include "net/tls/tls_settings.h"

static void fill_unix(struct net_peer *peer, int fd)
{
	struct ucred cred;
	socklen_t n = sizeof(cred);

	peer->is_unix = true;
	snprintf(peer->address, sizeof(peer->address), "unix");
	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &n) == 0) {
		peer->pid = cred.pid;
		peer->uid = cred.uid;
		peer->gid = cred.gid;
	}
}

union address {
	struct sockaddr any;
	struct sockaddr_in v4;
	struct sockaddr_in6 v6;
	struct sockaddr_storage room;
};

static void fill_inet(struct net_peer *peer, const union address *addr)
{
	char text[INET6_ADDRSTRLEN] = "";

	if (addr->any.sa_family == AF_INET) {
		inet_ntop(AF_INET, &addr->v4.sin_addr, text, sizeof(text));
		snprintf(peer->address, sizeof(peer->address), "%s:%u", text,
			 ntohs(addr->v4.sin_port));
	} else {
		inet_ntop(AF_INET6, &addr->v6.sin6_addr, text, sizeof(text));
		snprintf(peer->address, sizeof(peer->address), "[%s]:%u", text,
			 ntohs(addr->v6.sin6_port));
	}
}

struct net_shared_peer *net_peer_of(int fd)
{
	struct net_shared_peer *shared = cairn_calloc(1, sizeof(*shared));
	union address addr;
	socklen_t n = sizeof(addr);

	if (!shared)
		return NULL;
	atomic_init(&shared->refs, 1);
	shared->peer.pid = -1;
	shared->peer.uid = (uid_t)-1;
	shared->peer.gid = (gid_t)-1;
	memset(&addr, 0, sizeof(addr));
	if (getpeername(fd, &addr.any, &n) == 0) {
		if (addr.any.sa_family == AF_UNIX)
			fill_unix(&shared->peer, fd);
		else
			fill_inet(&shared->peer, &addr);
	}
	return shared;
}

void net_peer_add_tls(struct net_shared_peer *shared, struct ssl_st *ssl)
{
	shared->peer.is_tls = true;
	if (!net_tls_peer_subject(ssl, shared->subject, sizeof(shared->subject)))
		return;
	shared->peer.tls_subject = shared->subject;
	net_slot_trust(shared->shares, &shared->slot, NET_SLOT_KNOWN);
}

bool net_peer_admit(struct net_shared_peer *shared, struct net_shares *shares, int fd,
		    bool handshake)
{
	if (!net_shares_admit(shares, &shared->slot, fd, handshake))
		return false;
	shared->shares = shares;
	shared->share = net_slot_share(shares, &shared->slot);
	return true;
}

void net_peer_leave(struct net_shared_peer *shared)
{
	if (shared)
		net_slot_leave(shared->shares, &shared->slot);
}

bool net_peer_charge(struct net_shared_peer *shared, size_t n)
{
	bool known = net_slot_is_known(&shared->slot);
	/* Added before the check, so that two threads cannot pass the limit together. */
	size_t before = atomic_fetch_add_explicit(&shared->request_bytes, n, memory_order_relaxed);

	if (before + n > shared->request_bytes_max)
		net_shares_count_refusal(shared->shares);
	else if (net_share_charge(shared->shares, shared->share, n, known))
		return true;
	atomic_fetch_sub_explicit(&shared->request_bytes, n, memory_order_relaxed);
	return false;
}

void net_peer_uncharge(struct net_shared_peer *shared, size_t n)
{
	atomic_fetch_sub_explicit(&shared->request_bytes, n, memory_order_relaxed);
	net_share_uncharge(shared->shares, shared->share, n);
}

struct net_shared_peer *net_peer_ref(struct net_shared_peer *shared)
{
	atomic_fetch_add_explicit(&shared->refs, 1, memory_order_relaxed);
	return shared;
}

void net_peer_unref(struct net_shared_peer *shared)
{
	if (!shared || atomic_fetch_sub_explicit(&shared->refs, 1, memory_order_acq_rel) != 1)
		return;
	net_share_unref(shared->shares, shared->share);
	free(shared);
}
