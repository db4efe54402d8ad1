/* SPDX-License-Identifier: Apache-2.0 */

/* Lets only so many through at a time, and is fair about it.
 *
 * Whoever comes belongs to somebody: a user, or the address it comes from. At
 * most `total` are inside, and at most `each` of one owner. Who finds no place
 * waits in the line of its owner; a place that becomes free goes to the owners
 * in turn, so that one with a thousand waiting delays another by one. A line
 * has an end: who comes after it is refused.
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
	unsigned total;        /* inside */
	unsigned each;         /* inside, of one owner */
	unsigned waiting;      /* outside, of all owners together */
	unsigned waiting_each; /* outside, of one owner */
};

int kube_fair_queue_new(const struct kube_fair_queue_options *options, struct kube_fair_queue **ret,
			struct cairn_err *err);

/* Nobody may be inside or waiting. Accepts NULL. */
void kube_fair_queue_free(struct kube_fair_queue *gate);
CAIRN_DEFINE_CLEANUP(struct kube_fair_queue, kube_fair_queue_free);

/* A place inside; zeroed when there is none. */
struct kube_fair_pass {
	struct kube_fair_queue *gate;
	struct kube_fair_queue_owner *owner;
	bool waited;
};

/* Goes in, waiting if it must; `key` is the owner's.
 *
 * CAIRN_NO_SPACE   the line is too long, or memory is short
 * CAIRN_CANCELLED, CAIRN_DEADLINE  as kube_wait_check() says
 */
int kube_fair_queue_enter(struct kube_fair_queue *gate, const struct kube_digest *key,
			  const struct kube_wait *wait, struct kube_fair_pass *ret,
			  struct cairn_err *err);

/* Comes out; accepts a zeroed pass. Also a cleanup function. */
void kube_fair_queue_leave(struct kube_fair_pass *pass);

struct kube_fair_queue_stats {
	unsigned inside;
	unsigned waiting;
	unsigned owners;
};

void kube_fair_queue_stats(struct kube_fair_queue *gate, struct kube_fair_queue_stats *ret);

#endif
