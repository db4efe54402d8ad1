/* SPDX-License-Identifier: Apache-2.0 */

#include "kube/deadline.h"

#include <stddef.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/wait.h"
#include "kube/kube_client.h"

struct kube_deadline kube_deadline_of(const struct kube_call *how, uint64_t default_ms,
				      const atomic_bool *shutdown)
{
	struct kube_deadline patience = {.deadline_ns = cairn_after_ms(default_ms),
					 .shutdown = shutdown};

	if (!how)
		return patience;
	if (how->timeout_ms)
		patience.deadline_ns = cairn_after_ms(how->timeout_ms);
	if (how->deadline_ns && how->deadline_ns < patience.deadline_ns)
		patience.deadline_ns = how->deadline_ns;
	patience.check = how->check;
	patience.arg = how->check_arg;
	return patience;
}

int kube_deadline_check(const struct kube_deadline *patience, struct cairn_err *err)
{
	int code;

	if (patience->shutdown && atomic_load(patience->shutdown))
		return cairn_err_set(err, CAIRN_CANCELLED, "the client is shutting down");
	code = patience->check ? patience->check(patience->arg) : 0;
	if (code)
		return cairn_err_set(err, cairn_err_negative(code), "given up by the caller");
	if (patience->deadline_ns != UINT64_MAX && cairn_monotonic_ns() >= patience->deadline_ns)
		return cairn_err_set(err, CAIRN_DEADLINE, "no answer in time");
	return 0;
}

void kube_deadline_wait(const struct kube_deadline *patience, pthread_cond_t *cond,
			pthread_mutex_t *lock, uint64_t until_ns)
{
	uint64_t until = patience->deadline_ns < until_ns ? patience->deadline_ns : until_ns;

	if (patience->check) {
		uint64_t slice = cairn_after_ms(KUBE_PATIENCE_SLICE_MS);

		until = slice < until ? slice : until;
	}
	(void)cairn_cond_wait_until(cond, lock, until);
}

int kube_deadline_sleep(const struct kube_deadline *patience, uint64_t ms, struct cairn_err *err)
{
	uint64_t end = cairn_after_ms(ms);

	for (;;) {
		uint64_t now = cairn_monotonic_ns();
		uint64_t left;
		int rc = kube_deadline_check(patience, err);

		if (rc)
			return rc;
		if (now >= end)
			return 0;
		left = (end - now) / CAIRN_NS_PER_MS + 1;
		cairn_sleep_ms(left < KUBE_PATIENCE_SLICE_MS ? left : KUBE_PATIENCE_SLICE_MS);
	}
}
