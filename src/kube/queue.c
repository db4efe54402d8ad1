/* SPDX-License-Identifier: Apache-2.0 */

#include "kube/queue.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "base/backoff.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/lock.h"
#include "base/mem.h"
#include "base/random.h"
#include "base/siphash.h"
#include "base/wait.h"
#include "kube/deadline.h"
#include "kube/string_index.h"

#define NOWHERE SIZE_MAX

/* Namespaces share this many lanes; two of them share one by chance, not by choice. */
#define LANES 256U

/* Failures after which a key no longer goes before the others of its lane. */
#define FAILURES_FIRST 2U

/* A key that is ready, in processing, or scheduled for later. */
struct entry {
	char *key; /* NULL in a free place */
	bool ready;
	bool working;
	bool again; /* added while it was worked on */
	size_t lane;
	size_t next;     /* in its lane or in the list of unused places, or NOWHERE */
	size_t plan_at;  /* its place in the plan, or NOWHERE */
	uint64_t due_ns; /* while it is in the plan */
	unsigned failures;
};

struct kube_queue {
	uint64_t pause_min_ms;
	uint64_t pause_max_ms;
	struct cairn_siphash_key hash_key;

	pthread_mutex_t lock;
	pthread_cond_t changed;
	/* guarded by lock; the arrays have `room` places each, so that only adding a
	 * key needs memory */
	struct kube_string_index slots;
	size_t room;
	struct entry *entries;
	size_t unused; /* first place without a key, or NOWHERE; `next` leads to the others */
	struct {
		size_t first, last; /* NOWHERE: it is empty */
	} lanes[LANES];
	size_t lane_at; /* served next */
	size_t n_ready;
	size_t *plan; /* heap, the next to become due first */
	size_t n_plan;
	size_t n_working;
	bool shutdown;
};

int kube_queue_new(uint64_t pause_min_ms, uint64_t pause_max_ms, struct kube_queue **ret,
		   struct cairn_err *err)
{
	struct kube_queue *queue = cairn_calloc(1, sizeof(*queue));
	int rc;

	if (!queue)
		return cairn_err_nomem(err, "queue");
	rc = cairn_random_bytes(&queue->hash_key, sizeof(queue->hash_key), err);
	if (rc) {
		free(queue);
		return rc;
	}
	for (size_t i = 0; i < LANES; i++)
		queue->lanes[i].first = queue->lanes[i].last = NOWHERE;
	queue->unused = NOWHERE;
	pthread_mutex_init(&queue->lock, NULL);
	cairn_cond_init(&queue->changed);
	queue->pause_min_ms = pause_min_ms ? pause_min_ms : KUBE_QUEUE_PAUSE_MIN_MS;
	queue->pause_max_ms = pause_max_ms ? pause_max_ms : KUBE_QUEUE_PAUSE_MAX_MS;
	if (kube_string_index_init(&queue->slots) < 0) {
		kube_queue_free(queue);
		return cairn_err_nomem(err, "queue");
	}
	*ret = queue;
	return 0;
}

void kube_queue_free(struct kube_queue *queue)
{
	if (!queue)
		return;
	for (size_t i = 0; i < queue->room; i++)
		free(queue->entries[i].key);
	kube_string_index_done(&queue->slots);
	pthread_cond_destroy(&queue->changed);
	pthread_mutex_destroy(&queue->lock);
	free(queue->entries);
	free(queue->plan);
	free(queue);
}

/* The plan: a binary heap whose entries know their places. */

static bool due_before(const struct kube_queue *queue, size_t a, size_t b)
{
	return queue->entries[queue->plan[a]].due_ns < queue->entries[queue->plan[b]].due_ns;
}

static void plan_swap(struct kube_queue *queue, size_t a, size_t b)
{
	size_t entry = queue->plan[a];

	queue->plan[a] = queue->plan[b];
	queue->plan[b] = entry;
	queue->entries[queue->plan[a]].plan_at = a;
	queue->entries[queue->plan[b]].plan_at = b;
}

static void plan_settle(struct kube_queue *queue, size_t at)
{
	while (at > 0 && due_before(queue, at, (at - 1) / 2)) {
		plan_swap(queue, at, (at - 1) / 2);
		at = (at - 1) / 2;
	}
	for (;;) {
		size_t first = at;

		for (size_t child = 2 * at + 1; child <= 2 * at + 2; child++)
			if (child < queue->n_plan && due_before(queue, child, first))
				first = child;
		if (first == at)
			return;
		plan_swap(queue, at, first);
		at = first;
	}
}

