/* SPDX-License-Identifier: Apache-2.0 */

/* Limits for each peer address on a server's resources: connections,
 * handshakes, and the memory of unanswered requests.
 *
 * An address is an IPv4 address or the /64 of an IPv6 one. A connection has a
 * slot. Until its peer has authenticated (net_slot_trust()) it belongs to a
 * stranger, and strangers have limits of their own. When a limit is reached, a
 * new connection takes the slot of another one, in this order: a stranger that
 * has not sent anything complete yet, a stranger without a request, a stranger
 * with one, an idle known peer; the longest in its state first. So a peer that
 * fills the share of its address displaces only itself; when all slots are
 * taken, the address with most of them loses one. A known peer with a request
 * and a pinned one are never displaced; if there is no candidate, the new
 * connection is refused. A few extra slots are reserved for addresses from
 * which a known peer or a probe connected recently.
 *
 * Displacing is a shutdown(2) of the socket: its owner sees the end and cleans
 * up as usual. An owner must therefore leave before it closes the descriptor.
 *
 * Peers of unix sockets were admitted by the file's mode: they have no share
 * and are not displaced. All functions may be called from any thread.
 */
#ifndef CAIRN_NET_SHARES_H
#define CAIRN_NET_SHARES_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"

struct cairn_err;
struct net_share;
struct net_shares;

/* Slots beyond the limits, in total and per address, for recently known
 * addresses. */
#define NET_SHARES_RESERVE      16U
#define NET_SHARES_RESERVE_EACH 4U

/* For how long an address counts as recently known. */
#define NET_SHARES_RESERVE_MS (10U * 60 * 1000)

/* A stranger's connection belongs to a crowd when its address has more than this
 * many of them, or has used this much of its handshakes. Its work is done after
 * that of others, in lanes to which addresses are assigned. */
#define NET_CROWD_STRANGERS  4U
#define NET_CROWD_HANDSHAKES 32U
#define NET_CROWD_LANES      64U

/* For this time a stranger's request is not displaced by its own address. */
#define NET_SHARES_BUSY_MS 5000U

struct net_shares_limits {
	uint32_t connections, connections_each; /* open at once; of one address */
	uint32_t strangers, strangers_each;     /* of those, of peers that have not authenticated */
	uint32_t handshakes_burst;              /* of one address at once */
	uint32_t handshakes_per_second;         /* and how fast that refills */
	uint32_t requests_burst;                /* of the strangers of one address at once */
	uint32_t requests_per_second;           /* and how fast that refills; 0: no limit */
	size_t request_bytes, request_bytes_each;
};

enum net_slot_state {
	NET_SLOT_SILENT, /* nothing complete has arrived */
	NET_SLOT_IDLE,   /* no request in progress */
	NET_SLOT_BUSY,
};

enum net_slot_trust {
	NET_SLOT_STRANGER,
	NET_SLOT_PROBE,  /* a stranger, but its address may use the reserve */
	NET_SLOT_KNOWN,  /* has authenticated */
	NET_SLOT_PINNED, /* and is never displaced: a front proxy, a unix peer */
};

/* One connection; embedded in an object that outlives it. */
struct net_slot {
	/* Guarded by the table. */
	struct net_slot *prev, *next;
	struct net_share *share; /* NULL when it left or was displaced */
	int fd;
	bool reserved;

	/* Constant. */
	bool crowd;
	uint8_t lane;

	atomic_bool displaced;
	_Atomic int trust;
	_Atomic int state;
	_Atomic uint64_t since_ns; /* of the state */
};

int net_shares_new(const struct net_shares_limits *limits, struct net_shares **ret,
		   struct cairn_err *err);
/* Call after every slot has left and every share was released. Accepts NULL. */
void net_shares_free(struct net_shares *shares);
CAIRN_DEFINE_CLEANUP(struct net_shares, net_shares_free);

/* Gives a connected socket a slot; false when it must be closed. `handshake`
 * counts it against the address's handshakes. */
bool net_shares_admit(struct net_shares *shares, struct net_slot *slot, int fd, bool handshake);

/* Call before `fd` is closed. Accepts a slot that was never admitted. */
void net_slot_leave(struct net_shares *shares, struct net_slot *slot);

void net_slot_set(struct net_slot *slot, enum net_slot_state state);

/* True if its work can wait: it belongs to a crowd, its peer is not known, and it
 * was not displaced. A displaced one is handled at once, because that frees its
 * resources. */
bool net_slot_can_wait(const struct net_slot *slot);

/* Trust can only be raised. */
void net_slot_trust(struct net_shares *shares, struct net_slot *slot, enum net_slot_trust trust);
bool net_slot_is_known(const struct net_slot *slot);

/* Counts a request; returns for how many milliseconds it must be delayed. */
uint64_t net_slot_pace(struct net_shares *shares, struct net_slot *slot);

/* The share of the slot's address, with a reference; NULL when it left. */
struct net_share *net_slot_share(struct net_shares *shares, struct net_slot *slot);
void net_share_unref(struct net_shares *shares, struct net_share *share); /* accepts NULL */

/* Charges the memory of a request; false when it would exceed a limit, of which
 * strangers get three quarters. No address may have more than is left for all
 * others, so no address can use it up. */
bool net_share_charge(struct net_shares *shares, struct net_share *share, size_t n, bool known);
void net_share_uncharge(struct net_shares *shares, struct net_share *share, size_t n);

/* The peak of charged bytes and of open connections since the last call. */
size_t net_shares_take_peak(struct net_shares *shares, uint32_t *ret_connections);

/* Counts a request that was refused because of a limit enforced elsewhere. */
void net_shares_count_refusal(struct net_shares *shares);

struct net_shares_stats {
	uint64_t connections, strangers, addresses;
	uint64_t request_bytes;
	uint64_t admitted, refused, displaced; /* connections, ever */
	uint64_t handshakes_refused;           /* of the refused ones */
	uint64_t requests_refused;
	uint64_t calmed; /* connections ended because their peer exceeded a flood limit */
};

void net_shares_stats(struct net_shares *shares, struct net_shares_stats *ret);

/* Counts a connection that was ended because its peer exceeded a flood
 * limit. */
void net_shares_count_calm(struct net_shares *shares);

/* Totals of all servers of this process; counters include servers that were
 * freed. */
void net_shares_totals(struct net_shares_stats *ret);

#endif
