/* SPDX-License-Identifier: Apache-2.0 */

/* Memory of requests, charged to addresses. */

#include "base/lock.h"
#include "net/shares_impl.h"

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

/* Adds first and takes back what is too much: if it checked first, two threads could pass
 * together. */
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

	/* Strangers cannot use the last quarter, so a flood of them leaves room for known peers. */
	if (!known) {
		each -= each / 4;
		all -= all / 4;
	}
	if (add_below(&shares->request_bytes, n, all)) {
		size_t used = atomic_load_explicit(&shares->request_bytes, memory_order_relaxed);
		size_t left = used < all ? all - used : 0;

		note_peak(shares);
		/* The fuller the server, the less one address may take: at most as much as is
		 * left for all others. */
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