static void plan_remove(struct kube_queue *queue, size_t slot)
{
	size_t at = queue->entries[slot].plan_at;

	if (at == NOWHERE)
		return;
	queue->n_plan--;
	if (at != queue->n_plan) {
		plan_swap(queue, at, queue->n_plan);
		plan_settle(queue, at);
	}
	queue->entries[slot].plan_at = NOWHERE;
}

static void plan_set(struct kube_queue *queue, size_t slot, uint64_t due_ns)
{
	struct entry *entry = &queue->entries[slot];

	entry->due_ns = due_ns;
	if (entry->plan_at == NOWHERE) {
		entry->plan_at = queue->n_plan;
		queue->plan[queue->n_plan++] = slot;
	}
	plan_settle(queue, entry->plan_at);
}

/* The lanes: a list of entries for each. Objects without a namespace share one. */
static size_t lane_of(const struct kube_queue *queue, const char *key)
{
	const char *end = strchr(key, '/');

	return end ? cairn_siphash(&queue->hash_key, key, (size_t)(end - key)) % LANES : 0;
}

static void lane_add(struct kube_queue *queue, size_t slot)
{
	struct entry *entry = &queue->entries[slot];
	size_t lane = entry->lane;
	bool first = entry->failures > 0 && entry->failures <= FAILURES_FIRST;

	entry->next = first ? queue->lanes[lane].first : NOWHERE;
	if (!first && queue->lanes[lane].first != NOWHERE)
		queue->entries[queue->lanes[lane].last].next = slot;
	if (entry->next == NOWHERE)
		queue->lanes[lane].last = slot;
	if (first || queue->lanes[lane].first == NOWHERE)
		queue->lanes[lane].first = slot;
	queue->n_ready++;
}

/* One is ready. */
static size_t lane_take(struct kube_queue *queue)
{
	size_t lane = queue->lane_at, slot;

	while (queue->lanes[lane].first == NOWHERE)
		lane = (lane + 1) % LANES;
	slot = queue->lanes[lane].first;
	queue->lanes[lane].first = queue->entries[slot].next;
	queue->lane_at = (lane + 1) % LANES;
	queue->n_ready--;
	return slot;
}

static void queue_make_ready(struct kube_queue *queue, size_t slot)
{
	struct entry *entry = &queue->entries[slot];

	plan_remove(queue, slot);
	if (entry->working) { /* two workers never have the same key */
		entry->again = true;
	} else if (!entry->ready) {
		entry->ready = true;
		lane_add(queue, slot);
		pthread_cond_signal(&queue->changed);
	}
}

static int queue_grow(struct kube_queue *queue)
{
	size_t room = queue->room ? queue->room * 2 : 16;
	struct entry *entries = cairn_realloc_array(queue->entries, room, sizeof(*entries));
	size_t *plan = entries ? cairn_realloc_array(queue->plan, room, sizeof(*plan)) : NULL;

	if (entries)
		queue->entries = entries;
	if (!plan)
		return -1;
	queue->plan = plan;
	for (size_t i = room; i-- > queue->room;) {
		queue->entries[i] = (struct entry){.plan_at = NOWHERE, .next = queue->unused};
		queue->unused = i;
	}
	queue->room = room;
	return 0;
}

/* The place of a key, made if it has none; NOWHERE when memory is short. */
static size_t queue_place(struct kube_queue *queue, const char *key)
{
	size_t slot = kube_string_index_find(&queue->slots, key);
	char *copy;

	if (slot != KUBE_SLOT_NONE)
		return slot;
	if (queue->unused == NOWHERE && queue_grow(queue) < 0)
		return NOWHERE;
	copy = cairn_strdup(key);
	slot = queue->unused;
	if (!copy || kube_string_index_put(&queue->slots, key, slot) < 0) {
		free(copy);
		return NOWHERE;
	}
	queue->unused = queue->entries[slot].next;
	queue->entries[slot] =
		(struct entry){.key = copy, .lane = lane_of(queue, key), .plan_at = NOWHERE};
	return slot;
}

int kube_queue_add_after(struct kube_queue *queue, const char *key, uint64_t ms,
			 struct cairn_err *err)
{
	uint64_t due_ns = cairn_monotonic_ns();
	struct entry *entry;
	size_t slot;

