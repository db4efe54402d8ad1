/* SPDX-License-Identifier: Apache-2.0 */

/* One of several processes is the leader: election through a Lease.
 *
 * A thread of its own takes and renews the lease. Whether we lead is answered
 * from the local monotonic clock too: kube_leader_leads() is false as soon as
 * the last renewal is older than `renew_ms`, also when the thread hangs, and
 * that is before anybody else may take the lease. Clocks of machines are never
 * compared: a lease is free when its record did not change for its duration, as
 * seen here.
 *
 * The thread asks for the lease outside the client's rate limit.
 */
#ifndef CAIRN_KUBE_LEASE_H
#define CAIRN_KUBE_LEASE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/cleanup.h"

struct cairn_err;
struct kube_client;
struct kube_leader;

struct kube_leader_options {
	const char *ns;
	const char *name;
	const char *identity; /* NULL is the host's name and something random */

	/* 0 are the usual 15, 10 and 2 seconds. duration > renew > retry. */
	uint64_t duration_ms; /* others wait so long before they take it over */
	uint64_t renew_ms;    /* without a renewal for so long we lead no more */
	uint64_t retry_ms;    /* between tries to take or renew */

	/* Tells changes, on the thread of the election; may be NULL. */
	void (*on_change)(void *arg, bool leads);
	void *arg;
};

/* Texts are copied, the client is borrowed. Begins at once.
 *
 * CAIRN_INVALID  the times contradict each other, or a name is missing
 */
int kube_leader_new(struct kube_client *client, const struct kube_leader_options *options,
		    struct kube_leader **ret, struct cairn_err *err);

/* Gives the lease back, so that the next one need not wait, and frees. Whoever
 * works as the leader must have stopped before. Accepts NULL. */
void kube_leader_free(struct kube_leader *leader);
CAIRN_DEFINE_CLEANUP(struct kube_leader, kube_leader_free);

bool kube_leader_leads(struct kube_leader *leader);

/* Waits until we lead, at most `wait_ms` (UINT64_MAX: for ever), asking `check`
 * (may be NULL) now and then: 0, CAIRN_DEADLINE, or the code of `check`. */
int kube_leader_wait(struct kube_leader *leader, uint64_t wait_ms, int (*check)(void *arg),
		     void *arg, struct cairn_err *err);

/* Who holds it, as last seen; "" when nobody does. */
#define KUBE_LEADER_NAME_MAX 256
void kube_leader_holder(struct kube_leader *leader, char out[KUBE_LEADER_NAME_MAX]);

#endif
