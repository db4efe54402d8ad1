/* SPDX-License-Identifier: Apache-2.0 */

/* Token bucket that limits a client's request rate. The caller supplies the clock. */
#ifndef CAIRN_KUBE_LIMITER_H
#define CAIRN_KUBE_LIMITER_H

#include <stdbool.h>
#include <stdint.h>

struct kube_limiter {
	double per_ns; /* tokens; 0 is no limit */
	double burst;
	double tokens;
	uint64_t at; /* when `tokens` was counted */
};

void kube_limiter_init(struct kube_limiter *limiter, double qps, unsigned burst, uint64_t now_ns);

/* Takes a token if one is available. */
bool kube_limiter_take(struct kube_limiter *limiter, uint64_t now_ns);

/* Nanoseconds until the n-th token from now can be taken, if no other caller takes any;
 * `n` is at least 1. */
uint64_t kube_limiter_wait(const struct kube_limiter *limiter, uint64_t now_ns, unsigned n);

#endif
