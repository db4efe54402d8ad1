/* SPDX-License-Identifier: Apache-2.0 */

#include "kube/kube_cache.h"

#include <pthread.h>
#include <stdbool.h>
#include <string.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/lock.h"
#include "base/mem.h"
#include "base/wait.h"
#include "kube/digest.h"
#include "kube/kube_wait.h"
#include "kube/value.h"

#define BUCKETS_MIN 64

struct entry {
	struct entry *next;          /* in its bucket */
	struct entry *older, *newer; /* sorted by the time of the answer */
	struct kube_digest key;
	bool asking;
	unsigned users; /* threads that wait or query: the entry cannot be dropped */
	uint64_t round; /* number of queries made */
	uint64_t until_ns;
	struct kube_value *value;
	struct cairn_err *failure; /* NULL unless the last answer was an error */
};

struct kube_cache {
	struct kube_cache_options options;
	size_t n_buckets; /* a power of two */
	pthread_mutex_t lock;
	pthread_cond_t answered;
	/* Guarded by the lock. */
	struct entry **buckets;
	struct entry *oldest, *newest;
	struct kube_cache_stats stats;
};

int kube_cache_new(const struct kube_cache_options *options, struct kube_cache **ret,
		   struct cairn_err *err)
{
	struct kube_cache *cache = cairn_calloc(1, sizeof(*cache));

	if (!cache)
		return cairn_err_nomem(err, "cache");
	cache->options = *options;
	if (!cache->options.now)
		cache->options.now = cairn_monotonic_ns;
	cache->n_buckets = BUCKETS_MIN;
	while (cache->n_buckets < options->entries_max)
		cache->n_buckets *= 2;
	cache->buckets = cairn_calloc(cache->n_buckets, sizeof(struct entry *));
	if (!cache->buckets) {
		free(cache);
		return cairn_err_nomem(err, "cache");
	}
	pthread_mutex_init(&cache->lock, NULL);
	cairn_cond_init(&cache->answered);
	*ret = cache;
	return 0;
}

/* --- entries; the lock is held --- */

static struct entry **bucket_of(struct kube_cache *cache, const struct kube_digest *key)
{
	size_t hash;

	memcpy(&hash, key->bytes, sizeof(hash)); /* a digest: its bytes are spread evenly */
	return &cache->buckets[hash & (cache->n_buckets - 1)];
}

static struct entry *kube_cache_find(struct kube_cache *cache, const struct kube_digest *key)
{
	struct entry *entry = *bucket_of(cache, key);

	while (entry && !kube_digest_equal(&entry->key, key))
		entry = entry->next;
	return entry;
}

static void unlink_age(struct kube_cache *cache, struct entry *entry)
{
	*(entry->older ? &entry->older->newer : &cache->oldest) = entry->newer;
	*(entry->newer ? &entry->newer->older : &cache->newest) = entry->older;
}

static void link_newest(struct kube_cache *cache, struct entry *entry)
{
	entry->newer = NULL;
	entry->older = cache->newest;
	*(cache->newest ? &cache->newest->newer : &cache->oldest) = entry;
	cache->newest = entry;
}

static void forget_answer(struct entry *entry)
{
	kube_value_unref(entry->value);
	free(entry->failure);
	entry->value = NULL;
	entry->failure = NULL;
}

static void kube_cache_drop(struct kube_cache *cache, struct entry *entry)
{
	struct entry **at = bucket_of(cache, &entry->key);

	while (*at != entry)
		at = &(*at)->next;
	*at = entry->next;
	unlink_age(cache, entry);
	forget_answer(entry);
	free(entry);
	cache->stats.entries--;
}

/* Makes room for one entry: evicts a refusal first, else the oldest. */
static void kube_cache_make_room(struct kube_cache *cache)
{
	struct entry *victim = NULL;

	if (cache->stats.entries < cache->options.entries_max)
		return;
	for (struct entry *entry = cache->oldest; entry; entry = entry->newer) {
		if (entry->users > 0)
			continue;
		if (!victim)
			victim = entry;
		if (entry->failure || entry->until_ns <= cache->options.now()) {
			victim = entry;
			break;
		}
	}
	if (victim)
		kube_cache_drop(cache, victim);
}

static struct entry *kube_cache_insert(struct kube_cache *cache, const struct kube_digest *key)
{
	struct entry **at = bucket_of(cache, key);
	struct entry *entry;

	kube_cache_make_room(cache);
	if (cache->stats.entries >= cache->options.entries_max)
		return NULL; /* all entries are in use */
	entry = cairn_calloc(1, sizeof(*entry));
	if (!entry)
		return NULL;
	entry->key = *key;
	entry->next = *at;
	*at = entry;
	link_newest(cache, entry);
	cache->stats.entries++;
	return entry;
}

static void kube_cache_leave(struct kube_cache *cache, struct entry *entry)
{
	entry->users--;
	if (entry->users == 0 && !entry->asking && entry->until_ns <= cache->options.now())
		kube_cache_drop(cache, entry);
}

/* --- asking --- */

