/* SPDX-License-Identifier: Apache-2.0 */

#include "kube/fair_queue.h"

#include <pthread.h>
#include <string.h>

#include "base/err.h"
#include "base/lock.h"
#include "base/mem.h"
#include "base/wait.h"
#include "kube/digest.h"
#include "kube/kube_wait.h"

#define BUCKETS 256U

/* A waiting caller; lives on the waiting thread's stack. */
struct waiter {
	struct waiter *next;
	pthread_cond_t called;
	bool admitted;
	bool displaced; /* out of the line, for a caller of another owner */
};

/* Exists while one of its callers is admitted or waits. */
struct kube_fair_queue_owner {
	struct kube_fair_queue_owner *next; /* in its bucket */
	struct kube_digest key;
	unsigned inside, waiting;
	unsigned held; /* references by threads that will look at it again */
	struct waiter *first, **last;
	struct kube_fair_queue_owner *turn_next; /* in the ring while a caller waits */
};

struct kube_fair_queue {
	struct kube_fair_queue_options options;
	pthread_mutex_t lock;
	/* Guarded by the lock. */
	struct kube_fair_queue_owner *buckets[BUCKETS];
	struct kube_fair_queue_owner *turn, **turn_last; /* owners that wait, in turn */
	unsigned inside, waiting, owners;
};

int kube_fair_queue_new(const struct kube_fair_queue_options *options, struct kube_fair_queue **ret,
			struct cairn_err *err)
{
	struct kube_fair_queue *gate = cairn_calloc(1, sizeof(*gate));

	if (!gate)
		return cairn_err_nomem(err, "gate");
	gate->options = *options;
	gate->turn_last = &gate->turn;
	pthread_mutex_init(&gate->lock, NULL);
	*ret = gate;
	return 0;
}

void kube_fair_queue_free(struct kube_fair_queue *gate)
{
	if (!gate)
		return;
	pthread_mutex_destroy(&gate->lock);
	free(gate);
}

/* --- with the lock held --- */

static struct kube_fair_queue_owner **fair_queue_slot_of(struct kube_fair_queue *gate,
							 const struct kube_digest *key)
{
	struct kube_fair_queue_owner **at = &gate->buckets[key->bytes[0] % BUCKETS];

	while (*at && !kube_digest_equal(&(*at)->key, key))
		at = &(*at)->next;
	return at;
}

static struct kube_fair_queue_owner *owner_of(struct kube_fair_queue *gate,
					      const struct kube_digest *key)
{
	struct kube_fair_queue_owner **at = fair_queue_slot_of(gate, key);
	struct kube_fair_queue_owner *owner = *at;

	if (owner)
		return owner;
	owner = cairn_calloc(1, sizeof(*owner));
	if (!owner)
		return NULL;
	owner->key = *key;
	owner->last = &owner->first;
	*at = owner;
	gate->owners++;
	return owner;
}

static void drop_if_idle(struct kube_fair_queue *gate, struct kube_fair_queue_owner *owner)
{
	struct kube_fair_queue_owner **at;

	if (owner->inside > 0 || owner->waiting > 0 || owner->held > 0)
		return;
	at = fair_queue_slot_of(gate, &owner->key);
	*at = owner->next;
	gate->owners--;
	free(owner);
}

static void ring_add(struct kube_fair_queue *gate, struct kube_fair_queue_owner *owner)
{
	owner->turn_next = NULL;
	*gate->turn_last = owner;
	gate->turn_last = &owner->turn_next;
}

static void ring_remove(struct kube_fair_queue *gate, struct kube_fair_queue_owner *owner)
{
	struct kube_fair_queue_owner **at = &gate->turn;

	while (*at != owner)
		at = &(*at)->turn_next;
	*at = owner->turn_next;
	if (!*at)
		gate->turn_last = at;
}

static bool has_place(const struct kube_fair_queue *gate, const struct kube_fair_queue_owner *owner)
{
	return gate->inside < gate->options.total && owner->inside < gate->options.each;
}

static void fair_queue_admit(struct kube_fair_queue *gate, struct kube_fair_queue_owner *owner)
{
	gate->inside++;
	owner->inside++;
}

static void admit_first(struct kube_fair_queue *gate, struct kube_fair_queue_owner *owner)
{
	struct waiter *waiter = owner->first;

	owner->first = waiter->next;
	if (!owner->first)
		owner->last = &owner->first;
	owner->waiting--;
	gate->waiting--;
	waiter->admitted = true;
	fair_queue_admit(gate, owner);
	pthread_cond_signal(&waiter->called);
}

/* Hands out free places to the owners in turn. An owner that has reached its own limit
 * stays in the ring. */
static void give_places(struct kube_fair_queue *gate)
{
	const struct kube_fair_queue_owner *end = NULL; /* the first owner skipped since */

	while (gate->turn && gate->turn != end && gate->inside < gate->options.total) {
		struct kube_fair_queue_owner *owner = gate->turn;

		ring_remove(gate, owner);
		if (has_place(gate, owner)) {
			admit_first(gate, owner);
			end = NULL;
		} else if (!end) {
			end = owner;
		}
		if (owner->waiting > 0)
			ring_add(gate, owner);
	}
}

