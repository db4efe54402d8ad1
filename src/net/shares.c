/* SPDX-License-Identifier: Apache-2.0 */

#include "net/shares.h"

#include <netinet/in.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/lock.h"
#include "base/mem.h"
#include "base/random.h"
#include "base/siphash.h"
#include "net/address.h"

#define BUCKETS       1024U
#define ADDRESSES_MAX 16384U /* above this, addresses without a slot are forgotten */
#define ADDRESS_BYTES 17     /* family and address */

/* Candidates for displacement, in order. */
enum rank { RANK_SILENT, RANK_IDLE, RANK_BUSY, RANK_KNOWN_IDLE, RANK_NEVER };

struct net_share {
	struct net_share *next; /* in its bucket */
	struct net_slot *slots;
	uint8_t address[ADDRESS_BYTES];
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
	struct net_share *buckets[BUCKETS];
	uint32_t addresses;
	uint32_t n, n_peak, strangers, reserved;
	uint64_t admitted, refused, displaced, handshakes_refused;
};

/* All tables of the process, for its metrics, and the counters of those that
 * were freed. Taken before a table's own lock. */
static pthread_mutex_t every_lock = PTHREAD_MUTEX_INITIALIZER;
static struct net_shares *every;
static struct net_shares_stats gone;

static void add_counts(struct net_shares_stats *sum, const struct net_shares_stats *more)
{
	sum->admitted += more->admitted;
	sum->refused += more->refused;
	sum->displaced += more->displaced;
	sum->handshakes_refused += more->handshakes_refused;
	sum->requests_refused += more->requests_refused;
	sum->calmed += more->calmed;
}

static void shares_enlist(struct net_shares *shares)
{
	cairn_scoped_lock(&every_lock);
	shares->next = every;
	if (every)
		every->prev = shares;
	every = shares;
}

static void shares_delist(struct net_shares *shares)
{
	struct net_shares_stats stats;

	cairn_scoped_lock(&every_lock);
	net_shares_stats(shares, &stats);
	add_counts(&gone, &stats);
	if (shares->prev)
		shares->prev->next = shares->next;
	else
		every = shares->next;
	if (shares->next)
		shares->next->prev = shares->prev;
}

void net_shares_totals(struct net_shares_stats *ret)
{
	cairn_scoped_lock(&every_lock);
	*ret = gone;
	for (struct net_shares *shares = every; shares; shares = shares->next) {
		struct net_shares_stats stats;

		net_shares_stats(shares, &stats);
		add_counts(ret, &stats);
		ret->connections += stats.connections;
		ret->strangers += stats.strangers;
		ret->addresses += stats.addresses;
		ret->request_bytes += stats.request_bytes;
	}
}

int net_shares_new(const struct net_shares_limits *limits, struct net_shares **ret,
		   struct cairn_err *err)
{
	struct net_shares *shares = cairn_calloc(1, sizeof(*shares));
	int rc;

	if (!shares)
		return cairn_err_nomem(err, "shares of addresses");
	shares->limits = *limits;
	pthread_mutex_init(&shares->lock, NULL);
	shares_enlist(shares);
	rc = cairn_random_bytes(&shares->key, sizeof(shares->key), err);
	if (rc != 0) {
		net_shares_free(shares);
		return rc;
	}
	*ret = shares;
	return 0;
}

void net_shares_free(struct net_shares *shares)
{
	if (!shares)
		return;
	shares_delist(shares);
	for (unsigned i = 0; i < BUCKETS; i++) {
		while (shares->buckets[i]) {
			struct net_share *share = shares->buckets[i];

			shares->buckets[i] = share->next;
			free(share);
		}
	}
	pthread_mutex_destroy(&shares->lock);
	free(shares);
}

/* --- addresses --- */

