/* SPDX-License-Identifier: Apache-2.0 */

#include "kube/kube_limiter.h"

#include "base/clock.h"

void kube_limiter_init(struct kube_limiter *limiter, double qps, unsigned burst, uint64_t now_ns)
{
	limiter->per_ns = qps > 0 ? qps / (double)CAIRN_NS_PER_SEC : 0;
	limiter->burst = burst > 0 ? burst : 1;
	limiter->tokens = limiter->burst;
	limiter->at = now_ns;
}

static double tokens_at(const struct kube_limiter *limiter, uint64_t now_ns)
{
	double tokens = limiter->tokens;

	if (now_ns > limiter->at)
		tokens += (double)(now_ns - limiter->at) * limiter->per_ns;
	return tokens > limiter->burst ? limiter->burst : tokens;
}

bool kube_limiter_take(struct kube_limiter *limiter, uint64_t now_ns)
{
	double tokens;

	if (limiter->per_ns <= 0)
		return true;
	tokens = tokens_at(limiter, now_ns);
	if (tokens < 1)
		return false;
	limiter->tokens = tokens - 1;
	limiter->at = now_ns;
	return true;
}

uint64_t kube_limiter_wait(const struct kube_limiter *limiter, uint64_t now_ns, unsigned n)
{
	double missing, wait;

	if (limiter->per_ns <= 0)
		return 0;
	missing = (double)n - tokens_at(limiter, now_ns);
	if (missing <= 0)
		return 0;
	/* Rounded up, so that the token is available when the caller wakes. */
	wait = missing / limiter->per_ns + 1;
	return wait < (double)(UINT64_MAX / 2) ? (uint64_t)wait : UINT64_MAX / 2;
}
