/* SPDX-License-Identifier: Apache-2.0 */

/* Token bucket: how many calls a client may make. The clock is the caller's. */
#ifndef CAIRN_KUBE_LIMITER_H
#define CAIRN_KUBE_LIMITER_H

#include <stdint.h>

struct kube_limiter {
	double per_ns; /* tokens; 0 is no limit */
	double burst;
	double tokens; /* below 0 when calls are waiting for theirs */
	uint64_t at;   /* when `tokens` was counted */
};

void kube_limiter_init(struct kube_limiter *limiter, double qps, unsigned burst, uint64_t now_ns);

/* Takes a token, or one of those to come, in the order of asking. Returns the
 * nanoseconds to wait before using it. When that is more than `most_ns` nothing
 * is taken and UINT64_MAX returned. */
uint64_t kube_limiter_take(struct kube_limiter *limiter, uint64_t now_ns, uint64_t most_ns);

#endif
