/* SPDX-License-Identifier: Apache-2.0 */

/* Short-lived cache of answers from the API server.
 *
 * Streams that start together usually start with the same token, access check and
 * snapshot. For each key only one caller queries the server; concurrent callers wait for
 * its answer, which is then served from the cache until it expires. A negative answer is
 * cached too, for a shorter time. An error that does not answer the question (the API
 * server cannot be reached) is returned to the waiting callers and not cached. If the
 * querying caller gives up, one of the waiting callers takes over.
 *
 * The number of entries is bounded: negative answers are evicted first, then the oldest.
 * Thread-safe.
 */
#ifndef CAIRN_KUBE_CACHE_H
#define CAIRN_KUBE_CACHE_H

#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"

struct cairn_err;
struct kube_cache;
struct kube_digest;
struct kube_value;
struct kube_wait;

struct kube_cache_options {
	size_t entries_max;
	uint64_t keep_ms;      /* 0: nothing is kept, but concurrent callers share a query */
	uint64_t refusal_ms;   /* for a negative answer */
	uint64_t (*now)(void); /* NULL is cairn_monotonic_ns; for tests */
};

int kube_cache_new(const struct kube_cache_options *options, struct kube_cache **ret,
		   struct cairn_err *err);

/* Must not be in use. Accepts NULL. */
void kube_cache_free(struct kube_cache *cache);
CAIRN_DEFINE_CLEANUP(struct kube_cache, kube_cache_free);

/* Queries the source of the answer. The codes CAIRN_NOT_FOUND, CAIRN_DENIED,
 * CAIRN_UNAUTHENTICATED, CAIRN_INVALID and CAIRN_PRECONDITION are negative answers. On
 * entry *until_ns is the default expiry; the callback may lower it. */
typedef int (*kube_cache_ask)(void *arg, const struct kube_wait *wait, struct kube_value **ret,
			      uint64_t *until_ns, struct cairn_err *err);

/* Returns the cached answer for `key`, or calls `ask` if there is none. *ret is the
 * caller's reference. Fails like `ask`, or when `wait` is over. */
int kube_cache_get(struct kube_cache *cache, const struct kube_digest *key, kube_cache_ask ask,
		   void *arg, const struct kube_wait *wait, struct kube_value **ret,
		   struct cairn_err *err);

/* Drops expired entries. Call it periodically; without calls to kube_cache_get() nothing
 * else frees them. */
void kube_cache_sweep(struct kube_cache *cache);

struct kube_cache_stats {
	uint64_t hits;   /* answered without a query, including shared ones */
	uint64_t misses; /* queries made */
	size_t entries;
};

void kube_cache_stats(struct kube_cache *cache, struct kube_cache_stats *ret);

#endif
