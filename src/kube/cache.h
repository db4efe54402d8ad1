/* SPDX-License-Identifier: Apache-2.0 */

/* Answers of the API server, believed for a short while.
 *
 * Streams that begin at the same time mostly begin with the same token, right
 * and snapshot. Of those who want one answer, one asks and the others wait for
 * it; afterwards it is given out until its time is over. An answer that says no
 * is kept too, for a shorter time. A failure that says nothing about the
 * question (the API server can not be reached) goes to those who wait and is
 * not kept; when the one who asks gives up, another of them asks.
 *
 * The number of entries is bounded: what says no goes first, then what is
 * oldest. Thread-safe.
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
	uint64_t keep_ms;      /* 0: nothing is kept, but those who come at once share */
	uint64_t refusal_ms;   /* for an answer that says no */
	uint64_t (*now)(void); /* NULL is cairn_monotonic_ns; for tests */
};

int kube_cache_new(const struct kube_cache_options *options, struct kube_cache **ret,
		   struct cairn_err *err);

/* Nobody may be using it. Accepts NULL. */
void kube_cache_free(struct kube_cache *cache);
CAIRN_DEFINE_CLEANUP(struct kube_cache, kube_cache_free);

/* Gets an answer from where it really is. The codes CAIRN_NOT_FOUND,
 * CAIRN_DENIED, CAIRN_UNAUTHENTICATED, CAIRN_INVALID and CAIRN_PRECONDITION are
 * answers that say no. *until_ns comes as the end of the usual time and may be
 * set lower. */
typedef int (*kube_cache_ask)(void *arg, const struct kube_wait *wait, struct kube_value **ret,
			      uint64_t *until_ns, struct cairn_err *err);

/* The answer for `key`, asked for with `ask` unless it is there. *ret is the
 * caller's reference. Fails like `ask`, or when `wait` is over. */
int kube_cache_get(struct kube_cache *cache, const struct kube_digest *key, kube_cache_ask ask,
		   void *arg, const struct kube_wait *wait, struct kube_value **ret,
		   struct cairn_err *err);

/* Drops what has expired; called now and then, so that nothing stays in memory
 * for want of visitors. */
void kube_cache_sweep(struct kube_cache *cache);

struct kube_cache_stats {
	uint64_t hits;   /* answered without asking, those who waited with others included */
	uint64_t misses; /* asked */
	size_t entries;
};

void kube_cache_stats(struct kube_cache *cache, struct kube_cache_stats *ret);

#endif