/* True for a unix socket. Peers without an address share the empty one. */
static bool shares_read_address(int fd, uint8_t out[ADDRESS_BYTES])
{
	struct net_address peer = {.len = sizeof(peer.addr)};
	const struct sockaddr_in *v4 = (const void *)&peer.addr;
	const struct sockaddr_in6 *v6 = (const void *)&peer.addr;

	memset(out, 0, ADDRESS_BYTES);
	if (getpeername(fd, (struct sockaddr *)&peer.addr, &peer.len) != 0)
		return false;
	out[0] = (uint8_t)peer.addr.ss_family;
	if (peer.addr.ss_family == AF_UNIX)
		return true;
	net_address_to_origin(&peer);
	out[0] = (uint8_t)peer.addr.ss_family;
	if (peer.addr.ss_family == AF_INET)
		memcpy(out + 1, &v4->sin_addr, sizeof(v4->sin_addr));
	else
		memcpy(out + 1, &v6->sin6_addr, sizeof(v6->sin6_addr));
	return false;
}

static double shares_refilled(double level, double seconds, uint32_t per_second, uint32_t burst)
{
	level += seconds * per_second;
	return level < burst ? level : burst;
}

static void shares_refill(const struct net_shares *shares, struct net_share *share, uint64_t now_ns)
{
	const struct net_shares_limits *l = &shares->limits;
	double seconds = (double)(now_ns - share->refilled_ns) / (double)CAIRN_NS_PER_SEC;

	share->handshakes = shares_refilled(share->handshakes, seconds, l->handshakes_per_second,
					    l->handshakes_burst);
	share->requests = shares_refilled(share->requests, seconds, l->requests_per_second,
					  l->requests_burst);
	share->refilled_ns = now_ns;
}

/* True if nothing depends on the entry any more. */
static bool is_forgettable(const struct net_shares *shares, struct net_share *share,
			   uint64_t now_ns)
{
	if (share->n > 0 || share->refs > 0 || now_ns < share->reserve_until_ns)
		return false;
	shares_refill(shares, share, now_ns);
	return share->handshakes >= shares->limits.handshakes_burst &&
	       share->requests >= shares->limits.requests_burst;
}

static void forget_in_bucket(struct net_shares *shares, unsigned bucket, uint64_t now_ns)
{
	struct net_share **at = &shares->buckets[bucket];

	while (*at) {
		struct net_share *share = *at;

		if (!is_forgettable(shares, share, now_ns)) {
			at = &share->next;
			continue;
		}
		*at = share->next;
		shares->addresses--;
		free(share);
	}
}

static struct net_share *new_share(struct net_shares *shares, unsigned bucket,
				   const uint8_t address[ADDRESS_BYTES], uint64_t now_ns)
{
	struct net_share *share;

	for (unsigned i = 0; shares->addresses >= ADDRESSES_MAX && i < BUCKETS; i++)
		forget_in_bucket(shares, i, now_ns);
	if (shares->addresses >= ADDRESSES_MAX)
		return NULL;
	share = cairn_calloc(1, sizeof(*share));
	if (!share)
		return NULL;
	memcpy(share->address, address, ADDRESS_BYTES);
	share->handshakes = shares->limits.handshakes_burst;
	share->requests = shares->limits.requests_burst;
	share->refilled_ns = now_ns;
	share->next = shares->buckets[bucket];
	shares->buckets[bucket] = share;
	shares->addresses++;
	return share;
}

static struct net_share *find_share(struct net_shares *shares, int fd, uint64_t now_ns)
{
	uint8_t address[ADDRESS_BYTES];
	bool local = shares_read_address(fd, address);
	uint64_t hash = cairn_siphash(&shares->key, address, sizeof(address));
	unsigned bucket = (unsigned)(hash % BUCKETS);
	struct net_share *share;

	forget_in_bucket(shares, bucket, now_ns);
	for (share = shares->buckets[bucket]; share; share = share->next)
		if (memcmp(share->address, address, sizeof(address)) == 0)
			return share;
	share = new_share(shares, bucket, address, now_ns);
	if (!share)
		return NULL;
	share->local = local;
	share->lane = (uint8_t)(hash / BUCKETS % NET_CROWD_LANES);
	return share;
}

