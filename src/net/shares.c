/* SPDX-License-Identifier: Apache-2.0 */

/* The tables of a process, and their counters. */

#include "net/shares.h"

#include <stdlib.h>

#include "base/err.h"
#include "base/lock.h"
#include "base/mem.h"
#include "base/random.h"
#include "net/shares_impl.h"

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
	for (unsigned i = 0; i < NET_SHARES_BUCKETS; i++) {
		while (shares->buckets[i]) {
			struct net_share *share = shares->buckets[i];

			shares->buckets[i] = share->next;
			free(share);
		}
	}
	pthread_mutex_destroy(&shares->lock);
	free(shares);
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
