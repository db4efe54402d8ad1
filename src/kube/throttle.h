/* SPDX-License-Identifier: Apache-2.0 */

/* A client's own rate limit, as a line.
 *
 * Callers pass in the order of coming, each when a token is there. A caller that
 * gives up leaves the line and has used nothing: those behind it move up. So calls
 * that are begun and cancelled, however many, do not use up the rate of others.
 *
 * Thread-safe.
 */
#ifndef CAIRN_KUBE_THROTTLE_H
#define CAIRN_KUBE_THROTTLE_H

#include <pthread.h>
#include <stdint.h>

#include "kube/limiter.h"

struct cairn_err;
struct kube_patience;
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

/* Nobody may be waiting. */
void kube_throttle_done(struct kube_throttle *throttle);

/* Waits for a token; *ret_waited_ns is how long that took, also on failure.
 *
 * CAIRN_DEADLINE  the line is longer than the caller's time
 * others          as kube_patience_check() says
 */
int kube_throttle_pass(struct kube_throttle *throttle, const struct kube_patience *patience,
		       uint64_t *ret_waited_ns, struct cairn_err *err);

/* Makes those who wait look at their patience: after a shutdown. */
void kube_throttle_wake(struct kube_throttle *throttle);

#endif