/* --- slots --- */

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

	for (unsigned i = 0; i < BUCKETS; i++) {
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
	shares_refill(shares, share, now_ns);
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
	share = find_share(shares, fd, now);
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
	shares_refill(shares, share, cairn_monotonic_ns());
	/* The level may become negative: each waiting request then gets its own time, so
	 * that none wakes up in vain. */
	share->requests -= 1;
	if (share->requests >= 0)
		return 0;
	return (uint64_t)(-share->requests * 1000 / shares->limits.requests_per_second) + 1;
}

/* --- memory of requests --- */

struct net_share *net_slot_share(struct net_shares *shares, struct net_slot *slot)
{
	cairn_scoped_lock(&shares->lock);
	if (slot->share)
		slot->share->refs++;
	return slot->share;
}

void net_share_unref(struct net_shares *shares, struct net_share *share)
{
	if (!share)
		return;
	cairn_scoped_lock(&shares->lock);
	share->refs--;
}

/* Not atomic: of two simultaneous updates the lower peak may win, which is close enough for
 * a statistic. */
static void note_peak(struct net_shares *shares)
{
	size_t now = atomic_load_explicit(&shares->request_bytes, memory_order_relaxed);

	if (now > atomic_load_explicit(&shares->request_peak, memory_order_relaxed))
		atomic_store_explicit(&shares->request_peak, now, memory_order_relaxed);
}

static bool add_below(_Atomic size_t *total, size_t n, size_t max)
{
	size_t before = atomic_fetch_add_explicit(total, n, memory_order_relaxed);

	if (before + n <= max)
		return true;
	atomic_fetch_sub_explicit(total, n, memory_order_relaxed);
	return false;
}

bool net_share_charge(struct net_shares *shares, struct net_share *share, size_t n, bool known)
{
	const struct net_shares_limits *l = &shares->limits;
	size_t each = share && share->local ? l->request_bytes : l->request_bytes_each;
	size_t all = l->request_bytes;

	if (!known) {
		each -= each / 4;
		all -= all / 4;
	}
	if (add_below(&shares->request_bytes, n, all)) {
		size_t used = atomic_load_explicit(&shares->request_bytes, memory_order_relaxed);
		size_t left = used < all ? all - used : 0;

		note_peak(shares);
		if (share && !share->local && left < each)
			each = left;
		if (!share || add_below(&share->request_bytes, n, each))
			return true;
		atomic_fetch_sub_explicit(&shares->request_bytes, n, memory_order_relaxed);
	}
	net_shares_count_refusal(shares);
	return false;
}

void net_shares_count_calm(struct net_shares *shares)
{
	atomic_fetch_add_explicit(&shares->calmed, 1, memory_order_relaxed);
}

void net_shares_count_refusal(struct net_shares *shares)
{
	atomic_fetch_add_explicit(&shares->requests_refused, 1, memory_order_relaxed);
}

void net_share_uncharge(struct net_shares *shares, struct net_share *share, size_t n)
{
	atomic_fetch_sub_explicit(&shares->request_bytes, n, memory_order_relaxed);
	if (share)
		atomic_fetch_sub_explicit(&share->request_bytes, n, memory_order_relaxed);
}

size_t net_shares_take_peak(struct net_shares *shares, uint32_t *ret_connections)
{
	cairn_scoped_lock(&shares->lock);
	*ret_connections = shares->n_peak;
	shares->n_peak = shares->n;
	return atomic_exchange(&shares->request_peak, atomic_load(&shares->request_bytes));
}

void net_shares_stats(struct net_shares *shares, struct net_shares_stats *ret)
{
	cairn_scoped_lock(&shares->lock);

	*ret = (struct net_shares_stats){
		.connections = shares->n,
		.strangers = shares->strangers,
		.addresses = shares->addresses,
		.request_bytes = atomic_load(&shares->request_bytes),
		.admitted = shares->admitted,
		.refused = shares->refused,
		.displaced = shares->displaced,
		.handshakes_refused = shares->handshakes_refused,
		.requests_refused = atomic_load(&shares->requests_refused),
		.calmed = atomic_load(&shares->calmed),
	};
}
