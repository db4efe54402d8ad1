/* SPDX-License-Identifier: Apache-2.0 */

#include "kube/patience.h"

#include <stddef.h>
#include <time.h>

#include "base/clock.h"
#include "base/err.h"
#include "kube/client.h"

static uint64_t after_ms(uint64_t now, uint64_t ms)
{
	uint64_t ns, sum;

	if (__builtin_mul_overflow(ms, CAIRN_NS_PER_MS, &ns) ||
	    __builtin_add_overflow(now, ns, &sum))
		return UINT64_MAX;
	return sum;
}

struct kube_patience kube_patience_of(const struct kube_call *how, uint64_t default_ms,
				      const atomic_bool *shutdown)
{
	uint64_t now = cairn_monotonic_ns();
	struct kube_patience patience = {.deadline_ns = after_ms(now, default_ms),
					 .shutdown = shutdown};

	if (!how)
		return patience;
	if (how->timeout_ms)
		patience.deadline_ns = after_ms(now, how->timeout_ms);
	if (how->deadline_ns && how->deadline_ns < patience.deadline_ns)
		patience.deadline_ns = how->deadline_ns;
	patience.check = how->check;
	patience.arg = how->check_arg;
	return patience;
}

int kube_patience_check(const struct kube_patience *patience, struct cairn_err *err)
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

static struct timespec to_timespec(uint64_t ns)
{
	return (struct timespec){.tv_sec = (time_t)(ns / CAIRN_NS_PER_SEC),
				 .tv_nsec = (long)(ns % CAIRN_NS_PER_SEC)};
}

void kube_patience_wait(const struct kube_patience *patience, pthread_cond_t *cond,
			pthread_mutex_t *lock, uint64_t until_ns)
{
	uint64_t until = patience->deadline_ns < until_ns ? patience->deadline_ns : until_ns;
	struct timespec ts;

	if (patience->check) {
		uint64_t slice = after_ms(cairn_monotonic_ns(), KUBE_PATIENCE_SLICE_MS);

		until = slice < until ? slice : until;
	}
	if (until == UINT64_MAX) {
		pthread_cond_wait(cond, lock);
		return;
	}
	ts = to_timespec(until);
	pthread_cond_timedwait(cond, lock, &ts);
}

int kube_patience_sleep(const struct kube_patience *patience, uint64_t ms, struct cairn_err *err)
{
	uint64_t end = after_ms(cairn_monotonic_ns(), ms);

	for (;;) {
		uint64_t now = cairn_monotonic_ns();
		uint64_t left;
		int rc = kube_patience_check(patience, err);

		if (rc)
			return rc;
		if (now >= end)
			return 0;
		left = (end - now) / CAIRN_NS_PER_MS + 1;
		cairn_sleep_ms(left < KUBE_PATIENCE_SLICE_MS ? left : KUBE_PATIENCE_SLICE_MS);
	}
}

int kube_cond_init(pthread_cond_t *cond)
{
	pthread_condattr_t attr;
	int rc = pthread_condattr_init(&attr);

	if (rc)
		return rc;
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	rc = pthread_cond_init(cond, &attr);
	pthread_condattr_destroy(&attr);
	return rc;
}
