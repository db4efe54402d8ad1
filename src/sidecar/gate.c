/* SPDX-License-Identifier: Apache-2.0 */

#include "sidecar/gate.h"

#include <pthread.h>
#include <string.h>

#include "base/err.h"
#include "base/lock.h"
#include "base/mem.h"
#include "sidecar/key.h"
#include "sidecar/wait.h"

#define BUCKETS 256U

/* One who waits; lives on the waiting thread's stack. */
struct waiter {
	struct waiter *next;
	pthread_cond_t called;
	bool admitted;
};

/* Exists while somebody of it is inside or waits. */
struct sidecar_gate_owner {
	struct sidecar_gate_owner *next; /* in its bucket */
	struct sidecar_key key;
	unsigned inside, waiting;
	unsigned held; /* by threads that are about to look at it again */
	struct waiter *first, **last;
	struct sidecar_gate_owner *turn_next; /* in the ring, where it is while somebody waits */
};

struct sidecar_gate {
	struct sidecar_gate_options options;
	pthread_mutex_t lock;
	/* Guarded by the lock. */
	struct sidecar_gate_owner *buckets[BUCKETS];
	struct sidecar_gate_owner *turn, **turn_last; /* whose turn it is, and who follows */
	unsigned inside, waiting, owners;
};

int sidecar_gate_new(const struct sidecar_gate_options *options, struct sidecar_gate **ret,
		     struct cairn_err *err)
{
	struct sidecar_gate *gate = cairn_calloc(1, sizeof(*gate));

	if (!gate)
		return cairn_err_nomem(err, "gate");
	gate->options = *options;
	gate->turn_last = &gate->turn;
	pthread_mutex_init(&gate->lock, NULL);
	*ret = gate;
	return 0;
}

void sidecar_gate_free(struct sidecar_gate *gate)
{
	if (!gate)
		return;
	pthread_mutex_destroy(&gate->lock);
	free(gate);
}

/* --- with the lock held --- */

static struct sidecar_gate_owner **slot_of(struct sidecar_gate *gate, const struct sidecar_key *key)
{
	struct sidecar_gate_owner **at = &gate->buckets[key->bytes[0] % BUCKETS];

	while (*at && !sidecar_key_equal(&(*at)->key, key))
		at = &(*at)->next;
	return at;
}

static struct sidecar_gate_owner *owner_of(struct sidecar_gate *gate, const struct sidecar_key *key)
{
	struct sidecar_gate_owner **at = slot_of(gate, key);

	if (*at)
		return *at;
	*at = cairn_calloc(1, sizeof(**at));
	if (!*at)
		return NULL;
	(*at)->key = *key;
	(*at)->last = &(*at)->first;
	gate->owners++;
	return *at;
}

static void drop_if_idle(struct sidecar_gate *gate, struct sidecar_gate_owner *owner)
{
	struct sidecar_gate_owner **at;

	if (owner->inside > 0 || owner->waiting > 0 || owner->held > 0)
		return;
	at = slot_of(gate, &owner->key);
	*at = owner->next;
	gate->owners--;
	free(owner);
}

static void ring_add(struct sidecar_gate *gate, struct sidecar_gate_owner *owner)
{
	owner->turn_next = NULL;
	*gate->turn_last = owner;
	gate->turn_last = &owner->turn_next;
}

static void ring_remove(struct sidecar_gate *gate, struct sidecar_gate_owner *owner)
{
	struct sidecar_gate_owner **at = &gate->turn;

	while (*at != owner)
		at = &(*at)->turn_next;
	*at = owner->turn_next;
	if (!*at)
		gate->turn_last = at;
}

static bool has_place(const struct sidecar_gate *gate, const struct sidecar_gate_owner *owner)
{
	return gate->inside < gate->options.total && owner->inside < gate->options.each;
}

static void admit(struct sidecar_gate *gate, struct sidecar_gate_owner *owner)
{
	gate->inside++;
	owner->inside++;
}

