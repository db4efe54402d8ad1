/* SPDX-License-Identifier: Apache-2.0 */

/* How long a caller waits for a result: until a deadline, or until it has gone away. Every
 * query to the API server on behalf of a caller takes one, so that a caller that has gone
 * or whose deadline has passed holds no resources. */
#ifndef CAIRN_KUBE_WAIT_H
#define CAIRN_KUBE_WAIT_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

struct cairn_err;
struct kube_call;
struct kube_digest;

struct kube_wait {
	uint64_t deadline_ns;          /* monotonic; UINT64_MAX for none */
	int (*check)(const void *arg); /* 0 while wanted, else CAIRN_CANCELLED or
					  CAIRN_DEADLINE; may be NULL */
	const void *arg;
	const struct kube_digest *origin; /* the peer's address, for fairness; may be NULL */
};

/* CAIRN_CANCELLED  the caller has gone
 * CAIRN_DEADLINE   the deadline has passed
 */
int kube_wait_check(const struct kube_wait *wait, struct cairn_err *err);

/* Milliseconds left, at most `most`; 0 if the deadline has passed. */
uint64_t kube_wait_left_ms(const struct kube_wait *wait, uint64_t most);

/* The earlier of a wait's end and `ms` from now. */
struct kube_wait kube_wait_within(const struct kube_wait *wait, uint64_t ms);

/* Timeout of one query to the API server. */
#define KUBE_QUESTION_MS 15000U

/* Options for a call of kube/kube_client.h that ends with the wait, or after KUBE_QUESTION_MS;
 * they point to `wait`. */
struct kube_call kube_wait_call(const struct kube_wait *wait);

/* Maps the result of a query that timed out while the caller still waits to
 * CAIRN_UNAVAILABLE: the API server is slow, and a retry may help. */
int kube_wait_outcome(const struct kube_wait *wait, int rc, struct cairn_err *err);

/* Waits on a condition (cairn_cond_init) with the lock held. Returns after a signal, after
 * a short time without one, or when `wait` is over; the caller then checks its condition
 * again. Fails like kube_wait_check(). */
int kube_wait_on(const struct kube_wait *wait, pthread_cond_t *cond, pthread_mutex_t *lock,
		 struct cairn_err *err);

#endif
