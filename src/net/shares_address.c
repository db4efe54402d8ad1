/* SPDX-License-Identifier: Apache-2.0 */

/* Entries of peer addresses. */

#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "base/mem.h"
#include "net/address.h"
#include "net/shares_impl.h"

#define ADDRESSES_MAX 16384U /* above this, addresses without a slot are forgotten */

/* True for a unix socket. Peers without an address share the empty one. */
static bool shares_read_address(int fd, uint8_t out[NET_SHARES_ADDRESS_BYTES])
{
	struct net_address peer = {.len = sizeof(peer.addr)};
	const struct sockaddr_in *v4 = (const void *)&peer.addr;
	const struct sockaddr_in6 *v6 = (const void *)&peer.addr;

	memset(out, 0, NET_SHARES_ADDRESS_BYTES);
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

void net_share_refill(const struct net_shares *shares, struct net_share *share, uint64_t now_ns)
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
	net_share_refill(shares, share, now_ns);
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
				   const uint8_t address[NET_SHARES_ADDRESS_BYTES], uint64_t now_ns)
{
	struct net_share *share;

	for (unsigned i = 0; shares->addresses >= ADDRESSES_MAX && i < NET_SHARES_BUCKETS; i++)
		forget_in_bucket(shares, i, now_ns);
	if (shares->addresses >= ADDRESSES_MAX)
		return NULL;
	share = cairn_calloc(1, sizeof(*share));
	if (!share)
		return NULL;
	memcpy(share->address, address, NET_SHARES_ADDRESS_BYTES);
	share->handshakes = shares->limits.handshakes_burst;
	share->requests = shares->limits.requests_burst;
	share->refilled_ns = now_ns;
	share->next = shares->buckets[bucket];
	shares->buckets[bucket] = share;
	shares->addresses++;
	return share;
}

struct net_share *net_share_find(struct net_shares *shares, int fd, uint64_t now_ns)
{
	uint8_t address[NET_SHARES_ADDRESS_BYTES];
	bool local = shares_read_address(fd, address);
	uint64_t hash = cairn_siphash(&shares->key, address, sizeof(address));
	unsigned bucket = (unsigned)(hash % NET_SHARES_BUCKETS);
	struct net_share *share;

	forget_in_bucket(shares, bucket, now_ns);
	for (share = shares->buckets[bucket]; share; share = share->next)
		if (memcmp(share->address, address, sizeof(address)) == 0)
			return share;
	share = new_share(shares, bucket, address, now_ns);
	if (!share)
		return NULL;
	share->local = local;
	share->lane = (uint8_t)(hash / NET_SHARES_BUCKETS % NET_CROWD_LANES);
	return share;
}