	if (strlen(key) >= KUBE_KEY_MAX)
		return cairn_err_set(err, CAIRN_INVALID, "a key is too long");
	if (__builtin_mul_overflow(ms, CAIRN_NS_PER_MS, &ms) ||
	    __builtin_add_overflow(due_ns, ms, &due_ns))
		due_ns = UINT64_MAX - 1; /* UINT64_MAX is "no deadline" */
	cairn_scoped_lock(&queue->lock);
	if (queue->shutdown)
		return 0;
	slot = queue_place(queue, key);
	if (slot == NOWHERE)
		return cairn_err_nomem(err, "queue");
	entry = &queue->entries[slot];
	if (ms == 0) {
		queue_make_ready(queue, slot);
	} else if (!entry->ready && !entry->again &&
		   (entry->plan_at == NOWHERE || due_ns < entry->due_ns)) {
		plan_set(queue, slot, due_ns);
		pthread_cond_signal(&queue->changed);
	}
	return 0;
}

int kube_queue_add(struct kube_queue *queue, const char *key, struct cairn_err *err)
{
	return kube_queue_add_after(queue, key, 0, err);
}

static void queue_promote(struct kube_queue *queue)
{
	uint64_t now = cairn_monotonic_ns();

	while (queue->n_plan > 0 && queue->entries[queue->plan[0]].due_ns <= now)
		queue_make_ready(queue, queue->plan[0]);
}

int kube_queue_take(struct kube_queue *queue, char ret_key[KUBE_KEY_MAX])
{
	const struct kube_deadline for_ever = {.deadline_ns = UINT64_MAX};
	struct entry *entry;

	cairn_scoped_lock(&queue->lock);
	for (;;) {
		if (queue->shutdown)
			return 0;
		queue_promote(queue);
		if (queue->n_ready > 0)
			break;
		kube_deadline_wait(&for_ever, &queue->changed, &queue->lock,
				   queue->n_plan ? queue->entries[queue->plan[0]].due_ns
						 : UINT64_MAX);
	}
	entry = &queue->entries[lane_take(queue)];
	entry->ready = false;
	entry->working = true;
	queue->n_working++;
	snprintf(ret_key, KUBE_KEY_MAX, "%s", entry->key);
	/* Another waits for the time that this one was waiting for. */
	pthread_cond_signal(&queue->changed);
	return 1;
}

/* With the lock held: what becomes of a key that is worked on no more. */
static void queue_settle(struct kube_queue *queue, size_t slot)
{
	struct entry *entry = &queue->entries[slot];

	entry->working = false;
	queue->n_working--;
	if (entry->again) {
		entry->again = false;
		queue_make_ready(queue, slot);
	} else if (entry->plan_at == NOWHERE) {
		kube_string_index_remove(&queue->slots, entry->key);
		free(entry->key);
		entry->key = NULL;
		entry->next = queue->unused;
		queue->unused = slot;
	}
}

void kube_queue_done(struct kube_queue *queue, const char *key)
{
	size_t slot;

	cairn_scoped_lock(&queue->lock);
	slot = kube_string_index_find(&queue->slots, key);
	if (slot == KUBE_SLOT_NONE || !queue->entries[slot].working)
		return;
	queue->entries[slot].failures = 0;
	queue_settle(queue, slot);
}

uint64_t kube_queue_retry(struct kube_queue *queue, const char *key)
{
	struct cairn_backoff backoff = {.first_ms = queue->pause_min_ms,
					.most_ms = queue->pause_max_ms};
	struct entry *entry;
	uint64_t pause;
	size_t slot;

	cairn_scoped_lock(&queue->lock);
	slot = kube_string_index_find(&queue->slots, key);
	if (slot == KUBE_SLOT_NONE || !queue->entries[slot].working)
		return 0;
	entry = &queue->entries[slot];
	backoff.failures = entry->failures++;
	pause = cairn_backoff_ms(&backoff, UINT32_MAX); /* keys do not fail together */
	if (!entry->again) {
		uint64_t due_ns = cairn_monotonic_ns() + pause * CAIRN_NS_PER_MS;

		if (entry->plan_at == NOWHERE || due_ns < entry->due_ns)
			plan_set(queue, slot, due_ns);
	}
	queue_settle(queue, slot);
	pthread_cond_signal(&queue->changed);
	return pause;
}

void kube_queue_shutdown(struct kube_queue *queue)
{
	cairn_scoped_lock(&queue->lock);
	queue->shutdown = true;
	pthread_cond_broadcast(&queue->changed);
}

size_t kube_queue_length(struct kube_queue *queue)
{
	cairn_scoped_lock(&queue->lock);
	queue_promote(queue);
	return queue->n_ready;
}

bool kube_queue_idle(struct kube_queue *queue)
{
	cairn_scoped_lock(&queue->lock);
	queue_promote(queue);
	return queue->n_ready == 0 && queue->n_working == 0;
}
