/* SPDX-License-Identifier: Apache-2.0 */

/* A client's rate limit, with a first-in first-out queue.
 *
 * Callers pass in order of arrival, each as soon as a token is available. A caller that
 * gives up leaves the queue without using a token, and those behind it move up. Calls that
 * are started and cancelled, however many, therefore do not reduce the rate of others.
 *
 * Thread-safe.
 */
#ifndef CAIRN_KUBE_THROTTLE_H
#define CAIRN_KUBE_THROTTLE_H

#include <pthread.h>
#include <stdint.h>

#include "kube/kube_limiter.h"

struct cairn_err;
struct kube_deadline;
struct kube_throttle_waiter;

struct kube_throttle {
	pthread_mutex_t lock;
	/* Guarded by the lock. */
	struct kube_limiter limiter;
	struct kube_throttle_waiter *first;
	struct kube_throttle_waiter **last;
	unsigned waiting;
};

void kube_throttle_init(struct kube_throttle *throttle, double qps, unsigned burst);

/* No caller may be waiting. */
void kube_throttle_done(struct kube_throttle *throttle);

/* Waits for a token; *ret_waited_ns is the time spent waiting, also on failure.
 *
 * CAIRN_DEADLINE  the token would come after the caller's deadline
 * others          as returned by kube_deadline_check()
 */
int kube_throttle_pass(struct kube_throttle *throttle, const struct kube_deadline *patience,
		       uint64_t *ret_waited_ns, struct cairn_err *err);

/* Makes waiting callers check their patience: after a shutdown. */
void kube_throttle_wake(struct kube_throttle *throttle);

#endif
