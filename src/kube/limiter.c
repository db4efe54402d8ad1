/* SPDX-License-Identifier: Apache-2.0 */

#include "kube/limiter.h"

#include "base/clock.h"

void kube_limiter_init(struct kube_limiter *limiter, double qps, unsigned burst, uint64_t now_ns)
{
	limiter->per_ns = qps > 0 ? qps / (double)CAIRN_NS_PER_SEC : 0;
	limiter->burst = burst > 0 ? burst : 1;
	limiter->tokens = limiter->burst;
	limiter->at = now_ns;
}

uint64_t kube_limiter_take(struct kube_limiter *limiter, uint64_t now_ns, uint64_t most_ns)
{
	double tokens, wait;

	if (limiter->per_ns <= 0)
		return 0;
	tokens = limiter->tokens;
	if (now_ns > limiter->at)
		tokens += (double)(now_ns - limiter->at) * limiter->per_ns;
	if (tokens > limiter->burst)
		tokens = limiter->burst;
	tokens -= 1;
	wait = tokens < 0 ? -tokens / limiter->per_ns : 0;
	if (wait > (double)most_ns)
		return UINT64_MAX;
	limiter->tokens = tokens;
	limiter->at = now_ns;
	return (uint64_t)wait;
}