static void line_up(struct kube_fair_queue *gate, struct kube_fair_queue_owner *owner,
		    struct waiter *waiter)
{
	*owner->last = waiter;
	owner->last = &waiter->next;
	if (owner->waiting == 0)
		ring_add(gate, owner);
	owner->waiting++;
	gate->waiting++;
}

static void step_out(struct kube_fair_queue *gate, struct kube_fair_queue_owner *owner,
		     struct waiter *waiter)
{
	struct waiter **at = &owner->first;

	while (*at != waiter)
		at = &(*at)->next;
	*at = waiter->next;
	if (!*at)
		owner->last = at;
	owner->waiting--;
	gate->waiting--;
	if (owner->waiting == 0)
		ring_remove(gate, owner);
}

static struct kube_fair_queue_owner *most_waiting(struct kube_fair_queue *gate)
{
	struct kube_fair_queue_owner *most = gate->turn;

	for (struct kube_fair_queue_owner *owner = gate->turn; owner; owner = owner->turn_next)
		if (owner->waiting > most->waiting)
			most = owner;
	return most;
}

/* Makes room in the full line for a caller of `owner`: the newest waiter of the owner with the
 * most waiters leaves, if that owner has more than `owner` will have. Otherwise a few owners with
 * full lines would keep all others out. */
static bool displace_one(struct kube_fair_queue *gate, const struct kube_fair_queue_owner *owner)
{
	struct kube_fair_queue_owner *most = most_waiting(gate);
	struct waiter *newest = most ? most->first : NULL;

	if (!most || most->waiting <= owner->waiting + 1)
		return false;
	while (newest->next)
		newest = newest->next;
	step_out(gate, most, newest);
	newest->displaced = true;
	pthread_cond_signal(&newest->called);
	return true;
}

static int line_is_full(const struct kube_fair_queue *gate, struct cairn_err *err)
{
	return cairn_err_set(err, CAIRN_NO_SPACE, "too many %s, and too many wait already",
			     gate->options.what);
}

static int fair_queue_wait_in_line(struct kube_fair_queue *gate,
				   struct kube_fair_queue_owner *owner,
				   const struct kube_wait *wait, struct cairn_err *err)
{
	struct waiter waiter = {0};
	int rc = 0;

	if (owner->waiting >= gate->options.waiting_each ||
	    (gate->waiting >= gate->options.waiting && !displace_one(gate, owner)))
		return line_is_full(gate, err);
	cairn_cond_init(&waiter.called);
	line_up(gate, owner, &waiter);
	while (rc == 0 && !waiter.admitted && !waiter.displaced)
		rc = kube_wait_on(wait, &waiter.called, &gate->lock, err);
	if (waiter.displaced)
		rc = line_is_full(gate, err);
	/* A place granted at the same moment as the wait ended is released. */
	if (waiter.admitted && rc != 0) {
		gate->inside--;
		owner->inside--;
		give_places(gate);
	} else if (!waiter.admitted && !waiter.displaced) {
		step_out(gate, owner, &waiter);
	}
	pthread_cond_destroy(&waiter.called);
	return rc;
}

/* --- public functions --- */

int kube_fair_queue_enter(struct kube_fair_queue *gate, const struct kube_digest *key,
			  const struct kube_wait *wait, struct kube_fair_pass *ret,
			  struct cairn_err *err)
{
	cairn_scoped_lock(&gate->lock);
	struct kube_fair_queue_owner *owner = owner_of(gate, key);
	bool waits;
	int rc = 0;

	if (!owner)
		return cairn_err_nomem(err, "gate");
	waits = owner->waiting > 0 || !has_place(gate, owner);
	owner->held++;
	if (waits)
		rc = fair_queue_wait_in_line(gate, owner, wait, err);
	else
		fair_queue_admit(gate, owner);
	owner->held--;
	if (rc != 0) {
		drop_if_idle(gate, owner);
		return rc;
	}
	*ret = (struct kube_fair_pass){.gate = gate, .owner = owner, .waited = waits};
	return 0;
}

void kube_fair_queue_leave(struct kube_fair_pass *pass)
{
	struct kube_fair_queue *gate = pass->gate;

	if (!gate)
		return;
	cairn_scoped_lock(&gate->lock);
	gate->inside--;
	pass->owner->inside--;
	pass->owner->held++;
	give_places(gate);
	pass->owner->held--;
	drop_if_idle(gate, pass->owner);
	*pass = (struct kube_fair_pass){0};
}

void kube_fair_queue_stats(struct kube_fair_queue *gate, struct kube_fair_queue_stats *ret)
{
	cairn_scoped_lock(&gate->lock);
	*ret = (struct kube_fair_queue_stats){
		.inside = gate->inside, .waiting = gate->waiting, .owners = gate->owners};
}
