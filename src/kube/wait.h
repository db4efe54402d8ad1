/* SPDX-License-Identifier: Apache-2.0 */

/* How long somebody is willing to wait: until a time, or until nobody wants the
 * result any more. Everything that asks the API server for a caller takes one, so that a
 * caller that has gone or whose deadline passed holds nothing up. */
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
	const struct kube_digest *origin; /* where the caller is, for fairness; may be NULL */
};

/* CAIRN_CANCELLED  nobody wants it any more
 * CAIRN_DEADLINE   the time is over
 */
int kube_wait_check(const struct kube_wait *wait, struct cairn_err *err);

/* Milliseconds left, at most `most`; 0 when the time is over. */
uint64_t kube_wait_left_ms(const struct kube_wait *wait, uint64_t most);

/* The earlier of a wait's end and `ms` from now. */
struct kube_wait kube_wait_within(const struct kube_wait *wait, uint64_t ms);

/* How long one question to the API server may take. */
#define KUBE_QUESTION_MS 15000U

/* A call of kube/client.h that ends with the wait, or after KUBE_QUESTION_MS; it
 * points to `wait`. */
struct kube_call kube_wait_call(const struct kube_wait *wait);

/* A call that took too long though the caller still waits: the API server is slow,
 * and a retry may help. Turns `rc` of such a call into CAIRN_UNAVAILABLE. */
int kube_wait_outcome(const struct kube_wait *wait, int rc, struct cairn_err *err);

/* Waits on a condition (cairn_cond_init) with the lock held; returns after a signal, after a
 * moment without one, or when `wait` is over: the caller looks again.
 * Fails like kube_wait_check(). */
int kube_wait_on(const struct kube_wait *wait, pthread_cond_t *cond, pthread_mutex_t *lock,
		 struct cairn_err *err);

#endif
