/* SPDX-License-Identifier: Apache-2.0 */

/* Leader election through a Lease.
 *
 * A thread takes and renews the lease. Leadership also depends on the local monotonic
 * clock: kube_leader_leads() is false as soon as the last renewal is older than
 * `renew_ms`, even if the thread hangs, and that is before another process may take the
 * lease. Clocks of different machines are never compared: a lease is free if this process
 * saw no change of its record for its duration.
 *
 * The thread's requests are exempt from the client's rate limit.
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
	const char *identity; /* NULL is the host name and a random suffix */

	/* 0 selects the defaults of 15, 10 and 2 seconds. duration > renew > retry. */
	uint64_t duration_ms; /* others wait this long before they take it over */
	uint64_t renew_ms;    /* leadership ends this long after the last renewal */
	uint64_t retry_ms;    /* between attempts to take or renew */

	/* Reports changes, on the election thread; may be NULL. */
	void (*on_change)(void *arg, bool leads);
	void *arg;
};

/* Strings are copied, the client is borrowed. The election starts immediately.
 *
 * CAIRN_INVALID  the times contradict each other, or a name is missing
 */
int kube_leader_new(struct kube_client *client, const struct kube_leader_options *options,
		    struct kube_leader **ret, struct cairn_err *err);

/* Releases the lease, so that the next leader need not wait for it to expire, and frees.
 * All work done as the leader must have stopped before. Accepts NULL. */
void kube_leader_free(struct kube_leader *leader);
CAIRN_DEFINE_CLEANUP(struct kube_leader, kube_leader_free);

bool kube_leader_leads(struct kube_leader *leader);

/* Waits until this process leads, at most `wait_ms` (UINT64_MAX: without limit), and calls
 * `check` (may be NULL) periodically. Returns 0, CAIRN_DEADLINE, or the code of `check`. */
int kube_leader_wait(struct kube_leader *leader, uint64_t wait_ms, int (*check)(void *arg),
		     void *arg, struct cairn_err *err);

/* The last known holder; "" if there is none. */
#define KUBE_LEADER_NAME_MAX 256
void kube_leader_holder(struct kube_leader *leader, char out[KUBE_LEADER_NAME_MAX]);

#endif
