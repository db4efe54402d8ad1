/* SPDX-License-Identifier: Apache-2.0 */

/* Slots of connections: admission and displacement. */

#include <sys/socket.h>

#include "base/clock.h"
#include "base/lock.h"
#include "net/shares_impl.h"

/* Candidates for displacement, in order. */
enum rank { RANK_SILENT, RANK_IDLE, RANK_BUSY, RANK_KNOWN_IDLE, RANK_NEVER };

bool net_slot_is_known(const struct net_slot *slot)
{
	return atomic_load_explicit(&slot->trust, memory_order_relaxed) >= NET_SLOT_KNOWN;
}

static void return_reserved(struct net_shares *shares, struct net_slot *slot)
{
	if (!slot->reserved)
		return;
	slot->reserved = false;
	slot->share->reserved--;
	shares->reserved--;
}

static void take_off(struct net_shares *shares, struct net_slot *slot)
{
	struct net_share *share = slot->share;

	return_reserved(shares, slot);
	if (!net_slot_is_known(slot)) {
		share->strangers--;
		shares->strangers--;
	}
	share->n--;
	shares->n--;
	if (slot->prev)
		slot->prev->next = slot->next;
	else
		share->slots = slot->next;
	if (slot->next)
		slot->next->prev = slot->prev;
	slot->prev = slot->next = NULL;
	slot->share = NULL;
}

/* Called after the handshake of the new connection was counted. */
static bool is_crowded(const struct net_shares *shares, const struct net_share *share)
{
	return share->strangers >= NET_CROWD_STRANGERS ||
	       share->handshakes + NET_CROWD_HANDSHAKES < shares->limits.handshakes_burst;
}

bool net_slot_can_wait(const struct net_slot *slot)
{
	return slot->crowd && !net_slot_is_known(slot) &&
	       !atomic_load_explicit(&slot->displaced, memory_order_relaxed);
}

static void put_on(struct net_shares *shares, struct net_share *share, struct net_slot *slot,
		   int fd)
{
	bool stranger = !share->local;

	*slot = (struct net_slot){
		.share = share,
		.fd = fd,
		.next = share->slots,
		.crowd = stranger && is_crowded(shares, share),
		.lane = share->lane,
	};
	atomic_store(&slot->trust, stranger ? NET_SLOT_STRANGER : NET_SLOT_PINNED);
	atomic_store(&slot->since_ns, cairn_monotonic_ns());
	if (slot->next)
		slot->next->prev = slot;
	share->slots = slot;
	share->n++;
	shares->n++;
	if (shares->n > shares->n_peak)
		shares->n_peak = shares->n;
	share->strangers += stranger;
	shares->strangers += stranger;
	shares->admitted++;
}

static enum rank rank_of(const struct net_slot *slot)
{
	int trust = atomic_load_explicit(&slot->trust, memory_order_relaxed);
	int state = atomic_load_explicit(&slot->state, memory_order_relaxed);

	if (trust == NET_SLOT_PINNED)
		return RANK_NEVER;
	if (trust == NET_SLOT_KNOWN)
		return state == NET_SLOT_BUSY ? RANK_NEVER : RANK_KNOWN_IDLE;
	return state == NET_SLOT_SILENT ? RANK_SILENT
	       : state == NET_SLOT_IDLE ? RANK_IDLE
					: RANK_BUSY;
}

/* The first candidate for displacement with at most rank `last`. A stranger that is busy
 * since `busy_by_ns` or later is not displaced. */
static struct net_slot *pick_slot(const struct net_share *share, enum rank last,
				  uint64_t busy_by_ns)
{
	struct net_slot *best = NULL;
	enum rank best_rank = last;
	uint64_t best_since = UINT64_MAX;

	for (struct net_slot *slot = share->slots; slot; slot = slot->next) {
		enum rank rank = rank_of(slot);
		uint64_t since = atomic_load_explicit(&slot->since_ns, memory_order_relaxed);

		if (rank > best_rank || (rank == best_rank && since >= best_since))
			continue;
		if (rank == RANK_BUSY && since >= busy_by_ns)
			continue;
		best = slot;
		best_rank = rank;
		best_since = since;
	}
	return best;
}

/* Picks a slot for a new connection of the same address. */
static struct net_slot *pick_own(const struct net_share *share, uint64_t now_ns)
{
	uint64_t grace_ns = NET_SHARES_BUSY_MS * CAIRN_NS_PER_MS;

	return pick_slot(share, RANK_BUSY, now_ns > grace_ns ? now_ns - grace_ns : 0);
}

static bool shares_displace(struct net_shares *shares, struct net_slot *slot)
{
	if (!slot)
		return false;
	(void)shutdown(slot->fd, SHUT_RDWR);
	take_off(shares, slot);
	atomic_store_explicit(&slot->displaced, true, memory_order_relaxed);
	shares->displaced++;
	return true;
}