static bool says_no(int code)
{
	return code == CAIRN_NOT_FOUND || code == CAIRN_DENIED || code == CAIRN_UNAUTHENTICATED ||
	       code == CAIRN_INVALID || code == CAIRN_PRECONDITION;
}

/* The querying caller gave up: that is not an answer for the others. */
static bool kube_cache_gave_up(int code)
{
	return code == CAIRN_CANCELLED || code == CAIRN_DEADLINE;
}

static int kube_cache_take(const struct entry *entry, struct kube_value **ret,
			   struct cairn_err *err)
{
	if (entry->failure) {
		if (err)
			*err = *entry->failure;
		return entry->failure->code;
	}
	*ret = kube_value_ref(entry->value);
	return 0;
}

static void kube_cache_store(struct kube_cache *cache, struct entry *entry, int rc,
			     struct kube_value *value, uint64_t until_ns,
			     const struct cairn_err *failure)
{
	forget_answer(entry);
	entry->until_ns = 0;
	if (rc == 0) {
		entry->value = kube_value_ref(value);
		entry->until_ns = until_ns;
	} else if (!kube_cache_gave_up(rc)) {
		entry->failure = cairn_memdup(failure, sizeof(*failure));
		if (entry->failure && says_no(rc))
			entry->until_ns =
				cache->options.now() + cache->options.refusal_ms * CAIRN_NS_PER_MS;
	}
	unlink_age(cache, entry);
	link_newest(cache, entry);
}

/* Queries without the lock and stores the answer in the entry, which may be NULL. */
static int ask_for(struct kube_cache *cache, struct entry *entry, kube_cache_ask ask, void *arg,
		   const struct kube_wait *wait, struct kube_value **ret, struct cairn_err *err)
{
	/* From before the query: the answer may be as old as that. */
	uint64_t until_ns = cache->options.now() + cache->options.keep_ms * CAIRN_NS_PER_MS;
	kube_auto_value struct kube_value *value = NULL;
	struct cairn_err failure = {0};
	int rc;

	cache->stats.misses++;
	if (entry)
		entry->asking = true;
	pthread_mutex_unlock(&cache->lock);
	rc = ask(arg, wait, &value, &until_ns, &failure);
	pthread_mutex_lock(&cache->lock);
	if (rc != 0)
		failure.code = rc;
	if (entry) {
		entry->asking = false;
		entry->round++;
		kube_cache_store(cache, entry, rc, value, until_ns, &failure);
		pthread_cond_broadcast(&cache->answered);
	}
	if (rc != 0 && err)
		*err = failure;
	if (rc == 0)
		*ret = cairn_take(value);
	return rc;
}

/* Waits while another thread queries. Returns 1 if an answer came for the waiting ones. */
static int kube_cache_wait_for(struct kube_cache *cache, struct entry *entry,
			       const struct kube_wait *wait, struct cairn_err *err)
{
	uint64_t round = entry->round;
	int rc;

	while (entry->asking && entry->round == round) {
		rc = kube_wait_on(wait, &cache->answered, &cache->lock, err);
		if (rc != 0)
			return rc;
	}
	/* An answer counts for those who waited for it even if it is not kept. */
	return entry->round != round && (entry->value || entry->failure);
}

int kube_cache_get(struct kube_cache *cache, const struct kube_digest *key, kube_cache_ask ask,
		   void *arg, const struct kube_wait *wait, struct kube_value **ret,
		   struct cairn_err *err)
{
	cairn_scoped_lock(&cache->lock);
	struct entry *entry = kube_cache_find(cache, key);
	int rc = 0;

	if (!entry)
		entry = kube_cache_insert(cache, key);
	if (!entry)
		return ask_for(cache, NULL, ask, arg, wait, ret, err);
	entry->users++;
	while (rc == 0 && entry->asking)
		rc = kube_cache_wait_for(cache, entry, wait, err);
	if (rc == 1 || (rc == 0 && entry->until_ns > cache->options.now())) {
		cache->stats.hits++;
		rc = kube_cache_take(entry, ret, err);
	} else if (rc == 0) {
		rc = ask_for(cache, entry, ask, arg, wait, ret, err);
	}
	kube_cache_leave(cache, entry);
	return rc;
}

void kube_cache_sweep(struct kube_cache *cache)
{
	cairn_scoped_lock(&cache->lock);
	uint64_t now = cache->options.now();
	struct entry *newer;

	for (struct entry *entry = cache->oldest; entry; entry = newer) {
		newer = entry->newer;
		if (entry->users == 0 && entry->until_ns <= now)
			kube_cache_drop(cache, entry);
	}
}

void kube_cache_stats(struct kube_cache *cache, struct kube_cache_stats *ret)
{
	cairn_scoped_lock(&cache->lock);
	*ret = cache->stats;
}

void kube_cache_free(struct kube_cache *cache)
{
	if (!cache)
		return;
	while (cache->oldest)
		kube_cache_drop(cache, cache->oldest);
	pthread_cond_destroy(&cache->answered);
	pthread_mutex_destroy(&cache->lock);
	free(cache->buckets);
	free(cache);
}
