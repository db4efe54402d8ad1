/* SPDX-License-Identifier: Apache-2.0 */

/* How long a caller waits, and what makes it give up: a deadline, its own
 * `check`, the client's shutdown. */
#ifndef CAIRN_KUBE_PATIENCE_H
#define CAIRN_KUBE_PATIENCE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct cairn_err;
struct kube_call;

#define KUBE_PATIENCE_SLICE_MS 50

struct kube_patience {
	uint64_t deadline_ns; /* monotonic; UINT64_MAX is none */
	int (*check)(void *arg);
	void *arg;
	const atomic_bool *shutdown; /* or NULL */
};

/* `how` may be NULL. */
struct kube_patience kube_patience_of(const struct kube_call *how, uint64_t default_ms,
				      const atomic_bool *shutdown);

/* 0 while it is worth waiting, else CAIRN_DEADLINE, CAIRN_CANCELLED or the code
 * of `check`. */
int kube_patience_check(const struct kube_patience *patience, struct cairn_err *err);

/* Waits for the condition (cairn_cond_init) until it is signalled, the
 * deadline or `until_ns` is there, or it is time to ask `check` again. Who
 * signals also does so at a shutdown. */
void kube_patience_wait(const struct kube_patience *patience, pthread_cond_t *cond,
			pthread_mutex_t *lock, uint64_t until_ns);

/* Sleeps; fails like the check. */
int kube_patience_sleep(const struct kube_patience *patience, uint64_t ms, struct cairn_err *err);

#endif