static void admit_first(struct sidecar_gate *gate, struct sidecar_gate_owner *owner)
{
	struct waiter *waiter = owner->first;

	owner->first = waiter->next;
	if (!owner->first)
		owner->last = &owner->first;
	owner->waiting--;
	gate->waiting--;
	waiter->admitted = true;
	admit(gate, owner);
	pthread_cond_signal(&waiter->called);
}

/* Gives places away, to one owner after the other. An owner whose own limit
 * holds it back stays in the ring. */
static void give_places(struct sidecar_gate *gate)
{
	const struct sidecar_gate_owner *end = NULL; /* the first that was held back since */

	while (gate->turn && gate->turn != end && gate->inside < gate->options.total) {
		struct sidecar_gate_owner *owner = gate->turn;

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

static void line_up(struct sidecar_gate *gate, struct sidecar_gate_owner *owner,
		    struct waiter *waiter)
{
	*owner->last = waiter;
	owner->last = &waiter->next;
	if (owner->waiting == 0)
		ring_add(gate, owner);
	owner->waiting++;
	gate->waiting++;
}

static void step_out(struct sidecar_gate *gate, struct sidecar_gate_owner *owner,
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

static int wait_in_line(struct sidecar_gate *gate, struct sidecar_gate_owner *owner,
			const struct sidecar_wait *wait, struct cairn_err *err)
{
	struct waiter waiter = {0};
	int rc = 0;

	if (gate->waiting >= gate->options.waiting || owner->waiting >= gate->options.waiting_each)
		return cairn_err_set(err, CAIRN_NO_SPACE, "too many %s, and too many wait already",
				     gate->options.what);
	sidecar_cond_init(&waiter.called);
	line_up(gate, owner, &waiter);
	while (rc == 0 && !waiter.admitted)
		rc = sidecar_wait_on(wait, &waiter.called, &gate->lock, err);
	/* A place that came together with the end is given back. */
	if (waiter.admitted && rc != 0) {
		gate->inside--;
		owner->inside--;
		give_places(gate);
	} else if (!waiter.admitted) {
		step_out(gate, owner, &waiter);
	}
	pthread_cond_destroy(&waiter.called);
	return rc;
}

/* --- from outside --- */

int sidecar_gate_enter(struct sidecar_gate *gate, const struct sidecar_key *key,
		       const struct sidecar_wait *wait, struct sidecar_pass *ret,
		       struct cairn_err *err)
{
	cairn_scoped_lock(&gate->lock);
	struct sidecar_gate_owner *owner = owner_of(gate, key);
	bool waits;
	int rc = 0;

	if (!owner)
		return cairn_err_nomem(err, "gate");
	waits = owner->waiting > 0 || !has_place(gate, owner);
	owner->held++;
	if (waits)
		rc = wait_in_line(gate, owner, wait, err);
	else
		admit(gate, owner);
	owner->held--;
	if (rc != 0) {
		drop_if_idle(gate, owner);
		return rc;
	}
	*ret = (struct sidecar_pass){.gate = gate, .owner = owner, .waited = waits};
	return 0;
}

void sidecar_gate_leave(struct sidecar_pass *pass)
{
	struct sidecar_gate *gate = pass->gate;

	if (!gate)
		return;
	cairn_scoped_lock(&gate->lock);
	gate->inside--;
	pass->owner->inside--;
	pass->owner->held++;
	give_places(gate);
	pass->owner->held--;
	drop_if_idle(gate, pass->owner);
	*pass = (struct sidecar_pass){0};
}

void sidecar_gate_stats(struct sidecar_gate *gate, struct sidecar_gate_stats *ret)
{
	cairn_scoped_lock(&gate->lock);
	*ret = (struct sidecar_gate_stats){
		.inside = gate->inside, .waiting = gate->waiting, .owners = gate->owners};
}
