/* SPDX-License-Identifier: Apache-2.0 */

#include "kube/kube_wait.h"
#include "base/wait.h"

#include "base/clock.h"
#include "base/err.h"
#include "kube/kube_client.h"

/* A caller that goes away signals none of our conditions, so poll for it at this interval. */
#define LOOK_MS 200

int kube_wait_check(const struct kube_wait *wait, struct cairn_err *err)
{
	int rc = wait->check ? wait->check(wait->arg) : 0;

	if (rc != 0)
		return cairn_err_set(err, rc,
				     rc == CAIRN_DEADLINE ? "the deadline passed"
							  : "the caller is gone");
	if (wait->deadline_ns != UINT64_MAX && cairn_monotonic_ns() >= wait->deadline_ns)
		return cairn_err_set(err, CAIRN_DEADLINE, "the deadline passed");
	return 0;
}

uint64_t kube_wait_left_ms(const struct kube_wait *wait, uint64_t most)
{
	uint64_t now = cairn_monotonic_ns();
	uint64_t left;

	if (wait->deadline_ns == UINT64_MAX)
		return most;
	if (now >= wait->deadline_ns)
		return 0;
	left = (wait->deadline_ns - now + CAIRN_NS_PER_MS - 1) / CAIRN_NS_PER_MS;
	return left < most ? left : most;
}

struct kube_wait kube_wait_within(const struct kube_wait *wait, uint64_t ms)
{
	struct kube_wait within = *wait;
	uint64_t end = cairn_after_ms(ms);

	if (end < within.deadline_ns)
		within.deadline_ns = end;
	return within;
}

static int still_wanted(void *arg)
{
	return kube_wait_check(arg, NULL);
}

struct kube_call kube_wait_call(const struct kube_wait *wait)
{
	return (struct kube_call){
		.timeout_ms = KUBE_QUESTION_MS,
		.deadline_ns = wait->deadline_ns,
		.check = still_wanted,
		.check_arg = (void *)(uintptr_t)wait,
	};
}

int kube_wait_outcome(const struct kube_wait *wait, int rc, struct cairn_err *err)
{
	if (rc != CAIRN_DEADLINE || kube_wait_check(wait, NULL) != 0)
		return rc;
	return cairn_err_recode(err, CAIRN_UNAVAILABLE);
}

int kube_wait_on(const struct kube_wait *wait, pthread_cond_t *cond, pthread_mutex_t *lock,
		 struct cairn_err *err)
{
	(void)cairn_cond_wait_until(cond, lock, cairn_after_ms(kube_wait_left_ms(wait, LOOK_MS)));
	return kube_wait_check(wait, err);
}
