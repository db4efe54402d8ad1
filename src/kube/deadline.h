/* SPDX-License-Identifier: Apache-2.0 */

/* When a blocked call gives up: at a deadline, when its `check` fails, or at the client's
 * shutdown. */
#ifndef CAIRN_KUBE_PATIENCE_H
#define CAIRN_KUBE_PATIENCE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct cairn_err;
struct kube_call;

#define KUBE_PATIENCE_SLICE_MS 50

struct kube_deadline {
	uint64_t deadline_ns; /* monotonic; UINT64_MAX: no deadline */
	int (*check)(void *arg);
	void *arg;
	const atomic_bool *shutdown; /* or NULL */
};

/* `how` may be NULL. */
struct kube_deadline kube_deadline_of(const struct kube_call *how, uint64_t default_ms,
				      const atomic_bool *shutdown);

/* Returns 0 to go on waiting, else CAIRN_DEADLINE, CAIRN_CANCELLED or the code of `check`. */
int kube_deadline_check(const struct kube_deadline *patience, struct cairn_err *err);

/* Waits for the condition (cairn_cond_init) until it is signalled, until the deadline or
 * `until_ns`, or until `check` is due again. The signalling side must also signal at a
 * shutdown. */
void kube_deadline_wait(const struct kube_deadline *patience, pthread_cond_t *cond,
			pthread_mutex_t *lock, uint64_t until_ns);

/* Sleeps; fails like kube_deadline_check(). */
int kube_deadline_sleep(const struct kube_deadline *patience, uint64_t ms, struct cairn_err *err);

#endif
