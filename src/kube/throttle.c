/* SPDX-License-Identifier: Apache-2.0 */

#include "kube/throttle.h"

#include <stddef.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/lock.h"
#include "base/wait.h"
#include "kube/deadline.h"

struct kube_throttle_waiter {
	struct kube_throttle_waiter *next;
	pthread_cond_t moved;
};

void kube_throttle_init(struct kube_throttle *throttle, double qps, unsigned burst)
{
	pthread_mutex_init(&throttle->lock, NULL);
	kube_limiter_init(&throttle->limiter, qps, burst, cairn_monotonic_ns());
	throttle->first = NULL;
	throttle->last = &throttle->first;
	throttle->waiting = 0;
}

void kube_throttle_done(struct kube_throttle *throttle)
{
	pthread_mutex_destroy(&throttle->lock);
}

static void join_line(struct kube_throttle *throttle, struct kube_throttle_waiter *self)
{
	self->next = NULL;
	*throttle->last = self;
	throttle->last = &self->next;
	throttle->waiting++;
}

static void leave_line(struct kube_throttle *throttle, struct kube_throttle_waiter *self)
{
	struct kube_throttle_waiter **link = &throttle->first;

	while (*link != self)
		link = &(*link)->next;
	*link = self->next;
	if (!*link)
		throttle->last = link;
	throttle->waiting--;
	if (throttle->first)
		pthread_cond_signal(&throttle->first->moved);
}

/* Returns 0 with the token taken. */
static int throttle_wait_in_line(struct kube_throttle *throttle, struct kube_throttle_waiter *self,
				 const struct kube_deadline *patience, struct cairn_err *err)
{
	for (;;) {
		uint64_t now = cairn_monotonic_ns();
		uint64_t until = UINT64_MAX;
		int rc = kube_deadline_check(patience, err);

		if (rc)
			return rc;
		/* Only the first waits for the time of the next token. The others wait until
		 * leave_line() makes them first, so calls pass in the order of arrival. */
		if (throttle->first == self) {
			if (kube_limiter_take(&throttle->limiter, now))
				return 0;
			until = now + kube_limiter_wait(&throttle->limiter, now, 1);
		}
		kube_deadline_wait(patience, &self->moved, &throttle->lock, until);
	}
}

int kube_throttle_pass(struct kube_throttle *throttle, const struct kube_deadline *patience,
		       uint64_t *ret_waited_ns, struct cairn_err *err)
{
	cairn_scoped_lock(&throttle->lock);
	struct kube_throttle_waiter self;
	uint64_t began = cairn_monotonic_ns();
	uint64_t wait;
	int rc;

	*ret_waited_ns = 0;
	if (!throttle->first && kube_limiter_take(&throttle->limiter, began))
		return 0;
	wait = kube_limiter_wait(&throttle->limiter, began, throttle->waiting + 1);
	if (patience->deadline_ns != UINT64_MAX &&
	    (began >= patience->deadline_ns || wait > patience->deadline_ns - began))
		return cairn_err_set(err, CAIRN_DEADLINE,
				     "the client's own rate limit leaves no time for the call");
	cairn_cond_init(&self.moved);
	join_line(throttle, &self);
	rc = throttle_wait_in_line(throttle, &self, patience, err);
	leave_line(throttle, &self);
	pthread_cond_destroy(&self.moved);
	*ret_waited_ns = cairn_monotonic_ns() - began;
	return rc;
}

void kube_throttle_wake(struct kube_throttle *throttle)
{
	cairn_scoped_lock(&throttle->lock);

	for (struct kube_throttle_waiter *one = throttle->first; one; one = one->next)
		pthread_cond_signal(&one->moved);
}
