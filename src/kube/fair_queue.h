/* SPDX-License-Identifier: Apache-2.0 */

/* Fair concurrency limiter.
 *
 * Every caller belongs to an owner: a user, or a peer address. At most `total` callers are
 * admitted at a time, and at most `each` of one owner. A caller that finds no place waits
 * in its owner's queue; a freed place goes to the owners in turn, so an owner with a
 * thousand waiting callers delays another owner by one. The queues are bounded: callers
 * beyond the limit are refused, first those of the owner with the most waiting callers.
 *
 * Thread-safe.
 */
#ifndef CAIRN_KUBE_FAIR_QUEUE_H
#define CAIRN_KUBE_FAIR_QUEUE_H

#include <stdbool.h>

#include "base/cleanup.h"

struct cairn_err;
struct kube_fair_queue;
struct kube_fair_queue_owner;
struct kube_digest;
struct kube_wait;

struct kube_fair_queue_options {
	const char *what;      /* for the text of a refusal: "streams"; borrowed */
	unsigned total;        /* admitted, of all owners together */
	unsigned each;         /* admitted, of one owner */
	unsigned waiting;      /* waiting, of all owners together */
	unsigned waiting_each; /* waiting, of one owner */
};

int kube_fair_queue_new(const struct kube_fair_queue_options *options, struct kube_fair_queue **ret,
			struct cairn_err *err);

/* No caller may be admitted or waiting. Accepts NULL. */
void kube_fair_queue_free(struct kube_fair_queue *gate);
CAIRN_DEFINE_CLEANUP(struct kube_fair_queue, kube_fair_queue_free);

/* A place held by a caller; zeroed if there is none. */
struct kube_fair_pass {
	struct kube_fair_queue *gate;
	struct kube_fair_queue_owner *owner;
	bool waited;
};

/* Acquires a place for the owner `key`, waiting for it if necessary.
 *
 * CAIRN_NO_SPACE   the queue is full, or became full of callers of other owners while
 *                  this one waited; or memory is short
 * CAIRN_CANCELLED, CAIRN_DEADLINE  as returned by kube_wait_check()
 */
int kube_fair_queue_enter(struct kube_fair_queue *gate, const struct kube_digest *key,
			  const struct kube_wait *wait, struct kube_fair_pass *ret,
			  struct cairn_err *err);

/* Releases the place; accepts a zeroed pass. Also a cleanup function. */
void kube_fair_queue_leave(struct kube_fair_pass *pass);

struct kube_fair_queue_stats {
	unsigned inside;
	unsigned waiting;
	unsigned owners;
};

void kube_fair_queue_stats(struct kube_fair_queue *gate, struct kube_fair_queue_stats *ret);

#endif