/* Picks a slot of the address that has the most slots, more than `share`, and one that can
 * be displaced. With `strangers`, only slots of strangers count. */
static struct net_slot *pick_elsewhere(const struct net_shares *shares,
				       const struct net_share *share, bool strangers)
{
	enum rank last = strangers ? RANK_BUSY : RANK_KNOWN_IDLE;
	uint32_t most = strangers ? share->strangers : share->n;
	struct net_slot *best = NULL;

	for (unsigned i = 0; i < NET_SHARES_BUCKETS; i++) {
		for (const struct net_share *s = shares->buckets[i]; s; s = s->next) {
			uint32_t count = strangers ? s->strangers : s->n;
			struct net_slot *slot;

			if (s->local || count <= most)
				continue;
			slot = pick_slot(s, last, UINT64_MAX);
			if (!slot)
				continue;
			best = slot;
			most = count;
		}
	}
	return best;
}

static bool shares_make_room(struct net_shares *shares, struct net_share *share, uint64_t now_ns)
{
	const struct net_shares_limits *l = &shares->limits;
	struct net_slot *slot;

	if (share->local)
		return shares->n < l->connections;
	if ((share->n >= l->connections_each || share->strangers >= l->strangers_each) &&
	    !shares_displace(shares, pick_own(share, now_ns)))
		return false;
	if (shares->n < l->connections && shares->strangers < l->strangers)
		return true;
	slot = pick_elsewhere(shares, share, shares->n < l->connections);
	return shares_displace(shares, slot ? slot : pick_own(share, now_ns));
}

static bool use_reserve(struct net_shares *shares, struct net_share *share, uint64_t now_ns)
{
	if (now_ns >= share->reserve_until_ns || share->reserved >= NET_SHARES_RESERVE_EACH ||
	    shares->reserved >= NET_SHARES_RESERVE)
		return false;
	share->reserved++;
	shares->reserved++;
	return true;
}

static bool spend_handshake(struct net_shares *shares, struct net_share *share, uint64_t now_ns)
{
	if (share->local)
		return true;
	net_share_refill(shares, share, now_ns);
	if (share->handshakes < 1) {
		shares->handshakes_refused++;
		return false;
	}
	share->handshakes -= 1;
	return true;
}

bool net_shares_admit(struct net_shares *shares, struct net_slot *slot, int fd, bool handshake)
{
	uint64_t now = cairn_monotonic_ns();
	struct net_share *share;
	bool reserved = false;

	cairn_scoped_lock(&shares->lock);
	share = net_share_find(shares, fd, now);
	if (!share || (handshake && !spend_handshake(shares, share, now))) {
		shares->refused++;
		return false;
	}
	if (!shares_make_room(shares, share, now)) {
		reserved = use_reserve(shares, share, now);
		if (!reserved) {
			shares->refused++;
			return false;
		}
	}
	put_on(shares, share, slot, fd);
	slot->reserved = reserved;
	return true;
}

void net_slot_leave(struct net_shares *shares, struct net_slot *slot)
{
	cairn_scoped_lock(&shares->lock);
	if (slot->share)
		take_off(shares, slot);
}

void net_slot_set(struct net_slot *slot, enum net_slot_state state)
{
	if (atomic_load_explicit(&slot->state, memory_order_relaxed) == (int)state)
		return;
	atomic_store_explicit(&slot->since_ns, cairn_monotonic_ns(), memory_order_relaxed);
	atomic_store_explicit(&slot->state, state, memory_order_relaxed);
}

void net_slot_trust(struct net_shares *shares, struct net_slot *slot, enum net_slot_trust trust)
{
	bool was_known;

	if (atomic_load_explicit(&slot->trust, memory_order_relaxed) >= (int)trust)
		return;
	cairn_scoped_lock(&shares->lock);
	if (!slot->share || atomic_load(&slot->trust) >= (int)trust)
		return;
	was_known = net_slot_is_known(slot);
	atomic_store(&slot->trust, trust);
	slot->share->reserve_until_ns =
		cairn_monotonic_ns() + NET_SHARES_RESERVE_MS * CAIRN_NS_PER_MS;
	if (was_known || trust < NET_SLOT_KNOWN)
		return;
	return_reserved(shares, slot);
	slot->share->strangers--;
	shares->strangers--;
}

uint64_t net_slot_pace(struct net_shares *shares, struct net_slot *slot)
{
	struct net_share *share;

	if (shares->limits.requests_per_second == 0 || net_slot_is_known(slot))
		return 0;
	cairn_scoped_lock(&shares->lock);
	share = slot->share;
	if (!share)
		return 0;
	net_share_refill(shares, share, cairn_monotonic_ns());
	/* The level may become negative: each waiting request then gets its own time, so
	 * that none wakes up in vain. */
	share->requests -= 1;
	if (share->requests >= 0)
		return 0;
	return (uint64_t)(-share->requests * 1000 / shares->limits.requests_per_second) + 1;
}
